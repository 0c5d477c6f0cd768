"""Baselines: found, read, refused, and what rescaling does."""

import numpy as np
import pytest

from bertscore_core import (
    BaselineNotFoundError,
    ConfigError,
    find_baseline,
    parse_baseline,
    published_baselines,
    rescale,
)

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


def test_rescale_maps_baseline_to_zero_and_keeps_one():
    scores = np.float32([[0.25, 1.0], [0.0, 0.625]])
    rescaled = rescale(scores, np.float32(0.25))
    assert rescaled.dtype == np.float32
    np.testing.assert_allclose(rescaled, [[0, 1], [-1 / 3, 0.5]], rtol=1e-6)


def test_own_table_is_read():
    baseline = parse_baseline(TABLE, "b.csv")
    assert baseline.name == "custom"
    assert baseline.row(0).tolist() == pytest.approx([0.25, 0.5, 0.3])
    with pytest.raises(BaselineNotFoundError, match="no row for layer 2; it has 0 to 1"):
        baseline.row(2)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "LAYER,P,R\n0,1,2\n",
        TABLE.replace("1,0.5", "2,0.5"),
        TABLE.replace("0.3", "x"),
        TABLE.replace("0.3", "1.0"),
        TABLE.replace("0.3", "nan"),
        "LAYER,P,R,F\n",
    ],
)
def test_text_that_is_no_baseline_is_refused(text):
    with pytest.raises(ConfigError, match=r"b\.csv is not a baseline table"):
        parse_baseline(text, "b.csv")
