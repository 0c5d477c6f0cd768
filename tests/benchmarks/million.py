"""A million pairs in two nights, the first of them killed twice, compared and reported."""

import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import yaml

from tests.benchmarks.harness import BUILD, Recorder
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

KILLS = {1 / 3: "the command", 2 / 3: "all its processes"}
"""What is killed when so much of the first night is done."""

SLICES = 10
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
    dump = _once(place, "dump", partial(write_days, place, pairs))
    languages = {
        language: {"model": model, "num_layers": layer}
        for language, layer in zip(LENGTHS, layers, strict=True)
    }
    (place / "languages.yaml").write_text(yaml.safe_dump(languages))
    score = ["score", "--language-column", "language", "--languages", place / "languages.yaml"]
    score += ["--by", "system", "language", "--metrics", *_METRICS, "--dtype", dtype]
    score += ["--split-rows", split_rows, "--workers", 1, "--device", "cpu"]
    nights = [place / "night-1", place / "night-2"]
    for number, (night, more) in enumerate(zip(nights, ([], ["--reuse", nights[0]]), strict=True)):
        words = [*score, "--input", place / f"day-{number + 1}", "--output", night, *more]
        kills = {} if more else {share * pairs / split_rows: who for share, who in KILLS.items()}
        _once(place, night.name, partial(_night, place, night, words, kills))
    by = ["--key", "id", "--by", "system", "language"]
    for verb, words in {
        "compare": ["compare", nights[1], nights[0], *by, "--measure", "f1", *_METRICS, "--json"],
        "report": ["report", nights[1], "--against", nights[0], *by, "-o", place / "page.html"],
    }.items():
        _once(place, verb, partial(_alone, place, verb, words))
    found = _once(place, "check", partial(check, nights, pairs))
    _record(recorder, place, pairs, dump["changed"], found)


