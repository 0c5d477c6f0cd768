"""A trend whose mix of groups or languages has changed says so."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from bertscore_beam.pages.mix import mix_notices
from bertscore_beam.pages.page import render
from bertscore_beam.pages.report_data import MeanOfRows, Night
from bertscore_beam.pages.report_options import ReportOptions
from bertscore_beam.pages.report_rows import collect
from tests.support.made_runs import SIGNATURE, made_run, scored
from tests.support.report_data import group_row


def night(number, **groups):
    """Return a run with so many rows of each group, and their mean."""
    rows = sum(count for count, _ in groups.values())
    total = sum(count * mean for count, mean in groups.values()) / rows
    means = {(name,): MeanOfRows(mean, count) for name, (count, mean) in groups.items()}
    return Night(run=f"scores/n{number}", started="", total=group_row(f1=total), groups=means)


FIRST = night(1, en=(900, 0.90), de=(100, 0.60))


@pytest.mark.parametrize(
    ("second", "drop", "words"),
    [
        # Both rose by .02, and the mean fell from .87 to .71.
        (
            night(2, en=(300, 0.92), de=(700, 0.62)),
            0.5,
            "with the earlier mix it would have moved by +0.02",
        ),
        (night(2, en=(900, 0.89), de=(100, 0.50)), 0.0, None),  # the mix is the same
        (night(2, en=(1800, 0.7), de=(200, 0.5)), 0.0, None),
        (night(2, en=(890, 0.8), de=(110, 0.5)), 0.005, None),  # .003 of the change
        (
            night(2, en=(890, 0.8), de=(110, 0.5)),
            0.002,
            "-0.1030; with the earlier mix it would have moved by -0.1",
        ),
        (night(2, en=(890, 0.8), de=(110, 0.5)), None, None),
        (
            night(2, en=(880, 0.904), de=(120, 0.604)),
            None,
            "-0.0020; with the earlier mix it would have moved by +0",
        ),
        (
            night(2, en=(900, 0.9), de=(100, 0.6), fr=(500, 0.3)),
            None,
            "mix it would have moved by +0.0000.",
        ),
        (
            night(2, en=(900, 0.9)),
            None,
            "+0.0300; with the earlier mix it would have moved by +0.0000.",
        ),
        (night(2, fr=(900, 0.9)), None, "+0.0300; no group is in both."),
        (replace(night(2, fr=(900, 0.9)), comparable=False), None, None),
        (replace(FIRST, run="scores/n2", groups={}), None, None),
    ],
)
def test_a_change_that_would_be_another_at_the_earlier_mix_is_told(second, drop, words):
    told = mix_notices([FIRST, second], drop)
    assert bool(told) is (words is not None)
    for notice in told:
        assert "The mix of groups has changed: from n1 to n2 mean F1 moved by " in notice
        assert words in notice


def test_a_mix_that_changes_slowly_is_told_and_the_worst_change_is_named():
    nights = [night(at, en=(900 - 10 * at, 0.9), de=(100 + 10 * at, 0.6)) for at in range(4)]
    (told,) = mix_notices(nights, 0.005)
    assert "from n0 to n3 mean F1 moved by -0.0090; with the earlier mix it would " in told
    assert told.endswith("have moved by +0.0000.")
    (told,) = mix_notices(nights, 0.001)
    assert "from n0 to n3" in told
    assert "More such changes in the trend: 3." in told


@pytest.mark.parametrize("kind", ["group", "language"])
def test_the_page_of_a_series_whose_mix_has_changed_says_so(tmp_path, kind):
    """Each night is of 1,000 rows in two languages; both rise by .02."""
    signatures = {"en": SIGNATURE, "de": SIGNATURE}
    for at, english in enumerate((900, 900, 300)):
        is_english = np.arange(1000) < english
        f1 = np.where(is_english, 0.9, 0.6) + 0.02 * (at == 2)
        rows = scored(f1, language=pa.array(np.where(is_english, "en", "de").astype(object)))
        how = {"signature": signatures} if kind == "language" else {}
        made_run(tmp_path / f"n{at}", {"a": rows}, started=1e9 + at, **how)
    by = ("language",) if kind == "group" else ()
    found = collect(ReportOptions(run=str(tmp_path / "n*"), by=by, notice="Hello <you>."))
    first, told, *others = found.notices
    assert first == "Hello <you>."
    assert told == (
        f"The mix of {kind}s has changed: from n1 to n2 mean F1 moved by -0.1600; with the "
        "earlier mix it would have moved by +0.0200. More such changes in the trend: 1."
    )
    assert others == []
    page = render(found)
    assert told in page
    assert "Hello &lt;you&gt;." in page
