import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.dump import parquet
from bertscore_beam.dump.digests import RowDigests
from bertscore_beam.dump.plan import Plan
from bertscore_beam.dump.splits import RowGroup, Split, plan_file
from bertscore_beam.files.paths import join
from bertscore_beam.files.write import write_atomically
from bertscore_beam.records.record import (
    RECORD_KEY,
    PartRecord,
    is_whole,
    part_to_bytes,
    record_from_json,
)
from bertscore_beam.records.records import FoundParts, find_parts
from bertscore_beam.records.resume import compare_with_plan
from bertscore_beam.run.folder import RUN_FILE, OutputFolder
from bertscore_beam.run.identity import check_same_run, read_same_command
from bertscore_core.errors import SignatureError
from bertscore_core.stats.score_statistics import ScoreSummary
from bertscore_core.sums import exact_sums

DIGEST = "0123456789abcdef"
IDF = "1d1d1d1d1d1d1d1d"
IDENTITY = {"model": "tiny", "num_layers": "3", "idf": "none"}


def splits_of(name: str, rows: int, target_rows: int = 10) -> list[Split]:
    blank = Split(path=f"/in/{name}", input_name=name, file_size=rows * 7, file_version="v1")
    group = RowGroup(num_rows=rows, num_bytes=rows)
    return plan_file(blank, [group], target_rows=target_rows, target_bytes=10**9)


def plan_of(*splits: Split) -> Plan:
    return Plan(splits=splits, rejected_files=(), split_rows=20, digest="d")


PLAN = plan_of(*splits_of("a.parquet", 30), *splits_of("sub dir/b.parquet", 20))
SPLIT = PLAN.splits[0]


def record_of(split: Split, job_digest: str = DIGEST, idf: str = IDF) -> PartRecord:
    summary = ScoreSummary(
        rows=split.num_rows,
        scored=split.num_rows - 1,
        sums=exact_sums(np.array([[1.25, 1 / 3, 0.1]]), np.zeros(1, dtype=np.int64), 1)[0],
        truncated=2,
        reasons={"null_reference": 1},
    )
    return PartRecord.of(
        split,
        digests=RowDigests(references="r", rows="all"),
        job_digest=job_digest,
        idf=idf,
        summary=summary,
    )


def put(output: str, name: str, data: bytes = b"12345") -> None:
    write_atomically(join(output, name), data)


ROWS = pa.table({"a": [1, 2, 3]})
TOKEN = "0" * 16


def write_part(output: str, record: PartRecord, table: pa.Table = ROWS) -> None:
    put(output, record.part_name, part_to_bytes(table, record, token=TOKEN))


def found_in(output: str) -> FoundParts:
    return find_parts(OutputFolder(output), None)


def held(*given: PartRecord | None) -> FoundParts:
    records = {record.part_name: record for record in given if record is not None}
    return FoundParts(records=records)


def stated(record: PartRecord) -> PartRecord:
    """Return what a footer says, without what is known of its file."""
    return replace(record, part_bytes=0, seal="")


def test_records_are_read_back_by_part_name_from_footers(output):
    made = [record_of(split) for split in PLAN.splits]
    for record in made:
        write_part(output, record)
        assert record_from_json(record.to_json()) == record
    found = found_in(output)
    assert {name: stated(one) for name, one in found.records.items()} == {
        record.part_name: record for record in made
    }
    assert found.unverified == found.records.keys()
    for record in found.records.values():
        data = part_to_bytes(ROWS, stated(record), token=TOKEN)
        assert (record.part_bytes, len(record.seal)) == (len(data), 32)
        assert is_whole(OutputFolder(output), replace(record, num_rows=len(ROWS)))


def test_a_part_that_was_made_of_a_part_has_its_own_record_alone(output):
    first, second = (record_of(split) for split in PLAN.splits[:2])
    write_part(output, first)
    table = pq.read_table(pa.BufferReader(part_to_bytes(ROWS, first, token=TOKEN)))
    write_part(output, second, table)
    assert stated(found_in(output).records[second.part_name]) == second


WHOLE = record_of(PLAN.splits[0]).to_json()


def mangled(**changes: object) -> bytes:
    return json.dumps(json.loads(WHOLE) | changes).encode()


def with_sums(**changes: object) -> bytes:
    summary = json.loads(WHOLE)["summary"]
    return mangled(summary={**summary, "sums": {**summary["sums"], **changes}})


