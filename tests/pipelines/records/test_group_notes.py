"""Notes of groups in the footers of parts: what they say is what the columns say."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.dump import columns
from bertscore_beam.records.finished import open_finished
from bertscore_beam.records.group_notes import GROUPS_KEY, GroupedBy, note_of, noted_groups
from bertscore_beam.records.groups import (
    group_rows,
    groups_note,
    merge_statistics,
    statistics_of,
    statistics_of_parts,
)
from bertscore_beam.records.record import part_to_bytes
from bertscore_beam.records.records import part_staged
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.publication import staged_parts
from bertscore_core.errors import InputError
from tests.support.made_runs import made_run, scored

BY_SYSTEM = GroupedBy(by=("system",))


def rows_of(systems: list[str | None], per_system: int = 300) -> pa.Table:
    """Return rows with scores, some of them without, in turns of systems."""
    random = np.random.default_rng(0)
    number = per_system * len(systems)
    f1 = random.normal(0.8, 0.05, number)
    f1[random.random(number) < 0.05] = np.nan
    names = pa.array([systems[row % len(systems)] for row in range(number)], pa.string())
    metric = pa.array(random.normal(40, 9, number))
    others = {name: random.normal(0.8, 0.05, number) for name in ("precision", "recall")}
    return scored(f1, **others, system=names, metric_rougel=metric)


@pytest.mark.parametrize("systems", [["a"], ["a", "b", None, ""], ["ä\0", "🥸"]])
@pytest.mark.parametrize("metrics", [(), ("rougel",)])
@pytest.mark.parametrize("by", [(), ("system",), ("system", "absent")])
def test_a_note_says_what_the_columns_say(systems, metrics, by):
    table, how = rows_of(systems), GroupedBy(by=by, metrics=metrics)
    found = noted_groups(groups_note(table, how), how)
    whole = statistics_of(table, by, None, metrics)
    assert found == (whole.groups if by else {(): whole.total})
    for other in (
        replace(how, by=("id",)),
        replace(how, by=(*by, "system")),
        replace(how, language="system"),
        replace(how, metrics=("bleu",)),
    ):
        assert noted_groups(groups_note(table, how), other) is None


def test_a_note_has_a_bound_and_is_text():
    some = groups_note(rows_of(list("abcdefgh"), 2000), BY_SYSTEM)[GROUPS_KEY]
    assert len(some) <= 40 * 1024
    some.decode("ascii")
    for groups, rows in ((150, 40), (201, 1)):
        table = rows_of([str(number) for number in range(groups)], rows)
        assert groups_note(table, BY_SYSTEM) == {}


def test_a_note_that_cannot_be_read_is_none():
    note = groups_note(rows_of(["a"]), BY_SYSTEM)[GROUPS_KEY]
    for damaged in (b"", b"7", note[:-5], note[:200] + b"AAAA" + note[204:], b"\xff" * 40):
        assert noted_groups({GROUPS_KEY: damaged}, BY_SYSTEM) is None
    assert noted_groups({}, BY_SYSTEM) is None
    assert noted_groups(note_of({}, BY_SYSTEM), BY_SYSTEM) == {}


def test_columns_that_make_no_groups_are_left_to_who_reads_them():
    table = scored(np.array([0.5]), system=pa.array([[1.5]]))
    assert groups_note(table, BY_SYSTEM) == {}
    with pytest.raises(InputError):
        statistics_of(table, ["system"])


def test_groups_are_read_from_notes_and_without_them_from_columns(tmp_path):
    tables = {"a.parquet": rows_of(["x", "y"]), "b.parquet": rows_of(["y", "z"])}
    made_run(tmp_path / "run", tables)
    run = open_finished(str(tmp_path / "run"))

    def groups_by(*by: str):
        parts = statistics_of_parts(run.records, folder=run.folder, how=GroupedBy(by=by))
        return group_rows(merge_statistics(parts))

    by_system, by_length = groups_by("system"), groups_by(columns.CANDIDATE_TOKENS)
    assert [row.group for row in by_system] == [(), ("x",), ("y",), ("z",)]
    # One part with a note; its pages are damaged, so that nobody can read its columns.
    record = run.records[0]
    path = tmp_path / "run" / record.part_name
    table = pq.read_table(path)
    data = bytearray(part_to_bytes(table, record, token="", groups=groups_note(table, BY_SYSTEM)))
    place = pq.read_metadata(pa.BufferReader(bytes(data))).row_group(0)
    for number in range(place.num_columns):
        chunk = place.column(number)
        middle = chunk.data_page_offset + chunk.total_compressed_size // 2
        data[middle] ^= 1
    path.write_bytes(data)
    run = replace(run, records=(replace(record, seal=""), *run.records[1:]))
    assert groups_by("system") == by_system
    with pytest.raises(InputError):
        assert groups_by(columns.CANDIDATE_TOKENS) == by_length
    assert OutputFolder(str(tmp_path / "run")).exists(record.part_name)


def test_which_of_two_parts_counts_does_not_depend_on_tokens(tmp_path):
    made_run(tmp_path / "run", {"a.parquet": rows_of(["x", "y"])})
    run, table = open_finished(str(tmp_path / "run")), rows_of(["x", "y"])
    notes = {}, groups_note(table, BY_SYSTEM), groups_note(table, GroupedBy(by=("id",)))
    for tokens in (("1", "2", "3"), ("3", "2", "1")):
        given = zip(notes, tokens, strict=True)
        found = [
            part_staged("_work", "a/0.m", run.records[0], token, note) for note, token in given
        ]
        named = staged_parts(found, "_work/a")
        assert len({name.split("-")[1] for name in found}) == 3
        assert named["0.m"].split("-")[1] == min(name.split("-")[1] for name in found)
