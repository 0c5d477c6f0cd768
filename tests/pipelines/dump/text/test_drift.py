"""A column that no step needs decides nothing: where its values differ in type they become JSON."""

import io
import json
import math
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from bertscore_beam.dump.lines import take_lines
from bertscore_beam.dump.paths import JSON_KEY
from bertscore_beam.dump.plan import AS_JSON, column_notes
from bertscore_beam.dump.text import text_records, to_parquet
from bertscore_beam.dump.text.arrays import marked_columns
from bertscore_beam.dump.text.to_parquet import write_rows
from bertscore_core.errors import InputError
from tests.pipelines.dump.text.convert import convert, text_file
from tests.support.tables import PAIRS, plan_pairs
from tests.support.text_files import plan_text, read_plan, to_jsonl, write_text

PAIR = {"candidate": "a", "reference": "b"}
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4)
    | st.sampled_from(["\ud800", 2**63, -(2**63), 2**64, 10**400])
)
ITEMS = st.lists(SCALARS, max_size=3)
VALUES = SCALARS | ITEMS | st.dictionaries(st.sampled_from("xy"), SCALARS | ITEMS, min_size=1)


def rows_with(values, name="meta"):
    return [{**PAIR, "id": number, name: value} for number, value in enumerate(values)]


def back(value, field):
    """Return a value as it was before it was stored in a field."""
    if value is None:
        return None
    if (field.metadata or {}).get(b"bertscore.json"):
        return json.loads(value)
    if (field.metadata or {}).get(b"bertscore.integers"):
        return int(value)
    if pa.types.is_struct(field.type):
        return {inner.name: back(value[inner.name], inner) for inner in field.type}
    if pa.types.is_list(field.type):
        return [back(item, field.type.value_field) for item in value]
    return value


def equal(stored, given) -> bool:
    """Tell whether two values are equal, a null being like nothing."""
    if isinstance(stored, dict) and isinstance(given, dict):
        return all(equal(stored.get(name), given.get(name)) for name in stored | given)
    if isinstance(stored, list) and isinstance(given, list):
        return len(stored) == len(given) and all(map(equal, stored, given))
    if isinstance(stored, float) and not isinstance(given, bool):
        return stored == given
    return type(stored) is type(given) and stored == given


