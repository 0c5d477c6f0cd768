import hashlib
import json
from collections.abc import Collection
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from bertscore_beam.dump.digests import RowDigests
from bertscore_beam.dump.parquet import write_part
from bertscore_beam.dump.plan import Plan
from bertscore_beam.dump.splits import RowGroup, Split, plan_file
from bertscore_beam.files.checked import from_json
from bertscore_beam.files.paths import join
from bertscore_beam.files.read import exists
from bertscore_beam.files.write import write_atomically
from bertscore_beam.records.record import PartRecord, packed_rows, record_from_json, record_path
from bertscore_beam.records.records import list_parts, read_records
from bertscore_beam.records.resume import compare_with_plan
from bertscore_beam.records.summary import Totals
from bertscore_beam.run.folder import RUN_FILE, OutputFolder
from bertscore_beam.run.identity import check_same_run, read_same_command
from bertscore_core.errors import SignatureError
from bertscore_core.stats.scores import ScoreSummary, sums_of_scores
from bertscore_core.work import Work

DIGEST = "0123456789abcdef"
IDF = "1d1d1d1d1d1d1d1d"
IDENTITY = {"model": "tiny", "num_layers": "3", "idf": "none"}


def splits_of(name: str, rows: int, target_rows: int = 10) -> list[Split]:
    blank = Split(
        path=f"/in/{name}", input_name=name, file_rows=None, file_size=rows * 7, file_version="v1"
    )
    group = RowGroup(num_rows=rows, num_bytes=rows)
    return plan_file(blank, [group], target_rows=target_rows, target_bytes=10**9)


def plan_of(*splits: Split) -> Plan:
    return Plan(splits=splits, rejected_files=(), split_rows=20, digest="d")


PLAN = plan_of(*splits_of("a.parquet", 30), *splits_of("sub dir/b.parquet", 20))
SPLIT = PLAN.splits[0]


def record_of(
    split: Split, job_digest: str = DIGEST, part_bytes: int = 5, idf: str = IDF
) -> PartRecord:
    summary = ScoreSummary(
        rows=split.num_rows,
        scored=split.num_rows - 1,
        sums=sums_of_scores(np.float32([[1.25], [1.0 / 3.0], [0.1]]), np.float32([0.1])),
        truncated=2,
        reasons={"null_reference": 1},
    )
    return PartRecord.of(
        split,
        digests=RowDigests(candidates="c", references="r", rows="all"),
        job_digest=job_digest,
        idf=idf,
        summary=summary,
        seconds=0.5,
        work=Work(batches=2, tokens=90, padded_tokens=100, busy_seconds=0.25),
        part_bytes=part_bytes,
    )


def put(output: str, name: str, data: bytes = b"12345") -> None:
    write_atomically(join(output, name), data)


def write_record(output: str, record: PartRecord) -> None:
    put(output, record_path(record.part_name), record.to_json())


def part_sizes(output: str, known: Collection[str]) -> dict[str, int]:
    folder = OutputFolder(output)
    return list_parts(folder, known)[0]


def held(*given: PartRecord | None) -> dict[str, PartRecord]:
    return {record.part_name: record for record in given if record is not None}


def test_records_are_read_back_by_part_name(output):
    made = [record_of(split) for split in PLAN.splits]
    for record in made:
        write_record(output, record)
        assert record_from_json(record.to_json()) == record
    assert read_records(OutputFolder(output)) == {record.part_name: record for record in made}
    digest = hashlib.sha256(b"a.parquet").hexdigest()[:32]
    assert exists(join(output, f"_manifest/parts/{digest}/part-000000000010.json"))


@pytest.mark.parametrize("damage", ["~", "00", "cn", packed_rows(np.arange(10) < 4)])
def test_damaged_marks_of_reused_rows_say_nothing(damage):
    chosen = np.arange(10) % 3 == 0
    sound = replace(record_of(SPLIT), reused=4, reused_rows=packed_rows(chosen))
    assert sound.is_reused.tolist() == chosen.tolist()
    assert replace(sound, reused=5, reused_rows=damage).is_reused is None


