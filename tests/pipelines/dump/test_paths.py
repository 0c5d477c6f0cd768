"""Paths into structs and lists, and all the forms in which a column holds texts."""

import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from bertscore_beam.dump.candidates import check_candidates, explode_candidates
from bertscore_beam.dump.columns import TableFields, check_choosing_columns, check_columns
from bertscore_beam.dump.digests import digest_columns
from bertscore_beam.dump.keys import keys_of
from bertscore_beam.dump.paths import Column, column_of, has_column, is_list
from bertscore_beam.dump.texts import Rows, UnreadableText, reference_texts, texts_from_column
from bertscore_core.errors import InputError

TEXTS = st.none() | st.text(max_size=2)
MESSAGES = st.none() | st.fixed_dictionaries({"content": TEXTS})
GROUPS = st.none() | st.lists(MESSAGES, max_size=3)
ROWS = st.lists(st.none() | st.fixed_dictionaries({"m": GROUPS}), max_size=8)
MESSAGE = pa.struct([("content", pa.string())])
KINDS = [
    lambda of: pa.list_(of),
    lambda of: pa.large_list(of),
    lambda of: pa.list_view(of),
    lambda of: pa.large_list_view(of),
]


def content(message):
    return None if message is None else message["content"]


def element(group, place):
    return None if group is None or not -len(group) <= place < len(group) else group[place]


@given(rows=ROWS, kind=st.sampled_from(KINDS), place=st.integers(-3, 3), cut=st.integers(0, 3))
def test_a_number_is_an_element_and_a_name_a_field_of_each(rows, kind, place, cut):
    filler = [{"m": [{"content": "cut off"}] * 2}] * cut
    column = pa.array(filler + rows, pa.struct([("m", kind(MESSAGE))]))
    table = pa.table({"r": pa.chunked_array([column[: cut + 1], column[cut + 1 :]])}).slice(cut)
    groups = [None if row is None else row["m"] for row in rows]
    one = [content(element(group, place)) for group in groups]
    for name in (f"r.m[{place}].content", f"r.m.{place}.content"):
        assert column_of(table, name).to_pylist() == one
        column = Column.find(table.schema, name)
        assert column is not None
        assert column.type == pa.string()
    each = [None if group is None else [*map(content, group)] for group in groups]
    assert column_of(table, "r.m.content").to_pylist() == each
    assert is_list(column_of(table, "r.m.content").type)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a[0]", "column"),
        ("a.0", "field"),
        ("b[1]", "y"),
        ("b.-1", "z"),
        ("c.0", ["each"]),
        ("c[0].0", "each"),
        ("d[1][0]", "v"),
        ("d[-1]", ["v", "w"]),
        ("e[0].e[0].f", "deep"),
        ("e.e[0].f", ["deep"]),
    ],
)
def test_a_field_of_that_name_comes_before_an_element(name, expected):
    table = pa.table(
        {
            "a[0]": ["column"],
            "a": [{"0": "field"}],
            "b": [["x", "y", "z"]],
            "c": [[{"0": "each"}]],
            "d": [[["u"], ["v", "w"]]],
            "e": [[{"e": [{"f": "deep"}]}]],
        }
    )
    assert column_of(table, name).to_pylist() == [expected]


@pytest.mark.parametrize("name", ["b.x", "b[x]", "b.", "b[0].", "b[0]x", "a.b", "", "b[", "b[]"])
def test_other_paths_lead_nowhere(name):
    table = pa.table({"a": ["x"], "b": [["x"]]})
    assert not has_column(table.schema, name)
    with pytest.raises(KeyError):
        column_of(table, name)


# --- Forms of texts ------------------------------------------------------------------------------

