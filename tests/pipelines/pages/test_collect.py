"""What a page says of runs is what their rows say."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from bertscore_beam.dump import columns
from bertscore_beam.pages.page import render
from bertscore_beam.pages.report_data import ReportData
from bertscore_beam.pages.report_options import ReportOptions
from bertscore_beam.pages.report_rows import MOST_BARS, collect
from bertscore_core.errors import BertScoreError
from tests.support.made_runs import SIGNATURE, made_run, scored, with_column
from tests.support.read_html import Reader

ROWS = 1200
F1 = np.round(np.random.default_rng(5).beta(8, 3, ROWS), 6)
SYSTEMS = np.array(["a", "b", "<c>"], dtype=object)[np.arange(ROWS) % 3]
LANGUAGES = np.array(["ar", "ja"], dtype=object)[np.arange(ROWS) // 3 % 2]
WORSE = SYSTEMS == "b"
LAST = np.clip(F1 - 0.02 * WORSE, 0, 1)
"""The scores of the last night."""
THERE = ~np.isin(np.arange(ROWS), [7, 700])
"""The rows with scores."""


def table(f1: np.ndarray, note: str) -> pa.Table:
    """Return rows of three systems, two languages and four lengths; two rows have no scores."""
    missing = np.where(THERE, f1, np.nan)
    made = scored(
        missing,
        precision=missing + 0.01,
        recall=missing - 0.01,
        candidate=pa.array([f"{note} {number} </script>" for number in range(ROWS)]),
        reference=pa.array([[f"reference {number}", "another"] for number in range(ROWS)]),
        system=pa.array(SYSTEMS),
        language=pa.array(LANGUAGES),
        segment=pa.array(np.arange(ROWS) // 3),
    )
    tokens = pa.array(np.int32(5 * 4 ** (np.arange(ROWS) % 4)), mask=np.isnan(missing))
    made = with_column(made, columns.CANDIDATE_TOKENS, tokens)
    return with_column(made, columns.TRUNCATED, np.arange(ROWS) % 100 == 0)


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four nights; in the last one a system is worse."""
    folder = tmp_path_factory.mktemp("nights")
    for day in range(5):
        inputs = _inputs(LAST, "changed") if day == 3 else _inputs(F1, "candidate")
        made_run(folder / f"n{day}", inputs, part_rows=250, started=1e9 + day)
    # One that is not done.
    (folder / "n4" / "_SUCCESS").unlink()
    return folder


def _inputs(f1: np.ndarray, note: str) -> dict[str, pa.Table]:
    rows = table(f1, note)
    return {"one.parquet": rows.slice(0, 700), "two.parquet": rows.slice(700)}


@pytest.fixture(scope="module")
def report(nights: Path) -> ReportData:
    runs = {"run": str(nights / "n*"), "against": (str(nights / "n0"),)}
    names = {"by": ("system", "language"), "key": ("segment",), "system_column": "system"}
    return collect(ReportOptions(**runs, **names, with_texts=True, rows=5))


def test_means_are_those_of_the_rows(report):
    last = np.float32(LAST)
    total = report.total.values
    assert (total["rows"], total["scored"]) == (ROWS, ROWS - 2)
    assert total["f1"] == pytest.approx(last[THERE].mean(dtype=np.float64), abs=1e-7)
    assert total["precision"] == pytest.approx(total["f1"] + 0.01, abs=1e-6)
    assert total["f1_low"] < total["f1"] < total["f1_high"]
    assert total["truncated"] == np.count_nonzero((np.arange(ROWS) % 100 == 0) & THERE)
    assert len(report.groups) == 6
    for row in report.groups:
        own = (row.group[0] == SYSTEMS) & (row.group[1] == LANGUAGES) & THERE
        assert row.values["scored"] == np.count_nonzero(own)
        assert row.values["f1"] == pytest.approx(last[own].mean(dtype=np.float64), abs=1e-7)
    means = [row.values["f1"] for row in report.groups]
    assert means == sorted(means, reverse=True)


def test_bars_and_lengths_hold_every_scored_row(report):
    last = LAST[THERE]
    lows, highs, counts = map(np.array, zip(*report.histogram, strict=True))
    assert counts.sum() == ROWS - 2
    assert (highs[:-1] == lows[1:]).all()
    assert len(counts) <= MOST_BARS
    expected, _ = np.histogram(last, [*lows, highs[-1]])
    assert np.abs(np.cumsum(expected - counts)).max() <= 2
    # 5, 20, 80 and 320 tokens; the reference has 20.
    assert [row.group for row in report.lengths] == [("16", "31"), ("64", "127"), ("256", "511")]
    assert [row.values["scored"] for row in report.lengths] == [600 - 1, 300, 299]
    assert report.total.values["reasons"] == {"null_candidate": 2}


