"""Other metrics on the same rows and corpora.

BLEU, chrF, chrF++ and TER are sacrebleu's, ROUGE-L is that of rouge-score, as the room `metrics`
makes them: the numbers are theirs, on a scale of 0 to 1 (BLEU and chrF are shown from 0 to 100
elsewhere). TER counts errors, so it is given as minus the rate: greater is always better.

rouge-score's own tokenizer is used for English only: other languages take that of BLEU.

METEOR and CIDEr are left out. METEOR matches stems, synonyms and paraphrases by tables of a few
languages, and needs Java and a download. CIDEr weighs n-grams by how rare they are among the
references of all images of one data set, so that a number means little elsewhere.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

import numpy as np

from bertscore_beam.dump.columns import metric_column
from bertscore_beam.metrics.own import OwnMetric
from bertscore_beam.metrics.processes import MetricProcesses
from bertscore_beam.metrics.rouge import RougeL
from bertscore_beam.metrics.table import (
    CORPUS_METRICS,
    corpus_score,
    metric_of,
    num_counts,
    score_each,
)
from bertscore_beam.run.job import Say
from bertscore_beam.tune.judgements import Judgements
from bertscore_beam.tune.tune_plan import TunePlan
from bertscore_core.registry import known_languages
from bertscore_core.stats.agreement import agreement_of_systems, system_means
from bertscore_core.stats.score_statistics import Doubles
from bertscore_core.tokens import IntArray

METRIC_NAMES: Mapping[str, str] = {
    "bleu": "BLEU",
    "chrf": "chrF",
    "chrf++": "chrF++",
    "ter": "TER",
    "rougel": "ROUGE-L",
}
"""The name in the results of each metric of a library by that in the options."""

_SCALES = {"bleu": 100, "chrf": 100, "chrf++": 100, "ter": -100, "rougel": 1}


class OtherScores(NamedTuple):
    """The scores of N judgements by another metric, each row on its own.

    Attributes:
        values: Higher for better texts. Shape (N,).
        counts: What adds up to the score of a corpus. Shape (N, K); K is 0 without such a score.
    """

    values: Doubles
    counts: IntArray


def other_scores(plan: TunePlan, say: Say) -> dict[str, OtherScores]:
    """Score the judgements with the other metrics that are asked for, by their names."""
    options, judgements, own = plan.options, plan.judgements, plan.own_metrics
    languages, metrics = languages_of_rows(judgements, options.language), options.library_metrics
    if names := [*map(shown_name, metrics), *(metric.name for metric in own)]:
        say(f"Scoring {len(judgements):,} judgements with {', '.join(names)} ...")
    made = {name: score_judgements(judgements, name, languages) for name in metrics}
    return made | own_scores(judgements, own)


def own_scores(judgements: Judgements, metrics: Sequence[OwnMetric]) -> dict[str, OtherScores]:
    """Score the judgements with metrics of one's own, by their names, as `score` does.

    A row without a number has NaN.

    Raises:
        MetricError: A function has failed.
    """
    if not metrics:
        return {}
    with closing(MetricProcesses((), sharing=1, own=metrics)) as processes:
        texts, rows = (judgements.candidates, judgements.references), np.arange(len(judgements))
        columns = processes.begin(*texts, rows, lambda _: "", judgements.sources)()
    made = {}
    for metric in metrics:
        values = np.array(columns[metric_column(metric.name)].to_numpy(zero_copy_only=False))
        nothing = np.zeros((len(values), 0), dtype=np.int64)
        made[metric.name] = OtherScores(-values if metric.lower_is_better else values, nothing)
    return made


def shown_name(name: str) -> str:
    """Return the name of a metric in the results by that in the options."""
    return METRIC_NAMES.get(name, name)


def score_judgements(judgements: Judgements, name: str, languages: Sequence[str]) -> OtherScores:
    """Score the judgements with a metric, those of each group by its language.

    A row that is too long for it has NaN.
    """
    values = np.full(len(judgements), np.nan)
    counts = np.zeros((len(judgements), num_counts(name)), dtype=np.int64)
    for group, language in enumerate(languages):
        rows = judgements.of_group(group)
        is_rouge = name == "rougel"
        metric = RougeL(language, by_bleu=True) if is_rouge else metric_of(name, language)
        values[rows], counts[rows] = score_each(
            metric,
            [judgements.candidates[row] for row in rows],
            [judgements.references[row] for row in rows],
        )
    return OtherScores(values / _SCALES[name], counts)


def corpus_agreement(
    judgements: Judgements, rows: IntArray, others: Mapping[str, OtherScores]
) -> dict[str, dict[str, float]]:
    """Compare the corpus scores of systems with the mean judgements of people.

    BLEU of a system is not the mean of its rows: their counts are added up first.

    Returns:
        For each statistic of systems a number by the name of each metric that has one of a corpus,
        over some rows; nothing if there are no systems, or no scores of people.
    """
    names = [name for name in others if name in CORPUS_METRICS]
    if judgements.systems is None or judgements.people is None or not names:
        return {}
    systems = judgements.systems[rows]
    present, people = system_means(judgements.people[rows], systems)
    scores = [
        [
            corpus_score(name, others[name].counts[rows[systems == system]].sum(axis=0).tolist())
            / _SCALES[name]
            for system in present
        ]
        for name in names
    ]
    shown = [f"{METRIC_NAMES[name]}, corpus" for name in names]
    agreement = agreement_of_systems(people[0], np.array(scores))
    return {
        statistic: dict(zip(shown, values.tolist(), strict=True))
        for statistic, values in zip(("system_pearson", "system_accuracy"), agreement, strict=True)
    }


def languages_of_rows(judgements: Judgements, language: str | None) -> tuple[str, ...]:
    """Return the language of each group: words are cut by it.

    Args:
        judgements: The rows.
        language: The language of all texts. None to take the name of a group: a code such as zh, or
            a direction of translation such as en-zh. "" for other names.
    """
    if language is not None:
        return (language,) * len(judgements.names)
    return tuple(map(_language_of, judgements.names))


def _language_of(name: str) -> str:
    codes = known_languages()
    if name.lower() in codes:
        return name
    source, _, target = name.lower().partition("-")
    return target if source in codes and target in codes else ""
