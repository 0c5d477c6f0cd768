"""Other metrics on the same rows and corpora, kept in the folder beside the scores."""

import hashlib
import io
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from bertscore_beam.metrics import (
    CORPUS_METRICS,
    Metric,
    RougeL,
    corpus_score,
    metric_of,
)
from bertscore_beam.run import MANIFEST_FOLDER
from bertscore_beam.tune.judgements import Judgements
from bertscore_beam.tune.tune_plan import TuneJob
from bertscore_core import known_languages
from bertscore_core.stats import Doubles, agreement_of_systems, system_means

# Metrics that compare words and characters, on the same rows as BERTScore.
#
# BLEU, chrF, chrF++ and TER are sacrebleu's, ROUGE-L is that of rouge-score, as the room `metrics`
# makes them: the numbers are theirs, on a scale of 0 to 1 (BLEU and chrF are shown from 0 to 100
# elsewhere). TER counts errors, so it is given as minus the rate: greater is always better.
#
# rouge-score's own tokenizer is used for English only: other languages take that of BLEU.
#
# METEOR and CIDEr are left out. METEOR matches stems, synonyms and paraphrases by tables of a few
# languages, and needs Java and a download. CIDEr weighs n-grams by how rare they are among the
# references of all images of one data set, so that a number means little elsewhere.

METRIC_NAMES: Mapping[str, str] = {
    "bleu": "BLEU",
    "chrf": "chrF",
    "chrf++": "chrF++",
    "ter": "TER",
    "rougel": "ROUGE-L",
}
"""The name of each metric by the name that the option gives it, in the order of their numbers."""
LEXICAL_METRICS = tuple(METRIC_NAMES.values())

_OPTIONS = {name: option for option, name in METRIC_NAMES.items()}
_SCALES = {"BLEU": 100, "chrF": 100, "chrF++": 100, "TER": -100, "ROUGE-L": 1}


class LexicalMetrics:
    """The metrics for texts of one language.

    Attributes:
        names: Those of `LEXICAL_METRICS` that are computed, in the order of their numbers.
        corpus_names: Those of them that have a number of a whole corpus.
    """

    def __init__(self, language: str = "", names: tuple[str, ...] = LEXICAL_METRICS) -> None:
        """Make the metrics.

        Args:
            language: Code of the language, such as en or zh-hans; of other languages and "" words
                are what spaces and punctuation part.
            names: As the attribute.
        """
        self.names = names
        self.corpus_names = tuple(name for name in names if _OPTIONS[name] in CORPUS_METRICS)
        self._metrics: dict[str, Metric] = {
            name: RougeL(language, by_bleu=True)
            if name == "ROUGE-L"
            else metric_of(_OPTIONS[name], language)
            for name in names
        }

    def scores(self, candidates: Sequence[str], references: Sequence[Sequence[str]]) -> Doubles:
        """Score each row on its own.

        BLEU of a sentence leaves out orders of n-grams for which it is too short. ROUGE-L is F1, of
        the reference with which it is greatest.

        Returns:
            One row for each metric of N texts. Shape (metrics, N).
        """
        rows = [
            # A text that ROUGE-L cannot read agrees in no word.
            np.nan_to_num(metric.rows(candidates, references)[0]) / _SCALES[name]
            for name, metric in self._metrics.items()
        ]
        return np.array(rows, dtype=np.float64).reshape(len(self.names), len(candidates))

    def corpus_scores(
        self, candidates: Sequence[str], references: Sequence[Sequence[str]]
    ) -> Doubles:
        """Score all rows as one corpus: counts are added up first. ROUGE-L has no such number.

        Returns:
            One number for each name of `corpus_names`. Shape (metrics,).
        """
        scores = []
        for name in self.corpus_names:
            _, counts = self._metrics[name].rows(candidates, references)
            scores.append(corpus_score(_OPTIONS[name], counts.sum(axis=0).tolist()) / _SCALES[name])
        return np.array(scores, dtype=np.float64)

    @property
    def signatures(self) -> dict[str, str]:
        """How the scores of rows are made, by each metric's name."""
        listed = {name: metric.signatures(listed=True) for name, metric in self._metrics.items()}
        return {name: signature for name, (_, signature) in listed.items()}


# Metrics of a whole corpus beside those of rows: BLEU of a system is not the mean of its rows'.


def corpus_agreement(
    judgements: Judgements, rows: npt.NDArray[np.int64], metrics: LexicalMetrics
) -> dict[str, Doubles]:
    """Compare the corpus scores of systems with the mean judgements of people.

    Returns:
        For each statistic of systems one number for each metric that has one of a corpus, over the
        rows at some positions; nothing if there are no systems, or no scores of people.
    """
    if (
        judgements.systems is None
        or judgements.people is None
        or not len(rows)
        or not metrics.corpus_names
    ):
        return {}
    systems = judgements.systems[rows]
    names, people = system_means(judgements.people[rows], systems)
    scores = []
    for name in names:
        own = rows[systems == name]
        scores.append(
            metrics.corpus_scores(
                [judgements.candidates[row] for row in own],
                [judgements.references[row] for row in own],
            )
        )
    pearson, accuracy = agreement_of_systems(people[0], np.array(scores).T)
    return {"system_pearson": pearson, "system_accuracy": accuracy}


OTHERS_FOLDER = f"{MANIFEST_FOLDER}/metrics"


def other_scores(job: TuneJob) -> dict[str, Doubles]:
    """Score the judgements with the other metrics that are asked for, each row on its own.

    Returns:
        Scores by the metric's name, higher for better texts. Shape (N,) each.
    """
    options, judgements = job.plan.options, job.plan.judgements
    languages = languages_of_rows(judgements, options.language)
    metrics = {
        name: [LexicalMetrics(language, (name,)) for language in languages]
        for name in (METRIC_NAMES[chosen] for chosen in options.chosen_metrics)
    }
    paths = [_path(judgements, by_group) for by_group in metrics.values()]
    stored = dict(zip(metrics, job.folder.read_if_there(*paths), strict=True))
    missing = [name for name, data in stored.items() if data is None]
    if missing:
        job.say(f"Scoring {len(judgements):,} judgements with {', '.join(missing)} ...")
    scores = {}
    for (name, data), path in zip(stored.items(), paths, strict=True):
        if data is None:
            scores[name] = _scores(judgements, metrics[name])
            buffer = io.BytesIO()
            np.save(buffer, scores[name])
            job.folder.write(path, buffer.getvalue())
        else:
            scores[name] = np.load(io.BytesIO(data), allow_pickle=False)
    return scores


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


def _path(judgements: Judgements, metrics: Sequence[LexicalMetrics]) -> str:
    how = [metric.signatures for metric in metrics]
    digest = hashlib.sha256(repr((judgements.texts_digest, how)).encode()).hexdigest()[:16]
    return f"{OTHERS_FOLDER}/{digest}.npy"


def _scores(judgements: Judgements, metrics: Sequence[LexicalMetrics]) -> Doubles:
    values = np.full(len(judgements), np.nan)
    for group, metric in enumerate(metrics):
        rows = judgements.of_group(group)
        (values[rows],) = metric.scores(
            [judgements.candidates[row] for row in rows],
            [judgements.references[row] for row in rows],
        )
    return values
