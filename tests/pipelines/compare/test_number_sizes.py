"""Measures of any size: a metric of one's own may count in 1e-170 or in 1e308."""

import json
import math
import sys
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from bertscore_beam.compare import keyed_rows
from bertscore_beam.compare.compare import compare_runs
from bertscore_beam.compare.compare_options import CompareOptions
from bertscore_beam.compare.comparison_tables import document_of, failures_of, tables_of
from bertscore_beam.pages.page import render
from bertscore_beam.pages.report_options import ReportOptions
from bertscore_beam.pages.report_rows import collect
from tests.support.made_runs import made_run, many_rows

ROWS = 240
LARGEST = sys.float_info.max
TIMES = ("mean", "against_mean", "difference", "error", "upper", "detectable", "interval")
TIMES += ("bootstrap_interval", "change", "score", "against_score", "drop")


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    """Resample less, and take rows from several buckets."""
    monkeypatch.setattr("bertscore_beam.compare.compare.RESAMPLES", 499)
    monkeypatch.setattr(keyed_rows, "BUCKET_ROWS", 70)


def runs(folder, now, before):
    """Write two runs whose rows have these numbers in a column of the input."""
    made = []
    for name, values in (("now", now), ("before", before)):
        rows = many_rows(len(values)).append_column("size", pa.array(values))
        made.append(str(made_run(folder / name, {"news.parquet": rows})))
    return made


def compared(now, before, **options):
    options = {"measure": ("size",), **options}
    return compare_runs(CompareOptions(run=now, against=(before,), **options))


def times(value, exponent):
    if isinstance(value, dict):
        return {
            name: scaled(own, exponent) if name in TIMES else times(own, exponent)
            for name, own in value.items()
        }
    return [times(own, exponent) for own in value] if isinstance(value, list | tuple) else value


def scaled(value, exponent):
    if isinstance(value, list | tuple):
        return [scaled(own, exponent) for own in value]
    return None if value is None else math.ldexp(value, exponent)


def plain(compared):
    """Return comparisons as JSON has them, which knows no infinity; gates name numbers in words."""
    document = json.loads(json.dumps(document_of(compared), allow_nan=False))
    for one in document["comparisons"]:
        del one["run"], one["against"], one["warnings"], one["explain"]
        for group in (one["whole"], *one["groups"]):
            if group["gate"] is not None:
                group["gate"]["failures"] = len(group["gate"]["failures"])
                del group["gate"]["worse"]
    return document


def numbers(seed, shift=0.0):
    random = np.random.default_rng(seed)
    return random.normal(3, 1, ROWS) + shift * (np.arange(ROWS) % 4 == 1)


@pytest.mark.parametrize("exponent", [-980, -570, 500, 1019])
@pytest.mark.parametrize("cluster", [None, "document"])
def test_numbers_times_a_power_of_two_give_the_same_verdicts_to_the_last_bit(
    tmp_path, exponent, cluster
):
    now, before = numbers(1, -1.5), numbers(2)
    now[:40] = before[:40]
    how = {"by": ("system",), "cluster": cluster, "confidence": 0.9}
    expected = compared(*runs(tmp_path / "as", now, before), **how, fail_if_drop=0.25)
    other = runs(tmp_path / "times", np.ldexp(now, exponent), np.ldexp(before, exponent))
    found = compared(*other, **how, fail_if_drop=math.ldexp(0.25, exponent))
    assert plain(found) == times(plain(expected), exponent)
    if cluster is None:  # the documents are too few
        assert [group.is_significant for group in found.comparisons[0].groups].count(True) == 1
        assert not found.passed


@pytest.mark.parametrize("exponent", [-980, 1019])
def test_systems_rank_alike_whatever_the_size_of_their_numbers(tmp_path, exponent):
    now = numbers(1, -1.5)
    (run, other) = runs(tmp_path, now, np.ldexp(now, exponent))
    how = {"systems": (), "system_column": "system", "key": ("segment",), "measure": ("size",)}
    expected, found = (compare_runs(CompareOptions(run=one, **how)) for one in (run, other))
    assert len(expected.rankings[0].systems) == 4
    assert plain(found) == times(plain(expected), exponent)


@pytest.mark.parametrize(
    "values",
    [
        np.array([5e-324, 0.0, -5e-324, 1e-323]),
        np.array([1e-308, 3e-308, 2e-308, 2e-308]),
        np.array([1e308, 1e308, 1e308, 9e307]),
        np.array([LARGEST, LARGEST, 1.0, LARGEST]),
        np.array([LARGEST, -LARGEST, 1e-3, -0.0]),
        np.array([1e300, 1.0, 2.0, 3.0]),
        np.array([2.5e-20, 0.0, 8.0e-21, 3.2e-20], np.float32),
        np.array([3e38, 1e-45, -3e38, 1.0], np.float32),
        np.array([2**60, 2**53 + 2, 0, 2]),
    ],
    ids=str,
)
def test_means_and_differences_of_any_numbers_are_right_and_finite(tmp_path, values):
    before = values[[1, 2, 3, 0]]
    found = compared(*runs(tmp_path, values, before), moved_rows=4)
    (one,) = found.comparisons
    mine, theirs = ([*map(Fraction, own.astype(float).tolist())] for own in (values, before))
    assert one.whole.mean == float(sum(mine) / 4)
    assert one.whole.against_mean == float(sum(theirs) / 4)
    assert one.whole.result.difference == pytest.approx(0, abs=float(max(map(abs, mine))) * 1e-15)
    moves = [now - earlier for now, earlier in zip(mine, theirs, strict=True)]
    # Of shares of the largest, since squares may be beyond a double. Their mean is 0.
    unit = max(map(abs, moves))
    share = math.sqrt(sum(float(own / unit) ** 2 for own in moves) / 12)
    assert one.whole.result.error == pytest.approx(float(unit * Fraction(share)), rel=1e-12)
    changes = sorted(min(float(min(own, LARGEST)), LARGEST) for own in map(abs, moves))
    assert sorted(abs(row.change) for row in one.moved) == pytest.approx([x for x in changes if x])
    json.dumps(document_of(found), allow_nan=False)


def cells(tables):
    return {cell for table in tables for row in table.rows for cell in row}


def test_numbers_of_any_size_are_shown_with_four_digits(tmp_path):
    now, before = numbers(1) * 1e-20, numbers(1) * 1e-20 + 8e-21
    made = runs(tmp_path, now, before)
    found = compared(*made, by=("system",), fail_if_drop=1e-21)
    shown = cells(tables_of(found))
    (one,) = found.comparisons
    assert f"{one.whole.mean:.3e}" in shown
    assert "-8.000e-21" in shown
    assert "0.000000" not in " ".join(shown)
    assert "lower by more than 1e-21: the difference is -8.000e-21, and" in failures_of(found)[0]
    # F1 beside it keeps its decimals, and its noise.
    both = compared(*made, measure=("size", "f1", "precision"))
    assert [one.settings.noise > 0 for one in both.comparisons] == [False, True, True]
    assert f"{both.comparisons[1].whole.mean:.6f}" in cells(tables_of(both))
    page = render(collect(ReportOptions(run=made[0], against=(made[1],), measure=("f1", "size"))))
    assert "-8.000e-21" in page.replace("\u2212", "-")
