"""Document frequencies: exact under any split and order; weights as in the reference."""

import io
import json
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, strategies as st

from bertscore_core import IdfError, TokenizedTexts, idf, specification

DOCUMENTS = st.lists(st.lists(st.integers(0, 60), max_size=8), max_size=30)


def frequencies(documents: list[list[int]]) -> idf.DocumentFrequencies:
    return idf.DocumentFrequencies.from_tokens(TokenizedTexts.from_rows(documents))


def table(documents: list[list[int]], **changes) -> idf.IdfTable:
    values = {"tokenizer": "t", "max_length": 8, "corpus": "c"} | changes
    return idf.IdfTable(frequencies=frequencies(documents), **values)


@given(documents=DOCUMENTS)
def test_counts_equal_a_counter_over_sets(documents):
    counted = frequencies(documents)
    expected = Counter(token for document in documents for token in set(document))
    assert dict(zip(counted.ids.tolist(), counted.counts.tolist(), strict=True)) == expected
    assert counted.num_documents == len(documents)


@given(documents=DOCUMENTS, cuts=st.lists(st.integers(0, 30), max_size=4), seed=st.randoms())
def test_merging_pieces_in_any_order_equals_counting_once(documents, cuts, seed):
    edges = sorted({0, len(documents), *(min(cut, len(documents)) for cut in cuts)})
    pieces = [documents[a:b] for a, b in pairwise(edges)]
    seed.shuffle(pieces)
    merged = idf.DocumentFrequencies.merge(map(frequencies, pieces))
    added = sum(map(frequencies, pieces), idf.DocumentFrequencies.zero())
    assert merged == frequencies(documents) == added


@given(documents=DOCUMENTS)
def test_weights_are_those_of_the_specification(documents):
    ids = np.arange(70, dtype=np.int32)  # the last ones are in no document
    weights = table(documents).weights().of(ids)
    expected = specification.idf_weights(ids.tolist(), documents)
    assert weights.dtype == np.float32
    np.testing.assert_allclose(weights, expected, rtol=1e-7, atol=0)


@given(zeros=st.sets(st.integers(0, 9)))
def test_without_idf_only_the_given_ids_weigh_nothing(zeros):
    ids = np.arange(12, dtype=np.int32)
    expected = specification.plain_weights(ids.tolist(), zeros)
    assert idf.TokenWeights.uniform(zeros).of(ids).tolist() == expected.tolist()


def test_mapping_without_default_refuses_unknown_ids():
    weights = idf.TokenWeights.from_mapping({4: 0.5}, default=None)
    assert weights.of(np.array([4], dtype=np.int32)).tolist() == [0.5]
    for token_id in (3, 5):
        with pytest.raises(IdfError, match=f"1 token ids have no weight, such as {token_id}"):
            weights.of(np.array([4, token_id], dtype=np.int32))


@given(documents=DOCUMENTS, max_length=st.none() | st.integers(3, 512))
def test_saved_table_comes_back_equal(documents, max_length):
    saved = table(documents, max_length=max_length)
    loaded = idf.IdfTable.from_bytes(saved.to_bytes())
    assert loaded.frequencies == saved.frequencies
    assert (loaded.tokenizer, loaded.max_length, loaded.corpus) == ("t", max_length, "c")
    assert loaded.fingerprint == saved.fingerprint


def test_fingerprint_follows_what_moves_a_weight_and_nothing_else():
    base = table([[1, 2]])
    assert base.fingerprint == table([[2, 1]], corpus="elsewhere").fingerprint
    others = [table([[1, 3]]), table([[1, 2]] * 2), table([[1, 2]], tokenizer="u")]
    others.append(table([[1, 2]], max_length=None))
    assert len({base.fingerprint, *(other.fingerprint for other in others)}) == 5


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 no archive", table([[1]]).to_bytes()[:-40]])
def test_damaged_table_is_named(data):
    with pytest.raises(IdfError, match=r"nightly\.npz is not an idf table"):
        idf.IdfTable.from_bytes(data, source="nightly.npz")


def test_table_of_another_tokenizer_is_refused():
    table([[1]]).check_fits("t", 8)
    with pytest.raises(IdfError, match="counted with tokenizer t at length 8; the model has u"):
        table([[1]]).check_fits("u", 8)


def forged(*, ids=(3, 7), counts=(1, 2), **head):
    """Return the bytes of a table of two documents, with parts of it replaced."""
    stated = {"format": "bertscore-idf/1", "tokenizer": "t", "max_length": 8, "corpus": "c"}
    text = json.dumps(stated | {"num_documents": 2} | head).encode()
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        head=np.frombuffer(text, dtype=np.uint8),
        ids=np.asarray(ids),
        counts=np.asarray(counts),
    )
    return buffer.getvalue()


def test_table_with_nothing_replaced_is_read():
    loaded = idf.IdfTable.from_bytes(forged())
    assert loaded.frequencies.ids.tolist() == [3, 7]


NO_NUMBER = "a number of documents or rows, or the length, is not a valid number"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"counts": (1, 3)}, "counts that are not from 1 to the number of documents, 2"),
        ({"counts": (0, 1)}, "counts that are not from 1"),
        ({"counts": (0.5, 1.5)}, "counts is not a list of whole numbers"),
        ({"counts": (1,)}, "2 ids and 1 counts"),
        ({"counts": ((1, 2),)}, "counts is not a list of whole numbers"),
        ({"ids": (7, 7)}, "ids that do not ascend"),
        ({"ids": (-1, 3)}, "ids that do not ascend"),
        ({"ids": (3, 1 << 40)}, "ids that do not ascend from 0 to less than 16777216"),
        ({"ids": np.zeros(17_000_000, np.int64)}, "ids unpacks to more than"),
        ({"num_documents": -2}, NO_NUMBER),
        ({"num_documents": True}, NO_NUMBER),
        ({"max_length": "8"}, NO_NUMBER),
        ({"max_length": 0}, NO_NUMBER),
        ({"counted": {"key_columns": [], "rows": -1}}, "a number of documents or rows"),
        ({"corpus": None}, "the tokenizer, the corpus or a column is not a text"),
        ({"counted": {"key_columns": [5]}}, "the tokenizer, the corpus or a column is not a text"),
        ({"format": "x" * 5000}, "format xxx"),
    ],
)
def test_forged_table_is_refused_when_it_is_read(changes, message):
    with pytest.raises(IdfError, match=rf"forged\.npz is not an idf table .*{message}") as caught:
        idf.IdfTable.from_bytes(forged(**changes), source="forged.npz")
    assert len(str(caught.value)) < 500
