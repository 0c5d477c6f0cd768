"""Digests of values: alike for equal values however they are stored, and for no others."""

import itertools
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from bertscore_beam.dump import digests
from bertscore_beam.dump.digests import (
    digest_columns,
    digest_table,
    digest_texts,
    digests_in,
    key_column,
)
from tests.support.dumps import rich_table

TEXTS = ["a cat", None, "", "the cat", "a cat", "ä€😀", None, "b" * 300]
COLUMNS = {
    "texts": pa.array(TEXTS),
    "large texts": pa.array(TEXTS, pa.large_string()),
    "text views": pa.array(TEXTS, pa.string_view()),
    "dictionary": pa.array(TEXTS).dictionary_encode(),
    "numbers in a dictionary": pa.array([1, None, 2, 1, 7, 8, 9, 1]).dictionary_encode(),
    "bytes": pa.array([None if t is None else t.encode() for t in TEXTS]),
    "bytes that are no text": pa.array([b"\xff", None, b""]).cast(pa.binary()),
    "lists": pa.array([["a", None], None, [], ["b"], ["", "c"]]),
    "lists of views": pa.array([["a" * 20, None], None, [], ["b"]], pa.list_(pa.string_view())),
    "large lists": pa.array([["a", None], None, [], ["b"]], pa.large_list(pa.string())),
    "lists of one size": pa.array([[1.5, 2.5], None, [0.0, -0.0]], pa.list_(pa.float32(), 2)),
    "lists of lists": pa.array([[[1], None, []], None, [], [[2, 3]]]),
    "structs": pa.array([{"k": 1, "t": ["x", None]}, None, {"k": None, "t": None}]),
    "maps": pa.array([[("a", 1)], None, [], [("b", None)]], pa.map_(pa.string(), pa.int32())),
    "booleans": pa.array([True, None, False, True, True, False, None, True, False]),
    "decimals": pa.array([Decimal("1.50"), None, Decimal("2.00")], pa.decimal128(9, 2)),
    "moments": pa.array([datetime(2026, 1, 2, tzinfo=UTC), None], pa.timestamp("us", tz="UTC")),
    "fixed bytes": pa.array([b"abc", None, b"def"], pa.binary(3)),
    "nothing": pa.nulls(5),
    "half floats": pa.array([1.5, None], pa.float16()),
}


def in_chunks(array, *lengths):
    """Cut an array into chunks, whose buffers are shared and whose offsets are not zero."""
    chunks, start = [], 0
    for length in lengths:
        chunks.append(array.slice(start, length))
        start += length
    return pa.chunked_array([*chunks, array.slice(start)], type=array.type)


@pytest.mark.parametrize("name", COLUMNS)
def test_chunks_slices_and_values_below_nulls_do_not_matter(name):
    array = COLUMNS[name]
    digest = digest_columns(pa.chunked_array([array]))
    for cut in ((1,), (2, 0, 1), (0,)):
        assert digest_columns(in_chunks(array, *cut)) == digest
    padded = pa.concat_arrays([array, array]).slice(len(array))
    assert digest_columns(pa.chunked_array([padded])) == digest
    remade = pa.array(array.to_pylist(), array.type)
    assert digest_columns(pa.chunked_array([remade])) == digest


@pytest.mark.parametrize("name", COLUMNS)
def test_every_changed_value_and_order_shows(name):
    array = COLUMNS[name]
    digest = digest_columns(pa.chunked_array([array]))
    values = array.to_pylist()
    assert digest_columns(pa.chunked_array([array.slice(1)])) != digest
    for row, value in enumerate(values):
        other = next((one for one in values if one != value), None)
        if other is not None:
            changed = pa.array([*values[:row], other, *values[row + 1 :]], array.type)
            assert digest_columns(pa.chunked_array([changed])) != digest
        if value is not None:
            nulled = pa.array([*values[:row], None, *values[row + 1 :]], array.type)
            assert digest_columns(pa.chunked_array([nulled])) != digest


@given(st.lists(st.one_of(st.none(), st.text(max_size=3))), st.randoms())
def test_texts_of_all_types_and_dictionaries_are_alike(texts, chance):
    plain = pa.array(texts, pa.string())
    digest = digest_columns(pa.chunked_array([plain]))
    words = [*dict.fromkeys([*texts, "unused", None])]
    chance.shuffle(words)
    indices = pa.array([words.index(text) for text in texts], pa.int32())
    encoded = pa.DictionaryArray.from_arrays(indices, pa.array(words, pa.string()))
    for other in (encoded, plain.cast(pa.large_string()), plain.cast(pa.string_view())):
        assert digest_columns(pa.chunked_array([other])) == digest


@given(st.lists(st.text(max_size=2), min_size=2), st.data())
def test_texts_that_run_together_alike_differ(texts, data):
    joined = "".join(texts)
    cut = data.draw(st.integers(0, len(joined)))
    other = [joined[:cut], joined[cut:], *[""] * (len(texts) - 2)]
    one, two = (digest_columns(pa.chunked_array([pa.array(t)])) for t in (texts, other))
    assert (one == two) == (texts == other)


