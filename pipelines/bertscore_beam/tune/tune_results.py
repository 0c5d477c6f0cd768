"""Compare the scores of all settings with people, and choose a layer for each model."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bertscore_beam.tune.judgements import Judgements
from bertscore_beam.tune.layer_scores import ModelScores
from bertscore_beam.tune.other_metrics import OtherScores, corpus_agreement, shown_name
from bertscore_beam.tune.tune_options import STATISTICS, TuneOptions
from bertscore_beam.tune.tune_plan import TunePlan
from bertscore_core.errors import InputError
from bertscore_core.specification import NOISE
from bertscore_core.stats.agreement import (
    auc,
    hybrid_agreement,
    kendall,
    pearson,
    soft_system_accuracy,
    spearman,
    system_agreement,
)
from bertscore_core.stats.estimates import (
    Estimates,
    Resampled,
    accuracy_with_ties,
    darr,
    first_best,
    is_constant,
    within_item_kendall,
)
from bertscore_core.stats.score_statistics import MEASURES, Doubles
from bertscore_core.tokens import BoolArray, FloatArray, IntArray

# The settings that are compared: model, weights, layer and measure; other metrics.


class Setting(NamedTuple):
    """One way to score: a model, or another metric, which has neither a layer nor what follows.

    Attributes:
        measure: `precision`, `recall` or `f1`.
        idf: `none` or `corpus`.
        digest: Digest of the model's settings.
    """

    model: str
    layer: int | None = None
    measure: str = ""
    idf: str = ""
    digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SettingScores:
    """The scores of S settings, on the rows that all of them have scored.

    Attributes:
        settings: The settings.
        scores: Shape (S, N), NaN where there is none.
        complete: Which rows have a score of every setting. Shape (N,).
    """

    settings: tuple[Setting, ...]
    scores: Doubles
    complete: BoolArray

    @property
    def of_bertscore(self) -> IntArray:
        """Positions of the settings of BERTScore."""
        layers = [setting.layer for setting in self.settings]
        return np.array([number for number, layer in enumerate(layers) if layer is not None])

    @property
    def unscored(self) -> int:
        """Number of the rows that a setting could not score, and that are left out."""
        return int((~self.complete).sum())

    def find(self, **wanted: object) -> list[int]:
        """Return the positions of the settings with these fields, in their order."""
        return [
            number
            for number, setting in enumerate(self.settings)
            if all(getattr(setting, name) == value for name, value in wanted.items())
        ]


def compared(
    plan: TunePlan, scores: Mapping[str, ModelScores], others: Mapping[str, OtherScores]
) -> SettingScores:
    """Put the scores of models, by digest, and of other metrics, by name, side by side."""
    settings = [
        Setting(model.name, layer, measure, idf, model.setting.label)
        for model in plan.models
        for idf in plan.options.weightings
        for layer in model.layers
        for measure in MEASURES
    ]
    settings += [Setting(shown_name(name)) for name in others]
    values = [
        with_ties(
            plan.judgements,
            scores[model.setting.label].values[:, model.layers].reshape(-1, len(plan.judgements)),
        )
        for model in plan.models
    ]
    more = [own.values[None] for own in others.values()]
    matrix = np.concatenate([*values, *more], dtype=np.float64)
    complete = np.logical_and.reduce(np.isfinite(matrix), axis=0)
    return SettingScores(settings=tuple(settings), scores=matrix, complete=complete)


def with_ties(judgements: Judgements, scores: FloatArray) -> FloatArray:
    """Return scores of BERTScore without the noise that would order rows which tie. Shape (S, N).

    Rows of a group with equal texts all have the scores of the first, and a perfect score is 1.
    """
    rows = zip(
        judgements.groups.tolist(),
        judgements.candidates,
        map(tuple, judgements.references),
        strict=True,
    )
    firsts: dict[tuple[int, str, tuple[str, ...]], int] = {}
    tied = scores[:, [firsts.setdefault(texts, row) for row, texts in enumerate(rows)]]
    return np.where(tied >= 1 - NOISE, np.float32(1), tied)


# The statistics of agreement that a run computes, in each group and averaged over the groups.

_DARR_RANGE = 100.0
"""Raw direct assessments are from 0 to 100; standardized ones have no threshold of 25."""
_CHOICES = 10
"""Choices for each hybrid: the paper chooses 100,000 times among 10,000 of them."""

Agreement = Estimates | Resampled


@dataclass(frozen=True, slots=True, eq=False)
class JudgedGroup:
    """The rows of one group, as the statistics take them.

    Each of the first four is None where the judgements have no such column. Scores are those of S
    settings: shape (S, n).
    """

    people: Any
    labels: Any
    systems: Any
    items: Any
    scores: Doubles

    @classmethod
    def of(cls, judgements: Judgements, rows: IntArray, scores: Doubles) -> "JudgedGroup":
        """Take some rows of all judgements. Scores have shape (S, N)."""
        columns = (judgements.people, judgements.labels, judgements.systems, judgements.items)
        return cls(*columns, scores)._take(rows)

    def _take(self, rows: IntArray) -> "JudgedGroup":
        known = (getattr(self, name) for name in self.__slots__)
        columns: list[Any] = [None if column is None else column[..., rows] for column in known]
        return JudgedGroup(*columns)

    def half(self, side: int, settings: Sequence[int], seed: int) -> "JudgedGroup":
        """Return one of two random halves, 0 or 1, with these settings. Items stay whole."""
        items = np.arange(self.scores.shape[1]) if self.items is None else self.items
        numbers = np.unique(items, return_inverse=True)[1]
        sides = np.random.default_rng(seed).permutation(numbers.max() + 1)[numbers] % 2
        chosen = replace(self, scores=self.scores[settings])
        return chosen._take(np.flatnonzero(sides == side))


Statistic = Callable[[JudgedGroup], Agreement]


def statistics_of(judgements: Judgements, options: TuneOptions) -> dict[str, Statistic]:
    """Return the statistics that the columns of the judgements allow, by name."""
    how = {"resamples": options.resamples, "seed": options.seed}

    def over_rows(statistic: Callable[..., Estimates]) -> Statistic:
        return lambda rows: statistic(rows.people, rows.scores, rows.items)

    def over_systems(statistic: Callable[..., Any]) -> Callable[[JudgedGroup], Any]:
        return lambda rows: statistic(rows.people, rows.scores, rows.systems, rows.items, **how)

    of_systems = cache(over_systems(system_agreement))  # two numbers of the same resamples
    statistics: dict[str, Statistic] = {
        "pearson": over_rows(pearson),
        "spearman": over_rows(spearman),
        "kendall": over_rows(kendall),
        "darr": over_rows(darr),
        "item_kendall": over_rows(within_item_kendall),
        "item_accuracy": over_rows(accuracy_with_ties),
        "system_pearson": lambda rows: of_systems(rows)[0],
        "system_accuracy": lambda rows: of_systems(rows)[1],
        "system_soft_accuracy": over_systems(soft_system_accuracy),
        "auc": lambda rows: auc(rows.labels, rows.scores, rows.items),
    }
    if judgements.people is None or not _is_raw(judgements.people):
        del statistics["darr"]
    return {
        name: statistic
        for name, statistic in statistics.items()
        if all(getattr(judgements, what) is not None for what in STATISTICS[name].split())
    }


def hybrids_of(rows: JudgedGroup, options: TuneOptions) -> dict[str, Doubles]:
    """Return how each setting chooses among hybrid systems, if any, by the name of the number."""
    if not options.hybrids:
        return {}
    return hybrid_agreement(
        rows.people,
        rows.scores,
        rows.items,
        hybrids=options.hybrids,
        choices=_CHOICES * options.hybrids,
        seed=options.seed,
    )


def mean_of(parts: Sequence[Agreement]) -> Agreement:
    """Return the mean of one statistic over independent groups, each group with the same weight."""
    values = np.mean([part.values for part in parts], axis=0)
    resampled = [part.replicates for part in parts if isinstance(part, Resampled)]
    if resampled:
        return Resampled(values=values, replicates=np.mean(resampled, axis=0))
    estimates = [part for part in parts if isinstance(part, Estimates)]
    clusters = sum(part.clusters for part in estimates)
    # Scaled so that the mean over the clusters of all groups is the mean of the groups' means.
    scaled = [part.influences * (clusters / (len(estimates) * part.clusters)) for part in estimates]
    # Of each group the shares of its clusters in the mean, squared and added up.
    squares = sum(1 / max(part.degrees + 1, 1) for part in estimates) / len(estimates) ** 2
    return Estimates(
        values=values,
        influences=np.concatenate(scaled, axis=1),
        lowest=estimates[0].lowest,
        effective=1 / squares,
    )


def held_out(
    statistic: Statistic, groups: Sequence[JudgedGroup], settings: Sequence[int], seed: int
) -> float | None:
    """Return what the best setting is worth on rows that did not choose it, mean over groups.

    One half of the rows chooses and the other measures, and the other way round; the result is the
    mean of both. None where the statistic is not defined in a half.
    """
    values = np.array(
        [[statistic(own.half(side, settings, seed)).values for own in groups] for side in (0, 1)]
    ).mean(axis=1)
    if not np.isfinite(values).all():
        return None
    first, second = map(first_best, values)
    return float(values[1, first] + values[0, second]) / 2


def _tested(agreement: Agreement, best: int, options: TuneOptions) -> tuple[Doubles, Doubles]:
    """Return 95% intervals, shape (S, 2), and p values of the best being better, shape (S,)."""
    if isinstance(agreement, Resampled):
        return agreement.intervals(), agreement.p_below(best)
    how = {"resamples": options.resamples, "seed": options.seed}
    return agreement.intervals(**how), agreement.p_below(best, **how)


def _is_raw(people: Doubles) -> bool:
    """Tell whether scores are direct assessments of 0 to 100, or those negated."""
    size = np.abs(people)
    one_sided = bool((people >= 0).all() or (people <= 0).all())
    return one_sided and bool(_DARR_RANGE / 2 < size.max() <= _DARR_RANGE)


ALL_ROWS = "all rows"
MEAN = "mean of groups"
NOT_BELOW = 0.05
"""A layer with this p value of the best being better, or more, is not significantly below it. Both
are layers of one model, compared by F1, and the p value is corrected for their number."""
FEW = 100
"""With fewer judgements in a group, 95% intervals are too narrow."""
POOR = 0.3
"""A correlation below this leaves nine tenths of the differences between texts unexplained."""


AGREEMENT = pa.schema(
    {
        "group": pa.string(),  # the group, or `ALL_ROWS`, or `MEAN`
        "statistic": pa.string(),
        "model": pa.string(),  # or another metric, whose next columns are null or ""
        "layer": pa.int32(),
        "measure": pa.string(),
        "idf": pa.string(),
        "rows": pa.int64(),
        "value": pa.float64(),
        "low": pa.float64(),  # of its 95% interval
        "high": pa.float64(),
        # Of the best setting of BERTScore being better, corrected for the number of all settings.
        "p_below_best": pa.float64(),
    }
)
"""How one setting agrees with people in one group by one statistic: a row of the results."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Results:
    """What a run has found.

    Attributes:
        compared: The scores.
        rows: Agreement by setting, group and statistic; see `AGREEMENT`.
        recommended: The layer of each model to take, as in the summary.
    """

    compared: SettingScores
    rows: list[Row]
    recommended: list[Row]


