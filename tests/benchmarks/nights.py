"""What a night costs when most of its rows are those of the night before.

    python -m tests.benchmarks.nights --rows 8000 --mean-tokens 60
    python -m tests.benchmarks.nights --index 10000000

Scores made-up pairs with the command line on the embedded model: a first night without `--reuse`,
then nights in which a share of the rows has other candidates, with `--reuse`. Everything counts:
start-up, planning, reading, writing, the index. The nights are taken in turns. Each prints one JSON
line with its seconds, the processor's seconds of all its processes, and both relative to the first.

With `--index` no model runs: random digests in pieces of 20,000 rows, their index, look-ups of
20,000 rows that are in it and of 20,000 that are not, seconds and memory of each.
"""

import argparse
import json
import random
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.dump.splits import part_name
from bertscore_beam.files.write import write_atomically
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.holder import Holder
from bertscore_beam.run.lock import LOCK_FILE, RunLock
from bertscore_beam.runs.index import INDEX_FOLDER, IndexedParts, write_index
from bertscore_beam.runs.lookup import EarlierRun
from bertscore_beam.runs.row_scores import (
    NO_REASON,
    VALUES,
    RowScores,
    SignedRows,
    rows_file,
    rows_to_bytes,
)
from bertscore_core import BertScorer, Signature
from tests.benchmarks.resume_cost import processor_seconds, run
from tests.benchmarks.texts import Pairs, mixed

PIECE_ROWS = 20_000
FILES = 4


def main() -> None:
    """Measure nights, or the index alone."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=8000)
    parser.add_argument("--mean-tokens", type=float, default=60)
    parser.add_argument("--changed", type=float, nargs="+", default=[0.0, 0.1, 1.0])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--index", type=int, metavar="ROWS", help="only the index of so many rows")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="nights-") as scratch:
        results = (
            measure_index(Path(scratch), given.index)
            if given.index
            else measure_nights(Path(scratch), given)
        )
        for result in results:
            print(json.dumps(result), flush=True)


def measure_nights(folder: Path, given: argparse.Namespace) -> Iterator[dict[str, object]]:
    """Score the nights in turns; yield the medians of each."""
    pairs = mixed(given.rows, mean_tokens=given.mean_tokens)
    write_night(folder / "day-0", pairs)
    others = mixed(given.rows, seed=1, mean_tokens=given.mean_tokens)
    for share in given.changed:
        write_night(folder / f"day-{share}", with_changes(pairs, others, share))
    times: dict[str, list[tuple[float, float]]] = {}
    reused: dict[str, int] = {}
    for turn in range(given.rounds):
        first = folder / f"first-{turn}"
        times.setdefault("first", []).append(run(command(folder / "day-0", first)))
        for share in given.changed:
            out = folder / f"{share}-{turn}"
            words = [*command(folder / f"day-{share}", out), "--reuse", str(first)]
            times.setdefault(str(share), []).append(run(words))
            reused[str(share)] = json.loads((out / "_summary.json").read_text())["reused"]
    seconds, processor = (statistics.median(column) for column in zip(*times["first"], strict=True))
    for name, taken in times.items():
        here = [statistics.median(column) for column in zip(*taken, strict=True)]
        yield {
            "changed": name,
            "rows": given.rows,
            "reused": reused.get(name, 0),
            "seconds": round(here[0], 1),
            "processor_seconds": round(here[1], 1),
            "of_first": round(here[0] / seconds, 3),
            "of_first_processor": round(here[1] / processor, 3),
        }


def command(dump: Path, output: Path) -> list[str]:
    """Return the command that scores a night."""
    words = ["score", "--input", dump, "--output", output, "--device", "cpu"]
    return [sys.executable, "-m", "bertscore_beam", *map(str, words)]


def write_night(folder: Path, pairs: Pairs) -> None:
    """Write a night as some files."""
    folder.mkdir()
    table = pa.table({"candidate": pairs.candidates, "reference": pairs.references})
    size = -(-len(table) // FILES)
    for number in range(FILES):
        pq.write_table(table.slice(number * size, size), folder / f"shard-{number}.parquet")


def with_changes(pairs: Pairs, others: Pairs, share: float) -> Pairs:
    """Return pairs of which a share has other candidates, spread evenly at random."""
    rows = random.Random(7).sample(
        range(len(pairs.candidates)), round(share * len(pairs.candidates))
    )
    candidates = list(pairs.candidates)
    for row in rows:
        candidates[row] = others.candidates[row]
    return Pairs(candidates, pairs.references)


def measure_index(folder: Path, rows: int) -> Iterator[dict[str, object]]:
    """Build an index of made-up rows, and look rows up in it as a worker does."""
    signature = BertScorer("all-MiniLM-L6-v2").signature()
    output = locked(folder / "out")
    names = [part_name("dump.parquet", start) for start in range(0, rows, PIECE_ROWS)]
    for number, name in enumerate(names):
        output.write(rows_file(name), rows_to_bytes(made_up(number, signature)))
    before, started = processor_seconds_here(), time.perf_counter()
    memory = peak_mib()
    write_index(output, IndexedParts.of((name, "x", PIECE_ROWS) for name in names))
    yield {
        "step": "build",
        "rows": rows,
        "seconds": round(time.perf_counter() - started, 1),
        "processor_seconds": round(processor_seconds_here() - before, 1),
        "more_memory_mib": round(peak_mib() - memory),
        "bytes_a_row": round(sum(output.files(INDEX_FOLDER).values()) / rows, 1),
    }
    known = np.concatenate([made_up(n, signature).digests[:200] for n in range(len(names))])
    known = known[np.random.default_rng(0).permutation(len(known))][:PIECE_ROWS]
    strange = made_up(len(names) + 1, signature).digests
    earlier = EarlierRun(output.root)
    for step, digests in (("hits", known), ("misses", strange)) * 2:
        before, started, memory = processor_seconds_here(), time.perf_counter(), peak_mib()
        rows = np.arange(len(digests))
        signed = SignedRows.of(len(digests), [(rows, signature)])
        found = earlier.find("other.parquet", rows, digests, signed)
        yield {
            "step": step,
            "rows": len(digests),
            "found": int(found.found.sum()),
            "seconds": round(time.perf_counter() - started, 3),
            "microseconds_a_row": round(
                (processor_seconds_here() - before) / len(digests) * 1e6, 2
            ),
            "more_memory_mib": round(peak_mib() - memory),
        }


def made_up(seed: int, signature: Signature) -> RowScores:
    """Return a piece of random digests and scores."""
    generator = np.random.default_rng(seed)
    values = np.zeros(PIECE_ROWS, dtype=VALUES)
    values["raw_f1"] = generator.random(PIECE_ROWS, dtype=np.float32)
    values["reason"] = NO_REASON
    return RowScores(
        digests=generator.integers(0, 2**64, (PIECE_ROWS, 2), dtype=np.uint64),
        values=values,
        signed=SignedRows.of(PIECE_ROWS, [(np.arange(PIECE_ROWS), signature)]),
        reasons=(),
    )


def locked(folder: Path) -> OutputFolder:
    """Take a new folder."""
    holder = Holder.here()
    write_atomically(str(folder / LOCK_FILE), holder.to_json())
    return OutputFolder(str(folder), RunLock(str(folder), holder.run))


def processor_seconds_here() -> float:
    """Return the processor's seconds of this process and its children."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime + processor_seconds()


def peak_mib() -> float:
    """Return the most memory that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
