"""The plan that a run keeps: it is that of the files, for as long as none of them changes."""

import os

import pyarrow.parquet as pq
import pytest

from bertscore_beam.dump import Census, parquet
from bertscore_beam.run import Runner
from bertscore_beam.score import PLANS_FOLDER, begin_score, plan_score, prepare
from tests.support.dumps import write_dump
from tests.support.jobs import job_options, own
from tests.support.mixed import LANGUAGES, language_options, mixed_table, write_mixed

pytestmark = pytest.mark.job


@pytest.fixture
def opened(monkeypatch):
    """Count how often files are opened to be planned."""
    found, plan_inputs = [], prepare.plan_inputs

    def counted(files, **options):
        found.append(len(files))
        return plan_inputs(files, **options)

    monkeypatch.setattr(prepare, "plan_inputs", counted)
    return found


@pytest.fixture
def read(monkeypatch):
    """Note the name of each input file that is opened, for whatever."""
    found, open_source = [], parquet.open_source

    def noted(path, **options):
        found.append(path.rpartition("/")[2])
        return open_source(path, **options)

    monkeypatch.setattr(parquet, "open_source", noted)
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
    assert pq.ParquetFile(output / PLANS_FOLDER / name).read()["path"].to_pylist()[-1] == "1"


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
