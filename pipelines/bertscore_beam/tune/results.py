"""Compare the scores of all settings with people, and choose a layer for each model."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bertscore_beam.options.tune import TuneOptions
from bertscore_beam.tune.corpora import corpus_agreement
from bertscore_beam.tune.judgements import WHOLE
from bertscore_beam.tune.lexical import LexicalMetrics
from bertscore_beam.tune.others import METRIC_NAMES, languages_of_rows
from bertscore_beam.tune.plan import TunePlan
from bertscore_beam.tune.scores import ModelScores
from bertscore_beam.tune.settings import Compared, Setting, compared
from bertscore_beam.tune.statistics import (
    Agreement,
    GroupRows,
    hybrids_of,
    intervals_of,
    mean_of,
    statistics_of,
)
from bertscore_core.agreement import not_below_best, permutation, williams
from bertscore_core.agreement.inputs import Doubles
from bertscore_core.agreement.segments import correlations
from bertscore_core.errors import InputError

ALL_ROWS = "all rows"
MEAN = "mean of groups"
NOT_BELOW = 0.05
"""A setting with this p value of the best being better, or more, is not significantly below it."""
POOR = 0.3
"""A correlation below this leaves nine tenths of the differences between texts unexplained."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreementRow:
    """How one setting agrees with people in one group, by one statistic.

    Attributes:
        group: The group, or `ALL_ROWS`, or `MEAN`.
        statistic: The statistic.
        model: Name of the model, or of another metric.
        layer: The layer; None for another metric.
        measure: The measure; "" for another metric.
        matching: The matching; "" for another metric.
        idf: The weights; "" for another metric.
        rows: Rows compared.
        value: The statistic.
        low: Lower bound of its 95% interval; None without one.
        high: Upper bound.
        p_below_best: p value of the best setting of BERTScore being better, one-sided.
        p_williams: The same by Williams' test; for Pearson over independent rows only.
        not_below_best: Whether the first is `NOT_BELOW` or more.
    """

    group: str
    statistic: str
    model: str
    layer: int | None
    measure: str
    matching: str
    idf: str
    rows: int
    value: float
    low: float | None = None
    high: float | None = None
    p_below_best: float | None = None
    p_williams: float | None = None
    not_below_best: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """The layer of one model whose F1 agrees best with people.

    Attributes:
        model: The model.
        weights: Digest of its weight files.
        layer: The layer.
        idf: The weights with which it was found.
        statistic: The statistic.
        value: Its value at that layer.
        low: Lower bound of its interval.
        high: Upper bound.
        not_below: The layers that are not significantly below it, itself among them.
        default: The registry's layer; None without one.
        default_value: The value at that layer.
        p_default: p value of the recommended layer being better than that one, one-sided.
        p_default_williams: The same by Williams' test; None where it is not valid.
        p_default_permutation: The same by permutation; None but for Pearson.
        idf_difference: What idf weights change at the recommended layer; None if not compared.
        p_idf: p value of that change, two-sided.
        pairs_per_second: Judgements that one worker scored in a second, with all layers.
    """

    model: str
    weights: str
    layer: int
    idf: str
    statistic: str
    value: float
    low: float
    high: float
    not_below: tuple[int, ...]
    default: int | None
    default_value: float | None
    p_default: float | None
    p_default_williams: float | None
    p_default_permutation: float | None
    idf_difference: float | None
    p_idf: float | None
    pairs_per_second: float | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Results:
    """What a run has found.

    Attributes:
        compared: The scores.
        rows: Agreement by setting, group and statistic.
        recommended: The layer of each model; none with optimal matching alone.
        unscored: Rows that a setting could not score, and that are left out.
    """

    compared: Compared
    rows: tuple[AgreementRow, ...]
    recommended: tuple[Recommendation, ...]
    unscored: int


