"""A frame of pandas, Polars or Arrow gets the score columns, and stays as it is otherwise."""

import pyarrow as pa
import pytest

from bertscore_beam import ScoreBatches, score_frame
from bertscore_core import ConfigError, InputError
from tests.support.bad_values import BAD_VALUES, FRONTS

pytestmark = pytest.mark.model

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")

ROWS = {
    "id": [3, 1, 2],
    "answer": ["The cat sat on the mat.", None, "It rains."],
    "gold": [["A cat was on the mat.", "A mat."], ["x"], ["Rain is falling."]],
    "chat": [[{"content": "a"}, {"content": text}] for text in ("It rains.", "b", None)],
}
NAMES = {"candidate": "answer", "reference": "gold"}
MEASURES = ["bertscore_precision", "bertscore_recall", "bertscore_f1"]


OPTIONS = {"device": "cpu", "num_threads": 1}


def plain(column):
    """Return the values of a column, None for each kind of null."""
    values = column.to_pylist() if isinstance(column, pa.ChunkedArray) else list(column)
    return [None if pandas.isna(value) else value for value in values]


@pytest.fixture(scope="module")
def expected():
    scorer = ScoreBatches(candidate_column=("answer",), reference_column="gold", **OPTIONS)
    return scorer(pa.table(ROWS)).to_pydict()


def test_a_pandas_frame_keeps_its_index_its_columns_and_objects_of_any_kind(expected):
    frame = pandas.DataFrame({**ROWS, "other": [object(), {1}, "x"], 7: [1, 2, 3]}, index=[5, 5, 9])
    scored = score_frame(frame, **NAMES, **OPTIONS)
    assert type(scored) is pandas.DataFrame
    pandas.testing.assert_frame_equal(scored[list(frame.columns)], frame)
    assert list(frame.columns) == [*ROWS, "other", 7]
    for name in MEASURES:
        assert plain(scored[name]) == expected[name]
    assert plain(scored["bertscore_error"]) == [None, "null_candidate", None]
    assert list(scored.columns)[len(frame.columns) :] == list(expected)[len(ROWS) :]


def test_a_frame_of_polars_and_an_arrow_table_stay_what_they_are(expected):
    frame = polars.DataFrame(ROWS).with_columns(when=polars.lit(1).cast(polars.Int128))
    scored = score_frame(frame, **NAMES, **OPTIONS)
    assert isinstance(scored, polars.DataFrame)
    assert scored.select(frame.columns).equals(frame)
    table = score_frame(pa.table(ROWS), **NAMES, **OPTIONS)
    assert table.to_pydict() == expected
    for name in (*MEASURES, "bertscore_error"):
        assert scored[name].to_list() == expected[name]


@pytest.mark.parametrize("kind", [pandas.DataFrame, polars.DataFrame, pa.table])
def test_paths_lead_into_nested_columns(kind):
    scored = score_frame(kind(ROWS), candidate="chat[-1].content", reference="gold", **OPTIONS)
    assert plain(scored["bertscore_error"]) == [None, None, "null_candidate"]


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (ROWS, "got dict; expected a DataFrame"),
        (polars.LazyFrame(ROWS), "got LazyFrame.*Collect a lazy frame first"),
        (
            pandas.DataFrame({"answers": ["a"], "gold": ["b"]}),
            "no column 'answer': got the columns \\['answers', 'gold'\\]",
        ),
        (pandas.DataFrame({"answer": ["a", 5], "gold": ["b", "c"]}), "of the types int, str"),
        (pandas.DataFrame([["a", "b", "c"]], columns=["answer", "answer", "gold"]), "each column"),
        (
            polars.DataFrame({"answer": polars.Series([1], dtype=polars.Int128), "gold": ["b"]}),
            "columns of the types .*Int128",
        ),
        (
            polars.DataFrame({"answer": [1], "gold": ["b"]}),
            "'answer' holds no texts.* name another as the candidate column",
        ),
    ],
    ids=["dict", "lazy", "missing", "mixed", "doubled", "too large", "numbers"],
)
def test_what_cannot_be_scored_is_refused_before_a_model_is_loaded(frame, message):
    with pytest.raises(InputError, match=message):
        score_frame(frame, **NAMES, **OPTIONS)


@pytest.mark.parametrize("kind", [pandas.DataFrame, polars.DataFrame, pa.table])
def test_a_frame_is_not_scored_twice(kind):
    with pytest.raises(ConfigError, match="already has score columns: got bertscore_f1"):
        score_frame(kind({**ROWS, "bertscore_f1": [1.0] * 3}), **NAMES, **OPTIONS)


MISSING = {"none", "nan", "numpy nan"}
AS_TEXT = {"bytes"}


@pytest.mark.parametrize("side", ["candidate", "reference"])
@pytest.mark.parametrize("name", BAD_VALUES)
def test_a_bad_value_is_missing_or_its_column_is_refused_whatever_stands_before_it(name, side):
    said = set()
    for front in FRONTS:
        texts = {"candidate": ["x", "y"], "reference": ["x", "y"], side: [front, BAD_VALUES[name]]}
        frame = pandas.DataFrame(
            {column: pandas.Series(values, dtype=object) for column, values in texts.items()}
        )
        if name in MISSING | AS_TEXT:
            scored = score_frame(frame, **OPTIONS)
            said.add(plain(scored["bertscore_error"])[1])
        else:
            with pytest.raises(InputError, match=f"the column '{side}' cannot be read") as refused:
                score_frame(frame, **OPTIONS)
            said.add(str(refused.value))
    (reason,) = said
    if name in MISSING | AS_TEXT:
        assert reason == (f"null_{side}" if name in MISSING else None)


def test_texts_and_lists_of_texts_may_be_mixed_in_a_column():
    answers = ["the cat", "the dog", "c", "d", "e"]
    mixed = ["the cat", ["a", "the dog"], None, [], ("e", "f")]
    lists = [["the cat"], ["a", "the dog"], None, [], ["e", "f"]]
    found, expected = (
        score_frame(pandas.DataFrame({"candidate": answers, "reference": column}), **OPTIONS)
        for column in (mixed, lists)
    )
    for name in (*MEASURES, "bertscore_error", "bertscore_best_reference"):
        assert plain(found[name]) == plain(expected[name])
    assert found["reference"].tolist() == mixed  # as it was
    assert plain(found["bertscore_best_reference"])[:2] == [0, 1]
