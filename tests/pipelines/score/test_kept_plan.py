"""The plan of a run: which splits it has, and that it is kept for as long as no file changes."""

import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.dump.census import Census
from bertscore_beam.dump.plan import plan_inputs
from bertscore_beam.dump.plan_file import plan_from_bytes
from bertscore_beam.files.read import open_source
from bertscore_beam.run.runner import Runner
from bertscore_beam.score.job import begin_score
from bertscore_beam.score.kept_plan import PLANS_FOLDER
from bertscore_beam.score.prepare import plan_score
from tests.support.dumps import write_dump
from tests.support.jobs import job_options, own, score_arguments
from tests.support.mixed import LANGUAGES, language_options, mixed_table, write_mixed

pytestmark = pytest.mark.job


@pytest.fixture
def opened(monkeypatch):
    """Count how often files are opened to be planned."""
    found = []

    def counted(files, **options):
        found.append(len(files))
        return plan_inputs(files, **options)

    monkeypatch.setattr("bertscore_beam.score.prepare.plan_inputs", counted)
    return found


@pytest.fixture
def read(monkeypatch):
    """Note the name of each input file that is opened, for whatever."""
    found = []

    def noted(path, **options):
        found.append(path.rpartition("/")[2])
        return open_source(path, **options)

    monkeypatch.setattr("bertscore_beam.dump.parquet.open_source", noted)
    return found


def planned(options):
    return plan_score(options, Runner.of(options))


def begun(options):
    """Plan and begin a run; return its plan."""
    ready = planned(options)
    begin_score(ready, own(options.output), lambda words: None)
    return ready.plan


def kept(output):
    return [path.name for path in (output / PLANS_FOLDER).glob("*")]


def test_unchanged_files_are_not_opened_to_be_planned_again(tmp_path, opened):
    dump, output = write_dump(tmp_path / "dump", [30, 30]), tmp_path / "out"
    options = job_options(dump, output)
    first = begun(options)
    assert planned(options).plan == first
    assert opened == [2]
    (name,) = kept(output)
    assert str(tmp_path).encode() not in (output / PLANS_FOLDER / name).read_bytes()
    kept_plan = plan_from_bytes((output / PLANS_FOLDER / name).read_bytes(), name)
    assert [split.path for split in kept_plan.splits][-1] == "1"


def test_whatever_the_plan_depends_on_makes_it_anew(tmp_path, opened):
    dump, output = write_dump(tmp_path / "dump", [30, 30]), tmp_path / "out"
    options = job_options(dump, output)
    begun(options)
    planned(job_options(dump, output, split_rows=10))
    file = dump / "shard-001.parquet"
    data = file.read_bytes()
    file.unlink()
    file.write_bytes(data)
    os.utime(file, (1, 1))
    again = begun(options)
    assert opened == [2] * 3
    assert again.splits[-1].file_version.startswith(f"{file.stat().st_ino}-1000000000-")
    assert len(kept(output)) == 1  # the earlier one is gone
    (output / PLANS_FOLDER / kept(output)[0]).write_bytes(b"damaged")
    assert planned(options).plan == again
    assert opened == [2] * 4


def test_a_plan_with_a_bad_file_is_not_kept(tmp_path, opened):
    dump, output = write_dump(tmp_path / "dump", [30, 30]), tmp_path / "out"
    (dump / "shard-000.parquet").write_bytes(b"no Parquet")
    begun(job_options(dump, output))
    assert kept(output) == []


def by_language(folder, **changes):
    """Return options of a run with a setting for every language, and write its dump."""
    table = mixed_table(60)
    if not (folder / "dump").exists():
        write_mixed(folder / "dump", [table.slice(0, 30), table.slice(30)], row_group_size=5)
    mapping = {"*": {"model": "all-MiniLM-L6-v2"}}
    return language_options(folder / "dump", folder / "out", mapping, **changes)


def test_columns_of_unchanged_files_are_counted_once(tmp_path, read):
    names = ["shard-000.parquet", "shard-001.parquet"]
    options = by_language(tmp_path, group_by=("lang",))
    first = begun(options)
    # Codes in upper case are groups of their own.
    assert first.census == Census(languages=dict.fromkeys(LANGUAGES, 12), num_groups=10)
    # Once to be planned, once to be counted, and once to be looked at for groups.
    assert sorted(read) == sorted(names * 3)
    read.clear()
    again = planned(options)
    assert (again.plan, read) == (first, [])
    for changes, number, times in (({"group_by": ("id", "lang")}, 40, 3), ({}, 0, 2)):
        assert planned(by_language(tmp_path, **changes)).plan.census.num_groups == number
        assert sorted(read) == sorted(names * times)
        read.clear()
    table = mixed_table(30, 1)
    write_mixed(tmp_path / "dump", [table.set_column(3, "lang", [["en"] * 30])])
    changed = begun(options).census
    assert (changed.languages["en"], changed.num_groups) == (36, 10)
    assert sorted(read) == sorted(names * 3)
    read.clear()
    assert planned(options).plan.census == changed
    assert read == []