def mangled(**changes: object) -> bytes:
    fields = from_json(record_of(PLAN.splits[0]).to_json())  # without its digest
    fields.update(changes)
    return json.dumps(fields).encode()


WHOLE = record_of(PLAN.splits[0]).to_json()


def with_sums(**changes: object) -> bytes:
    summary = json.loads(WHOLE)["summary"]
    return mangled(summary={**summary, "sums": {**summary["sums"], **changes}})


BROKEN_RECORDS = {
    "torn": WHOLE[: len(WHOLE) // 2],
    "empty": b"",
    "list": b"[]",
    "not UTF-8": b"\xff\xfe{}",
    "other format": mangled(format=99),
    "unknown field": mangled(surprise=1),
    "missing field": json.dumps({"format": 1, "part_name": "x"}).encode(),
    "summary is no mapping": mangled(summary=None),
    "deep nonsense": b"[" * 100_000,
    "more places than memory": with_sums(places=10**12),
    "negative places": with_sums(places=-1),
    "two sums": with_sums(steps=[1, 2]),
    "sums beyond a double": with_sums(steps=[0, 10**999, 0]),
    "sums that are no whole numbers": with_sums(steps=[0, 0.5, 0]),
    "sums that are no list": with_sums(steps="012"),
}


@pytest.mark.parametrize("data", BROKEN_RECORDS.values(), ids=BROKEN_RECORDS.keys())
def test_broken_record_counts_as_absent(tmp_path, data):
    assert record_from_json(data) is None
    write_record(str(tmp_path), record_of(PLAN.splits[1]))
    put(str(tmp_path), record_path(PLAN.splits[0].part_name), data)
    assert list(read_records(OutputFolder(str(tmp_path)))) == [PLAN.splits[1].part_name]


OURS = write_part(
    pa.table({"a": [1]}).replace_schema_metadata({"bertscore.signature": "bertscore|..."})
)


def test_part_sizes_leave_the_bookkeeping_out(output):
    write_record(output, record_of(PLAN.splits[0]))
    names = {split.part_name for split in PLAN.splits}
    for name in ("_manifest/plan.pq", "_rejects/x.parquet", "_SUCCESS", *names):
        put(output, name)
    assert part_sizes(output, names) == dict.fromkeys(names, 5)


def test_part_without_record_is_ours_by_its_signature(output):
    """A run may be killed between a part and its record, and its input may then be gone."""
    name, other, third = (f"gone.parquet/part-{number:012d}.parquet" for number in range(3))
    put(output, name, OURS)
    put(output, other, write_part(pa.table({"a": [1]})))
    put(output, third, b"no Parquet")
    put(output, "gone.parquet/mine.parquet", OURS)
    assert list(part_sizes(output, ())) == [name]


@pytest.mark.parametrize("mark", ["_run.json", "_manifest/plan.pq"])
def test_parts_in_the_folder_of_another_run_are_not_ours(output, mark):
    part = f"a.parquet/part-{0:012d}.parquet"
    for name in (part, f"other/{part}", f"other/deeper/{part}", f"third/{part}"):
        put(output, name, OURS)
    put(output, f"other/{mark}")
    put(output, mark)
    assert part_sizes(output, {f"other/{part}"}).keys() == {part, f"third/{part}"}


UNKNOWN = replace(SPLIT, file_version="")
SIZES = {split.part_name: 5 for split in PLAN.splits}


def test_finished_splits_are_not_pending():
    made = [record_of(split) for split in PLAN.splits[1:4]]
    diff = compare_with_plan(PLAN, held(*made), SIZES, DIGEST, IDF, {})
    assert diff.pending == (PLAN.splits[0], PLAN.splits[4])
    assert diff.done == PLAN.splits[1:4]
    assert diff.carried == Totals.merge(map(Totals.of_record, made))
    assert diff.outdated == (PLAN.splits[0].part_name, PLAN.splits[4].part_name)
    assert diff.stale == diff.orphans == ()
    assert compare_with_plan(PLAN, held(), SIZES, DIGEST, IDF, {}).pending == PLAN.splits


DONE, UNSURE, PENDING = range(3)
WORTH = {
    "the same": (SPLIT, record_of(SPLIT), IDF, DONE, True),
    "another idf table": (SPLIT, record_of(SPLIT, idf="other"), IDF, PENDING, False),
    "another signature": (SPLIT, record_of(SPLIT, job_digest="other"), IDF, PENDING, False),
    "another size": (replace(SPLIT, file_size=1), record_of(SPLIT), IDF, UNSURE, False),
    "another version": (replace(SPLIT, file_version="v2"), record_of(SPLIT), IDF, UNSURE, False),
    "more rows in the file": (replace(SPLIT, file_rows=31), record_of(SPLIT), IDF, UNSURE, False),
    "another length": (replace(SPLIT, num_rows=9), record_of(SPLIT), IDF, PENDING, False),
    "another part": (SPLIT, record_of(PLAN.splits[1]), IDF, PENDING, False),
    "no record": (SPLIT, None, IDF, PENDING, False),
    "no version": (UNKNOWN, record_of(UNKNOWN), IDF, UNSURE, True),
    "an idf table to be counted": (SPLIT, record_of(SPLIT), None, UNSURE, False),
}
"""A split, a record, an idf table; what the part is at the start of a run, if valid at its end."""


@pytest.mark.parametrize(("split", "record", "idf", "state", "valid"), WORTH.values(), ids=WORTH)
@pytest.mark.parametrize("size", [5, 4, None])  # whole, torn, gone
def test_part_is_compared_or_scored_again_after_a_change(split, record, idf, state, valid, size):
    sizes = {} if size is None else {SPLIT.part_name: size}
    plan, state = plan_of(split), state if size == 5 else PENDING
    diff = compare_with_plan(plan, held(record), sizes, DIGEST, idf, {})
    found = (diff.done, diff.unsure, diff.pending)
    assert found == tuple((split,) if number == state else () for number in range(3))
    is_there = bool(sizes) or getattr(record, "part_name", None) == split.part_name
    assert diff.outdated == ((split.part_name,) if state == PENDING and is_there else ())
    end = compare_with_plan(plan, held(record), sizes, DIGEST, idf, {}, at_end=True)
    assert (end.done == (split,)) is (valid and size == 5)


def test_parts_that_are_cut_elsewhere_now_are_stale_and_not_orphans():
    wider = plan_of(*splits_of("a.parquet", 30, 15), *splits_of("sub dir/b.parquet", 20))
    diff = compare_with_plan(wider, held(), SIZES, DIGEST, IDF, {})
    assert diff.stale == tuple(f"a.parquet/part-0000000000{row}.parquet" for row in (10, 20))
    assert diff.orphans == ()


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
        record_of(split, part_bytes=5 + (number == 3), idf=IDF if number != 5 else "other")
        for number, split in enumerate([*splits[:30], *others])
    ]
    changed = [
        replace(one, file_version="v0") if number == 9 else one for number, one in enumerate(all_of)
    ]
    sizes = {record.part_name: 5 for record in changed[1:-1]} | {splits[33].part_name: 5}
    once, end = (
        compare_with_plan(plan, held(*changed), sizes, DIGEST, IDF, {}, at_end=ended)
        for ended in (False, True)
    )
    assert once.carried.summary.rows == 26 * 10
    assert (len(once.done), len(once.unsure), len(once.stale), len(once.orphans)) == (26, 1, 4, 1)
    assert once.rows_at_risk == 10 * 3 + sum(record.num_rows for record in all_of[30:34])
    assert end.stale == once.stale
    assert end.done == tuple(splits[place] for place in range(30) if place not in (0, 3, 5, 9))
    assert end.rows_at_risk == 3 * 10
