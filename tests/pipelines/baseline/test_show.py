"""What a run says about its tables."""

import pytest

from pipelines.baseline.show import LARGE_ERROR, warnings_of


def summary(**table):
    row = {
        "table": "en/bert.tsv",
        "pairs": 2_000,
        "pairs_without_tokens": 0,
        "largest_error": 1e-3,
        "failed_checks": [],
        "skipped_checks": [],
    }
    return {"tables": [row | table], "unusable": [], "languages": {}}


def test_an_exact_table_is_not_warned_about():
    assert warnings_of(summary(), given=False) == []


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"largest_error": 2 * LARGE_ERROR}, "is 1.0e-02 with 2,000 pairs"),
        (
            {"largest_error": None},
            "is not known, since nearly all sentences are from one host, with",
        ),
        ({"largest_error": None, "pairs": 1}, "is not known with 1 pairs"),
    ],
)
def test_a_table_without_a_small_error_is(table, words):
    (said,) = warnings_of(summary(**table), given=False)
    assert f"the standard error of F1 {words}" in said
    assert "Take more --pairs, and sentences of more hosts" in said
