"""Write large text files as Parquet: memory, and megabytes a second.

    python -m tests.benchmarks.text_input --megabytes 2000

Every case runs in a process of its own, so that its peak of memory is its own. Seconds are CPU
seconds of that process. Megabytes are of decompressed text.
"""

import argparse
import itertools
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa

from bertscore_beam.dump.formats import AUTO, format_of
from bertscore_beam.dump.text.columns import read_columns
from bertscore_beam.dump.text.to_parquet import text_to_parquet

CASES = ("rows.jsonl", "rows.csv", "short.csv", "rows.jsonl.gz", "rows.csv.gz", "bad.jsonl")
_BAD_EVERY = 2_000
_ROWS = 10_000
_BLOCKS = 20
_WORDS = [
    f"{word}{end}"
    for word in ["the", "cat", "sat", "on", "a", "mat", "why", "nobody", "knows"]
    for end in ("", "s", "ing", "ed", "ly", "é", "er", "ness", *map(str, range(300)))
]


def block_of_rows(name: str, seed: int) -> bytes:
    """Return lines of a file; in bad.jsonl one in two thousand is no JSON."""
    draw = random.Random(seed)
    words = draw.choices(_WORDS, k=30 * _ROWS)
    rows = [
        (" ".join(words[n : n + 12]), " ".join(words[n + 12 : n + 24]) + ", he said")
        for n in range(0, 30 * _ROWS, 30)
    ]
    if name == "short.csv":
        return "".join(
            f'"{n}","{one[:9]}","{two[:7]}"\n' for n, (one, two) in enumerate(rows)
        ).encode()
    if ".csv" in name:
        return "".join(f'{candidate},"{reference}"\n' for candidate, reference in rows).encode()
    lines = [json.dumps({"candidate": one, "reference": two}) for one, two in rows]
    if name.startswith("bad"):
        lines[::_BAD_EVERY] = ["{" for _ in lines[::_BAD_EVERY]]
    return "\n".join([*lines, ""]).encode()


def write_file(path: Path, megabytes: int) -> int:
    """Write a file of about that much text; return the exact number of its bytes."""
    blocks = [block_of_rows(path.name, seed) for seed in range(_BLOCKS)]
    codec = {".gz": "gzip", ".zst": "zstd"}.get(path.suffix)
    size = 0
    with pa.output_stream(str(path), compression=codec) as sink:
        if ".csv" in path.name:
            head = (
                b"id,candidate,reference\n"
                if path.name == "short.csv"
                else b"candidate,reference\n"
            )
            size += sink.write(head)
        for block in itertools.cycle(blocks):
            if size >= megabytes * 1_000_000:
                break
            sink.write(block)
            size += len(block)
    return size


def write_parquet(path: str) -> dict[str, float]:
    """Write a file as Parquet, and return what it took."""
    kind, codec = format_of(path, AUTO)
    columns = read_columns(path, kind, codec, [])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    rows = text_to_parquet(path, kind, codec, columns.schema, f"{path}.parquet", size=columns.size)
    return {
        "rows": rows,
        "seconds": round(time.process_time() - started, 2),
        "parquet_mb": round(Path(f"{path}.parquet").stat().st_size / 1e6),
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
        print(json.dumps(write_parquet(options.read)))
        return
    for case in options.cases:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / case
            is_packed = path.suffix in (".gz", ".zst")
            size = write_file(path, options.packed_megabytes if is_packed else options.megabytes)
            command = [sys.executable, "-m", "tests.benchmarks.text_input", "--read", str(path)]
            found = json.loads(subprocess.check_output(command))
            found["mb"] = size // 1_000_000
            found["mb_s"] = round(found["mb"] / max(found["seconds"], 0.01))
            print(json.dumps({"case": case, **found}), flush=True)


if __name__ == "__main__":
    main()
