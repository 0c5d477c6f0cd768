"""A million pairs in two nights, the first of them killed twice, compared and reported."""

import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import yaml

from tests.benchmarks.harness import BUILD, Recorder, run_command
from tests.support.crawl_texts import sentences
from tests.support.processes import kill_session, send, session_members, wait_until_gone

SYSTEMS = 8
FILES = ("{}-{}.parquet", "{}-{}-{}.jsonl", "{}-{}.parquet", "{}-{}-{}.jsonl.gz")
"""Names of the files of a language, number and day. Where the day is in the name, `--reuse` finds
the rows by the index, in the others by their place."""

LENGTHS = {"en": (6, 14), "de": (5, 11), "zh": (8, 24)}
"""Fewest and most words, or characters, of a reference in each language: some 8 to 30 tokens."""

CHANGED = 0.1
"""Share of the rows that have another candidate in the second night."""

KILLS = (1 / 3, 2 / 3)
"""How much of the first night is done when it is killed."""

_METRICS = ("chrf", "bleu")


def million(
    recorder: Recorder,
    *,
    pairs: int = 1_000_000,
    folder: str = str(BUILD / "million"),
    model: str = "all-MiniLM-L6-v2",
    layers: Sequence[int] = (6, 5, 6),
    dtype: str = "bfloat16",
    split_rows: int = 5_000,
) -> None:
    """Score distinct pairs with groups, key and metrics, then a second night with a tenth changed.

    Eight systems in three languages, each scored with one of `--layers` (the embedded model knows
    English only), half of it JSON lines and half Parquet. The first night is killed twice and
    resumed; the second reuses it. Then `compare` and `report` over both, and a check of every row.
    What is done is kept in `--folder`: the same command goes on.
    """
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    changed = _once(place / "dump.json", partial(write_days, place, pairs))
    languages = {
        language: {"model": model, "num_layers": layer}
        for language, layer in zip(LENGTHS, layers, strict=True)
    }
    (place / "languages.yaml").write_text(yaml.safe_dump(languages))
    score = ["score", "--language-column", "language", "--languages", place / "languages.yaml"]
    score += ["--by", "system", "language", "--metrics", *_METRICS, "--dtype", dtype]
    score += ["--max-unknown-fraction", 1]  # the embedded model does not know all languages
    score += ["--split-rows", split_rows, "--workers", 1, "--device", "cpu"]
    nights = [place / "night-1", place / "night-2"]
    again = [*score, "--reuse", nights[0]]
    by = ["--key", "id", "--by", "system", "language"]
    first = 0.0
    for name, words in {
        "night-1": [*score, "--input", place / "day-1", "--output", nights[0]],
        "night-2": [*again, "--input", place / "day-2", "--output", nights[1]],
        "compare": ["compare", nights[1], nights[0], *by, "--measure", "f1", *_METRICS, "--json"],
        "report": ["report", nights[1], "--against", nights[0], *by, "-o", place / "page.html"],
    }.items():
        stops = [pairs / split_rows * share for share in KILLS] if name == "night-1" else []
        cost = _once(place / f"{name}.json", partial(_run, words, place / name, stops))
        first = first or cost["cpu_seconds"]
        share = cost["cpu_seconds"] / first
        seconds = [cost.pop("seconds")]
        recorder.add(what=name, n=pairs, seconds=seconds, share_of_first=share, **cost)
    found = check(nights, pairs)
    whole = json.loads((place / "compare.stdout").read_text())["comparisons"][0]["whole"]
    found["compared"] = whole["counts"]["pairs"]
    found["reused"] = json.loads((nights[1] / "_summary.json").read_text())["reused"]
    recorder.add(what="rows", n=pairs, **found)
    right = {"once": True, "unscored": 0, "changed": changed, "equal_scores": True}
    if found != right | {"compared": pairs, "reused": pairs - changed}:
        raise SystemExit(f"wrong: {found}; {changed} rows were changed")


def _once(path: Path, step: Callable[[], Any]) -> Any:
    """Return the result of a step, which is kept in a file."""
    if not path.exists():
        made = path.with_suffix(".partial")
        made.write_text(json.dumps(step()))
        made.rename(path)
    return json.loads(path.read_text())