def test_single_rows_are_the_extreme_ones_with_their_texts(report):
    last = np.where(THERE, LAST, np.nan)
    lowest = np.argsort(last, kind="stable")[:5]
    places = [("one.parquet", n) if n < 700 else ("two.parquet", n - 700) for n in lowest.tolist()]
    assert [row.place for row in report.worst] == places
    assert [row.f1 for row in report.worst] == pytest.approx(last[lowest])
    for row, number in zip(report.worst, lowest.tolist(), strict=True):
        assert row.texts is not None
        assert row.texts.candidate == f"changed {number} </script>"
        assert row.texts.references == (f"reference {number}", "another")
        assert row.tokens == 5 * 4 ** (number % 4)
        assert row.group == (SYSTEMS[number], LANGUAGES[number])
        assert row.key == (str(number // 3), SYSTEMS[number])
    for row in report.fallen:
        number = row.place.row + (700 if row.place.input_name == "two.parquet" else 0)
        assert row.key == (str(number // 3), SYSTEMS[number])
    assert len(report.fallen) == 5
    assert report.best[0].f1 == pytest.approx(np.nanmax(last))


@pytest.mark.parametrize("rescaled", [False, True])
def test_noise_changes_neither_the_order_of_rows_nor_that_of_groups(tmp_path, rescaled):
    """A sixth of the candidates equal their reference, as many repeat another; "d" repeats "a"."""
    f1 = np.where(np.arange(120) % 6, np.tile([0.9, 0.3, 0.5, 0.7, 0.6], 24), 1.0)
    f1[:40] = f1[80:]
    system = pa.array(np.repeat(list("abd"), 40)[::-1])
    random, found = np.random.default_rng(3), []
    for night in range(6):
        noisy = f1 + random.uniform(-4e-7, 4e-7, 120) / (0.15 if rescaled else 1)
        rows = scored(noisy, system=system)
        run = made_run(tmp_path / str(night), {"b": rows, "a": rows}, part_rows=50)
        page = collect(ReportOptions(run=str(run), by=("system",), rows=7))
        best = [(place.place.input_name, place.place.row) for place in page.best]
        assert best == [("a", row) for row in np.flatnonzero(f1 == 1)[:7]]
        found.append(([row.place for row in page.worst], [row.group for row in page.groups]))
    assert found[1:] == found[:1] * 5
    _, groups = found[0]
    assert groups.index(("d",)) == groups.index(("a",)) + 1


def test_the_change_finds_the_system_that_is_worse_and_no_other(report):
    assert report.against is not None
    for one in report.against.groups:
        if one.group[0] == "b":
            assert one.result.interval[1] < 0
            assert one.result.difference == pytest.approx(-0.02, abs=1e-3)
        else:
            assert one.result.difference == 0
    assert {row.group[0] for row in report.fallen} == {"b"}
    assert report.risen == ()
    first = report.fallen[0]
    assert first.before - first.f1 == pytest.approx(0.02, abs=1e-5)
    assert first.candidate_before.startswith("candidate ")
    assert first.texts.candidate.startswith("changed ")


def answer(page: str) -> str:
    """Return the words of the box that follows the title."""
    box = re.search(r"</h1>\s*<section class=.*?</section>", page, re.DOTALL)
    return " ".join(" ".join(Reader(box.group()).words).split())


def test_the_page_begins_with_what_has_changed(report):
    page = render(report)
    words = answer(page)
    assert words.startswith("Worse : 2 of 6 groups worse b / ar : -0.02000 [")
    assert words.count(" any difference: corrected p ") == 2
    assert "Change of raw F1 worse: -0.006" in words
    assert "; other groups: 4 unchanged Rows lost none" in words
    assert f"over {ROWS - 2:,} of {ROWS:,} rows" in words
    # The changed groups are the first of the table, the chart and the trend.
    for place in ("changes-table", "trend-table"):
        table_of = page.partition(f'id="{place}"')[2].partition("</table>")[0]
        names = re.findall(r'"name">(\w+|&lt;c&gt;)</bdi> / ', table_of)
        assert [name == "b" for name in names] == [True] * 2 + [False] * 4, place


def test_rows_that_have_lost_their_scores_are_in_the_answer(tmp_path):
    rows = {"system": pa.array(["a", "b"] * 50)}
    before = made_run(tmp_path / "before", {"x.parquet": scored(F1[:100], **rows)})
    lost = np.where(np.arange(100) < 6, np.nan, F1[:100])
    lost[1] = F1[1]
    run = made_run(tmp_path / "run", {"x.parquet": scored(lost, **rows)})
    options = {"run": str(run), "against": (str(before),), "by": ("system",)}
    words = answer(render(collect(ReportOptions(**options))))
    assert "5 rows that had a score in the other run have none here: a 3, b 2" in words
    alone = answer(render(collect(ReportOptions(run=str(run)))))
    assert alone.startswith("Mean raw F1 0.")
    assert "over 95 of 100 rows" in alone
    assert "5 of 100 rows have no scores: the means leave them out." in alone


def test_the_ranking_is_over_the_rows_of_all_systems(report):
    assert report.ranking is not None
    assert report.ranking.rows == 400 - 2
    assert {one.system for one in report.ranking.systems} == {"a", "b", "<c>"}


def test_a_pattern_gives_the_trend_of_the_runs_that_are_done(report):
    assert [night.run.rpartition("/")[2] for night in report.nights] == ["n0", "n1", "n2", "n3"]
    assert report.run.endswith("/n3")
    first, *_, last = report.nights
    assert first.total.values["f1"] == pytest.approx(F1[THERE].mean(), abs=1e-6)
    assert last.total == report.total
    expected = {row.group: (row.values["f1"], row.values["scored"]) for row in report.groups}
    assert last.groups == expected
    assert all(night.comparable for night in report.nights)
    assert "Runs of the series that are not done are left out: 1." in report.notices


def test_cost_and_settings_are_those_of_the_run(report):
    assert report.summary.tokens == 40 * ROWS
    assert report.parts == 5
    assert "1,200, of which 1,200 were scored by the run and 0 took the scores" in render(report)
    assert report.signatures == {None: SIGNATURE.format()}
    assert report.started == "2001-09-09 01:46:43"
    assert not report.rescaled


def test_languages_and_rescaling_are_seen(tmp_path):
    by_language = {"ar": SIGNATURE, "ja": replace(SIGNATURE, baseline="en@abc")}
    run = made_run(tmp_path / "run", {"a.parquet": table(F1, "text")}, signature=by_language)
    found = collect(ReportOptions(run=str(run), with_texts=True, rows=2))
    languages = [(row.group, row.values["rows"]) for row in found.languages]
    assert languages == [(("ar",), 600), (("ja",), 600)]
    japanese = (LANGUAGES == "ja") & THERE
    assert found.languages[1].values["f1"] == pytest.approx(F1[japanese].mean(), abs=1e-6)
    assert found.rescaled
    assert list(found.signatures) == ["ar", "ja"]
    assert found.worst[0].texts.language in ("ar", "ja")


@pytest.mark.parametrize("rows", [0, 3], ids=["no_rows", "no_scores"])
def test_a_run_without_scores_has_a_page_that_says_so(tmp_path, rows):
    made = scored(np.full(rows, np.nan), system=pa.array(["a"] * rows, pa.string()))
    run = made_run(tmp_path / "run", {"a.parquet": made})
    found = collect(ReportOptions(run=str(run), by=("system",), with_texts=True))
    assert (found.total.values["rows"], found.total.values["f1"]) == (rows, None)
    assert found.worst == found.best == ()
    page = render(found)
    assert "No row has scores." in page
    notice = "3 of 3 rows have no scores" if rows else "The run has no rows."
    assert notice in page


@pytest.mark.parametrize("by", [(), ("system",)])
def test_a_page_about_runs_without_a_common_row_says_that_nothing_is_compared(nights, tmp_path, by):
    rows = with_column(table(F1, "other"), "segment", range(10_000, 10_000 + ROWS))
    other = str(made_run(tmp_path / "other", {"one.parquet": rows}))
    key = ("segment", "system")
    found = collect(ReportOptions(run=str(nights / "n3"), against=(other,), key=key, by=by))
    (_, notice, lost) = found.notices
    assert "There is no difference: got no row with scores on both" in notice
    assert "1,198 rows that the other side has scored have no score here (100.00% of them)" in lost
    assert (found.fallen, found.risen) == ((), ())
    page = render(found)
    assert page.count("got no row with scores on both sides") == 1
    assert (
        "0 rows have scores in both runs. 1,200 rows are not in the other run. 1,200 rows of the"
        in page
    )
    assert "Mean difference of each group" not in page  # a chart without a dot


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"run": "missing-*"}, "holds a finished run: got"),
        ({"run": "n4"}, "is not done"),
        ({"run": "n3", "against": ("missing",)}, "is not a scoring run"),
    ],
)
def test_what_cannot_be_reported_is_said(nights, options, words):
    against = tuple(str(nights / folder) for folder in options.get("against", ()))
    with pytest.raises(BertScoreError, match=words):
        collect(ReportOptions(run=str(nights / options["run"]), against=against))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"confidence": 1.0}, "the confidence cannot be used: got 1.0"),
        ({"rows": -1}, "--rows cannot be used: got -1"),
        ({"system_column": "system"}, "--system needs --key"),
        ({"fail_if_drop": 0.1}, "--fail-if-drop needs --against: got none"),
        ({"fail_if_drop": -1.0, "against": ("x",)}, "--fail-if-drop cannot be used"),
        ({"max_missing_fraction": 2.0, "against": ("x",)}, "'max_missing_fraction' cannot be used"),
    ],
)
def test_options_are_checked_before_any_run_is_opened(values, words):
    with pytest.raises(BertScoreError, match=words):
        ReportOptions(run="nowhere", **values)
