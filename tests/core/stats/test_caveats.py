"""What goes beside an estimate: when there is a caveat, and its words."""

import numpy as np
import pytest

from bertscore_core.stats.caveats import (
    Caveat,
    CaveatKind,
    GroupCaveats,
    caveat_cells,
    caveat_messages,
    caveats_of_difference,
    caveats_of_groups,
    caveats_of_mean,
    caveats_of_values,
)
from bertscore_core.stats.paired import compare_paired
from bertscore_core.stats.score_statistics import (
    GroupedRows,
    ScoreStatistics,
    UnknownTokens,
    statistics_by_group,
)


def statistics_of(f1):
    """Return the statistics of rows with an F1 each."""
    scores = np.repeat(np.float32(f1)[:, None], 3, axis=1)
    scores[:, :2] = np.clip(scores[:, :2], -1, 1)
    no = np.zeros(len(f1), dtype=np.bool_)
    one = np.zeros(len(f1), dtype=np.int64)
    rows = GroupedRows(groups=one, number=1, scores=scores, raw=None, truncated=no, reasons={})
    return statistics_by_group(rows)[0]


def kinds(caveats):
    return [str(one.kind) for one in caveats]


def test_a_mean_has_caveats_of_few_rows_skew_and_clipped_rows():
    even = np.random.default_rng(0).normal(0.8, 0.05, 200)
    assert caveats_of_mean(statistics_of(even)) == ()
    assert caveats_of_mean(ScoreStatistics()) == ()
    few, skewed = statistics_of(even[:19]), statistics_of([*even, -1, -1])
    assert caveats_of_mean(few) == (Caveat(kind=CaveatKind.FEW_ROWS, number=19),)
    (skew,) = caveats_of_mean(skewed)
    assert (skew.kind, round(skew.number)) == (CaveatKind.FEW_ROWS_CARRY, 2)
    pole = caveats_of_mean(statistics_of([*even[:5], -282.8, 1.2]))
    assert [(str(one.kind), one.number) for one in pole] == [("few_rows", 7), ("clipped", 2)]


def test_rows_with_many_unknown_tokens_have_a_caveat_with_their_share():
    for unknown, expected in ((5, []), (6, [0.06])):
        tokens = UnknownTokens(tokens=100, unknown=unknown)
        found = caveats_of_mean(ScoreStatistics(rows=50, unknown=tokens))
        assert [one.number for one in found] == expected
        assert kinds(found) == ["unknown_tokens"] * len(expected)


@pytest.mark.parametrize(
    ("rows", "clusters", "expected"),
    [
        (9, None, ["few_rows", "clipped"]),
        (100, None, ["clipped"]),
        (100, 20, ["clipped"]),
        (100, 5, ["few_clusters", "clipped"]),
    ],
)
def test_a_difference_has_caveats_by_rows_or_by_clusters(rows, clusters, expected):
    d = np.random.default_rng(1).normal(0, 0.1, rows)
    names = None if clusters is None else np.arange(rows) % clusters
    found = compare_paired(d, names, resamples=0)
    assert kinds(caveats_of_difference(found, 3, UnknownTokens())) == expected
    unknown = UnknownTokens(tokens=10, unknown=9)
    assert kinds(caveats_of_difference(found, 3, unknown)) == ["unknown_tokens", *expected]


def test_every_kind_has_words_for_a_cell_the_whole_and_groups():
    every = [Caveat(kind=kind, number=3) for kind in CaveatKind]
    assert len(caveat_cells(every).split(", ")) == len(every)
    groups = caveats_of_groups([(["en"], every), (["de"], every[:3]), (["zh"], [])])
    assert [(one.groups, one.such_as) for one in groups] == [(2, "en")] * 3 + [(1, "en")] * (
        len(every) - 3
    )
    assert [one.number for one in groups] == [3] * len(every)
    whole, of_groups = caveat_messages(every), caveat_messages((), GroupCaveats(groups, 3))
    assert list(whole) == list(of_groups) == list(CaveatKind)
    assert len({*whole.values(), *of_groups.values()}) == 2 * len(every)
    then = "the error and the interval are rough, or not known."
    assert whole[CaveatKind.FEW_ROWS] == f"There are too few rows, only 3: {then}"
    assert of_groups[CaveatKind.FEW_ROWS] == f"2 of 3 groups have too few rows, such as en: {then}"


def test_a_caveat_is_said_once_of_the_widest_thing_that_it_holds_of():
    def unknown(share):
        return (Caveat(kind=CaveatKind.UNKNOWN_TOKENS, number=share),)

    cells = [([system, code], unknown(share) if share else ()) for system in ("a", "b")
             for code, share in (("en", 0), ("zh", 0.59 if system == "a" else 0.4))]  # fmt: skip
    systems = [(["a"], unknown(0.1)), (["b"], ())]
    of_systems = GroupCaveats(caveats_of_groups(systems), 2)
    of_cells = GroupCaveats(caveats_of_groups(cells), 4, "groups by language")
    (whole,) = caveat_messages(unknown(0.08), of_systems).values()
    assert whole.startswith("The model does not know 8.0% of the tokens: ")
    (one,) = caveat_messages(unknown(0.08), of_systems, of_cells).values()
    assert one.startswith(
        "All zh groups have more than 5% of tokens unknown to the model, at worst "
        "a / zh (59.0% unknown): "
    )
    (some,) = caveat_messages((), of_systems).values()
    assert some.startswith("1 of 2 groups has more than 5% of tokens")


def test_of_groups_the_worst_is_named_with_its_number():
    shares = {"zh": 60, "th": 98, "en": 5, "la": 0}
    unknown = {name: UnknownTokens(tokens=100, unknown=share) for name, share in shares.items()}
    groups = [([name], caveats_of_values(own, clipped=0)) for name, own in unknown.items()]
    few = [("one", statistics_of([0.5] * 7)), ("two", statistics_of([0.5] * 3))]
    groups += [([name], caveats_of_mean(own)) for name, own in few]
    own = GroupCaveats(caveats_of_groups(groups), 6, "languages")
    of_unknown, of_few = caveat_messages((), own).values()
    assert of_unknown.startswith(
        "2 of 6 languages have more than 5% of tokens unknown to the model, such as th "
        "(98.0% unknown): such texts look the same to the model; choose another"
    )
    assert of_few.startswith("2 of 6 languages have too few rows, such as two: ")
