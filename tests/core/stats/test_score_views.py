"""Scores for people: means, a summary, a data frame, one line, and HTML."""

import sys
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from bertscore_core import Scores
from bertscore_core.errors import ConfigError, InputError
from bertscore_core.stats.score_statistics import MEASURES


def some_scores(number, *, layers=None):
    """Return scores of pairs; the second is truncated, the third is empty and has no score."""
    rng = np.random.default_rng(3)
    shape = (number,) if layers is None else (layers, number)
    raw = rng.normal(0.7, 0.1, (3, *shape)).astype(np.float32)
    third = np.arange(number) == 2
    raw[..., third] = np.nan
    no, counts = np.zeros(number, dtype=np.bool_), np.full(number, 7, dtype=np.int32)
    given = {f"raw_{name}": values for name, values in zip(MEASURES, raw, strict=True)}
    given |= {name: values * 2 for name, values in zip(MEASURES, raw, strict=True)}
    given |= dict.fromkeys(("candidate_tokens", "reference_tokens", "text_tokens"), counts)
    given["unknown_tokens"] = np.zeros_like(counts)
    given |= {"truncated": np.arange(number) == 1, "empty_candidate": third}
    given |= {"best_reference": np.zeros(shape, dtype=np.int32), "windows": counts}
    return Scores(**dict.fromkeys(Scores.__slots__, no) | given)


def test_means_are_over_the_scored_pairs():
    scores = some_scores(50)
    assert scores.mean().f1 == pytest.approx(np.nanmean(scores.f1.astype(float)))
    assert scores.mean()._fields == ("precision", "recall", "f1")
    layered = some_scores(50, layers=4)
    means = np.nanmean(layered.recall.astype(float), axis=1)
    np.testing.assert_allclose(layered.mean().recall, means)
    assert np.isnan(Scores.joined([]).mean().f1)


def test_means_take_f1_clipped_and_the_summary_counts_it():
    scores = some_scores(50)
    raw, f1 = scores.raw_f1.copy(), scores.f1.copy()
    raw[0], f1[0] = -282.8, (-282.8 + 1) / 2  # a baseline of -1
    near = replace(scores, raw_f1=raw, f1=(raw + 1) / 2)
    near.f1[0] = f1[0]
    expected = np.nanmean([0.0, *near.f1[1:].astype(float)])
    assert near.mean().f1 == pytest.approx(expected, abs=1e-6)
    assert near.summary().table[2, 0] == pytest.approx(expected, abs=1e-6)
    assert str(near.summary()).startswith("50 pairs, 49 scored, 1 truncated, 1 empty, 1 clipped;")
    assert near.f1[0] == pytest.approx(-140.9)


def test_a_summary_has_the_counts_the_means_and_their_intervals():
    scores = some_scores(50)
    summary = scores.summary()
    assert (summary.pairs, summary.scored, summary.truncated, summary.empty) == (50, 49, 1, 1)
    mean, error, low, high, low_raw, median, high_raw = summary.table[2]
    assert mean == pytest.approx(scores.mean().f1)
    assert low < mean - error < mean + error < high
    assert low_raw < median < high_raw < 1
    assert median == pytest.approx(np.nanmedian(scores.raw_f1), abs=1e-3)
    lines = str(summary).splitlines()
    assert lines[0].startswith("50 pairs, 49 scored, 1 truncated, 1 empty")
    assert [line.split()[0] for line in lines[2:]] == ["precision", "recall", "f1"]
    assert f"{mean:.4f}" in lines[4]
    wide = scores.summary(0.99).table[2]
    assert wide[2] < low < high < wide[3]


def test_a_data_frame_has_a_row_for_each_pair_and_a_column_for_each_field(monkeypatch):
    scores = some_scores(5)
    frame = scores.to_pandas()
    assert frame.columns.tolist() == list(Scores.__slots__)
    np.testing.assert_array_equal(frame["f1"], scores.f1)
    assert frame["truncated"].tolist() == [False, True, False, False, False]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ConfigError, match="needs pandas"):
        scores.to_pandas()


def test_scores_of_several_layers_have_no_frame_and_no_summary():
    for method in ("summary", "to_pandas"):
        with pytest.raises(InputError, match=rf"{method}\(\) takes the scores of one layer: got 4"):
            getattr(some_scores(3, layers=4), method)()


def test_one_line_tells_what_the_means_do_not():
    scores = some_scores(50)
    line = repr(scores)
    assert line.startswith(f"Scores(50 pairs, precision={scores.mean().precision:.4f}, recall=")
    assert line.endswith("1 truncated, 1 empty, 1 not scored)")
    clean = scores.select(np.arange(10, 20))
    assert repr(clean).endswith(f"f1={clean.mean().f1:.4f})")
    assert repr(some_scores(50, layers=4)).startswith("Scores(50 pairs of 4 layers, precision=")
    assert repr(Scores.joined([])) == "Scores(0 pairs)"


def cells(text):
    """Return the cells of tables in HTML whose tags are all closed."""
    page = ElementTree.fromstring(f"<body>{text}</body>")  # noqa: S314 (our own)
    return [cell.text or "" for cell in page.iter("td")]


def test_a_notebook_shows_the_first_pairs_and_how_many_are_left():
    scores = some_scores(50)
    text = scores._repr_html_()
    assert len([cell for cell in cells(text) if cell == "7"]) == 20
    assert f"{scores.f1[0]:.4f}" in cells(text)
    assert "40 more pairs" in text
    assert f"{scores.mean().f1:.4f}" in cells(scores.summary()._repr_html_())
    assert cells(Scores.joined([])._repr_html_()) == []
    assert cells(some_scores(3, layers=4)._repr_html_()) == []