@given(st.lists(VALUES, min_size=1, max_size=12), st.sampled_from([1, 40, 1 << 20]))
def test_no_value_is_lost_and_no_row_is_bad_wherever_types_change(tmp_path_factory, values, sample):
    path = tmp_path_factory.mktemp("drift") / "a.jsonl"
    # The first row has the fields of all objects, since later ones would not be columns.
    fields = {"x": None, "y": None} if any(isinstance(value, dict) for value in values) else None
    values = [fields, *values]
    path.write_bytes(to_jsonl(rows_with(values)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(to_parquet, "SAMPLE_BYTES", sample)
        patch.setattr(text_records, "PIECE_BYTES", sample)
        table, lines = convert(path)
    assert not lines.bad
    assert table["id"].to_pylist() == list(range(len(values)))
    field = table.schema.field("meta")
    stored = [back(value, field) for value in table["meta"].to_pylist()]
    for got, value in zip(stored, values, strict=True):
        assert equal(got, value), (got, value, field.type)


WIDE = [10**25 + 1, -(2**63) - 1, 2**64]


def test_integers_beyond_64_bits_are_texts_and_the_plan_says_so(tmp_path):
    rows = [{**PAIR, "id": value, "n": {"l": [value]}} for value in [*WIDE, 5]]
    assert plan_text(write_text(tmp_path / "in" / "a.jsonl", to_jsonl(rows)), tmp_path).notes == (
        "Columns of JSON lines have integers beyond 64 bits: got 'id', 'n.l'. In such a file every "
        "value of the column is kept as a text.",
    )
    for sample in (40, 1 << 20):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(to_parquet, "SAMPLE_BYTES", sample)
            table, lines = convert(tmp_path / "in" / "a.jsonl")
        assert table["id"].to_pylist() == [*map(str, WIDE), "5"]
        assert table["n"].to_pylist() == [{"l": [str(value)]} for value in [*WIDE, 5]]
        assert not lines.bad


@pytest.mark.parametrize("first", [WIDE[0], 5])
def test_beside_a_long_integer_any_other_value_makes_json(tmp_path, first):
    path = write_text(tmp_path / "a.jsonl", to_jsonl(rows_with([first, WIDE[0], "x", True])))
    assert convert(path)[0]["meta"].to_pylist() == [str(first), str(WIDE[0]), '"x"', "true"]


LATE = [*[None] * 450, *[{"code": 429, "text": "slow\n"}] * 2]
CASES = {
    "a retry at the end": (LATE, pa.string(), '{"code":429,"text":"slow\\n"}'),
    "ids that become texts": ([1, 2, "x-3", 2**60], pa.string(), str(2**60)),
    "a number and a truth": ([1, True], pa.string(), "true"),
    "texts that are quoted then": ([{"a": 1}, "a", None, "b"], pa.string(), '"b"'),
    "numbers with a fraction": ([1, 2, 2.5], pa.float64(), 2.5),
    "numbers without a sign": ([1, 2**63], pa.uint64(), 2**63),
    "ids, of which a float64 has half": ([2**53 + 1, 2**53, 0.5], pa.string(), "0.5"),
    "numbers that JSON lacks": (["NaN", [math.nan, -math.inf]], pa.string(), '["NaN","-Infinity"]'),
    "numbers of both ends": ([-1, 2**63], pa.string(), str(2**63)),
    "a text and lists of texts": (["a", None, ["b", "c"]], pa.string(), '["b","c"]'),
    "a list of texts and a text": ([["b", None], "a"], pa.string(), '"a"'),
    "half of a surrogate pair": (["a", "\ud800"], pa.string(), '"\\ud800"'),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("sample", [30, 1 << 20])
def test_types_are_the_same_early_and_late(tmp_path, monkeypatch, name, sample):
    monkeypatch.setattr(to_parquet, "SAMPLE_BYTES", sample)
    values, kind, last = CASES[name]
    if name == "a retry at the end" and sample > 30:
        values = ["x", *values]  # else all of them are objects
    path = write_text(tmp_path / "a.jsonl", to_jsonl(rows_with(values)))
    table, lines = convert(path)
    assert not lines.bad
    assert table.schema.field("meta").type == kind
    assert table["meta"].to_pylist()[-1] == last
    assert table["meta"].null_count == values.count(None)
    is_json = list(marked_columns(table.schema, JSON_KEY)) == ["meta"]
    assert is_json == (kind == pa.string())


def test_only_the_field_that_differs_becomes_json(tmp_path):
    metas = [{"n": 1, "deep": {"l": [{"v": 1}]}}, {"n": 2, "deep": {"l": [{"v": "x"}, {"v": []}]}}]
    table, _ = convert(write_text(tmp_path / "a.jsonl", to_jsonl(rows_with(metas))))
    assert list(marked_columns(table.schema, JSON_KEY)) == ["meta.deep.l.v"]
    assert table["meta"].to_pylist()[1] == {"n": 2, "deep": {"l": [{"v": '"x"'}, {"v": "[]"}]}}


def test_deep_values_become_json(tmp_path):
    deep = json.loads("[" * 400 + "]" * 400)
    table, _ = convert(write_text(tmp_path / "a.jsonl", to_jsonl(rows_with([1, deep]))))
    assert json.loads(table["meta"].to_pylist()[1]) == deep


@pytest.mark.parametrize("sample", [30, 1 << 20])
def test_a_row_is_bad_by_the_columns_that_the_run_names_alone_and_keeps_the_others(
    tmp_path, monkeypatch, sample
):
    monkeypatch.setattr(to_parquet, "SAMPLE_BYTES", sample)
    rows = rows_with([1, "x", 3, 4])
    rows[1]["candidate"] = {"no": "text"}
    rows[2]["lang"] = ["de"]
    rows[0]["lang"], rows[3]["lang"] = "en", "en"
    path = write_text(tmp_path / "a.jsonl", to_jsonl(rows))
    for more, bad in ((), [1]), (("lang",), [1, 2]):
        sink, text = io.BytesIO(), text_file(path)
        write_rows(replace(text, columns=(*text.columns, *more)), sink)
        table, lines = take_lines(pq.read_table(sink))
        assert list(lines.reasons) == bad
        assert set(lines.reasons.values()) == {"type_drift"}
        assert table["id"].to_pylist() == [0, 1, 2, 3]
        assert table["meta"].to_pylist() == ["1", '"x"', "3", "4"]
        assert [table[name][1].as_py() for name in PAIR] == [None, None]


def test_a_nested_text_keeps_its_place_beside_what_differs(tmp_path):
    rows = [{"r": {"text": "a", "usage": usage}} for usage in (1, {"tokens": 2}, None)]
    rows.append({"r": "timeout"})
    text = replace(text_file(write_text(tmp_path / "a.jsonl", to_jsonl(rows))), columns=("r.text",))
    sink = io.BytesIO()
    write_rows(text, sink)
    table, lines = take_lines(pq.read_table(sink))
    assert lines.reasons == {3: "type_drift"}
    assert table["r"].to_pylist() == [
        {"text": "a", "usage": "1"},
        {"text": "a", "usage": '{"tokens":2}'},
        {"text": "a", "usage": None},
        None,
    ]


@pytest.mark.parametrize("name", PAIR)
@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2)])
def test_texts_that_are_scored_are_lists_if_they_are_in_some_lines_in_any_order(
    tmp_path, name, order
):
    values = ["b", ["b", "c"], "d"]
    rows = [{**PAIR, name: value} for value in (*(values[place] for place in order), 5)]
    plan = plan_text(write_text(tmp_path / "a.jsonl", to_jsonl(rows)), tmp_path / "out")
    table, places = read_plan(plan)
    lists = [["b"], ["b", "c"], ["d"]]
    assert table[name].to_pylist() == [*(lists[place] for place in order), None]
    assert [reason for _, reason in places] == [None, None, None, "type_drift"]
    assert plan.notes == ()


def test_a_plan_says_once_which_columns_are_json(tmp_path):
    for name in "ab":
        write_text(tmp_path / "in" / f"{name}.jsonl", to_jsonl(rows_with([1, "x"], "error")))
    plan = plan_text(tmp_path / "in", tmp_path / "out")
    (note,) = plan.notes
    assert "got 'error'. In such a file every value of the column is kept as its JSON" in note
    assert column_notes({AS_JSON: "abcdef"})[0].count(",") == 2


def test_a_column_of_json_that_an_import_made_is_not_taken_for_texts(tmp_path):
    path = write_text(tmp_path / "a.jsonl", to_jsonl(rows_with(["x", {"a": 1}], "hyp")))
    write_rows(text_file(path), out := io.BytesIO())
    (tmp_path / "made.parquet").write_bytes(out.getvalue())
    assert plan_pairs(tmp_path / "made.parquet").num_rows == 2
    for column in ("hyp", "hyp.a"):
        fields = replace(PAIRS, candidate_column=column)
        with pytest.raises(InputError, match=f"column '{column}' has values of several types"):
            plan_pairs(tmp_path / "made.parquet", fields=fields)