def evaluate(
    plan: TunePlan, scores: Mapping[str, ModelScores], others: Mapping[str, OtherScores]
) -> Results:
    """Compute every statistic in every group, and choose the layers."""
    options, sides = plan.options, compared(plan, scores, others)
    positions = _positions(plan, sides)
    groups = {
        group: JudgedGroup.of(plan.judgements, own, sides.scores)
        for group, own in positions.items()
    }
    sizes = {group: len(own) for group, own in positions.items()}
    sizes[MEAN] = sum(sizes.values())
    rows: list[Row] = []
    overall: dict[str, Agreement] = {}
    for name, statistic in statistics_of(plan.judgements, options).items():
        parts = {group: statistic(own) for group, own in groups.items()}
        overall[name] = next(iter(parts.values()))
        if len(parts) > 1:
            overall[name] = parts[MEAN] = mean_of(list(parts.values()))
        for group, part in parts.items():
            if (best := _best(part, sides)) is not None:
                bounds, p_values = _tested(part, best, options)
                columns = dict(zip(("low", "high"), bounds.T, strict=True))
                columns["p_below_best"] = p_values
                where = group, name, sizes[group]
                rows += _rows(sides.settings, where, value=part.values, **columns)
    for group, own in groups.items():
        for name, chosen in hybrids_of(own, options).items():
            where = group, name, sizes[group]
            rows += _rows(sides.settings, where, value=chosen)
    for group, places in positions.items():
        for name, by_metric in corpus_agreement(plan.judgements, places, others).items():
            where = group, name, sizes[group]
            rows += _rows(map(Setting, by_metric), where, value=[*by_metric.values()])
    agreement = overall[options.statistic]
    _check_defined(options.statistic, agreement, sides, groups)
    return Results(
        compared=sides, rows=rows, recommended=_recommend(plan, sides, groups, agreement, scores)
    )


