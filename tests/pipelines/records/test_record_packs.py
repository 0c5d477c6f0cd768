"""Packed records: what counts where a record is in several files, and what is left of each step."""

import gzip
import json
from contextlib import suppress
from dataclasses import replace
from itertools import count

import pytest

from bertscore_beam.records.record import PARTS_FOLDER, record_path
from bertscore_beam.records.records import (
    PACKS_FOLDER,
    find_records,
    pack_records,
    read_records,
    write_pack,
)
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.lock import FolderLostError, RunLock
from tests.pipelines.records.test_records import PLAN, record_of, write_record
from tests.support.jobs import own

RECORDS = {split.part_name: record_of(split) for split in PLAN.splits}
NAMES = tuple(RECORDS)


def keep(folder, gone=(), unsure=()):
    pack_records(folder, find_records(folder), gone=gone, unsure=unsure)


def packed(root):
    """Return a folder whose records are packed, as a run has found them at its start."""
    folder = own(root)
    for record in RECORDS.values():
        write_record(str(root), record)
    keep(folder)
    return folder


def packs_of(folder):
    return list(folder.files(PACKS_FOLDER))


def test_many_records_take_several_packs(tmp_path, monkeypatch):
    monkeypatch.setattr("bertscore_beam.records.records.PACK_RECORDS", 2)
    folder = packed(tmp_path)
    assert 1 < len(packs_of(folder)) <= 3
    assert read_records(folder) == RECORDS


def test_a_single_record_counts_instead_of_a_packed_one(tmp_path):
    folder = packed(tmp_path)
    newer = replace(RECORDS[NAMES[0]], part_bytes=99)
    write_record(str(tmp_path), newer)
    assert read_records(folder)[NAMES[0]] == newer
    keep(folder)
    assert read_records(folder) == RECORDS | {NAMES[0]: newer}
    assert packs_of(folder) == ["00000002-00000.jsonl.gz"]
    (tmp_path / record_path(NAMES[1])).parent.mkdir(parents=True)
    (tmp_path / record_path(NAMES[1])).write_bytes(b"{")
    assert NAMES[1] not in read_records(folder)  # nothing vouches for its part


def test_parts_that_may_change_leave_the_packs(tmp_path):
    folder = packed(tmp_path)
    gone, unsure = NAMES[0], NAMES[1]
    keep(folder, [gone], [unsure, "new"])
    assert read_records(folder) == {name: RECORDS[name] for name in NAMES if name != gone}
    (pack,) = (tmp_path / PACKS_FOLDER).iterdir()
    lines = gzip.decompress(pack.read_bytes()).splitlines()
    assert {json.loads(line)["part_name"] for line in lines} == set(NAMES[2:])
    assert (tmp_path / record_path(unsure)).read_bytes() == RECORDS[unsure].to_json()
    before = (tmp_path / record_path(unsure)).stat().st_mtime_ns
    keep(folder, [gone], [unsure])
    assert (tmp_path / record_path(unsure)).stat().st_mtime_ns == before
    keep(folder)
    assert read_records(folder) == {name: RECORDS[name] for name in NAMES if name != gone}
    assert folder.files(PARTS_FOLDER) == {}


def test_generations_are_put_together(tmp_path):
    """Versions that packed what a run had written by itself have left several."""
    folder = packed(tmp_path)
    before = packs_of(folder)
    keep(folder)
    assert packs_of(folder) == before
    newer = replace(RECORDS[NAMES[0]], part_name="c.parquet/part-000000000002.parquet")
    write_pack(folder, 2, 0, [newer.to_json()])
    keep(folder)
    assert packs_of(folder) == ["00000003-00000.jsonl.gz"]
    assert len(read_records(folder)) == len(RECORDS) + 1


def test_unpacking_that_is_cut_off_anywhere_loses_no_record(tmp_path, monkeypatch):
    """Each change is preceded by a look at the lock, where the run may end."""
    for number in count():
        folder = packed(tmp_path / str(number))
        found, left = find_records(folder), iter(range(number))

        def check(lock, left=left):
            if next(left, None) is None:
                raise FolderLostError("the folder is lost")

        with monkeypatch.context() as patched, suppress(FolderLostError):
            patched.setattr(RunLock, "check", check)
            pack_records(folder, found, gone=NAMES[:1], unsure=NAMES[1:2])
        now = read_records(folder)
        # The record of a part that is deleted may stay, and says nothing then.
        assert {name for name in NAMES if now.get(name) != RECORDS[name]} <= {NAMES[0]}
        if next(left, None) is not None:
            break
    assert number >= 4


@pytest.mark.parametrize("packs", [1, len(RECORDS)])
def test_records_that_move_while_they_are_read_are_not_lost(tmp_path, monkeypatch, packs):
    """Another process packs the records before one look into the folder, each of them in turn.

    Some or all of them are packed already: it may have been cut off when it deleted the singles.
    """
    lines = [record.to_json() for record in RECORDS.values()]
    for turn in count():
        folder, looks = own(tmp_path / str(turn)), count()
        write_pack(folder, 1, 0, lines[:packs])
        for record in RECORDS.values():
            write_record(folder.root, record)
        with monkeypatch.context() as patched:

            def look(original, *given, now=(folder, turn, looks, patched.undo)):
                folder, turn, looks, undo = now
                if next(looks) == turn:
                    undo()
                    keep(folder)
                return original(*given)

            for name in ("files", "read_each"):
                original = getattr(OutputFolder, name)
                patched.setattr(OutputFolder, name, lambda *given, one=original: look(one, *given))
            found = find_records(folder)
        assert found.records == RECORDS
        assert read_records(folder) == RECORDS
        if next(looks) <= turn:
            break
    assert turn >= 2


def test_a_damaged_pack_holds_nothing(tmp_path):
    folder = packed(tmp_path)
    (pack,) = (tmp_path / PACKS_FOLDER).iterdir()
    for damage in (b"", b"no gzip", pack.read_bytes()[:-9]):
        pack.write_bytes(damage)
        assert read_records(folder) == {}
    whole = RECORDS[NAMES[0]]
    pack.write_bytes(gzip.compress(b"{\n" + whole.to_json()))  # a line is no record
    assert read_records(folder) == {NAMES[0]: whole}
