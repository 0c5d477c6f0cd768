"""What `--idf-key` costs: count eight systems on the same 50,000 references, with and without it.

    python -m tests.benchmarks.idf_keys FOLDER plain|key|both

Prints processor seconds and the largest memory of a run in this process. Each way is a command of
its own, since memory is a maximum over the life of a process.
"""

import random
import resource
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.cli import main as cli

SYSTEMS, REFERENCES = 8, 50_000
FLAGS = {
    "plain": [],
    "key": ["--idf-key", "segment"],
    "both": ["--idf-key", "segment", "--idf-group", "test_set"],
}
_STEMS = "river stone cloud market window garden engine letter number color"
_ENDS = ("", "s", "ed", "ing", "er")


def write_dump(folder: Path) -> None:
    """Write a file for each system, all with the same references."""
    folder.mkdir(parents=True)
    draw = random.Random(7)
    words = [stem + end for stem in _STEMS.split() for end in _ENDS]
    texts = [" ".join(draw.choices(words, k=draw.randint(8, 30))) for _ in range(REFERENCES)]
    table = pa.table(
        {
            "segment": list(range(REFERENCES)),
            "test_set": ["ab"[number % 2] for number in range(REFERENCES)],
            "reference": texts,
        }
    )
    for system in range(SYSTEMS):
        pq.write_table(table, folder / f"system-{system}.parquet", row_group_size=10_000)


def main(folder: Path, way: str) -> None:
    """Count once, and print what it took."""
    dump = folder / "dump"
    if not dump.exists():
        write_dump(dump)
    started = time.perf_counter()
    command = ["idf", "--input", str(dump), "--output", str(folder / f"{way}.npz"), "--overwrite"]
    status = cli.main([*command, *FLAGS[way], "--restarts", "0"])  # or a child would do the work
    seconds = time.perf_counter() - started
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(
        f"{way}: status {status}, {seconds:.1f} s, CPU {used.ru_utime + used.ru_stime:.1f} s, "
        f"{used.ru_maxrss // 1024} MiB"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
