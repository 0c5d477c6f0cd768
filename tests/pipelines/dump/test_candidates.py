"""Rows with several candidates: what each becomes, and which columns are refused."""

import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from bertscore_beam.dump.candidates import check_candidates, explode_candidates, input_rows
from bertscore_beam.dump.columns import CANDIDATE, CANDIDATE_FROM, SCHEMA_KEY, TableFields
from bertscore_beam.dump.parquet import read_layout
from bertscore_beam.dump.reasons import Reason
from bertscore_beam.dump.texts import Rows
from bertscore_core.errors import InputError
from tests.support.dumps import pair_rows
from tests.support.tables import PAIRS, plan_pairs

FIELDS = TableFields(candidate_column="samples", reference_column="id")
THREE = TableFields(
    candidate_column=CANDIDATE, reference_column="id", several=("gpt", "claude", "llama")
)
TEXTS = st.one_of(st.none(), st.text(max_size=3))
LISTS = st.lists(st.one_of(st.none(), st.lists(TEXTS, max_size=4)), max_size=300)
KINDS = [
    pa.list_(pa.string()),
    pa.large_list(pa.large_string()),
    pa.list_(pa.string_view()),
    pa.list_(pa.dictionary(pa.int32(), pa.string())),
]


def expected_rows(samples):
    """Say in plain Python what rows become: number of the row, candidate, where it is from."""
    for number, group in enumerate(samples):
        yield from [(number, text, str(place)) for place, text in enumerate(group or [])] or [
            (number, None, None)
        ]


def seen_rows(rows):
    columns = (rows.table[name].to_pylist() for name in ("id", "samples", CANDIDATE_FROM))
    return list(zip(*columns, strict=True))


@given(samples=LISTS, kind=st.sampled_from(KINDS), cut=st.integers(0, 5))
def test_each_candidate_of_a_list_is_a_row(samples, kind, cut):
    lists = pa.array([["cut off"]] * cut + samples, kind)
    ids = pa.array([-1] * cut + list(range(len(samples))), pa.int64())
    table = pa.table({"id": ids, "samples": lists}).slice(cut)
    rows = explode_candidates(Rows(table, FIELDS))
    expected = list(expected_rows(samples))
    assert seen_rows(rows) == expected
    assert rows.input_rows.tolist() == [number for number, _, _ in expected]
    assert input_rows(rows.table[CANDIDATE_FROM]).tolist() == rows.input_rows.tolist()
    assert rows.unreadable == {
        place: Reason.NO_CANDIDATES
        for place, (_, _, origin) in enumerate(expected)
        if origin is None
    }


def test_lists_of_fixed_size_and_columns_of_every_type_are_repeated():
    table = pa.table(
        {
            "id": pa.array([1, 2]),
            "samples": pa.array([["a", None], ["b", "c"]], pa.list_(pa.string(), 2)),
            "view": pa.array(["x", None], pa.string_view()),
            "system": pa.array(["p", "q"]).dictionary_encode(),
            "meta": pa.array([{"k": [1]}, None]),
        }
    ).replace_schema_metadata({"made_by": "a test"})
    rows = explode_candidates(Rows(table, FIELDS))
    assert seen_rows(rows) == [(1, "a", "0"), (1, None, "1"), (2, "b", "0"), (2, "c", "1")]
    assert rows.table.schema.field("view").type == pa.string_view()
    assert rows.table["view"].to_pylist() == ["x", "x", None, None]
    assert rows.table["system"].to_pylist() == ["p", "p", "q", "q"]
    assert rows.table["meta"].to_pylist() == [{"k": [1]}] * 2 + [None] * 2
    assert rows.table.schema.metadata == {b"made_by": b"a test"}


