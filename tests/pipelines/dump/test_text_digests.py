"""Digests of the texts of rows, by which rows of different files are recognised."""

import itertools

import pyarrow as pa
import pytest

from bertscore_beam.dump import digest_texts


def column(values, kind=None):
    return pa.chunked_array([pa.array(values, kind)])


def digests(candidates, references):
    return [tuple(row) for row in digest_texts(candidates, references).tolist()]


CANDIDATES = ["ein Satz", "", None, "ein Satz", "日本語"]
REFERENCES = ["a sentence", "a sentence", "x", None, "日本"]
EXPECTED = digests(column(CANDIDATES), column(REFERENCES))


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())],
)
def test_digests_do_not_depend_on_the_type_or_the_chunks(kind):
    halves = [pa.array(texts, kind) for texts in (CANDIDATES[:2], CANDIDATES[2:])]
    assert digests(pa.chunked_array(halves), column(REFERENCES, kind)) == EXPECTED


@pytest.mark.parametrize("kind", [pa.list_, pa.large_list])
def test_list_of_one_reference_is_like_the_reference_itself(kind):
    lists = column([None if text is None else [text] for text in REFERENCES], kind(pa.string()))
    assert digests(column(CANDIDATES), lists) == EXPECTED


def test_rows_of_other_texts_or_another_structure_have_other_digests():
    references = [None, [], [None], [""], ["", ""], ["abc"], ["ab", None, "c"]]
    references += [["ab", "c"], ["a", "bc"], ["c", "ab"]]
    candidates = [None, "", "a", "abc"]
    pairs = list(itertools.product(candidates, references))
    found = digests(
        column([pair[0] for pair in pairs]),
        column([pair[1] for pair in pairs], pa.list_(pa.string())),
    )
    assert len(set(found)) == len(pairs)


def test_texts_that_are_not_utf_8_have_digests_too():
    raw = pa.array([b"\xff", b"\xfe"]).cast(pa.binary())
    texts = pa.Array.from_buffers(pa.string(), 2, raw.buffers())
    found = digests(pa.chunked_array([texts]), column(["a", "a"]))
    assert len(set(found)) == 2


def test_slices_and_what_lies_below_null_lists_do_not_count():
    lists = pa.array([["x"], ["hidden"], ["a", "b"]], pa.list_(pa.string()))
    masked = pa.ListArray.from_arrays(
        lists.offsets, lists.values, mask=pa.array([False, True, False])
    )
    candidates = column(["p", "q"])
    here = digests(candidates, pa.chunked_array([masked.slice(1)]))
    assert here == digests(candidates, column([None, ["a", "b"]], pa.list_(pa.string())))
