"""What commands cost, start-up included: seconds, the processor's seconds and memory of each.

Dumps and runs are made up; where scores are needed, the embedded model makes them.
"""

import itertools
import json
import random
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.dump import expand_inputs, texts_among, write_rows
from tests.benchmarks.harness import Recorder, children_seconds, interleave, peak_mb, run_command
from tests.benchmarks.texts import Pairs, mixed
from tests.support.crawl_texts import sentences
from tests.support.made_runs import made_run, many_rows
from tests.support.workers import start_pool

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


def nights(
    recorder: Recorder,
    *,
    rows: int = 8000,
    mean_tokens: float = 60.0,
    changed: Sequence[float] = (0.0, 0.1, 1.0),
    rounds: int = 2,
) -> None:
    """What a night costs when most of its rows are those of the night before.

    A first night without `--reuse`, then nights in which a share of the rows has other candidates,
    in turns. The index is made, too. The ratio is to the first night.
    """
    pairs = mixed(rows, mean_tokens=mean_tokens)
    others = mixed(rows, seed=1, mean_tokens=mean_tokens)
    costs: dict[str, list[dict[str, float]]] = {}
    with TemporaryDirectory() as name:
        folder = Path(name)
        for share in changed:
            write_night(folder / f"day-{share}", with_changes(pairs, others, share))
        write_night(folder / "day-first", pairs)
        for turn in range(rounds):
            for night in ("first", *changed):
                out = folder / f"{night}-{turn}"
                words = ["score", "--input", folder / f"day-{night}", "--output", out]
                words += ["--device", "cpu"]
                words += [] if night == "first" else ["--reuse", folder / f"first-{turn}"]
                cost = run_command(words)
                cost["reused"] = json.loads((out / "_summary.json").read_text()).get("reused", 0)
                costs.setdefault(str(night), []).append(cost)
    first = median(cost["seconds"] for cost in costs["first"])
    for night, spent in costs.items():
        seconds = [cost["seconds"] for cost in spent]
        recorder.add(
            what="first night" if night == "first" else f"{float(night):.0%} of the rows changed",
            n=rows,
            seconds=seconds,
            ratio=first / median(seconds),
            cpu_seconds=median(cost["cpu_seconds"] for cost in spent),
            reused=spent[-1]["reused"],
        )


def candidates(
    recorder: Recorder,
    *,
    rows: int = 1000,
    samples: int = 4,
    mean_tokens: float = 40.0,
    rounds: int = 3,
) -> None:
    """What several candidates a row cost, as lists, against a dump multiplied out by hand.

    They are scored with a reference, and with each other (`select`). The ratio is of CPU seconds,
    to the dump multiplied out. One worker, in turns.
    """
    pairs = mixed(rows * samples, mean_tokens=mean_tokens)
    groups = [pairs.candidates[start::rows] for start in range(rows)]
    references = pairs.references[:rows]
    others = [pair for group in groups for pair in itertools.permutations(group, 2)]
    tables = {
        "lists": {"candidate": groups, "reference": references},
        "lists by hand": {
            "candidate": [text for group in groups for text in group],
            "reference": [text for text in references for _ in range(samples)],
        },
        "select": {"candidate": groups},
        "select by hand": dict(
            zip(("candidate", "reference"), zip(*others, strict=True), strict=True)
        ),
    }
    costs: dict[str, list[dict[str, float]]] = {name: [] for name in tables}
    with TemporaryDirectory() as name:
        folder = Path(name)
        for kind, table in tables.items():
            pq.write_table(pa.table(table), folder / f"{kind}.parquet")
        for turn in range(rounds):
            for kind, spent in costs.items():
                verb = "select" if kind == "select" else "score"
                words = [verb, "--input", folder / f"{kind}.parquet", "--workers", 1]
                words += ["--output", folder / f"{kind}-{turn}", "--device", "cpu"]
                spent.append(run_command(words))
    for kind, spent in costs.items():
        by_hand = costs[f"{kind.removesuffix(' by hand')} by hand"]
        cpu_seconds = median(cost["cpu_seconds"] for cost in spent)
        recorder.add(
            what=kind,
            n=rows * samples,
            seconds=[cost["seconds"] for cost in spent],
            cpu_seconds=cpu_seconds,
            ratio=cpu_seconds / median(cost["cpu_seconds"] for cost in by_hand),
        )


