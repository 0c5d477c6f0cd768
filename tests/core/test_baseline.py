"""Baselines: found, read, refused, and what rescaling does."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as arrays

from bertscore_core import (
    Baseline,
    BaselineNotFoundError,
    ConfigError,
    InputError,
    ScorerConfig,
    baseline_path,
    choose_table,
    find_baseline,
    format_baseline,
    parse_baseline,
    published_baselines,
    rescale,
    settle,
)
from bertscore_core.baseline import idf_mismatch, read_baseline, table_name
from tests.core.conftest import write_table

TABLE = "LAYER,P,R,F\n0,0.25,0.5,0.3\n1,0.5,0.5,0.5\n"


def test_all_published_tables_are_there():
    tables = published_baselines()
    assert len(tables) == 72
    assert len({language for language, _ in tables}) == 12


def test_published_values_are_those_of_the_reference():
    """Row 17 of roberta-large for English, as printed in the reference's rescaling note."""
    row = find_baseline("en", "roberta-large").row(17)
    assert row.tolist() == pytest.approx([0.8315, 0.8315, 0.8312], abs=5e-4)
    assert find_baseline("EN", "FacebookAI/roberta-large").row(17).tolist() == row.tolist()


def test_missing_baseline_lists_what_there_is():
    with pytest.raises(BaselineNotFoundError, match="Languages with one for this model: en;"):
        find_baseline("xx", "roberta-large")


def test_own_table_is_read():
    baseline = parse_baseline(TABLE, "b.csv")
    assert baseline.name == "custom"
    assert baseline.row(0).tolist() == pytest.approx([0.25, 0.5, 0.3])
    with pytest.raises(BaselineNotFoundError, match="no row for layer 2; it has 0 to 1"):
        baseline.row(2)


UNUSABLE = ["1.0", "nan", "inf", "-inf", "-1e39", "1e999", "0.99999999"]
"""The last three are -inf, inf and 1 in float32, in which scores are rescaled."""


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_of_a_table_may_end_as_on_any_system(end, tmp_path):
    path = tmp_path / "b.tsv"
    path.write_bytes(TABLE.replace("\n", end).encode())
    baseline = read_baseline(str(path), None, lambda: "", idf=False)
    assert np.array_equal(baseline.rows, parse_baseline(TABLE, "b.csv").rows)


@pytest.mark.parametrize("value", UNUSABLE)
def test_table_that_would_rescale_to_no_number_is_refused(value, tmp_path):
    text = TABLE.replace("0.3", value)
    with pytest.raises(
        ConfigError, match=r"t\.csv cannot be used: got \[0\.25, 0\.5, .* for layer 0"
    ):
        parse_baseline(text, "t.csv")
    file = tmp_path / "t.csv"
    file.write_text(text)
    place = tmp_path / "tables" / "en" / "all-MiniLM-L6-v2.tsv"
    place.parent.mkdir(parents=True)
    place.write_text(text)
    rows = np.array([[0.25, 0.5, float(value)], [0.5, 0.5, 0.5]])
    for baseline in (str(file), str(tmp_path / "tables"), Baseline(name="custom", rows=rows)):
        config = ScorerConfig(
            model="all-MiniLM-L6-v2", num_layers=1, language="en", rescale=True, baseline=baseline
        )
        with pytest.raises(ConfigError, match="expected finite numbers below 1 in float32"):
            settle(config)


def test_array_of_another_shape_is_no_baseline():
    with pytest.raises(ConfigError, match=r"got an array of shape \(3,\)"):
        Baseline(name="custom", rows=np.zeros(3)).check_values()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "LAYER,P,R\n0,1,2\n",
        TABLE.replace("1,0.5", "2,0.5"),
        TABLE.replace("0.3", "x"),
        "LAYER,P,R,F\n",
    ],
)
def test_text_that_is_no_baseline_is_refused(text):
    with pytest.raises(ConfigError, match=r"b\.csv is not a baseline table"):
        parse_baseline(text, "b.csv")


