"""The scores of another night are not replaced in silence; what has only moved or grown is."""

import dataclasses
import os
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.cli.main import main
from bertscore_beam.dump.read_rows import read_split
from bertscore_beam.dump.text.text_source import INPUT_FOLDER
from bertscore_beam.score.show_run import show_summary
from bertscore_core.errors import ConfigError
from tests.support import jobs
from tests.support.dumps import read_output
from tests.support.powers import shut
from tests.support.records import flip_column
from tests.support.text_files import to_jsonl, write_text

pytestmark = [pytest.mark.job, pytest.mark.usefixtures("tiny_jobs")]

NAMES = ("a.parquet", "a.jsonl")
"""Text in other formats is imported to the same rows: see score/test_text_runs.py."""
ROWS = 60
OTHERS = 500_000
"""Number of the first row whose texts no other dump here has."""


def write_night(folder: Path, rows: list[int], name: str = "a.parquet") -> Path:
    """Write a dump of one file, with the rows of these numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    columns = {"candidate": [f"text {n}" for n in rows], "reference": [f"words {n}" for n in rows]}
    if name.endswith(".parquet"):
        pq.write_table(pa.table(columns), folder / name)
    else:
        made = zip(*columns.values(), strict=True)
        write_text(folder / name, to_jsonl([dict(zip(columns, row, strict=True)) for row in made]))
    return folder


def nights(tmp_path: Path, before: list[int], now: list[int], name: str, **changes: Any) -> Any:
    """Score one night, and return the options that score another one into its folder."""
    settings = {"split_rows": 10} | changes
    out = tmp_path / "out"
    first = jobs.job_options(write_night(tmp_path / "first", before, name), out, **settings)
    assert jobs.run_options(first)["success"]
    return jobs.job_options(write_night(tmp_path / "second", now, name), out, **settings)


def content(folder: Path) -> dict[str, bytes]:
    """Return what is in a folder, but for imports of text."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not {INPUT_FOLDER, "imports"} & {*path.parts}
    }


def numbers(first: int, rows: int = ROWS) -> list[int]:
    return list(range(first, first + rows))