def evaluate(
    plan: TunePlan, scores: Mapping[str, ModelScores], others: Mapping[str, Doubles]
) -> Results:
    """Compute every statistic in every group, and choose the layers.

    Raises:
        InputError: Too few rows have a score of every setting, or the statistic by which a layer is
            chosen is not defined.
    """
    sides = compared(plan, scores, others)
    groups = _groups(plan, sides)
    rows: list[AgreementRow] = []
    chosen: Agreement | None = None
    for name, statistic in statistics_of(plan.judgements, plan.options).items():
        parts = {group: statistic(own) for group, own in groups.items()}
        for group, part in parts.items():
            own = groups[group]
            p_williams = _williams(own, part, sides) if name == "pearson" else None
            rows += _rows(sides, plan.options, (group, name, own.scores.shape[1]), part, p_williams)
        overall = next(iter(parts.values()))
        if len(parts) > 1:
            overall = mean_of(list(parts.values()))
            total = sum(own.scores.shape[1] for own in groups.values())
            rows += _rows(sides, plan.options, (MEAN, name, total), overall, None)
        if name == plan.options.statistic:
            chosen = overall
    if plan.options.hybrids:
        for group, own in groups.items():
            for name, values in hybrids_of(own, plan.options).items():
                rows += _plain_rows(sides, (group, name, own.scores.shape[1]), values)
    rows += _corpus_rows(plan, sides)
    if chosen is None:
        raise RuntimeError(f"the statistic {plan.options.statistic} was not computed")
    _check_defined(plan.options.statistic, chosen, sides, groups)
    return Results(
        compared=sides,
        rows=tuple(rows),
        recommended=tuple(_recommend(plan, sides, groups, chosen, scores)),
        unscored=int((~sides.complete).sum()),
    )


def _groups(plan: TunePlan, sides: Compared) -> dict[str, GroupRows]:
    """Return the rows of each group that all settings have scored."""
    judgements, found = plan.judgements, {}
    for group, name in enumerate(judgements.names):
        rows = judgements.of_group(group)
        rows = rows[sides.complete[rows]]
        if len(rows) < plan.options.min_rows:
            raise InputError(
                f"too few judgements have scores: got {len(rows)} in "
                f"{name or 'all'!r}; expected at least {plan.options.min_rows}. The texts of the "
                "others have no tokens that weigh anything. Add rows, or lower --min-rows."
            )
        found[ALL_ROWS if name == WHOLE else name] = GroupRows.of(judgements, rows, sides.scores)
    return found


def _best(agreement: Agreement, sides: Compared) -> int | None:
    """Return the best setting of BERTScore; None if no value is defined."""
    candidates = sides.of_bertscore
    values = agreement.values[candidates]
    return int(candidates[np.nanargmax(values)]) if np.isfinite(values).any() else None


def _check_defined(
    statistic: str, agreement: Agreement, sides: Compared, groups: Mapping[str, GroupRows]
) -> None:
    """Check that the statistic over all groups, by which a layer is chosen, is a number.

    Raises:
        InputError: It is none for any setting.
    """
    if _best(agreement, sides) is not None:
        return
    flat = [
        name
        for name, own in groups.items()
        if (np.ptp(own.scores[sides.of_bertscore], axis=1) == 0).all()
    ]
    why = (
        f"all texts have the same scores in {', '.join(map(repr, flat))}"
        if flat
        else ("the judgements, or their means, do not differ")
    )
    raise InputError(
        f"{statistic} is not defined, so no layer can be chosen: got a group in which {why}; "
        "expected judgements and scores that differ in every group. Leave such a group out of the "
        "files, or choose by another statistic (--choose-by)."
    )


def _williams(own: GroupRows, agreement: Agreement, sides: Compared) -> Doubles | None:
    """Return the p values of Williams' test, which takes independent rows only."""
    best = _best(agreement, sides)
    if own.items is not None or own.people is None or best is None:
        return None
    return williams(own.people, own.scores, best)


def _rows(
    sides: Compared,
    options: TuneOptions,
    where: tuple[str, str, int],
    agreement: Agreement,
    p_williams: Doubles | None,
) -> list[AgreementRow]:
    """Return the rows of one statistic in one group, named with its number of rows."""
    best = _best(agreement, sides)
    if best is None:
        return []
    bounds, p_values = intervals_of(agreement, options), agreement.p_below(best)
    marks = not_below_best(p_values, NOT_BELOW)
    return [
        AgreementRow(
            **_named(setting, where),
            value=float(agreement.values[number]),
            low=float(bounds[number, 0]),
            high=float(bounds[number, 1]),
            p_below_best=float(p_values[number]),
            p_williams=None if p_williams is None else float(p_williams[number]),
            not_below_best=bool(marks[number]),
        )
        for number, setting in enumerate(sides.settings)
    ]


def _plain_rows(
    sides: Compared, where: tuple[str, str, int], values: Doubles
) -> list[AgreementRow]:
    """Return rows of numbers without intervals."""
    return [
        AgreementRow(**_named(setting, where), value=float(value))
        for setting, value in zip(sides.settings, values, strict=True)
    ]


