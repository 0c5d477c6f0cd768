"""Read large text files split by split, without a model: memory, and megabytes a second.

    python -m tests.benchmarks.text_input --megabytes 2000

Every case runs in a process of its own, so that its peak of memory is its own. Seconds are CPU
seconds of that process, of planning and of reading all splits. Megabytes are of decompressed text.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa

from bertscore_beam.dump.read_split import read_rows
from tests.support.dumps import sentence
from tests.support.text_files import plan_text

CASES = ("rows.jsonl", "rows.csv", "rows.jsonl.gz", "rows.jsonl.zst", "bad.jsonl")
_BAD_EVERY = 2_000
_REPEATED_ROWS = 4_000


def block_of_rows(name: str) -> bytes:
    """Return lines of a file; in bad.jsonl one in two thousand is no JSON."""
    rows = [(f"{sentence(n)} {n}", f"{sentence(n + 1)}, he said") for n in range(_REPEATED_ROWS)]
    if ".csv" in name:
        return "".join(f'{candidate},"{reference}"\n' for candidate, reference in rows).encode()
    lines = [json.dumps({"candidate": one, "reference": two}) for one, two in rows]
    if name.startswith("bad"):
        lines[::_BAD_EVERY] = ["{" for _ in lines[::_BAD_EVERY]]
    return "\n".join([*lines, ""]).encode()


def write_file(path: Path, megabytes: int) -> int:
    """Write a file of about that much text; return the exact number of its bytes."""
    block = block_of_rows(path.name)
    codec = {".gz": "gzip", ".zst": "zstd"}.get(path.suffix)
    size = 0
    with pa.output_stream(str(path), compression=codec) as sink:
        if ".csv" in path.name:
            size += sink.write(b"candidate,reference\n")
        while size < megabytes * 1_000_000:
            sink.write(block)
            size += len(block)
    return size


def read_all(path: str) -> dict[str, float]:
    """Plan a file, read all its splits, and return what it took."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    plan = plan_text(path)
    planned = time.process_time()
    rows = bad = 0
    for split in plan.splits:
        read = read_rows(split)
        rows += read.table.num_rows
        bad += len(read.lines.bad) if read.lines else 0
    return {
        "splits": len(plan.splits),
        "rows": rows,
        "bad": bad,
        "plan_seconds": round(planned - started, 2),
        "read_seconds": round(time.process_time() - planned, 2),
        "start_mib": round(before / 1024),
        "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def main() -> None:
    """Write and read the files, one after the other, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=2000)
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=CASES)
    parser.add_argument("--packed-megabytes", type=int, default=200, help="of compressed files")
    parser.add_argument("--read", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        print(json.dumps(read_all(options.read)))
        return
    for case in options.cases:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / case
            is_packed = path.suffix in (".gz", ".zst")
            size = write_file(path, options.packed_megabytes if is_packed else options.megabytes)
            command = [sys.executable, "-m", "tests.benchmarks.text_input", "--read", str(path)]
            found = json.loads(subprocess.check_output(command))
            found["mb"] = size // 1_000_000
            found["plan_mb_s"] = round(found["mb"] / max(found["plan_seconds"], 0.01))
            found["read_mb_s"] = round(found["mb"] / max(found["read_seconds"], 0.01))
            print(json.dumps({"case": case, **found}), flush=True)


if __name__ == "__main__":
    main()