def cut_off(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Let writing fail after this number of files."""
    steps, replace = count(), os.replace

    def failing(*names: Any) -> None:
        if next(steps) >= step:
            raise RuntimeError("cut off")
        replace(*names)

    monkeypatch.setattr(os, "replace", failing)


@pytest.mark.parametrize(
    ("name", "rows"), [("a.parquet", ROWS), ("a.parquet", 43), ("a.jsonl", ROWS), ("a.jsonl", 77)]
)
def test_another_night_is_refused_and_nothing_is_touched_until_overwrite(tmp_path, name, rows):
    chosen = nights(tmp_path, numbers(0), numbers(OTHERS, rows), name)
    before = content(tmp_path / "out")
    with pytest.raises(ConfigError, match=r"holds the scores of other texts.*--overwrite"):
        jobs.prepare_score(chosen)
    assert content(tmp_path / "out") == before
    summary = jobs.run_options(dataclasses.replace(chosen, overwrite=True))
    assert (summary["success"], summary["rows"], summary["replaced"]) == (True, rows, ROWS)


def test_scores_that_cannot_be_read_just_now_are_not_said_to_be_of_other_texts(tmp_path):
    chosen = nights(tmp_path, numbers(0), numbers(0), NAMES[0])
    parts = sorted((tmp_path / "out" / NAMES[0]).iterdir())
    with shut(*parts), pytest.raises(PermissionError):
        jobs.prepare_score(chosen)
    assert jobs.run_options(chosen)["success"]


@pytest.mark.parametrize("name", NAMES)
def test_another_night_may_take_the_place_of_one_that_has_published_nothing(
    tmp_path, monkeypatch, name
):
    out = tmp_path / "out"
    first = jobs.job_options(write_night(tmp_path / "first", numbers(0), name), out, split_rows=10)
    job = jobs.start(jobs.prepare_score(first))
    with monkeypatch.context() as patched:
        cut_off(patched, 4)
        with pytest.raises(Exception, match="cut off"):
            jobs.run_prepared(job)
    assert not list(out.glob("a.*/*.parquet"))
    other = write_night(tmp_path / "second", numbers(OTHERS), name)
    summary = jobs.run_options(jobs.job_options(other, out, split_rows=10))
    assert (summary["success"], summary["rows"], summary["parts_kept"]) == (True, ROWS, 0)
    texts = read_output(out)["candidate"].to_pylist()
    assert texts == [f"text {number}" for number in numbers(OTHERS)]


ACCEPTED: dict[str, Callable[[list[int]], list[int]]] = {
    "the same rows": list,
    "rows in another order": lambda rows: rows[::-1],
    "twenty rows others": lambda rows: rows[:40] + numbers(OTHERS, 20),
    "rows behind": lambda rows: rows + numbers(OTHERS, 200),
    "a split and a half of rows before": lambda rows: numbers(OTHERS, 15) + rows,
    "a third of the rows gone": lambda rows: rows[:20] + rows[40:],
}


@pytest.mark.parametrize("name", NAMES)
def test_dump_that_keeps_most_of_its_texts_is_accepted(tmp_path, name):
    chosen = nights(tmp_path, numbers(0), numbers(0), name)
    for changed in ACCEPTED.values():
        write_night(tmp_path / "second", changed(numbers(0)), name)
        job = jobs.prepare_score(chosen)
        assert len(job.diff.to_do) == len(job.planned.plan.splits)
    write_night(tmp_path / "second", numbers(OTHERS), name)
    with pytest.raises(ConfigError, match="other texts"):
        jobs.prepare_score(chosen)


@pytest.mark.parametrize("files", [1, 3])
def test_rows_that_many_parts_have_count_once(tmp_path, files):
    out, rows = tmp_path / "out", [*[7] * 30, *numbers(0, 10)]
    for night in ("first", "second"):
        for number in range(files):
            write_night(tmp_path / night, rows, f"{number}.parquet")
    assert jobs.run_options(jobs.job_options(tmp_path / "first", out, split_rows=10))["success"]
    chosen = jobs.job_options(tmp_path / "second", out, split_rows=10)
    assert len(jobs.prepare_score(chosen).diff.to_do) == 4 * files
    for number in range(files):
        write_night(tmp_path / "second", [7] * 40, f"{number}.parquet")
    with pytest.raises(ConfigError, match="without 9 of 10 rows"):
        jobs.prepare_score(chosen)


def test_few_files_that_are_the_same_do_not_vouch_for_the_others(tmp_path):
    """A part counts for no more rows than it has, though a split of today has more of its file."""
    first, second, out = (tmp_path / name for name in ("first", "second", "out"))
    for file in range(20):
        rows = numbers(5 * file, 5)
        write_night(first, rows, f"{file:02}.parquet")
        now = rows if file < 2 else numbers(OTHERS + 5 * file, 5)
        write_night(second, now, f"{file:02}.parquet")
    assert jobs.run_options(jobs.job_options(first, out, split_rows=1))["success"]
    with pytest.raises(ConfigError, match="without 18 of 20 rows"):
        jobs.prepare_score(jobs.job_options(second, out, split_rows=5))


@pytest.mark.parametrize("kept", [0, 1, 29])
def test_dump_that_has_lost_most_of_its_rows_is_refused(tmp_path, kept):
    chosen = nights(tmp_path, numbers(0), numbers(0, kept), "a.parquet")
    with pytest.raises(ConfigError, match=f"without {ROWS - kept} of {ROWS} rows"):
        jobs.prepare_score(chosen)


def test_rows_that_are_replaced_are_counted_and_shown(tmp_path):
    now = [*numbers(OTHERS, 1), *numbers(1, ROWS - 1)]
    summary = jobs.run_options(nights(tmp_path, numbers(0), now, "a.parquet"))
    assert (summary["replaced"], summary["reused"], summary["parts"]) == (1, 59, 6)
    shown = dict(show_summary(summary, "out").rows)
    assert shown["replaced"] == "1 rows of earlier parts that no longer fitted"


def test_rows_of_a_part_that_stays_since_its_file_is_gone_do_not_count_as_replaced(tmp_path):
    chosen = nights(tmp_path, numbers(0), numbers(0), "a.parquet", split_rows=1_000)
    job = jobs.start(jobs.prepare_score(chosen))
    (tmp_path / "second" / "a.parquet").unlink()
    summary = jobs.run_prepared(job)
    assert (summary["missing_parts"], summary["failed_splits"], summary["replaced"]) == (1, 1, 0)


def test_run_that_replaces_another_night_and_is_stopped_continues(tmp_path, monkeypatch):
    chosen = nights(tmp_path, numbers(0), numbers(OTHERS), "a.parquet")
    chosen = dataclasses.replace(chosen, overwrite=True)
    with monkeypatch.context() as patched:
        cut_off(patched, 6)
        with pytest.raises(Exception, match="cut off"):
            jobs.run_options(chosen)
    assert len(list((tmp_path / "out" / "a.parquet").glob("*.parquet"))) == 6
    summary = jobs.run_options(chosen)
    assert (summary["success"], summary["replaced"]) == (True, ROWS)
    assert summary["parts_kept"] > 0


def test_part_whose_keys_are_damaged_counts_as_one_of_other_texts(tmp_path):
    chosen = nights(tmp_path, numbers(0), numbers(0), "a.parquet")
    parts = sorted((tmp_path / "out" / "a.parquet").iterdir())
    flip_column(parts[0], "bertscore_key")
    assert len(jobs.prepare_score(chosen).diff.to_do) == 6
    for part in parts[1:4]:
        flip_column(part, "bertscore_key")
    with pytest.raises(ConfigError, match=f"without 40 of {ROWS} rows"):
        jobs.prepare_score(chosen)


@pytest.mark.parametrize("rows", [ROWS, 43, 77])
def test_night_whose_rows_cannot_be_read_deletes_nothing(tmp_path, rows):
    chosen = nights(tmp_path, numbers(0), numbers(OTHERS, rows), "a.parquet")
    file = tmp_path / "second" / "a.parquet"
    data = file.read_bytes()
    footer = 8 + int.from_bytes(data[-8:-4], "little")
    file.write_bytes(b"PAR1" + b"\xff" * (len(data) - footer - 4) + data[-footer:])
    before = content(tmp_path / "out")
    with pytest.raises(ConfigError, match=r"got no readable row.*--overwrite"):
        jobs.prepare_score(chosen)
    assert content(tmp_path / "out") == before


def test_twenty_parts_spread_over_the_dump_are_looked_at(tmp_path, monkeypatch):
    chosen = nights(tmp_path, numbers(0, 100), numbers(0, 100), "a.parquet", split_rows=2)
    seen = []

    def noting(split: Any, columns: Any) -> Any:
        seen.append(split.row_offset)
        return read_split(split, columns)

    monkeypatch.setattr("bertscore_beam.records.same_texts.read_split", noting)
    jobs.prepare_score(chosen)
    assert seen == [2 * (number * 50 // 20) for number in range(20)]
    seen.clear()
    (tmp_path / "second" / "a.parquet").unlink()
    jobs.prepare_score(jobs.job_options(tmp_path / "first", tmp_path / "out", split_rows=2))
    assert not seen


@pytest.mark.parametrize("changed", [1, 2])
def test_the_folder_is_accepted_if_most_of_its_files_are_the_same(tmp_path, changed):
    dump, out = tmp_path / "dump", tmp_path / "out"
    for number in range(3):
        write_night(dump, numbers(number * 20, 20), f"{number}.parquet")
    assert jobs.run_options(jobs.job_options(dump, out))["success"]
    for number in range(changed):
        write_night(dump, numbers(OTHERS + number * 20, 20), f"{number}.parquet")
    if changed == 1:
        assert jobs.run_options(jobs.job_options(dump, out))["replaced"] == 20
    else:
        with pytest.raises(ConfigError, match="without 40 of 40 rows"):
            jobs.prepare_score(jobs.job_options(dump, out))


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_command_ends_with_status_2_and_names_the_cure(tmp_path, capsys, more):
    nights(tmp_path, numbers(0), numbers(OTHERS), "a.parquet")
    before = content(tmp_path / "out")
    given = jobs.score_arguments(tmp_path / "second", tmp_path, "--device", "cpu", *more)
    assert main(given) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"without {ROWS} of {ROWS} rows" in said
    assert "use --overwrite to replace the scores" in said
    assert content(tmp_path / "out") == before
    assert main([*given, "--dry-run", "--overwrite"]) == 0