def test_a_plan_with_uncounted_rows_is_not_kept(tmp_path, read):
    options = by_language(tmp_path)
    file = tmp_path / "dump" / "shard-001.parquet"
    data = bytearray(file.read_bytes())
    group = pq.ParquetFile(file).metadata.row_group(3).column(3)
    data[group.dictionary_page_offset : group.dictionary_page_offset + 20] = b"\xff" * 20
    file.write_bytes(data)
    census = begun(options).census
    assert (census.unread, sum(census.languages.values())) == (1, 40)
    assert kept(tmp_path / "out") == []


# Splits fit the workers, and a folder keeps the cut that it has.


@pytest.fixture
def dump(tmp_path):
    return write_dump(tmp_path / "dump", [1_100], row_group_size=1_100)


def planned_rows(dump, out, *beam, **changes):
    """Return the rows of the splits that a command would make."""
    options = job_options(dump, out, **({"split_rows": "auto", "beam": beam} | changes))
    return [split.num_rows for split in planned(options).plan.splits]


def test_splits_are_cut_for_the_workers(dump, tmp_path):
    out = tmp_path / "out"
    assert planned_rows(dump, out) == [366, 367, 367]
    assert planned_rows(dump, out, workers=4) == [366, 367, 367]
    assert planned_rows(dump, out, split_rows=600, workers=4) == [550, 550]
    remote = ("--runner=PortableRunner", "--job_endpoint=localhost:1")
    assert planned_rows(dump, out, *remote) == [1_100]
    assert planned_rows(dump, out, *remote, "--num_workers=1") == [366, 367, 367]


@pytest.mark.usefixtures("tiny_jobs")
def test_a_folder_keeps_its_cut_though_workers_and_input_change(dump, tmp_path, capsys):
    out = tmp_path / "out"
    flags = score_arguments(dump, tmp_path, "--device", "cpu")
    assert cli.main([*flags, "--split-rows", "600"]) == cli.DONE
    assert json.loads((out / "_run.json").read_text())["split_rows"] == 600
    assert planned_rows(dump, out, workers=4) == [550, 550]
    write_dump(tmp_path / "more", [700], row_group_size=700)
    (tmp_path / "more" / "shard-000.parquet").rename(dump / "more.parquet")
    capsys.readouterr()
    assert cli.main(flags) == cli.DONE
    said = capsys.readouterr()
    assert "(2 earlier)" in said.out
    assert "deleted" not in said.err
    assert json.loads((out / "_run.json").read_text())["split_rows"] == 600


def test_the_plan_and_the_summary_say_what_is_scored_and_what_is_rejected(tmp_path, capsys):
    dump, out = tmp_path / "dump.parquet", tmp_path / "out"
    rows = {"candidate": ["a cat", "", None], "reference": ["a cat", "a dog", "a fish"]}
    pq.write_table(pa.table(rows), dump)
    flags = ["score", "--input", str(dump), "--output", str(out), "--max-reject-fraction", "1"]
    assert cli.main([*flags, "--dry-run"]) == cli.DONE
    assert "of at most 500 rows" in capsys.readouterr().out
    assert cli.main(flags) == cli.DONE
    shown = [line.strip() for line in capsys.readouterr().out.splitlines()]
    summary = json.loads((out / "_summary.json").read_text())
    reasons, rejected = summary["reasons"], summary["rejected_reasons"]
    assert sum(rejected.values()) == summary["rejected"] == summary["rows"] - summary["scored"]
    assert rejected == {"null_candidate": 1}
    assert reasons == {"empty_candidate": 1, **rejected}
    begin, end = shown.index(f"scored: {summary['scored']}"), len(shown)
    middle = shown.index(f"rejected: {summary['rejected']}")
    for reason, number in reasons.items():
        where = shown[middle:end] if reason in rejected else shown[begin:middle]
        assert f"{reason}: {number}" in where
