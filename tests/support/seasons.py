"""Simulated seasons: nights of a system that does not change, each compared with earlier ones."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from bertscore_beam.compare import keyed_rows, paired_sides
from bertscore_beam.compare.compare_options import CompareOptions
from bertscore_beam.compare.gate import judge
from bertscore_beam.compare.results import Comparison, GroupComparison
from bertscore_beam.compare.settings import SettingsDifference
from bertscore_beam.dump.census import WHOLE
from bertscore_core.stats.score_statistics import Doubles

NIGHTS = 60
"""Nights of a season, after the first."""
SPREAD = 0.085
"""Standard deviation of a score from night to night; that of a difference is .12."""
DROP = 0.005

CONFIDENCES = (0.95, 0.99)

LABELS = np.array(
    [
        [1, 0.719, 0.371, 0.124],
        [0.719, 1, 0.324, 0.112],
        [0.371, 0.324, 1, 0.313],
        [0.124, 0.112, 0.313, 1],
    ]
)
"""F1 of `positive`, `negative`, `neutral` and `mixed` with each other, by MiniLM."""

Night = Callable[[], Doubles]
"""Draws the scores of a night."""
Drawing = Callable[[int, np.random.Generator], Night]
"""Begins a season of so many rows."""


def answers(accuracy: float, wrong: float) -> Drawing:
    """Return a season of answers that score 1 if they are right, each with this probability.

    Others score `wrong`: .8 is F1 of `Yes` with `No` by MiniLM.
    """
    return lambda rows, random: lambda: np.where(random.random(rows) < accuracy, 1.0, wrong)


def _labels(rows: int, random: np.random.Generator) -> Night:
    truth = random.integers(0, 4, rows)
    return lambda: LABELS[
        truth, (truth + (random.random(rows) > 0.8) * random.integers(1, 4, rows)) % 4
    ]


def _edits(rows: int, random: np.random.Generator) -> Night:
    words, rate = random.integers(4, 25, rows), random.beta(2, 6, rows)
    return lambda: -100 * random.binomial(words, rate) / words


def _half_tied(rows: int, random: np.random.Generator) -> Night:
    middle, moves = random.normal(0.85, 0.05, rows), np.arange(rows) % 2 * SPREAD
    return lambda: middle + moves * random.standard_normal(rows)


COARSE: Mapping[str, Drawing] = {
    "yes/no .8": answers(0.8, 0.8),
    "yes/no .95": answers(0.95, 0.8),
    "exact match .8": answers(0.8, 0.0),
    "exact match .95": answers(0.95, 0.0),
    "four labels": _labels,
    "TER": _edits,
    "half tied": _half_tied,
}
"""Scores of few values, each night drawn anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """What the nights of a season have in common.

    Attributes:
        groups: Number of groups; 0 if there is only the whole.
        rows: Rows of a group: as many in each, or from the first to the second number, evenly.
        nulls: Share of the rows that have no score on a night.
        shape: Of the scores of a row over the nights: `normal`, `t3` (Student's t), `zeros` (2% of
            the scores are 0), `skewed` (gamma, skewness -4), or one of `COARSE`.
        repeats: How often each row is there.
        repeated: Share of the groups that have repeats.
        found: Whether the repeats are found, since their texts are long and equal.
        sampled: Share of the variance that each copy of a row has for itself: it is drawn anew.
        document: Rows of a document, which share half of their variance and lose scores together.
        cluster: Whether the documents are named.
        reused: Share of the rows whose texts, and so scores, are those of the night before.
        pinned: Whether each night is compared with the first one as well.
        measures: How many measures have a gate: their scores are independent.
    """

    groups: int = 24
    rows: tuple[int, int] = (100, 100)
    nulls: float = 0.0
    shape: str = "normal"
    repeats: int = 1
    repeated: float = 1.0
    found: bool = True
    sampled: float = 0.0
    document: int = 1
    cluster: bool = False
    reused: float = 0.0
    pinned: bool = False
    measures: int = 1