def _rows(
    settings: Iterable[Setting], where: tuple[str, str, int], **columns: npt.ArrayLike
) -> list[Row]:
    """Return a row for each setting, by group, statistic and number of rows."""
    shared = dict(zip(("group", "statistic", "rows"), where, strict=True))
    rows = []
    plain = (np.asarray(values).tolist() for values in columns.values())
    for setting, *values in zip(settings, *plain, strict=True):
        known = {**setting._asdict(), **shared, **dict(zip(columns, values, strict=True))}
        rows.append({name: known.get(name) for name in AGREEMENT.names})
    return rows


def _positions(plan: TunePlan, sides: SettingScores) -> dict[str, IntArray]:
    """Return the rows of each group that every setting has scored."""
    positions = {}
    for group, name in enumerate(plan.judgements.names):
        rows = plan.judgements.of_group(group)
        positions[name or ALL_ROWS] = rows = rows[sides.complete[rows]]
        if len(rows) < plan.options.min_rows:
            raise InputError(
                f"too few judgements have scores: got {len(rows)} in "
                f"{name or 'all'!r}; expected at least {plan.options.min_rows}. The texts of the "
                "others have no tokens that weigh anything, or no number of another metric. "
                "Add rows, or lower --min-rows."
            )
    return positions


def _best(agreement: Agreement, sides: SettingScores) -> int | None:
    candidates = sides.of_bertscore
    values = agreement.values[candidates]
    return int(candidates[first_best(values)]) if np.isfinite(values).any() else None


