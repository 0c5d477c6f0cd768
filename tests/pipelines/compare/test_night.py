"""The recipe of a night: a dump is scored, compared and shown; a worse system is found."""

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytestmark = [pytest.mark.process, pytest.mark.long]

ROOT = Path(__file__).resolve().parents[3]
NIGHT = ROOT / "configs" / "nightly" / "night.sh"
SYSTEMS = [f"system-{number}" for number in range(10)]
WORSE = "system-3"
DAYS = ("2026-11-20", "2026-11-21", "2026-11-22", "2026-11-23")
"""In the last two nights WORSE is worse."""
UNREAD = {"ja", "th", "zh"}
"""Languages of which the model does not know enough tokens: every night would warn of them."""


def demo_segments():
    """Return the candidates and the reference of each segment that the model reads, by kind."""
    found = {}
    for path in sorted((ROOT / "configs" / "demo" / "sample").glob("news-*.parquet")):
        for row in pq.read_table(path).to_pylist():
            key = (row["language"], row["meta"]["domain"], row["meta"]["segment"])
            segment = found.setdefault((*key, row["reference"]), {})
            segment[row["system"]] = row["candidate"]
    kinds = ("paraphrase", "careful", "dropped", "swapped", "truncated")
    return [
        (key[-1], one)
        for key, one in found.items()
        if set(kinds) <= set(one) and key[0] not in UNREAD
    ]


def write_night(folder, day, *, worse=()):
    """Write a dump in which each system has one of two good candidates, or sometimes a bad one."""
    draw = random.Random(day)
    rows = []
    for number, (reference, by_kind) in enumerate(demo_segments()):
        for system in SYSTEMS:
            bad = draw.random() < (0.9 if system in worse else 0.1)
            kind = draw.choice(("swapped", "truncated") if bad else ("paraphrase", "careful"))
            row = {"id": number, "system": system, "reference": reference}
            rows.append({**row, "candidate": by_kind[kind]})
    (folder / "dumps" / day).mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), folder / "dumps" / day / "shard.parquet")
    return len(rows)


def command(folder, *words, **variables):
    paths = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": paths, "KEY": "id system", "PAUSE": "0", "CLUSTER": "id"}
    given = {"cwd": folder, "env": environment, "timeout": 400}
    return subprocess.run([*map(str, words)], capture_output=True, text=True, **given)


@pytest.fixture(scope="module")
def nights(tmp_path_factory):
    """Return a folder with three nights, the statuses of their runs, and the rows of a night."""
    folder = tmp_path_factory.mktemp("night")
    (folder / "baselines" / "en").mkdir(parents=True)
    table = folder / "baselines" / "en" / "all-MiniLM-L6-v2.idf.tsv"
    shutil.copy(ROOT / "configs" / "demo" / "baseline.csv", table)
    shutil.copy(ROOT / "configs" / "nightly" / "night.yaml", folder)
    for day in DAYS:
        rows = write_night(folder, day, worse=(WORSE,) if day in DAYS[2:] else ())
    model = ("--model", "all-MiniLM-L6-v2", "--idf-key", "id")
    dump = ("--input", "dumps/2026-11-20", "--output", "idf.npz")
    assert command(folder, "bertscore-beam", "idf", *dump, *model).returncode == 0
    return folder, [command(folder, "sh", NIGHT, day) for day in DAYS], rows


def name_of(comparison):
    """Return the name of the run that a night was compared with."""
    return comparison["against"].rpartition("/")[2]


def pin(folder, target):
    (folder / "scores" / "pinned").unlink()
    (folder / "scores" / "pinned").symlink_to(target)


def test_a_worse_system_is_found_and_the_others_are_not(nights):
    folder, done, rows = nights
    assert [one.returncode for one in done] == [0, 0, 4, 4], done
    assert all("f1: " in one.stdout for one in done)
    assert [one.stderr for one in done[:2]] == ["", ""]
    assert WORSE in done[2].stderr
    first = json.loads((folder / "pages" / "2026-11-20.json").read_text())
    assert first == {"passed": True, "comparisons": [], "rankings": []}
    equal, worse = (
        json.loads((folder / "pages" / f"2026-11-{day}.json").read_text()) for day in (21, 22)
    )
    assert (equal["passed"], worse["passed"]) == (True, False)
    found, pinned = worse["comparisons"]
    assert [name_of(one) for one in equal["comparisons"]] == ["2026-11-20"]
    assert [name_of(one) for one in (found, pinned)] == ["2026-11-21", "pinned"]
    groups = {one["group"][0]: one for one in found["groups"]}
    assert set(groups) == set(SYSTEMS)
    assert [name for name, one in groups.items() if one["gate"]["failures"]] == [WORSE]
    assert groups[WORSE]["result"]["interval"][1] < -0.005
    assert rows == sum(one["counts"]["pairs"] for one in groups.values())