def _once(place: Path, name: str, step: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the result of a step, which is kept in a file."""
    path = place / f"{name}.json"
    if not path.exists():
        made = path.with_suffix(".partial")
        made.write_text(json.dumps(step()))
        made.rename(path)
    result: dict[str, Any] = json.loads(path.read_text())
    return result


def write_days(place: Path, pairs: int) -> dict[str, Any]:
    """Write the dumps of both days; return how many rows differ, and the bytes of the first."""
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
    return {"changed": changed, "bytes": _size((place / "day-1").iterdir())}


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


def _alone(place: Path, name: str, words: Sequence[object]) -> dict[str, Any]:
    return _figures([_watched(place, name, words)])


def _night(
    place: Path, out: Path, words: Sequence[object], kills: dict[float, str]
) -> dict[str, Any]:
    """Score a day, killed at these numbers of parts on the way; return its figures."""
    done = sorted(place.glob(f"{out.name}-try-*.jsonl"))
    for at, who in [*kills.items(), (None, "")][len(done) :]:
        done.append(_watched(place, f"{out.name}-try-{len(done)}", words, out, at, who))
    summary = json.loads((out / "_summary.json").read_text())
    manifest = [path for path in (out / "_manifest").rglob("*") if path.is_file()]
    return _figures(done) | {
        "tries": len(done),
        "reused": summary["reused"],
        "scored": summary["scored"],
        "parts_mb": _size(_parts(out)) / 1e6,
        "manifest_mb": _size(manifest) / 1e6,
    }


def _watched(
    place: Path,
    name: str,
    words: Sequence[object],
    out: Path | None = None,
    stop: float | None = None,
    who: str = "",
) -> Path:
    """Run a command, killed when so many parts are there; return the file of its samples.

    A sample has the seconds since the start, the parts, and for the command, its worker and the
    other processes the processor's seconds, the bytes written, and the memory in use.
    """
    samples, started = [], time.monotonic()
    command = [sys.executable, "-m", "bertscore_beam", *map(str, words)]
    with (place / f"{name}.stdout").open("w") as stdout, (place / f"{name}.log").open("w") as log:
        process = subprocess.Popen(command, stdout=stdout, stderr=log, start_new_session=True)
    seen: dict[int, dict[str, Any]] = {}
    try:
        while process.poll() is None:
            living = {pid: used for pid in session_members(process.pid) if (used := _usage(pid))}
            seen = {pid: {**used, "mb": 0} for pid, used in seen.items()} | living
            parts = len(_parts(out)) if out else 0
            sample: dict[str, Any] = {"seconds": time.monotonic() - started, "parts": parts}
            sample["load"] = os.getloadavg()[0]
            for role, match in _ROLES.items():
                those = [used for pid, used in seen.items() if match(pid, used, process.pid)]
                sample[role] = {
                    of: sum(used[of] for used in those) for of in ("cpu", "bytes", "mb")
                }
            samples.append(sample)
            if stop is not None and parts >= stop:
                if who == "the command":
                    send(process.pid, signal.SIGKILL)
                    process.wait()
                    if left := wait_until_gone(process.pid, 60):
                        raise SystemExit(f"processes {left} outlive their command")
                kill_session(process.pid)
            time.sleep(0.2 if len(samples) < 300 else 1)
    finally:
        kill_session(process.pid)
        process.wait()
    if process.returncode != (0 if stop is None else -signal.SIGKILL):
        raise SystemExit(f"{command} ended with {process.returncode}; see {place / name}.log")
    path = place / f"{name}.jsonl"
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    return path


_ROLES: dict[str, Callable[[int, dict[str, Any], int], bool]] = {
    "command": lambda pid, _, leader: pid == leader,
    "worker": lambda _, used, leader: used["parent"] == leader,
    "metrics": lambda pid, used, leader: leader not in (pid, used["parent"]),
}


def _usage(pid: int) -> dict[str, Any] | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        written = Path(f"/proc/{pid}/io").read_text().partition("\nwrite_bytes: ")[2].split()[0]
    except OSError:  # it has just ended
        return None
    ticks, pages = int(fields[11]) + int(fields[12]), int(fields[21])
    return {
        "parent": int(fields[1]),
        "cpu": ticks / os.sysconf("SC_CLK_TCK"),
        "bytes": int(written),
        "mb": pages * os.sysconf("SC_PAGE_SIZE") / 1e6,
    }


def _figures(tries: Sequence[Path]) -> dict[str, Any]:
    """Return seconds, CPU seconds and bytes by stage, and rate and memory by slices of the parts.

    Until the first new part a run starts; after the last part of the last try it ends.
    """
    runs = [[json.loads(line) for line in path.read_text().splitlines()] for path in tries]
    total = max(runs[-1][-1]["parts"], 1)
    zeros = dict.fromkeys(("seconds", "written_mb", *(f"{role}_cpu" for role in _ROLES)), 0.0)
    stages = {stage: dict(zeros) for stage in ("start", "scoring", "end")}
    slices = [{"seconds": 0.0, "parts": 0, "cpu": 0.0} for _ in range(SLICES)]
    for run in runs:
        for before, after in pairwise(run):
            whole = before["parts"] == total and run is runs[-1]
            begins = after["parts"] == run[0]["parts"]
            stage = stages["start" if begins else "end" if whole else "scoring"]
            stage["seconds"] += after["seconds"] - before["seconds"]
            for role in _ROLES:
                stage[f"{role}_cpu"] += after[role]["cpu"] - before[role]["cpu"]
                stage["written_mb"] += (after[role]["bytes"] - before[role]["bytes"]) / 1e6
            if before["parts"] > run[0]["parts"] and not whole:
                part = slices[before["parts"] * SLICES // total]
                part["seconds"] += after["seconds"] - before["seconds"]
                part["parts"] += after["parts"] - before["parts"]
                part["load"] = max(part.get("load", 0.0), after["load"])
                for role in _ROLES:
                    part["cpu"] += after[role]["cpu"] - before[role]["cpu"]
                    part[f"{role}_mb"] = max(part.get(f"{role}_mb", 0.0), after[role]["mb"])
    return {"stages": stages, "slices": slices, "parts": total}


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


def _record(
    recorder: Recorder, place: Path, pairs: int, changed: int, found: dict[str, Any]
) -> None:
    def read(name: str) -> Any:
        return json.loads((place / f"{name}.json").read_text())

    first = 0.0
    for name in ("night-1", "night-2", "compare", "report"):
        step = read(name)
        cpu = {
            stage: sum(of[f"{role}_cpu"] for role in _ROLES) for stage, of in step["stages"].items()
        }
        first = first or sum(cpu.values())
        recorder.add(
            what=name,
            n=pairs,
            seconds=[sum(of["seconds"] for of in step["stages"].values())],
            cpu_seconds=sum(cpu.values()),
            share_of_first=sum(cpu.values()) / first,
            **{key: step.get(key) for key in ("tries", "scored", "reused")},
            **{key: step.get(key) for key in ("parts_mb", "manifest_mb")},
        )
        if "tries" not in step:
            continue
        for stage, of in step["stages"].items():
            took = of.pop("seconds")
            recorder.add(
                what=f"{name}, {stage}", n=pairs, seconds=[took], cpu_seconds=cpu[stage], **of
            )
        for number, of in enumerate(step["slices"]):
            rows = of.pop("parts") * pairs / step["parts"]
            took, used = of.pop("seconds"), of.pop("cpu")
            rates = {"pairs_per_second": rows / took, "cpu_ms": 1e3 * used / rows} if rows else {}
            recorder.add(what=f"{name}, tenth {number + 1}", n=pairs, **rates, **of)
    compared = json.loads((place / "compare.stdout").read_text())["comparisons"][0]["whole"]
    counts = compared["counts"]
    recorder.add(what="rows", n=pairs, **found, compared=counts["pairs"])
    right = found == {"once": True, "unscored": 0, "changed": changed, "equal_scores": True}
    reused = read("night-2")["reused"]
    if not right or counts["pairs"] != pairs or reused != pairs - changed:
        raise SystemExit(f"wrong: {found}, {counts}, {reused} reused; {changed} rows were changed")


def _parts(out: Path) -> list[Path]:
    return sorted(out.glob("[!_]*/part-*.parquet"))


def _size(files: Iterable[Path]) -> int:
    return sum(path.stat().st_size for path in files)
