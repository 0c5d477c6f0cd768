"""What commands cost, start-up included: seconds, the processor's seconds and memory of each.

Dumps and runs are made up; where scores are needed, the embedded model makes them.
"""

import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.run import SUCCESS_FILE
from tests.benchmarks.harness import Recorder, run_command
from tests.support.dumps import write_small_files
from tests.support.made_runs import made_run, many_rows

SYLLABLES = tuple(a + b for a in "bcdfglmnprst" for b in ("an", "ero", "ilo", "ust"))


def job_memory(
    recorder: Recorder,
    *,
    rows: Sequence[int] = (10_000, 100_000),
    plan_rows: Sequence[int] = (1_000_000,),
    workers: int = 2,
    split_rows: int = 5_000,
) -> None:
    """How the memory of `score` grows with the number of rows, and that of planning alone."""
    for count, more in [(n, []) for n in rows] + [(n, ["--dry-run"]) for n in plan_rows]:
        with TemporaryDirectory() as folder:
            write_short_pairs(Path(folder, "dump"), count)
            words = ["score", "--input", f"{folder}/dump", "--output", f"{folder}/out"]
            words += ["--workers", workers, "--split-rows", split_rows, *more]
            recorder.command(f"{'plan' if more else 'score'}, {workers} workers", count, words)


def write_short_pairs(folder: Path, rows: int, rows_per_file: int = 50_000) -> None:
    """Write pairs of a few words; nearly all texts are distinct."""
    generator = random.Random(rows)
    folder.mkdir()
    for start in range(0, rows, rows_per_file):
        ids = range(start, min(start + rows_per_file, rows))
        columns = {
            "id": list(ids),
            "candidate": [" ".join(generator.choices(SYLLABLES, k=4)) for _ in ids],
            "reference": [" ".join(generator.choices(SYLLABLES, k=5)) for _ in ids],
        }
        path = folder / f"shard-{start:09d}.parquet"
        pq.write_table(pa.table(columns), path, row_group_size=10_000)


def comparisons(recorder: Recorder, *, rows: int = 10_000_000) -> None:
    """What it costs to compare two runs of many rows, to rank systems, and to report on a run."""
    with TemporaryDirectory() as name:
        before, now = (
            made_run(
                Path(name, f"run-{seed}"),
                {"a.parquet": many_rows(rows, seed=seed, shift=-0.002 * seed)},
            )
            for seed in range(2)
        )
        grouped = ["--by", "system", "language"]
        clusters = ["--key", "id", *grouped, "--cluster", "document"]
        report = ["report", now, "-o", Path(name, "report.html")]
        for what, words in {
            "position": ["compare", now, before],
            "key, groups, clusters": ["compare", now, before, *clusters],
            "ranking of 4 systems": [
                *("compare", now, "--systems", "--key", "segment", "--cluster", "document")
            ],
            "report": report,
            "report by system and language, with texts": [*report, *grouped, "--with-texts"],
            "report against another run": [*report, "--against", before],
        }.items():
            recorder.command(what, rows, words)


def splits(
    recorder: Recorder,
    *,
    files: Sequence[int] = (1000, 10_000),
    workers: int = 2,
    option: Sequence[str] = (),
) -> None:
    """What a split costs beside its rows: planning, running, looking over again, concluding.

    Makes files of two rows and runs the command line over them: a dry run, the run, and the same
    command once more, which has nothing left to do. All files hold the same two pairs under ids of
    their own, and a run of one such file is given as `--reuse`. So rows take their scores from
    there, no model runs, and what remains is what the job itself costs for each file. The
    conclusion is the time from the last part to the success marker. `--option=--flag` has more
    words for the command.
    """
    measured: dict[int, dict[str, float]] = {}
    with TemporaryDirectory(prefix="splits-") as place:
        write_small_files(f"{place}/first-dump", 1)
        run_command(score_words(f"{place}/first-dump", f"{place}/first"))
        more = [*option, "--workers", workers, "--reuse", f"{place}/first"]
        for count in files:
            write_small_files(f"{place}/dump-{count}", count)
            words = [*score_words(f"{place}/dump-{count}", f"{place}/out-{count}"), *more]
            for step, flags in {"plan": ["--dry-run"], "run": [], "again": []}.items():
                cost = run_command([*words, *flags])
                measured.setdefault(count, {})[step] = cost["cpu_seconds"]
                if step == "run":
                    cost["conclusion_seconds"] = conclusion_seconds(Path(place, f"out-{count}"))
                recorder.add(what=step, n=count, seconds=[cost.pop("seconds")], **cost)
    for (few, less), (many, costs) in pairwise(sorted(measured.items())):
        for step, seconds in costs.items():
            slope = (seconds - less[step]) / (many - few)
            recorder.add(what=f"{step}: a file more than {few}", n=many, cpu_msec=slope * 1e3)


def score_words(dump: object, output: object) -> list[object]:
    """Return the words that score a dump."""
    return ["score", "--input", dump, "--output", output, "--device", "cpu", "--quiet"]


def conclusion_seconds(output: Path) -> float:
    """Return the time from the last part to the success marker."""
    parts = output.rglob("part-*.parquet")
    return (output / SUCCESS_FILE).stat().st_mtime - max(path.stat().st_mtime for path in parts)