def _check_defined(
    statistic: str, agreement: Agreement, sides: SettingScores, groups: Mapping[str, JudgedGroup]
) -> None:
    if _best(agreement, sides) is not None:
        return
    flat = [
        name for name, own in groups.items() if is_constant(own.scores[sides.of_bertscore]).all()
    ]
    why = "the judgements, or their means, do not differ"
    if flat:
        why = f"all texts have the same scores in {', '.join(map(repr, flat))}"
    raise InputError(
        f"{statistic} is not defined, so no layer can be chosen: got a group in which {why}; "
        "expected judgements and scores that differ in every group. Leave such a group out of the "
        "files, or choose by another statistic (--choose-by)."
    )


def _recommend(
    plan: TunePlan,
    sides: SettingScores,
    groups: Mapping[str, JudgedGroup],
    agreement: Agreement,
    scores: Mapping[str, ModelScores],
) -> list[Row]:
    recommended = []
    idf = plan.options.weightings[0]
    statistic = statistics_of(plan.judgements, plan.options)[plan.options.statistic]
    for model in plan.models:
        f1 = {"digest": model.setting.label, "measure": "f1"}
        own = sides.find(**f1, idf=idf)
        known = [number for number in own if np.isfinite(agreement.values[number])]
        if not known:
            continue
        of_f1, layers = agreement.of(known), [sides.settings[number].layer for number in known]
        best = first_best(of_f1.values)
        intervals, p_values = _tested(of_f1, best, plan.options)
        not_below = [n for n in range(len(layers)) if p_values[n] >= NOT_BELOW]
        default = layers.index(model.default) if model.default in layers else None
        advised = best if default not in not_below else default
        low, high = intervals[advised].tolist()
        seconds = scores[model.setting.label].seconds
        row: Row = {
            "model": model.name,
            "weights": model.setting.signature.weights,
            # The registry's layer, unless another is significantly above it.
            "layer": layers[advised],
            "idf": idf,
            "statistic": plan.options.statistic,
            "value": float(of_f1.values[advised]),
            "low": low,
            "high": high,
            "layers": len(layers),
            "best": layers[best],
            "best_value": float(of_f1.values[best]),
            # Chosen by one half of the judgements and measured on the other; mean of both ways.
            "held_out_value": held_out(statistic, list(groups.values()), known, plan.options.seed),
            # The layers that are not significantly below the best, itself among them: `NOT_BELOW`.
            "not_below": [layers[n] for n in not_below],
            # The registry's layer, and the p value of the best one being better.
            "default": model.default,
            "default_value": None if default is None else float(of_f1.values[default]),
            "p_default": None if default is None else float(p_values[default]),
            # What idf weights change at the recommended layer; p is two-sided, among all layers.
            "idf_difference": None,
            "p_idf": None,
            "parameters": model.parameters,
            "weight_bytes": model.weight_bytes,
            # Judgements that one worker scored in a second, with all layers.
            "pairs_per_second": len(plan.judgements) / seconds if seconds else None,
        }
        with_idf = sides.find(**f1, idf="corpus") if idf == "none" else []
        for place, number in enumerate(with_idf, len(known)):
            if sides.settings[number].layer == row["layer"]:
                both = agreement.of([*known, *with_idf])
                two = [advised, place]
                better = two.pop(first_best(both.values[two]))
                row["idf_difference"] = float(both.values[place] - both.values[advised])
                row["p_idf"] = float(_tested(both, better, plan.options)[1][two[0]])
        recommended.append(row)
    return recommended