def test_several_columns_become_one_and_spark_sees_it():
    listed = {"fields": [{"name": name} for name in ("id", "gpt", "claude", "llama")]}
    table = pa.table(
        {
            "id": pa.array([1, 2]),
            "gpt": pa.array(["a", "b"], pa.large_string()),
            "claude": pa.array(["c", None]).dictionary_encode(),
            "llama": pa.nulls(2),
        }
    ).replace_schema_metadata({SCHEMA_KEY: json.dumps(listed)})
    rows = explode_candidates(Rows(table, THREE))
    assert rows.table.column_names == ["id", CANDIDATE, CANDIDATE_FROM]
    assert rows.table.to_pydict() == {
        "id": [1, 1, 1, 2, 2, 2],
        CANDIDATE: ["a", "c", None, "b", None, None],
        CANDIDATE_FROM: ["gpt", "claude", "llama"] * 2,
    }
    assert input_rows(rows.table[CANDIDATE_FROM]).tolist() == [0, 0, 0, 1, 1, 1]
    seen = json.loads(rows.table.schema.metadata[SCHEMA_KEY])["fields"]
    assert [(field["name"], field.get("type")) for field in seen] == [
        ("id", None), (CANDIDATE, "string"), (CANDIDATE_FROM, "string"),
    ]  # fmt: skip


def test_other_columns_may_share_a_name():
    arrays = [pa.array([1, 2]), pa.array(["x", "y"]), pa.array([3, 4]), pa.array([["a"] * 2, []])]
    table = pa.Table.from_arrays(arrays, ["id", "twice", "twice", "samples"])
    rows = explode_candidates(Rows(table, FIELDS))
    assert [column.to_pylist() for column in rows.table.columns[:3]] == [
        [1, 1, 2], ["x", "x", "y"], [3, 3, 4],
    ]  # fmt: skip


TEXT, LIST = pa.string(), pa.list_(pa.string())


@pytest.mark.parametrize(
    ("schema", "names", "message"),
    [
        ({"a": LIST, "b": TEXT}, ("a", "b"), "'a' holds no texts.* expected a string type"),
        ({"a": pa.list_(pa.int64())}, ("a",), "expected a string type or a list of it"),
        (
            {"a": pa.struct([("b", LIST)])},
            ("a.b", "a"),
            "'a.b' holds no texts.*expected a string type. Convert the col",
        ),
        ({"a": TEXT}, ("a", "c"), "no candidate column 'c'"),
        ({"a": LIST, CANDIDATE_FROM: TEXT}, ("a",), "bertscore_candidate_from; expected n"),
        ({"a": TEXT, "b": TEXT, CANDIDATE: TEXT}, ("a", "b"), "got bertscore_candidate; exp"),
    ],
)
def test_columns_that_cannot_be_multiplied_out_are_refused(schema, names, message):
    with pytest.raises(InputError, match=message):
        check_candidates(pa.schema(schema), names)


def test_splits_are_sized_by_candidates(tmp_path):
    rows = pair_rows(60)
    # The lists of the first half have four candidates on average, some none; those of the rest one.
    rows["candidate"] = [
        [text] * [0, 8, 4, 4][number % 4] if number < 30 else [text]
        for number, text in enumerate(rows["candidate"])
    ]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(rows), path, row_group_size=10)
    groups = read_layout(str(path), candidates=["candidate"]).row_groups
    counts = [max(len(group), 1) for group in rows["candidate"]]
    sums = [sum(counts[start : start + 10]) for start in range(0, 60, 10)]
    assert [group.pairs for group in groups] == sums
    cut = plan_pairs(path, rows=20)
    splits = list(cut.splits)
    assert all(split.about_rows <= 20 + 8 for split in splits)
    assert [split.num_rows for split in splits[-2:]] == [20, 10]
    assert cut.num_rows == sum(split.num_rows for split in splits) == 60
    assert cut.about_rows >= sum(counts)
    (first, *_) = read_layout(str(path), candidates=["reference"]).row_groups
    assert first.pairs == first.num_rows
    several = plan_pairs(path, rows=20, fields=replace(PAIRS, several=("reference", "reference")))
    assert several.about_rows == 2 * several.num_rows == 120
    assert {split.num_rows for split in several.splits} == {10}
