"""Why an estimate may say less than it seems to: values that go beside it to every reader.

A caveat is made where its estimate is made. A new kind needs a name in `CaveatKind` and its words
in `_SENTENCES`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import itemgetter
from typing import NamedTuple

from bertscore_core.reasoning import MUCH_REASONING
from bertscore_core.stats.intervals import LEAST_ROWS, effective_rows_in, is_dominated
from bertscore_core.stats.paired import PairedResult
from bertscore_core.stats.score_statistics import (
    MANY_UNKNOWN,
    MEASURES,
    ScoreStatistics,
    UnknownTokens,
)

_FEW_PAIRS = 10
"""Fewer pairs give a rough error of their difference. A mean has no interval below `LEAST_ROWS`."""
FEW_CLUSTERS = 15
"""Fewer effective clusters give a rough error. With at least this many, a gate at 5% fired on 1.4%
to 5.9% of simulated nights, by how unequal the clusters were. With fewer it fired on up to 7.3%, or
on hardly any if one cluster had most rows."""

_REPEATED = 0.1
"""A smaller share of repeats changes little."""


class CaveatKind(StrEnum):
    """The kinds of caveats, in the order in which they are shown."""

    UNKNOWN_TOKENS = "unknown_tokens"
    REASONING = "reasoning"
    FEW_ROWS = "few_rows"
    FEW_CLUSTERS = "few_clusters"
    FEW_ROWS_CARRY = "few_rows_carry"
    FEW_CLUSTERS_CARRY = "few_clusters_carry"
    REPEATED = "repeated"
    CLIPPED = "clipped"
    SEVERAL_TOKENIZERS = "several_tokenizers"


_LEAST_IS_WORST = (
    CaveatKind.FEW_ROWS,
    CaveatKind.FEW_CLUSTERS,
    CaveatKind.FEW_ROWS_CARRY,
    CaveatKind.FEW_CLUSTERS_CARRY,
)


class _Sentences(NamedTuple):
    """A caveat in words: in a cell of a table; of all rows; what groups have; what follows."""

    cell: str
    whole: str
    groups: str
    then: str


_ROUGH = "the error and the interval are rough, or not known"
_WRONG = "the error, the interval and the tests may be wrong"
_SENTENCES = {
    CaveatKind.UNKNOWN_TOKENS: _Sentences(
        "{number:.1%} unknown",
        "The model does not know {number:.1%} of the tokens",
        f"more than {MANY_UNKNOWN:.0%} of tokens unknown to the model",
        "such texts look the same to the model; choose another model, the default of their "
        "language or a newer multilingual one",
    ),
    CaveatKind.REASONING: _Sentences(
        "{number:.1%} with reasoning",
        "The reasoning of a model is in {number:.1%} of the candidates",
        f"at least {MUCH_REASONING:.0%} of candidates with the reasoning of a model",
        "it is scored as if it were the answer; take it off with --strip-reasoning "
        "(strip_reasoning or without_reasoning in Python)",
    ),
    CaveatKind.FEW_ROWS: _Sentences(
        "too few rows", "There are too few rows, only {number:.0f}", "too few rows", _ROUGH
    ),
    CaveatKind.FEW_CLUSTERS: _Sentences(
        "few clusters",
        "There are only {number:.1f} effective clusters",
        f"fewer than {FEW_CLUSTERS} effective clusters",
        _ROUGH,
    ),
    CaveatKind.FEW_ROWS_CARRY: _Sentences(
        "few rows carry the variance",
        "Few rows (about {number:.1f}) carry most of the variance",
        "few rows that carry most of the variance",
        _WRONG,
    ),
    CaveatKind.FEW_CLUSTERS_CARRY: _Sentences(
        "few clusters carry the variance",
        "Few clusters (about {number:.1f}) carry most of the variance",
        "few clusters that carry most of the variance",
        _WRONG,
    ),
    CaveatKind.REPEATED: _Sentences(
        "{number:,.0f} repeats",
        "Rows with the texts of another row: {number:,.0f}",
        "rows with the texts of others",
        "they count once, as repeats; to count each, give a cluster column, the id (--cluster)",
    ),
    CaveatKind.CLIPPED: _Sentences(
        "{number:,.0f} clipped",
        "Rows whose F1 has no bound: {number:,.0f}",
        "rows whose F1 has no bound",
        "means take it as 1 or -1 before rescaling",
    ),
    CaveatKind.SEVERAL_TOKENIZERS: _Sentences(
        "{number:.0f} tokenizers",
        "Other metrics cut these texts with {number:.0f} tokenizers",
        "texts that other metrics cut with several tokenizers",
        "the corpus has no single score",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Caveat:
    """A caveat of one estimate.

    Attributes:
        kind: What it is.
        number: How many rows, effective clusters, carriers, repeats, clipped rows or ways to cut
            there are; the share of unknown tokens, or of rows with reasoning.
    """

    kind: CaveatKind
    number: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CaveatOfGroups:
    """How many of several groups have a caveat, and the name and the number of the worst of them.

    `number` is that of `Caveat`. `all_of` is a value that all these groups have, and no others.
    """

    kind: CaveatKind
    groups: int
    such_as: str
    number: float
    all_of: str | None = None


class GroupCaveats(NamedTuple):
    """The caveats of groups of one kind, what these are called, and how many there are in all."""

    caveats: Sequence[CaveatOfGroups]
    number: int
    noun: str = "groups"


def caveats_of_values(
    unknown: UnknownTokens, clipped: int, ways: int = 1, reasoning: float = 0.0
) -> tuple[Caveat, ...]:
    """Return the caveats of a mean or difference itself; others are of its error and interval.

    Args:
        unknown: The unknown tokens of its rows: up to 5% of them are no caveat.
        clipped: How many of its rows are clipped.
        ways: In how many ways the texts of a corpus are cut.
        reasoning: The share of its rows that are scored with reasoning: less than 1% is no caveat.
    """
    share = unknown.fraction or 0.0
    numbers = {
        CaveatKind.UNKNOWN_TOKENS: share if share > MANY_UNKNOWN else 0,
        CaveatKind.REASONING: reasoning if reasoning >= MUCH_REASONING else 0,
        CaveatKind.CLIPPED: clipped,
        CaveatKind.SEVERAL_TOKENIZERS: ways if ways > 1 else 0,
    }
    return tuple(Caveat(kind=kind, number=number) for kind, number in numbers.items() if number)


def caveats_of_mean(statistics: ScoreStatistics) -> tuple[Caveat, ...]:
    """Return the caveats of the mean F1 of a group and its interval; none without a scored row."""
    rows = statistics.scored
    number = effective_rows_in(statistics.histograms[MEASURES.index("f1")])
    few = _caveats_of_rows(rows, LEAST_ROWS, number) if rows else ()
    ways = max(map(len, statistics.by_metric.values()), default=0)
    reasoning = statistics.reasoning_fraction
    values = caveats_of_values(statistics.unknown, statistics.clipped, ways, reasoning)
    return _in_order((*few, *values))


def caveats_of_difference(
    result: PairedResult,
    clipped: int,
    unknown: UnknownTokens,
    ways: int = 1,
    reasoning: float = 0.0,
) -> tuple[Caveat, ...]:
    """Return the caveats of a paired difference.

    Args:
        result: The difference.
        clipped: How many of its pairs are clipped.
        unknown: The unknown tokens of both sides together.
        ways: In how many ways the texts of a corpus are cut.
        reasoning: The share of its pairs that are scored with reasoning, on the side with more.
    """
    clusters = result.effective_clusters
    few: tuple[Caveat, ...] = ()
    if clusters is None and result.pairs:
        few = _caveats_of_rows(result.units, _FEW_PAIRS, result.carriers)
    elif clusters is not None:
        kinds = CaveatKind.FEW_CLUSTERS, CaveatKind.FEW_CLUSTERS_CARRY
        few = _few_units(kinds, clusters, FEW_CLUSTERS, result.carriers)
    is_worth = result.repeats >= _REPEATED * result.pairs > 0
    repeated = (Caveat(kind=CaveatKind.REPEATED, number=result.repeats),) if is_worth else ()
    return _in_order((*few, *repeated, *caveats_of_values(unknown, clipped, ways, reasoning)))


def _in_order(caveats: Iterable[Caveat]) -> tuple[Caveat, ...]:
    kinds = list(CaveatKind)
    return tuple(sorted(caveats, key=lambda own: kinds.index(own.kind)))


def _caveats_of_rows(rows: int, least: int, number: float | None) -> tuple[Caveat, ...]:
    return _few_units((CaveatKind.FEW_ROWS, CaveatKind.FEW_ROWS_CARRY), rows, least, number)


def _few_units(
    kinds: tuple[CaveatKind, CaveatKind], units: float, least: int, number: float | None
) -> tuple[Caveat, ...]:
    few, carry = kinds
    if units < least:
        return (Caveat(kind=few, number=units),)
    if number is None or not is_dominated(number, units):
        return ()
    return (Caveat(kind=carry, number=number),)


def caveat_cells(caveats: Iterable[Caveat]) -> str:
    """Return caveats in a few words, for a table."""
    return ", ".join(_SENTENCES[own.kind].cell.format(number=own.number) for own in caveats)


def caveats_of_groups(
    groups: Iterable[tuple[Sequence[str], Sequence[Caveat]]],
) -> tuple[CaveatOfGroups, ...]:
    """Return how many groups have each caveat; `groups` are names with what the groups have.

    A name has a value for each column that makes the groups.
    """
    groups = list(groups)
    named: dict[CaveatKind, list[tuple[float, Sequence[str]]]] = {}
    for name, caveats in groups:
        for caveat in caveats:
            named.setdefault(caveat.kind, []).append((caveat.number, name))
    names = [name for name, _ in groups]
    return tuple(
        CaveatOfGroups(
            kind=kind,
            groups=len(own),
            such_as=" / ".join(worst[1]),
            number=worst[0],
            all_of=_all_of([name for _, name in own], names),
        )
        for kind in CaveatKind
        if (own := named.get(kind))
        for worst in ((min if kind in _LEAST_IS_WORST else max)(own, key=itemgetter(0)),)
    )


def _all_of(own: Sequence[Sequence[str]], names: Sequence[Sequence[str]]) -> str | None:
    """Return the value that several of the names, all of them `own`, have at one place."""
    for place, values in enumerate(zip(*own, strict=True) if len(own) > 1 else ()):
        of_value = [name for name in names if name[place] == values[0]]
        if len({*values}) == 1 and len(own) == len(of_value) < len(names):
            return str(values[0])
    return None


def caveat_messages(whole: Sequence[Caveat], *groups: GroupCaveats) -> dict[CaveatKind, str]:
    """Return each caveat once, as a sentence about the widest thing that it holds of, by kind.

    Those are all groups of a value, if no others have it; or else the whole, or else some groups.
    """
    said = {}
    for kind, words in _SENTENCES.items():
        found = [(one, own) for one in groups for own in one.caveats if own.kind == kind]
        found.sort(key=lambda of: of[1].all_of is None)
        (of_whole,) = [own for own in whole if own.kind == kind] or (None,)
        is_of_value = found and found[0][1].all_of is not None
        if of_whole is not None and not is_of_value:
            said[kind] = f"{words.whole.format(number=of_whole.number)}: {words.then}."
        elif found:
            said[kind] = f"{_of_groups(*found[0], words)}: {words.then}."
    return said


def _of_groups(groups: GroupCaveats, own: CaveatOfGroups, words: _Sentences) -> str:
    number = words.cell.format(number=own.number)
    shown = f" ({number})" if number != words.cell else ""
    if own.all_of is not None:
        return f"All {own.all_of} groups have {words.groups}, at worst {own.such_as}{shown}"
    has = "has" if own.groups == 1 else "have"
    many = f"{own.groups:,} of {groups.number:,} {groups.noun} {has}"
    return f"{many} {words.groups}, such as {own.such_as}{shown}"