def test_every_night_has_a_page_which_shows_the_trend(nights):
    folder, _, _ = nights
    pages = {path.stem: path.read_text() for path in (folder / "pages").glob("*.html")}
    assert set(pages) == {*DAYS}
    assert all(words in pages[DAYS[-1]] for words in (*DAYS, WORSE))
    first, second, *others = (pages[day].partition("<nav")[0] for day in DAYS)
    assert "gate" not in first
    assert "<strong>Passed</strong>" in second
    assert all("the gate is not passed" in page for page in others)
    assert "No run is pinned yet" in first
    assert "The pinned run is 2026-11-20 from now on: none was pinned, and 2026-11-21" in second
    assert all("The pinned run is 2026-11-20.<" in page for page in others)


def test_rows_that_are_equal_take_the_scores_of_the_night_before(nights):
    folder, _, rows = nights
    summary = json.loads((folder / "scores" / "2026-11-21" / "_summary.json").read_text())
    assert 0 < summary["reused"] < rows == summary["scored"]
    assert summary["groups"]["number"] == len(SYSTEMS)


def test_a_night_that_is_worse_is_no_measure_of_the_next_until_it_is_accepted(nights):
    folder, _, _ = nights
    page = folder / "pages" / "2026-11-23.html"

    def against():
        found = json.loads(page.with_suffix(".json").read_text())["comparisons"]
        return [name_of(one) for one in found]

    assert against() == ["2026-11-21", "pinned"]
    accepted = folder / "pages" / "2026-11-22.accepted"
    accepted.touch()
    try:
        assert command(folder, "sh", NIGHT, "2026-11-23").returncode == 0
        assert against() == ["2026-11-22"]  # which is pinned, too
        assert "<strong>Passed</strong>" in page.read_text()
        assert "The pinned run is 2026-11-22, which was accepted." in page.read_text()
        pin(folder, "2026-11-20")
        # Worse than the pinned run alone: the page is about that.
        assert command(folder, "sh", NIGHT, "2026-11-23").returncode == 4
        assert against() == ["2026-11-22", "pinned"]
        assert "the gate is not passed" in page.read_text()
    finally:
        accepted.unlink()
        pin(folder, "2026-11-20")


def test_a_night_is_not_repeated_nor_compared_with_itself(nights):
    folder, _, _ = nights
    again = command(folder, "sh", NIGHT, "2026-11-22")
    pinned = command(folder, "sh", NIGHT, "2026-11-20")
    assert (again.returncode, pinned.returncode) == (4, 0)
    first = json.loads((folder / "pages" / "2026-11-20.json").read_text())
    assert first["comparisons"] == []
    compared = json.loads((folder / "pages" / "2026-11-22.json").read_text())["comparisons"]
    assert [name_of(one) for one in compared] == ["2026-11-21", "pinned"]


def test_a_pinned_run_that_is_gone_or_has_other_rows_ends_the_night_with_the_cure(nights):
    folder, _, _ = nights
    rows = pq.read_table(folder / "dumps" / "2026-11-20" / "shard.parquet")
    other = rows.set_column(0, "id", pa.array(range(10**6, 10**6 + len(rows))))
    (folder / "dumps" / "other").mkdir()
    pq.write_table(other, folder / "dumps" / "other" / "shard.parquet")
    how = ("--config", "night.yaml", "--by", "system", "--reuse", "scores/2026-11-20")
    paths = ("--input", "dumps/other", "--output", "scores/other")
    assert command(folder, "bertscore-beam", "score", *how, *paths).returncode == 0
    try:
        for target, words in (
            ("gone", "The run that scores/pinned leads to is gone."),
            ("other", "cannot be compared: got no row with scores on both sides"),
        ):
            pin(folder, target)
            done = command(folder, "sh", NIGHT, "2026-11-21")
            assert done.returncode == 2
            assert words in done.stderr
            assert "ln -sfn 2026-11-20 scores/pinned" in done.stderr
            assert not (folder / "pages" / "2026-11-21.json").exists()
    finally:
        pin(folder, "2026-11-20")
        shutil.rmtree(folder / "scores" / "other")
        assert command(folder, "sh", NIGHT, "2026-11-21").returncode == 0


def test_a_night_that_cannot_work_ends_with_its_status_and_is_not_tried_again(nights):
    folder, _, _ = nights
    missing = command(folder, "sh", NIGHT, "2026-11-30", PAUSE="100")
    assert missing.returncode == 2
    assert "dumps/2026-11-30" in missing.stderr