def _corpus_rows(plan: TunePlan, sides: Compared) -> list[AgreementRow]:
    """Return the rows of metrics whose number of a system is not the mean of its rows."""
    judgements, found = plan.judgements, []
    wanted = tuple(METRIC_NAMES[name] for name in plan.options.chosen_metrics)
    languages = languages_of_rows(judgements, plan.options.language)
    for group, name in enumerate(judgements.names if wanted else ()):
        rows = judgements.of_group(group)
        rows = rows[sides.complete[rows]]
        where = ALL_ROWS if name == WHOLE else name
        metrics = LexicalMetrics(languages[group], wanted)
        for statistic, values in corpus_agreement(judgements, rows, metrics).items():
            found += [
                AgreementRow(
                    **_named(Setting(model=f"{metric}, corpus"), (where, statistic, len(rows))),
                    value=float(value),
                )
                for metric, value in zip(metrics.corpus_names, values, strict=True)
            ]
    return found


def _named(setting: Setting, where: tuple[str, str, int]) -> dict[str, Any]:
    group, statistic, rows = where
    named = {name: value for name, value in asdict(setting).items() if name != "digest"}
    return {**named, "group": group, "statistic": statistic, "rows": rows}


def _recommend(
    plan: TunePlan,
    sides: Compared,
    groups: Mapping[str, GroupRows],
    agreement: Agreement,
    scores: Mapping[str, ModelScores],
) -> list[Recommendation]:
    """Choose the layer of each model by F1, greedy, without idf if both were computed."""
    found = []
    idf = plan.weightings[0].weights
    for model in plan.models:
        f1 = {"digest": model.digest, "matching": "greedy", "measure": "f1"}
        own = sides.find(**f1, idf=idf)
        known = [number for number in own if np.isfinite(agreement.values[number])]
        if not known:
            continue
        best = known[int(np.argmax(agreement.values[known]))]
        p_values = agreement.p_below(best)
        layer = sides.settings[best].layer
        default = next(iter(sides.find(**f1, idf=idf, layer=model.default)), None)
        with_idf = next(iter(sides.find(**f1, idf="corpus", layer=layer)), None)
        with_idf = None if idf == "corpus" else with_idf
        low, high = intervals_of(agreement, plan.options)[best]
        seconds = scores[model.digest].seconds
        of_default = None if default is None else _against(plan.options, groups, best, default)
        found.append(
            Recommendation(
                model=model.name,
                weights=model.signature.weights,
                layer=int(layer or 0),
                idf=idf,
                statistic=plan.options.statistic,
                value=float(agreement.values[best]),
                low=float(low),
                high=float(high),
                not_below=tuple(
                    int(sides.settings[n].layer or 0) for n in known if p_values[n] >= NOT_BELOW
                ),
                default=model.default,
                default_value=None if default is None else float(agreement.values[default]),
                p_default=None if default is None else float(p_values[default]),
                p_default_williams=None if of_default is None else of_default[0],
                p_default_permutation=None if of_default is None else of_default[1],
                idf_difference=None
                if with_idf is None
                else float(agreement.values[with_idf] - agreement.values[best]),
                p_idf=None if with_idf is None else _two_sided(float(p_values[with_idf])),
                pairs_per_second=len(plan.judgements) / seconds if seconds else None,
            )
        )
    return found


def _two_sided(p_value: float) -> float:
    return min(1.0, 2 * min(p_value, 1 - p_value))


def _against(
    options: TuneOptions, groups: Mapping[str, GroupRows], best: int, other: int
) -> tuple[float | None, float | None]:
    """Return the p values of one setting being better than another: Williams, and permutation.

    Williams' test is for one group of independent rows. The permutation test swaps the two in
    random rows, and takes the mean of the groups' correlations.
    """
    if options.statistic != "pearson" or best == other:
        return None, None
    pairs = [own.scores[[best, other]] for own in groups.values()]
    people = [own.people for own in groups.values() if own.people is not None]
    only = len(pairs) == 1 and next(iter(groups.values())).items is None
    p_williams = float(williams(people[0], pairs[0], 0)[1]) if only else None
    cuts = np.cumsum([len(one) for one in people])[:-1]

    def statistic(judged: Doubles, rows: Doubles) -> Doubles:
        sides = zip(np.split(judged, cuts), np.split(rows, cuts, axis=-1), strict=True)
        mean = np.mean([correlations(left[None], right) for left, right in sides], axis=0)
        return np.asarray(mean, dtype=np.float64)

    # Standardized in each group, since what is swapped must be on one scale.
    pairs = [(one - one.mean(1, keepdims=True)) / one.std(1, keepdims=True) for one in pairs]
    p_values = permutation(
        statistic, np.concatenate(people), np.concatenate(pairs, axis=1), 0, seed=options.seed
    )
    return p_williams, float(p_values[1])