@pytest.mark.parametrize("text", ["my,own,words\n", TABLE.replace("0.3", "my"), "my\n0,1,2,3\n"])
def test_refusal_does_not_quote_what_the_file_holds(text):
    with pytest.raises(ConfigError) as caught:
        parse_baseline(text, "b.csv")
    assert "my" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("description", [None, b"\xff", "{", "[]", "{}", '{"signature": 1}'])
def test_table_that_says_nothing_of_its_model_fits_any(description):
    baseline = parse_baseline(TABLE, "b.csv", description=description)
    assert baseline.made_with is None
    baseline.check_model("any")
    assert baseline.row(1).tolist() == [0.5, 0.5, 0.5]


@pytest.mark.model
def test_library_refuses_a_path_with_a_nul():
    with pytest.raises(ConfigError, match=r"baseline 'a\\x00b' cannot be read: got a NUL"):
        settle(ScorerConfig(rescale=True, baseline="a\0b"))


@pytest.mark.model
def test_library_checks_the_description_beside_a_table(tmp_path):
    table = write_table(tmp_path / "mine.tsv")
    made = settle(ScorerConfig(device="cpu")).signature()
    config = ScorerConfig(device="cpu", rescale=True, baseline=str(table))
    beside = table.with_suffix(".json")
    beside.write_text(json.dumps({"signature": made.format()}))
    assert settle(config).baseline is not None
    beside.write_text(json.dumps({"signature": replace(made, weights="0" * 12).format()}))
    with pytest.raises(ConfigError, match="made with another model than the one that scores"):
        settle(config)


@given(
    arrays.arrays(np.float64, st.tuples(st.integers(1, 5), st.just(3)), elements=st.floats(-1, 0.9))
)
def test_tables_keep_seven_decimals(rows):
    text = format_baseline(Baseline(name="custom", rows=rows))
    assert {line.count(",") for line in text.splitlines()} == {3}
    again = parse_baseline(text, "b.tsv")
    np.testing.assert_allclose(again.rows, rows, atol=0.51e-7, rtol=0)
    assert format_baseline(again) == text


@pytest.mark.parametrize("value", [1.0, 0.99999999, 1.5, np.nan, -np.inf])
def test_table_that_could_not_be_read_again_is_not_written(value):
    rows = np.array([[0.1, 0.1, 0.1], [0.1, value, 0.1]])
    with pytest.raises(InputError, match=r"baseline custom cannot be used: .* for layer 1; expect"):
        format_baseline(Baseline(name="custom", rows=rows))


@pytest.mark.parametrize("all_layers", [False, True])
@pytest.mark.filterwarnings("ignore")  # its imports
def test_bert_score_reads_the_table(tmp_path, all_layers):
    """Its own reader, run without loading a model."""
    bert_score = pytest.importorskip("bert_score.scorer", reason="extra test")
    rows = np.random.default_rng(0).uniform(0, 0.9, (7, 3))
    path = tmp_path / "table.tsv"
    path.write_text(format_baseline(Baseline(name="custom", rows=rows)))
    reader = object.__new__(bert_score.BERTScorer)
    reader._baseline_vals = None
    reader._num_layers = 5
    reader.baseline_path = str(path)
    reader.all_layers = all_layers
    result = reader.baseline_vals.numpy()
    expected = rows[:, None, :] if all_layers else rows[5]
    assert result.shape == expected.shape
    np.testing.assert_allclose(result, expected, atol=1e-7)


@pytest.mark.parametrize(
    ("language", "model", "path"),
    [
        ("en", "roberta-large", "en/roberta-large.tsv"),
        ("EN", "FacebookAI/roberta-large", "en/roberta-large.tsv"),
        ("en", "microsoft/deberta-xlarge-mnli", "en/microsoft/deberta-xlarge-mnli.tsv"),
        ("zh-Hant", "all-MiniLM-L6-v2", "zh-hant/all-MiniLM-L6-v2.tsv"),
        (
            "en-sci",
            "allenai/scibert_scivocab_uncased",
            "en-sci/allenai/scibert_scivocab_uncased.tsv",
        ),
        ("sr_latn", "my model..v2", "sr_latn/my model..v2.tsv"),
    ],
)
def test_tables_lie_where_bert_score_puts_them(language, model, path):
    assert baseline_path(language, model) == path