VALUES = [b"a", None, "ü".encode(), b"\xff"]
READ = ["a", None, "ü", UnreadableText.INVALID_UTF8]
JSON = pa.array(['"a"', None], pa.string())


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary_view()], ids=str)
def test_bytes_are_texts_and_a_row_that_is_not_utf8_is_rejected_alone(tmp_path, kind):
    lists = pa.list_view if kind == pa.binary_view() else pa.list_
    table = pa.table(
        {
            "text": pa.array(VALUES, kind),
            "list": pa.array([[value] for value in VALUES], lists(kind)),
            "word": pa.array(VALUES, kind).cast(pa.binary()).dictionary_encode(),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    table = pq.read_table(tmp_path / "a.parquet")
    for name in ("text", "word"):
        check_columns(table.schema, name, "list")
        assert texts_from_column(column_of(table, name)) == READ
        assert keys_of(column_of(table, name)).of_rows == ["a", None, "ü", None]
    read = reference_texts(column_of(table, "list"))
    assert read == [[text] for text in READ]
    assert digest_columns(column_of(table, "text")) == digest_columns(table["text"])


@pytest.mark.parametrize("kind", [pa.list_view(pa.string()), pa.large_list_view(pa.string_view())])
def test_views_of_lists_and_json_columns_are_texts(tmp_path, kind):
    lists = [["a", "b"], None]
    json = pa.ExtensionArray.from_storage(pa.json_(), JSON)
    pq.write_table(pa.table({"list": pa.array(lists, kind), "json": json}), tmp_path / "a.parquet")
    table = pq.read_table(tmp_path / "a.parquet")
    assert table.schema.types == [kind, pa.json_()]
    check_columns(table.schema, "json", "list")
    assert reference_texts(column_of(table, "list")) == lists
    assert texts_from_column(column_of(table, "json")) == JSON.to_pylist()
    rows = Rows(table, TableFields(candidate_column="list", reference_column="json"))
    assert texts_from_column(explode_candidates(rows).candidates) == ["a", "b", None]


def test_a_message_in_parts_is_its_texts():
    part = pa.struct([("type", pa.string()), ("text", pa.string()), ("image_url", pa.string())])
    messages = [
        [
            {"type": "text", "text": "a "},
            {"type": "image_url"},
            {"type": "output_text", "text": "b"},
        ],
        [{"type": "image_url", "image_url": "x"}],
        [{"type": "reasoning", "text": "hidden"}, {"type": "text", "text": None}],
        [],
        None,
        [{"type": "text", "text": ""}],
    ]
    expected = ["a b", None, None, None, None, ""]
    column = pa.array([[{"type": "text", "text": "cut"}], *messages], pa.list_(part)).slice(1)
    table = pa.table({"content": column, "n": [[m, m] for m in messages]})
    assert column_of(table, "content").to_pylist() == expected
    assert column_of(table, "n").to_pylist() == [[text, text] for text in expected]
    assert column_of(table, "content.type").to_pylist()[0][1] == "image_url"


def test_a_message_in_parts_without_a_type_is_its_texts_without_thoughts():
    """Parts of Gemini and of Bedrock; the answers of SQuAD have texts, too, and are no parts."""
    gemini = [
        [{"thought": True, "text": "Hm."}, {"text": "Paris "}, {"text": "it is."}],
        [{"thought": True, "text": "Hm."}],
        [{"thought": False, "text": "a"}, {"thought": None, "text": None}],
        None,
    ]
    bedrock = [
        [{"reasoningContent": {"reasoningText": {"text": "Hm."}}}, {"text": "b"}, {"text": "c"}],
        [{"text": ""}],
        [],
        None,
    ]
    squad = [[{"text": "a", "answer_start": 3}]] * 4
    table = pa.table({"gemini": gemini, "bedrock": bedrock, "squad": squad})
    assert column_of(table, "gemini").to_pylist() == ["Paris it is.", None, "a", None]
    assert column_of(table, "bedrock").to_pylist() == ["bc", "", None, None]
    assert column_of(table, "squad").to_pylist() == squad
    assert column_of(table, "squad.text").to_pylist() == [["a"]] * 4


# --- Hints --------------------------------------------------------------------------------------

PART = pa.struct([("type", pa.string()), ("text", pa.string())])
CHOICE = pa.struct(
    [
        ("index", pa.int64()),
        ("logprobs", pa.struct([("content", pa.list_(pa.struct([("token", pa.int64())])))])),
        ("message", pa.struct([("role", pa.string()), ("content", pa.string())])),
    ]
)
SCHEMA = pa.schema(
    [
        ("custom_id", pa.int64()),
        ("response", pa.struct([("body", pa.struct([("choices", pa.list_(CHOICE))]))])),
        ("messages", pa.list_(pa.struct([("content", pa.list_(PART))]))),
        ("resps", pa.list_(pa.list_(pa.string()))),
        ("twice", pa.struct([("text", pa.string()), ("text", pa.string())])),
        ("chat", pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))),
        ("frame", pa.struct([("0", pa.string()), ("1", pa.int64())])),
        pa.field("late", pa.string(), metadata={"bertscore.json": "1"}),
    ]
)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("response.body.choices", "response.body.choices.message.content"),
        ("response.body.choices.message", "response.body.choices.message.content"),
        ("response.body.choices[0].mesage.content", "response.body.choices.message.content"),
        ("response.body.choices[0]", "response.body.choices[0].message.content"),
        ("response.body", "response.body.choices.message.content"),
        ("messages", "messages.content"),
        ("chat", "chat[-1].content"),
        ("messages[-1]", "messages[-1].content"),
        ("messages.-2", "messages.-2.content"),
        ("resps", None),
        ("frame", None),
        ("frame.1", None),
        ("frame.2", None),
        ("message.content", "messages.content"),
        ("twice", None),
        ("twice.txt", None),
        ("lat", None),
        ("custom_i", None),
        ("custom_id", None),
    ],
)
def test_a_hint_never_leads_to_the_next_refusal(name, meant):
    with pytest.raises(InputError) as refused:
        check_columns(SCHEMA, None, name)
    hints = re.findall(r"'([^']+)'", str(refused.value).partition("Did you mean ")[2])
    assert (hints[0] if hints else None) == meant
    for hint in hints:
        check_columns(SCHEMA, None, hint)


def test_hints_fit_what_the_column_is_for():
    with pytest.raises(InputError, match=r"Did you mean 'chat\[-1\]\.content'\?"):
        check_candidates(SCHEMA, ("chat", "custom_id"))
    with pytest.raises(InputError, match=r"no idf-key column 'custom_ids'.*mean 'custom_id'\?"):
        check_choosing_columns(SCHEMA, {"custom_ids": "--idf-key"})
    with pytest.raises(InputError) as refused:
        check_choosing_columns(SCHEMA, {"custom_ids": "--language-column"})
    assert "Did you mean" not in str(refused.value)