def _run(words: Sequence[object], out: Path, stops: Sequence[float]) -> dict[str, Any]:
    """Run a command, killed at these numbers of parts on the way; return what all of it cost.

    First the command alone is killed, whose worker must then leave; then all of its processes.
    """
    if stops:  # parts of an earlier try would be found, and its seconds would not
        shutil.rmtree(out, ignore_errors=True)
    started, lost = time.perf_counter(), 0.0
    for number, stop in enumerate(stops):
        command = [sys.executable, "-m", "bertscore_beam", *map(str, words)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
        while process.poll() is None and len(_parts(out)) < stop:
            time.sleep(0.2)
        if process.poll() is not None:
            raise SystemExit(f"{command} ended with {process.returncode} before it was killed")
        lost += sum(map(_cpu_seconds, session_members(process.pid)))
        if number == 0:
            send(process.pid, signal.SIGKILL)
            process.wait()
            if left := wait_until_gone(process.pid, 60):
                raise SystemExit(f"processes {left} outlive their command")
        kill_session(process.pid)
        process.wait()
    with out.with_suffix(".stdout").open("w") as said:
        cost = run_command(words, said)
    seconds = time.perf_counter() - started
    cost |= {"seconds": seconds, "cpu_seconds": cost["cpu_seconds"] + lost}
    files = [path for path in out.rglob("*") if path.is_file()]
    parts = _parts(out)
    return {**cost, "tries": len(stops) + 1, "parts_mb": _mb(parts), "all_mb": _mb(files)}


def _cpu_seconds(pid: int) -> float:
    """Return the processor's seconds of a process and of those below it that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has just ended
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def write_days(place: Path, pairs: int) -> int:
    """Write the dumps of both days; return how many rows differ."""
    names = [(language, number) for language in LENGTHS for number in range(len(FILES))]
    changed = 0
    seen: set[str] = set()
    for file, (language, number) in enumerate(names):
        ids = range(pairs * file // len(names), pairs * (file + 1) // len(names))
        rows = list(made_rows(language, number, ids, seen))
        changed += sum(first["candidate"] != second["candidate"] for first, second in rows)
        for day, of_day in enumerate(zip(*rows, strict=True), start=1):
            path = place / f"day-{day}" / FILES[number].format(language, number, day)
            path.parent.mkdir(exist_ok=True)
            if path.suffix == ".parquet":
                pq.write_table(pa.Table.from_pylist(list(of_day)), path, row_group_size=20_000)
            else:
                opened = gzip.open if path.suffix == ".gz" else open
                with opened(path, "wt", encoding="utf-8") as lines:
                    lines.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in of_day)
    return changed


def made_rows(
    language: str, number: int, ids: Iterable[int], seen: set[str]
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield rows of the first and the second day; all pairs of both days are distinct.

    A reference is a piece of a sentence that is not among those seen; the candidates of its systems
    have other words in some places, more of them from system to system.
    """
    draw = random.Random(f"{language} {number}")
    joint = "" if language == "zh" else " "
    texts = [list(text) if not joint else text.split() for text in sentences(language, 5_000, 1)]
    vocabulary = sorted({word for text in texts for word in text})
    words: list[str] = []
    taken: set[str] = set()

    def candidate(system: int) -> str:
        while True:
            made = list(words)
            for at in draw.sample(range(len(made)), 1 + system * len(made) // (2 * SYSTEMS)):
                made[at] = draw.choice(vocabulary)
            text = joint.join(made)
            if text not in taken:
                taken.add(text)
                return text

    for place, row in enumerate(ids):
        system = place % SYSTEMS
        while not system and (not words or joint.join(words) in seen):
            text, length = draw.choice(texts), draw.randint(*LENGTHS[language])
            start = draw.randint(0, max(len(text) - length, 0))
            words = text[start : start + length]
        reference = joint.join(words)
        if not system:
            seen.add(reference)
            taken = {reference}
        columns = {"id": row, "system": f"system-{system}", "language": language}
        first = {**columns, "candidate": candidate(system), "reference": reference}
        again = candidate(system) if draw.random() < CHANGED else first["candidate"]
        yield first, {**first, "candidate": again}


def check(nights: Sequence[Path], pairs: int) -> dict[str, Any]:
    """Compare every row of both nights; return how many there are of each kind."""
    measures = ["bertscore_f1", *(f"metric_{name}" for name in _METRICS)]
    columns = ["id", "candidate", "system", "language", *measures]
    first, second = (
        pa.concat_tables(
            [pq.read_table(path, columns=columns, partitioning=None) for path in _parts(night)],
            promote_options="permissive",
        ).sort_by("id")
        for night in nights
    )
    ids = pa.array(range(pairs))
    same = pc.equal(first["candidate"], second["candidate"])
    return {
        "once": all(night["id"].combine_chunks().equals(ids) for night in (first, second)),
        "unscored": sum(night[name].null_count for night in (first, second) for name in measures),
        "changed": pairs - pc.sum(same).as_py(),
        "equal_scores": all(
            first[name].filter(same).equals(second[name].filter(same)) for name in measures
        ),
    }


def _parts(out: Path) -> list[Path]:
    return sorted(out.glob("[!_]*/part-*.parquet"))


def _mb(files: Iterable[Path]) -> float:
    return sum(path.stat().st_size for path in files) / 1e6
