"""The manifest saves requests, and never has the last word: a part does."""

import gzip
import os
import shutil
from dataclasses import replace

import pytest

from bertscore_beam.records.records import SHARDS_FOLDER, find_parts, write_manifest
from bertscore_beam.run.folder import OutputFolder
from tests.pipelines.records.test_records import PLAN, record_of, write_part
from tests.support.jobs import own

RECORDS = {split.part_name: record_of(split) for split in PLAN.splits}
NAMES = tuple(RECORDS)


@pytest.fixture
def folder(tmp_path):
    """A folder with parts that the manifest lists."""
    for record in RECORDS.values():
        write_part(str(tmp_path), record)
    held = own(tmp_path)
    write_manifest(held, find_parts(held).records)
    return held


def shards_of(folder):
    return sorted(folder.files(SHARDS_FOLDER))


def test_a_listed_part_is_not_opened(folder, monkeypatch):
    found = find_parts(folder)
    monkeypatch.setattr("bertscore_beam.records.records.read_record", None)
    assert find_parts(folder) == found
    assert (found.unverified, found.unreadable) == (frozenset(), frozenset())
    assert found.records.keys() == RECORDS.keys()


def test_a_part_that_has_changed_since_is_read_again(folder, tmp_path):
    newer = replace(RECORDS[NAMES[0]], tokenized=7)
    write_part(str(tmp_path), newer)
    os.utime(tmp_path / NAMES[1], ns=(1, 1))
    (tmp_path / NAMES[2]).unlink()
    found = find_parts(folder)
    assert found.records[NAMES[0]].tokenized == 7
    assert found.unverified == {NAMES[0], NAMES[1]}
    assert NAMES[2] not in found.records
    write_manifest(folder, found.records)
    again = find_parts(folder)
    assert (again.records, again.unverified) == (found.records, frozenset())


def test_parts_of_a_copy_are_listed_for_those_who_only_read(folder, tmp_path):
    copied = OutputFolder(shutil.copytree(tmp_path, f"{tmp_path}-copy", copy_function=shutil.copy))
    assert find_parts(copied).unverified == RECORDS.keys()
    assert find_parts(copied, is_read_only=True) == find_parts(folder)


def test_many_records_take_several_files_of_which_equal_ones_stay(folder, tmp_path, monkeypatch):
    (before,) = shards_of(folder)
    monkeypatch.setattr("bertscore_beam.records.records.SHARD_RECORDS", 2)
    found = find_parts(folder)
    write_manifest(folder, found.records)
    shards = shards_of(folder)
    assert len(shards) == 3
    assert before not in shards
    times = [(tmp_path / SHARDS_FOLDER / name).stat().st_mtime_ns for name in shards]
    write_manifest(folder, found.records)
    assert [(tmp_path / SHARDS_FOLDER / name).stat().st_mtime_ns for name in shards] == times
    write_part(str(tmp_path), replace(RECORDS[NAMES[-1]], tokenized=1))
    write_manifest(folder, find_parts(folder).records)
    assert len({*shards} & {*shards_of(folder)}) == 2


@pytest.mark.parametrize("damage", ["cut", "flipped", "a line", "gone"])
def test_a_damaged_manifest_costs_only_requests(folder, tmp_path, damage):
    whole = find_parts(folder).records
    path = tmp_path / SHARDS_FOLDER / shards_of(folder)[0]
    data = path.read_bytes()
    lines = gzip.decompress(data).splitlines()
    lines[1] = lines[1].replace(b"a.parquet", b"b.parquet")
    if damage == "gone":
        path.unlink()
    else:
        flipped = data[:50] + bytes([data[50] ^ 4]) + data[51:]
        bad = {"cut": data[:60], "flipped": flipped, "a line": gzip.compress(b"\n".join(lines))}
        path.write_bytes(bad[damage])
    found = find_parts(folder)
    assert found.records == whole
    assert len(found.unverified) == (1 if damage == "a line" else len(RECORDS))