def failed_nights(family: Family, seed: int) -> Iterator[tuple[bool, ...]]:
    """Yield for each night of a season whether it is not good, at each of `CONFIDENCES`.

    That is, whether `compare` would end with status 4 or 5.
    """
    random = np.random.default_rng(seed)
    sizes = np.rint(np.linspace(*family.rows, max(1, family.groups))).astype(np.int64)
    groups = np.repeat(np.arange(len(sizes)), sizes)
    number = np.concatenate([np.arange(size) for size in sizes])
    repeats = np.where(np.arange(len(sizes)) < family.repeated * len(sizes), family.repeats, 1)
    # Rows of one document have one number, and so have repeats of a row.
    documents = np.unique([groups, number // family.document], axis=1, return_inverse=True)[1]
    same = np.unique([groups, number // repeats[groups]], axis=1, return_inverse=True)[1]
    rows = np.zeros(2 * len(groups), dtype=keyed_rows.ENTRY)
    rows["group"] = np.tile(groups, 2)
    if family.cluster:
        rows["cluster"] = np.tile(1 + documents, 2)
    elif family.found:
        rows["cluster"] = np.tile(np.where(repeats[groups] > 1, 1 + same, 0), 2)
    middle = random.normal(0.85, 0.05, len(groups))
    coarse = COARSE[family.shape](len(groups), random) if family.shape in COARSE else None

    def night(before: Doubles | None) -> Doubles:
        """Return the scores of a night by each measure. Shape (measures, rows)."""
        earlier = [None] * family.measures if before is None else before
        return np.stack([scores_of(one) for one in earlier])

    def fresh() -> Doubles:
        if coarse is not None:
            return coarse()
        own = _deviations(family, len(groups), random)
        shared = _deviations(family, len(groups), random)[documents]
        weight = 0.5 if family.document > 1 else 0.0
        scores = middle + SPREAD * (np.sqrt(1 - weight) * own + np.sqrt(weight) * shared)
        if family.shape == "zeros":
            scores[random.random(len(scores)) < 0.02] = 0.0
        return scores

    def scores_of(before: Doubles | None) -> Doubles:
        scores = fresh()[np.unique(same, return_index=True)[1][same]]
        if family.sampled:
            own = SPREAD * _deviations(family, len(groups), random)
            middle_of = middle[np.unique(same, return_index=True)[1][same]]
            shared = np.sqrt(1 - family.sampled) * (scores - middle_of)
            scores = middle_of + shared + np.sqrt(family.sampled) * own
        scores[(random.random(len(scores)) < family.nulls)[documents]] = np.nan
        if before is not None:
            kept = random.random(len(scores)) < family.reused
            scores[kept] = before[kept]
        return scores.astype(np.float32).astype(np.float64)

    first = now = night(None)
    # The night that the next one is compared with, at each confidence: the last that has passed.
    passed = [first] * len(CONFIDENCES)
    for _ in range(NIGHTS):
        now = night(now)
        compared: dict[int, list[Comparison]] = {}
        failed = []
        for confidence, last in zip(CONFIDENCES, passed, strict=True):
            others = [last, first] if family.pinned else [last]
            for other in others:
                if id(other) not in compared:
                    sides = zip(now, other, strict=True)
                    compared[id(other)] = [_compared(family, rows, *both) for both in sides]
            own = _options(family, confidence)
            judged = judge([one for other in others for one in compared[id(other)]], own)
            failed.append(any(one.failures or one.not_judged for one in judged))
        yield tuple(failed)
        passed = [last if bad else now for bad, last in zip(failed, passed, strict=True)]


def _options(family: Family, confidence: float) -> CompareOptions:
    return CompareOptions(
        run="run",
        against=("against",),
        by=("group",) if family.groups else (),
        cluster="document" if family.cluster else None,
        fail_if_drop=DROP,
        confidence=confidence,
        moved_rows=0,
    )


def _compared(family: Family, rows: keyed_rows.Entries, now: Doubles, other: Doubles) -> Comparison:
    rows["score"] = rows["raw"] = np.concatenate([now, other])
    options, settings = _options(family, CONFIDENCES[0]), SettingsDifference(noise=0.0)
    names = [(str(one),) for one in range(max(1, family.groups))]
    groups = [keyed_rows.Grouping.of(names)]
    reader = keyed_rows.RowReader(options, "quality")  # which has no bounds
    reader.files["rows"] = 0
    sums = paired_sides.PairedGroups(reader, (0, 1), ("", ""), settings, groups)
    sums.add(rows, *np.arange(len(rows)).reshape(2, -1))
    each = tuple(sums.compared(name, 0) for name in names[: family.groups])
    return comparison(sums.compared(WHOLE, 0), each, options)


def _deviations(family: Family, rows: int, random: np.random.Generator) -> Doubles:
    """Return deviations with a mean of 0 and a variance of 1. Shape (rows,)."""
    if family.shape == "t3":
        return random.standard_t(3, rows) / np.sqrt(3)
    if family.shape == "skewed":
        return (1 - random.gamma(0.25, 4, rows)) / 2
    return random.standard_normal(rows)


def comparison(
    whole: GroupComparison, groups: tuple[GroupComparison, ...], options: CompareOptions
) -> Comparison:
    """Return a comparison that has a whole and groups, and no rows."""
    return Comparison(
        run=options.run,
        against=options.against[0],
        measure="f1",
        key=(),
        by=options.by,
        cluster=options.cluster,
        confidence=options.confidence,
        drop=options.fail_if_drop,
        settings=SettingsDifference(noise=0.0),
        whole=whole,
        groups=groups,
    )


def found_rate(
    usual: Drawing,
    fallen: Drawing,
    rows: int,
    nights: int,
    *,
    groups: int = 0,
    pinned: bool = False,
    seed: int = 0,
) -> float:
    """Return the share of nights on which a drop fails the gate.

    Nights before draw `usual` scores, and so does this one but for `rows` that draw `fallen`: all,
    or those of one of so many groups as large.
    """
    random, found = np.random.default_rng(seed), []
    family = Family(groups=groups, rows=(rows, rows))
    number = rows * max(1, groups)
    entries = np.zeros(2 * number, dtype=keyed_rows.ENTRY)
    entries["group"] = np.tile(np.arange(number) // rows, 2)
    for _ in range(nights):
        draw = usual(number, random)
        now, others = draw(), [draw() for _ in range(1 + pinned)]
        now[:rows] = fallen(rows, random)()
        comparisons = [_compared(family, entries, now, other) for other in others]
        judged = judge(comparisons, _options(family, CONFIDENCES[0]))
        found.append(any(one.failures for one in judged))
    return float(np.mean(found))


def failure_rates(family: Family, nights: int, *, seed: int = 0) -> Doubles:
    """Return the share of so many nights that fail, and its 95% interval by season.

    Shape (3, 2): share, lower and upper end, at each of `CONFIDENCES`.
    """
    number = -(-nights // NIGHTS)
    seasons = np.array(
        [
            np.mean([*failed_nights(family, 1000 * seed + season)], axis=0)
            for season in range(number)
        ]
    )
    rates = seasons.mean(axis=0)
    # Of few failures no two may be in one season by chance.
    by_night = np.sqrt(rates * (1 - rates) / (number * NIGHTS))
    reach = 1.96 * np.maximum(seasons.std(axis=0, ddof=1) / np.sqrt(number), by_night)
    return np.stack([rates, np.maximum(rates - reach, 0), rates + reach])