def test_long_text_in_a_dictionary_is_not_spelled_out_for_all_rows_at_a_time():
    rows = 200
    text = "x" * (1 << 20)
    array = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int8()), pa.array([text]))
    default = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(default)  # counts from here, whatever earlier tests took
    pa.set_memory_pool(pool)
    try:
        digest = digest_columns(pa.chunked_array([array]))
    finally:
        pa.set_memory_pool(default)
    assert 0 < pool.max_memory() < 150 * (1 << 20)
    assert digest != digest_columns(pa.chunked_array([array.slice(1)]))


def test_one_long_value_in_a_dictionary_costs_no_work_for_each_row(monkeypatch):
    monkeypatch.setattr(digests, "_SPELLED_BYTES", 1000)
    texts = ["a"] * 5000 + [None, "long" * 1000, "b"] + ["a"] * 5000
    encoded, plain = pa.array(texts).dictionary_encode(), pa.array(texts)
    feed, fed = digests._feed, []
    monkeypatch.setattr(
        digests, "_feed", lambda *given: (fed.append(len(given[2])), feed(*given))[1]
    )
    found = digest_columns(pa.chunked_array([encoded]))
    # As a whole, then a thousand bytes at a time, and the long value.
    assert fed[0] == sum(fed[1:]) == len(texts)
    assert len(fed) < 1 + sum(map(len, filter(None, texts))) / 1000
    assert found == digest_columns(pa.chunked_array([plain]))


def test_table_differs_in_names_types_metadata_order_and_values():
    table = rich_table()
    for changed in (
        table.rename_columns([*table.column_names[:-1], "other"]),
        table.set_column(0, "id", table["id"].cast(pa.int32())),
        table.replace_schema_metadata({"made_by": "another"}),
        table.select(table.column_names[::-1]),
        table.set_column(0, "id", pa.array([0, 1, 2, 3, 4, 9])),
    ):
        assert digest_table(changed) != digest_table(table)


# --- Of the texts of each row, by which rows of different files are recognised -------------------


def column(values, kind=None):
    return pa.chunked_array([pa.array(values, kind)])


def text_digests(candidates, references):
    return [tuple(row) for row in digest_texts(candidates, references).tolist()]


CANDIDATES = ["ein Satz", "", None, "ein Satz", "日本語"]
REFERENCES = ["a sentence", "a sentence", "x", None, "日本"]
EXPECTED = text_digests(column(CANDIDATES), column(REFERENCES))


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())],
)
def test_digests_do_not_depend_on_types_and_chunks_nor_on_lists_of_one(kind):
    halves = [pa.array(texts, kind) for texts in (CANDIDATES[:2], CANDIDATES[2:])]
    assert text_digests(pa.chunked_array(halves), column(REFERENCES, kind)) == EXPECTED
    lists = [None if text is None else [text] for text in REFERENCES]
    for of in (pa.list_, pa.large_list):
        assert text_digests(column(CANDIDATES), column(lists, of(kind))) == EXPECTED


def test_rows_of_other_texts_or_another_structure_have_other_digests():
    references = [None, [], [None], [""], ["", ""], ["abc"], ["ab", None, "c"]]
    references += [["ab", "c"], ["a", "bc"], ["c", "ab"]]
    candidates = [None, "", "a", "abc"]
    pairs = list(itertools.product(candidates, references))
    found = text_digests(
        column([pair[0] for pair in pairs]),
        column([pair[1] for pair in pairs], pa.list_(pa.string())),
    )
    assert len(set(found)) == len(pairs)


def test_texts_that_are_not_utf_8_have_digests_too():
    raw = pa.array([b"\xff", b"\xfe"]).cast(pa.binary())
    texts = pa.Array.from_buffers(pa.string(), 2, raw.buffers())
    found = text_digests(pa.chunked_array([texts]), column(["a", "a"]))
    assert len(set(found)) == 2


def test_slices_and_what_lies_below_null_lists_do_not_count():
    lists = pa.array([["x"], ["hidden"], ["a", "b"]], pa.list_(pa.string()))
    masked = pa.ListArray.from_arrays(
        lists.offsets, lists.values, mask=pa.array([False, True, False])
    )
    candidates = column(["p", "q"])
    here = text_digests(candidates, pa.chunked_array([masked.slice(1)]))
    assert here == text_digests(candidates, column([None, ["a", "b"]], pa.list_(pa.string())))


def test_keys_are_of_a_type_that_spark_has_and_of_sixteen_bytes_each():
    found = digest_texts(pa.chunked_array([["a", "b", None]]), pa.chunked_array([["x", "y", "z"]]))
    keys = key_column(found)
    assert keys.type == pa.binary()
    assert [len(key) for key in keys.to_pylist()] == [16, 16, 16]
    cut = pa.chunked_array([keys[:0], keys[:1], keys[1:]])
    assert (digests_in(cut) == found).all()
    for others in (pa.array([b"a" * 15]), pa.array([b"a" * 16, None]), pa.array(["a" * 16])):
        with pytest.raises(ValueError, match=r"widths must match|keys of type"):
            digests_in(pa.chunked_array([others]))