def write_night(folder: Path, pairs: Pairs, files: int = 4) -> None:
    """Write a night as some files."""
    folder.mkdir()
    table = pa.table({"candidate": pairs.candidates, "reference": pairs.references})
    size = -(-len(table) // files)
    for number in range(files):
        pq.write_table(table.slice(number * size, size), folder / f"shard-{number}.parquet")


def with_changes(pairs: Pairs, others: Pairs, share: float) -> Pairs:
    """Return pairs of which a share has other candidates, spread evenly at random."""
    candidates = list(pairs.candidates)
    for row in random.Random(7).sample(range(len(pairs)), round(share * len(pairs))):
        candidates[row] = others.candidates[row]
    return Pairs(candidates, pairs.references)


def prism(recorder: Recorder, *, prism: str = "prism", rows: int = 6_000, rounds: int = 3) -> None:
    """How fast a job is on Prism, against Beam's FnApiRunner with one worker.

    One dump of made-up English pairs in turn on both runners, without idf and with corpus idf. Each
    run has one worker process: a child of the command, or one of a worker pool. The seconds are of
    scoring, as the summary states them; CPU seconds are of the command, the pool and Prism
    together, start-up included. `--prism` names the program.
    """
    with TemporaryDirectory() as name:
        folder = Path(name)
        texts = sentences("en", 2 * rows, seed=4)
        pairs = {"candidate": texts[:rows], "reference": texts[rows:]}
        pq.write_table(pa.table(pairs), folder / "dump.parquet", row_group_size=500)
        cpu: dict[str, list[float]] = {}

        def run(runner: str, idf: str) -> float:
            before, runs = children_seconds(), cpu.setdefault(f"{runner}, idf {idf}", [])
            out = folder / f"out-{len(runs)}-{runner}-{idf}"
            words = ["score", "--input", folder / "dump.parquet", "--output", out, "--quiet"]
            words += ["--device", "cpu", "--split-rows", 500, "--idf", idf]
            if runner == "Prism":
                pool = start_pool()
                words += ["--", "--runner=PrismRunner", f"--prism_location={prism}"]
                words += ["--environment_type=EXTERNAL", f"--environment_config={pool.address}"]
            try:
                run_command(words)
            finally:
                if runner == "Prism":
                    pool.process.terminate()  # it waits for its workers, whose seconds count then
                    pool.process.wait(60)
                    pool.kill()
            runs.append(children_seconds() - before)
            return float(json.loads((out / "_summary.json").read_text())["seconds"])

        variants = {
            f"{runner}, idf {idf}": partial(run, runner, idf)
            for idf in ("none", "corpus")
            for runner in ("FnApiRunner", "Prism")
        }
        seconds = interleave(variants, rounds)
    for what, taken in seconds.items():
        other = seconds[what.replace("Prism", "FnApiRunner")]
        ratio = median(other) / median(taken)
        recorder.add(what=what, n=rows, seconds=taken, ratio=ratio, cpu_seconds=median(cpu[what]))


def idf_keys(recorder: Recorder, *, systems: int = 8, references: int = 50_000) -> None:
    """What `--idf-key` costs: systems on the same references, counted with and without it."""
    draw = random.Random(7)
    texts = [" ".join(draw.choices(SYLLABLES, k=draw.randint(8, 30))) for _ in range(references)]
    columns = {
        "segment": list(range(references)),
        "test_set": ["ab"[number % 2] for number in range(references)],
        "reference": texts,
    }
    key = ["--idf-key", "segment"]
    ways = {"plain": [], "key": key, "key and group": [*key, "--idf-group", "test_set"]}
    with TemporaryDirectory() as name:
        dump = Path(name, "dump")
        dump.mkdir()
        for system in range(systems):
            path = dump / f"system-{system}.parquet"
            pq.write_table(pa.table(columns), path, row_group_size=10_000)
        for what, more in ways.items():
            words = ["idf", "--input", dump, "--output", dump.parent / f"{what}.npz", *more]
            # Without restarts the command does the work itself, and its memory is that of all.
            recorder.command(what, systems * references, [*words, "--restarts", 0])


def comparisons(recorder: Recorder, *, rows: int = 10_000_000) -> None:
    """What it costs to compare two runs of many rows, and to rank the systems of one."""
    with TemporaryDirectory() as name:
        before, now = (
            made_run(
                Path(name, f"run-{seed}"),
                {"a.parquet": many_rows(rows, seed=seed, shift=-0.002 * seed)},
            )
            for seed in range(2)
        )
        grouped = ["--key", "id", "--by", "system", "language", "--cluster", "document"]
        for what, words in {
            "position": [before],
            "key, groups, clusters": [before, *grouped],
            "ranking of 4 systems": ["--systems", "--key", "segment", "--cluster", "document"],
        }.items():
            recorder.command(what, rows, ["compare", now, *words])


def report_page(recorder: Recorder, *, rows: int = 1_000_000) -> None:
    """What a report costs: about one run, by groups with texts, and compared with another run."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        other, run = (
            made_run(
                folder / f"night-{seed}", {"rows.parquet": many_rows(rows, seed=seed)}, digest=False
            )
            for seed in range(2)
        )
        page = folder / "report.html"
        for what, words in {
            "alone": [],
            "by system and language, with texts": ["--by", "system", "language", "--with-texts"],
            "against another run": ["--against", other],
        }.items():
            cost = recorder.command(what, rows, ["report", run, *words, "-o", page])
            recorder.add(what=f"{what}: the page", n=cost["n"], kb=page.stat().st_size / 1000)


TEXT_FILES = ("rows.jsonl", "rows.csv", "short.csv", "rows.jsonl.gz", "rows.csv.gz", "bad.jsonl")


def text_input(
    recorder: Recorder,
    *,
    megabytes: int = 2000,
    only: Sequence[str] = TEXT_FILES,
    packed_megabytes: int = 200,
) -> None:
    """What it takes to write large text files as Parquet: memory, and megabytes a second.

    Each file is written by a process of its own, whose CPU seconds count. Megabytes are of
    decompressed text; compressed files have `--packed-megabytes`.
    """
    for name in only:
        with TemporaryDirectory() as folder:
            path = Path(folder, name)
            size = write_text(path, packed_megabytes if path.suffix == ".gz" else megabytes) / 1e6
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
                rows, seconds, start_mb, most_mb = fresh.submit(text_cost, str(path)).result()
            recorder.add(
                what=name,
                n=rows,
                seconds=[seconds],
                mb_per_second=size / seconds,
                start_mb=start_mb,
                peak_mb=most_mb,
            )


def write_text(path: Path, megabytes: int) -> int:
    """Write a file of about that much text; return the exact number of its bytes."""
    blocks = [block_of_rows(path.name, seed) for seed in range(20)]
    heads = {"rows.csv": b"candidate,reference\n", "short.csv": b"id,candidate,reference\n"}
    size = 0
    with pa.output_stream(str(path), compression="gzip" if path.suffix == ".gz" else None) as sink:
        head = heads.get(path.name.removesuffix(".gz"), b"")
        for block in itertools.chain([head], itertools.cycle(blocks)):
            if size >= megabytes * 1_000_000:
                return size
            size += sink.write(block)
    return size


def block_of_rows(name: str, seed: int, rows: int = 10_000) -> bytes:
    """Return lines of a file; in bad.jsonl one in two thousand is no JSON."""
    draw = random.Random(seed)
    words = draw.choices(RANDOM_WORDS, k=24 * rows)
    sides = [" ".join(words[at : at + 12]) for at in range(0, len(words), 12)]
    pairs = [
        (left, f"{right}, he said") for left, right in zip(sides[::2], sides[1::2], strict=True)
    ]
    if name == "short.csv":
        lines = [f'"{at}","{left[:9]}","{right[:7]}"' for at, (left, right) in enumerate(pairs)]
    elif ".csv" in name:
        lines = [f'{left},"{right}"' for left, right in pairs]
    else:
        lines = [json.dumps({"candidate": left, "reference": right}) for left, right in pairs]
    if name.startswith("bad"):
        lines[::2_000] = ["{"] * len(lines[::2_000])
    return "\n".join([*lines, ""]).encode()


RANDOM_WORDS = [
    f"{word}{end}"
    for word in ["the", "cat", "sat", "on", "a", "mat", "why", "nobody", "knows"]
    for end in ("", "s", "ing", "ed", "ly", "é", "er", "ness", *map(str, range(300)))
]


def text_cost(path: str) -> tuple[int, float, float, float]:
    """Write a file as Parquet; return its rows, CPU seconds, and memory before and at most."""
    (text,) = texts_among(expand_inputs([path]), [])
    before, started = peak_mb(), time.process_time()
    with open(f"{path}.parquet", "wb") as sink:
        write_rows(text, sink)
    rows = pq.read_metadata(f"{path}.parquet").num_rows
    return rows, time.process_time() - started, before, peak_mb()