@pytest.mark.parametrize(
    ("part", "names"),
    [
        ("language", ["", "..", "/en", "e/n", "en.", "en-", "e\nn", "日本"]),
        ("model", ["", ".", "../x", "a/../b", "/a", "a//b", "a/", "C:\\x", "a\\b", "a\0"]),
    ],
)
def test_path_never_leaves_the_folder(part, names):
    for name in names:
        with pytest.raises(ConfigError, match=f"no table can be kept for {part}"):
            baseline_path(**{"language": "en", "model": "roberta-large"} | {part: name})


NAMES = [
    "en/roberta-large.tsv",
    "de/roberta-large.tsv",
    "en/microsoft/deberta-base.tsv",
    "en/roberta-large.json",
    "_moments/en/roberta-large/0.npz",
    "notes.tsv",
]


def test_table_of_a_folder_is_chosen_by_language_and_model():
    assert choose_table(NAMES, "EN", "FacebookAI/roberta-large") == "en/roberta-large.tsv"
    assert choose_table(NAMES, "en", "microsoft/deberta-base") == "en/microsoft/deberta-base.tsv"
    assert table_name("en/microsoft/deberta-base.tsv") == "custom/en/microsoft/deberta-base"


def test_scores_with_idf_weights_take_the_table_made_with_them():
    weighted = baseline_path("en", "roberta-large", idf=True)
    both = [*NAMES, weighted]
    assert choose_table(both, "en", "roberta-large", idf=True) == weighted
    assert choose_table(both, "en", "roberta-large") == "en/roberta-large.tsv"
    assert choose_table(NAMES, "en", "roberta-large", idf=True) == "en/roberta-large.tsv"
    with pytest.raises(BaselineNotFoundError, match=r"got en/roberta-large\.idf\.tsv.* Add idf "):
        choose_table([weighted], "en", "roberta-large")


@pytest.mark.parametrize("idf", [False, True])
def test_scores_and_table_that_differ_in_idf_weights_are_told_apart(idf):
    signature = settle(ScorerConfig()).signature()
    plain = find_baseline("en", "roberta-large")
    weighted = replace(plain, made_with=replace(signature, idf="0123456789abcdef"))
    unweighted = replace(plain, made_with=signature)
    fits, differs = (weighted, unweighted) if idf else (unweighted, weighted)
    assert idf_mismatch(fits, idf=idf) is None
    assert "random pairs will not score exactly 0" in idf_mismatch(differs, idf=idf)
    # Without a description a table counts as one without idf.
    assert (idf_mismatch(plain, idf=idf) is None) == (not idf)


@pytest.mark.parametrize(
    ("language", "model", "message"),
    [
        ("fr", "roberta-large", r"has no fr/roberta-large\.tsv: got 3 tables, .* model: de, en;"),
        ("en", "x", r"for this model: none; .* language: microsoft/deberta-base, roberta-large\."),
    ],
)
def test_missing_table_lists_what_the_folder_has(language, model, message):
    with pytest.raises(BaselineNotFoundError, match=message):
        choose_table(NAMES, language, model)
    with pytest.raises(BaselineNotFoundError, match=r"got 0 tables, .* for this language: none\."):
        choose_table([], language, model)


@given(
    st.lists(st.floats(-1, 1, width=32), min_size=2, max_size=50),
    st.floats(-0.5, 0.984375, width=32),
)
def test_rescaling_never_turns_an_order_around(values, baseline):
    """Neighbours among float32 numbers may become equal, but no score passes another."""
    ordered = np.sort(np.float32(values))
    assert (np.diff(rescale(ordered, np.float32(baseline))) >= 0).all()