BROKEN_RECORDS = {
    "torn": WHOLE[: len(WHOLE) // 2],
    "empty": b"",
    "list": b"[]",
    "not UTF-8": b"\xff\xfe{}",
    "unknown field": mangled(surprise=1),
    "missing field": b'{"part_name": "x"}',
    "summary is no mapping": mangled(summary=None),
    "deep nonsense": b"[" * 100_000,
    "more places than memory": with_sums(places=10**12),
    "negative places": with_sums(places=-1),
    "two sums": with_sums(steps=[1, 2]),
    "sums beyond a double": with_sums(steps=[0, 10**999, 0]),
    "sums that are no whole numbers": with_sums(steps=[0, 0.5, 0]),
    "sums that are no list": with_sums(steps="012"),
    "of another part": mangled(part_name="b.parquet/part-000000000000.parquet"),
}


@pytest.mark.parametrize("data", BROKEN_RECORDS.values(), ids=BROKEN_RECORDS.keys())
def test_broken_record_counts_as_absent(tmp_path, data):
    assert data != WHOLE
    name, output = PLAN.splits[0].part_name, str(tmp_path)
    write_part(output, record_of(PLAN.splits[1]))
    put(output, name, parquet.write_part(ROWS, notes={RECORD_KEY: data}))
    found = found_in(output)
    assert list(found.records) == [PLAN.splits[1].part_name]
    assert found.damaged == {name}


def test_every_flipped_bit_of_a_part_is_noticed_or_in_no_byte_that_is_read(tmp_path):
    """Its footer has a seal, its pages have checksums."""
    folder, record = OutputFolder(str(tmp_path)), replace(record_of(SPLIT), num_rows=len(ROWS))
    whole = part_to_bytes(ROWS, record, token=TOKEN)
    length = int.from_bytes(whole[-8:-4], "little")
    unnoticed = []
    for bit in range(0, 8 * len(whole), 3):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        put(folder.root, SPLIT.part_name, bytes(data))
        found = find_parts(folder, None).records.get(SPLIT.part_name)
        if found is None or not is_whole(folder, found):
            continue
        unnoticed.append(bit // 8)
        assert pq.read_table(folder.path(SPLIT.part_name)).column(0).to_pylist() == [1, 2, 3]
    assert unnoticed
    assert max(unnoticed) < len(whole) - 8 - length  # in headers of pages, or before them


def test_a_listing_leaves_the_bookkeeping_and_other_files_out(output):
    write_part(output, record_of(PLAN.splits[0]))
    gone = replace(record_of(PLAN.splits[0]), part_name="gone.parquet/part-000000000000.parquet")
    write_part(output, gone)
    other, third = (f"gone.parquet/part-{number:012d}.parquet" for number in (1, 2))
    put(output, other, parquet.write_part(ROWS))
    put(output, third, b"no Parquet")
    for name in ("_manifest/plan.pq", "_rejects/x.parquet", "_SUCCESS"):
        put(output, name)
    renamed = "gone.parquet/mine.parquet"
    put(output, renamed, part_to_bytes(ROWS, gone, token=TOKEN))
    found = found_in(output)
    assert found.records.keys() == {PLAN.splits[0].part_name, gone.part_name}
    assert found.damaged == {other, third}


def test_nothing_is_read_of_parts_whose_records_are_known(output):
    put(output, SPLIT.part_name, b"no Parquet")
    assert find_parts(OutputFolder(output), None).damaged == {SPLIT.part_name}
    assert find_parts(OutputFolder(output), None, [record_of(SPLIT)]).damaged == set()


@pytest.mark.parametrize("mark", ["_run.json", "_manifest/plan.pq"])
def test_parts_in_the_folder_of_another_run_are_not_ours(output, mark):
    part = PLAN.splits[0].part_name
    for name in (part, f"other/{part}", f"other/deeper/{part}", f"third/{part}"):
        write_part(output, replace(record_of(PLAN.splits[0]), part_name=name))
    put(output, f"other/{mark}")
    put(output, mark)
    assert found_in(output).records.keys() == {part, f"third/{part}"}


UNKNOWN = replace(SPLIT, file_version="")


def test_finished_splits_are_not_to_do():
    made = [record_of(split) for split in PLAN.splits[1:4]]
    bad = frozenset({PLAN.splits[0].part_name})
    found = replace(held(*made), damaged=bad)
    diff = compare_with_plan(PLAN, found, DIGEST, IDF, {})
    assert diff.to_do == (PLAN.splits[0], PLAN.splits[4])
    assert diff.done == PLAN.splits[1:4]
    assert diff.left == ()
    assert compare_with_plan(PLAN, held(), DIGEST, IDF, {}).to_do == PLAN.splits


WORTH = {
    "the same": (SPLIT, record_of(SPLIT), IDF, True),
    "another idf table": (SPLIT, record_of(SPLIT, idf="other"), IDF, False),
    "another signature": (SPLIT, record_of(SPLIT, job_digest="other"), IDF, False),
    "another size": (replace(SPLIT, file_size=1), record_of(SPLIT), IDF, False),
    "another version": (replace(SPLIT, file_version="v2"), record_of(SPLIT), IDF, False),
    "more rows in the file": (replace(SPLIT, file_rows=31), record_of(SPLIT), IDF, False),
    "another length": (replace(SPLIT, num_rows=9), record_of(SPLIT), IDF, False),
    "another part": (SPLIT, record_of(PLAN.splits[1]), IDF, False),
    "no record": (SPLIT, None, IDF, False),
    "no version": (UNKNOWN, record_of(UNKNOWN), IDF, False),
    "an idf table to be counted": (SPLIT, record_of(SPLIT), None, False),
}
"""A split, a record, an idf table; whether the split is done."""


@pytest.mark.parametrize(("split", "record", "idf", "done"), WORTH.values(), ids=WORTH)
@pytest.mark.parametrize("is_listed", [True, False])
def test_a_split_is_done_if_its_part_is_of_it_and_listed_as_it_is(
    split, record, idf, done, is_listed
):
    plan, found = plan_of(split), held(record)
    if not is_listed:  # it has changed since: it is read to its end
        found = replace(found, unverified=frozenset(found.records))
    diff = compare_with_plan(plan, found, DIGEST, idf, {})
    assert (diff.done, diff.to_do) == (((split,), ()) if done and is_listed else ((), (split,)))
    end = compare_with_plan(plan, found, DIGEST, idf, {}, made=[split.part_name])
    assert (end.done, end.to_do) == ((split,), ())  # its worker has seen to it


def test_parts_that_are_cut_elsewhere_now_are_of_no_split_and_do_not_stay():
    wider = plan_of(*splits_of("a.parquet", 30, 15), *splits_of("sub dir/b.parquet", 20))
    diff = compare_with_plan(wider, held(*map(record_of, PLAN.splits)), DIGEST, IDF, {})
    assert [split.input_name for split in diff.done] == ["sub dir/b.parquet"] * 2
    assert diff.left == ()


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff"])
def test_damaged_run_file_is_an_error_with_a_cure(tmp_path, data):
    put(str(tmp_path), RUN_FILE, data)
    folder = OutputFolder(str(tmp_path))
    with pytest.raises(SignatureError, match=r"_run.json .* is damaged.*--overwrite"):
        read_same_command(folder, IDENTITY, may_be_damaged=False)
    assert read_same_command(folder, IDENTITY, may_be_damaged=True) is None


def test_run_with_another_identity_is_refused_and_the_difference_is_named():
    before = {"model": "tiny", "num_layers": "5", "language": "en"}
    with pytest.raises(SignatureError) as caught:
        check_same_run({"identity": before}, IDENTITY)
    assert "num_layers: '5' there, '3' now" in str(caught.value)
    assert "idf: None there, 'none' now" in str(caught.value)
    assert "language: 'en' there, None now" in str(caught.value)
    assert "model" not in str(caught.value)
    assert "--overwrite" in str(caught.value)


@pytest.mark.parametrize("run", [{}, {"identity": None}, {"identity": "nonsense"}])
def test_run_that_does_not_say_what_it_was_is_refused(run):
    with pytest.raises(SignatureError, match="got no identity; expected what an earlier run"):
        check_same_run(run, IDENTITY)


def test_parts_of_each_kind_are_told_from_each_other():
    """One of each kind: done, of other texts, gone, not planned, of an input that is gone."""
    splits = splits_of("a.parquet", 400)
    plan = plan_of(*splits, *splits_of("b.parquet", 20))
    others = [*splits_of("b.parquet", 20, 4)[1:], *splits_of("c.parquet", 20)]
    all_of = [
        record_of(split, idf=IDF if number not in (3, 5) else "other")
        for number, split in enumerate([*splits[:30], *others])
    ]
    changed = [
        replace(one, file_version="v0") if number == 9 else one for number, one in enumerate(all_of)
    ]
    there = replace(held(*changed[1:-1]), damaged=frozenset({splits[33].part_name}))
    diff = compare_with_plan(plan, there, DIGEST, IDF, {})
    done = [place for place in range(30) if place not in (0, 3, 5, 9)]
    assert diff.done == tuple(splits[place] for place in done)
    assert diff.to_do == tuple(split for split in plan.splits if split not in diff.done)
    assert diff.left == (all_of[34].part_name,)
