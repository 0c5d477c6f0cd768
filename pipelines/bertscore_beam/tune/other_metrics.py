"""Other metrics on the same rows and corpora, kept in the folder beside the scores."""

import hashlib
import io
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import numpy.typing as npt
from rouge_score.rouge_scorer import RougeScorer
from rouge_score.tokenizers import Tokenizer
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from bertscore_beam.run import MANIFEST_FOLDER
from bertscore_beam.tune.judgements import Judgements
from bertscore_beam.tune.tune_plan import TuneJob
from bertscore_core import known_languages
from bertscore_core.stats import Doubles, agreement_of_systems, system_means

# Metrics that compare words and characters, on the same rows as BERTScore.
#
# BLEU, chrF++ and TER are sacrebleu's, ROUGE-L is that of rouge-score: the numbers are theirs, on a
# scale of 0 to 1 (BLEU and chrF++ are shown from 0 to 100 elsewhere). TER counts errors, so it is
# given as minus the rate: of every number here, greater is better.
#
# **Languages.** BLEU takes sacrebleu's tokenizer for Chinese (`zh`) and Japanese (`ja-mecab`),
# single characters for other scripts without spaces, and `13a` for all others. TER takes texts of
# all these scripts apart into characters. rouge-score's own tokenizer drops whatever is no Latin
# letter or digit, so it is used for English only: other languages take that of BLEU, in lower case.
#
# METEOR and CIDEr are left out. METEOR matches stems, synonyms and paraphrases by tables of a few
# languages, and needs Java and a download. CIDEr weighs n-grams by how rare they are among the
# references of all images of one data set, so that a number means little elsewhere.

LEXICAL_METRICS = ("BLEU", "chrF++", "TER", "ROUGE-L")
"""Names of the metrics, in the order of their numbers."""
CORPUS_METRICS = LEXICAL_METRICS[:3]
"""Those that have a number of a whole corpus other than the mean of its rows."""

_TOKENIZERS = {"zh": "zh", "ja": "ja-mecab"} | dict.fromkeys(
    ("bo", "dz", "km", "lo", "my", "th"), "char"
)
_ASIAN = ("ja", "zh")


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
        self.corpus_names = tuple(name for name in names if name in CORPUS_METRICS)
        base = language.lower().replace("_", "-").split("-")[0]
        self._tokenizer = _TOKENIZERS.get(base, "13a")
        self._by_character = base in _ASIAN
        # Forced: else it warns of spaces before full stops, which are the user's to judge.
        self._bleu: Any = BLEU(tokenize=self._tokenizer, force=True)
        self._sentence_bleu: Any = BLEU(tokenize=self._tokenizer, effective_order=True, force=True)
        self._chrf: Any = CHRF(word_order=2)
        self._ter: Any = TER(normalized=self._by_character, asian_support=self._by_character)
        self._is_rouges_own = base == "en"
        words = None if self._is_rouges_own else _WordsOfBleu(self._bleu)
        self._rouge: Any = RougeScorer(["rougeL"], tokenizer=words)

    def scores(self, candidates: Sequence[str], references: Sequence[Sequence[str]]) -> Doubles:
        """Score each row on its own.

        BLEU of a sentence leaves out orders of n-grams for which it is too short, as sacrebleu's
        `sentence_bleu` does. ROUGE-L is F1, of the reference with which it is greatest.

        Returns:
            One row for each metric of N texts. Shape (metrics, N).
        """
        of_row = {
            "BLEU": lambda text, group: self._sentence_bleu.sentence_score(text, group).score / 100,
            "chrF++": lambda text, group: self._chrf.sentence_score(text, group).score / 100,
            "TER": lambda text, group: -self._ter.sentence_score(
                self._spaced(text), [*map(self._spaced, group)]
            ).score / 100,
            "ROUGE-L": lambda text, group: self._rouge.score_multi(group, text)["rougeL"].fmeasure,
        }  # fmt: skip
        pairs = list(zip(candidates, map(list, references), strict=True))
        rows = [[of_row[name](text, group) for text, group in pairs] for name in self.names]
        return np.array(rows, dtype=np.float64).reshape(len(self.names), len(pairs))

    def corpus_scores(
        self, candidates: Sequence[str], references: Sequence[Sequence[str]]
    ) -> Doubles:
        """Score all rows as one corpus: counts are added up first. ROUGE-L has no such number.

        Returns:
            One number for each name of `corpus_names`. Shape (metrics,).
        """
        most = max(len(group) for group in references)
        # sacrebleu takes the first reference of all rows, then the second; None for a missing one.
        streams = [
            [group[place] if place < len(group) else None for group in references]
            for place in range(most)
        ]
        texts = list(candidates)
        spaced = [[self._spaced(text) for text in stream] for stream in streams]
        of_corpus = {
            "BLEU": lambda: self._bleu.corpus_score(texts, streams).score,
            "chrF++": lambda: self._chrf.corpus_score(texts, streams).score,
            "TER": lambda: -self._ter.corpus_score([*map(self._spaced, texts)], spaced).score,
        }
        return np.array([of_corpus[name]() for name in self.corpus_names], dtype=np.float64) / 100

    @property
    def signatures(self) -> dict[str, str]:
        """How each metric is computed: sacrebleu's settings, and the tokenizer of ROUGE-L."""
        own = "rouge-score" if self._is_rouges_own else self._tokenizer
        characters = "yes" if self._by_character else "no"
        sacrebleu, rouge = (f"|version:{version(name)}" for name in ("sacrebleu", "rouge-score"))
        signatures = {
            "BLEU": f"case:mixed|tok:{self._tokenizer}|smooth:exp{sacrebleu}",
            "chrF++": f"case:mixed|nc:6|nw:2|space:no{sacrebleu}",
            "TER": f"case:lc|tok:tercom|norm:{characters}|punct:yes|asian:{characters}{sacrebleu}",
            "ROUGE-L": f"case:lc|tok:{own}|stem:no{rouge}",
        }
        return {name: signatures[name] for name in self.names}

    def _spaced(self, text: str | None) -> str | None:
        """Part the characters for TER where it would not: it does so for Chinese and Japanese."""
        if text is None or self._tokenizer != "char":
            return text
        return str(self._bleu.tokenizer(text))


class _WordsOfBleu(Tokenizer):
    def __init__(self, bleu: Any) -> None:
        self._tokenizer = bleu.tokenizer

    def tokenize(self, text: str) -> list[str]:
        return str(self._tokenizer(text.lower())).split()


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


METRIC_NAMES: Mapping[str, str] = dict(
    zip(("bleu", "chrf", "ter", "rouge-l"), LEXICAL_METRICS, strict=True)
)
"""The name of each metric by the name that the option gives it."""
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
