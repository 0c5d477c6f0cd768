"""The manifest saves requests, and never has the last word: a part does."""

import os
import shutil
from dataclasses import replace

import pytest

from bertscore_beam.records.records import find_parts
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.publication import read_head
from tests.pipelines.records.test_records import PLAN, record_of, write_part
from tests.support.made_runs import publish_by_hand
from tests.support.records import records_in

RECORDS = {split.part_name: record_of(split) for split in PLAN.splits}
NAMES = tuple(RECORDS)


@pytest.fixture
def folder(tmp_path):
    """A folder with parts that the manifest lists."""
    for record in RECORDS.values():
        write_part(str(tmp_path), record)
    publish_by_hand(tmp_path, "first")
    return OutputFolder(str(tmp_path))


def found_in(folder):
    return find_parts(folder, read_head(folder))


def test_a_listed_part_is_not_opened(folder, monkeypatch):
    found = found_in(folder)
    monkeypatch.setattr("bertscore_beam.records.records.read_record", None)
    assert found_in(folder) == found
    assert (found.unverified, found.damaged) == (frozenset(), frozenset())
    assert found.records.keys() == RECORDS.keys()


def test_a_part_that_has_changed_since_is_read_again(folder, tmp_path):
    newer = replace(RECORDS[NAMES[0]], tokenized=7)
    write_part(str(tmp_path), newer)
    os.utime(tmp_path / NAMES[1], ns=(1, 1))
    (tmp_path / NAMES[2]).unlink()
    found = found_in(folder)
    assert found.records[NAMES[0]].tokenized == 7
    assert found.unverified == {NAMES[0], NAMES[1]}
    assert NAMES[2] not in found.records
    noted = [name for name in NAMES for entry in found.entries(name) if entry.note]
    assert noted == [*NAMES[3:]]


def test_parts_of_a_copy_are_all_read(folder, tmp_path):
    copied = shutil.copytree(tmp_path, f"{tmp_path}-copy", copy_function=shutil.copy)
    assert found_in(OutputFolder(copied)).unverified == RECORDS.keys()


@pytest.mark.parametrize("damage", ["cut", "flipped", "gone"])
def test_a_damaged_manifest_costs_only_requests(folder, tmp_path, damage):
    whole = found_in(folder).records
    path = tmp_path / read_head(folder).shards[0]
    data = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        flipped = data[:50] + bytes([data[50] ^ 4]) + data[51:]
        path.write_bytes({"cut": data[:60], "flipped": flipped}[damage])
    found = found_in(folder)
    assert found.records == whole == records_in(tmp_path)
    assert len(found.unverified) == len(RECORDS)
