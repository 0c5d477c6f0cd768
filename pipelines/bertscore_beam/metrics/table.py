"""The table of metrics, what is checked before a run, and how rows are scored.

A metric is a class with `rows` and `signatures`, and with `corpus` where the score of a corpus is
not the mean of its rows. To add one, write it, and name it in `metric_of` here and in `METRICS` of
`dump/columns.py`.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from itertools import compress
from typing import Any

import numpy as np

from bertscore_beam.dump.columns import METRIC_COUNTS
from bertscore_beam.dump.languages import scripts_of
from bertscore_beam.metrics.metric import Metric, base_of
from bertscore_beam.metrics.own import OwnMetric
from bertscore_core.errors import ConfigError
from bertscore_core.stats.score_statistics import Doubles
from bertscore_core.tokens import IntArray

_PACKAGES = {"sacrebleu": "sacrebleu", "rouge_score": "rouge-score"}
_CUTTERS = {"ja": ("MeCab", "ja"), "ko": ("mecab_ko", "ko")}
"""The package by which sacreBLEU cuts texts of a language, and the extra of sacreBLEU with it."""

CORPUS_METRICS = tuple(METRIC_COUNTS)
"""Metrics whose score of a corpus is not the mean of its rows."""


@lru_cache(maxsize=64)
def metric_of(name: str, language: str = "") -> Metric:
    """Return a metric.

    Args:
        name: One of `METRICS`.
        language: Code of the language of the texts, by which words are cut; "" if not known.
    """
    if name == "rougel":
        from bertscore_beam.metrics.rouge import RougeL  # an extra

        return RougeL(language)
    from bertscore_beam.metrics.sacre import SacreMetric  # an extra

    return SacreMetric(name, language)


def check_metrics(
    names: Sequence[str], languages: Sequence[str], *, refuse_scripts: bool = False
) -> None:
    """Check that metrics can be computed of texts in some languages.

    Args:
        names: Some of `METRICS`.
        languages: Codes of the languages.
        refuse_scripts: Whether a language that ROUGE-L cannot read is an error; otherwise its rows
            have no score of it.

    Raises:
        ConfigError: A package is missing, or ROUGE-L cannot read a language.
    """
    bases = [base_of(language) for language in languages]
    missing = [package for name, package in _PACKAGES.items() if find_spec(name) is None]
    if names and missing:
        raise ConfigError(
            f"--metrics needs packages that are not installed: got no {', '.join(missing)}; "
            "expected those of the extra 'tune'. In the checkout: pip install '.[tune]'."
        )
    for base, (module, extra) in _CUTTERS.items():
        if "bleu" in names and base in bases and find_spec(module) is None:
            raise ConfigError(
                f"BLEU of texts in {base!r} needs a package that is not installed: got no "
                f"{module}; expected that of sacreBLEU's extra {extra!r}. Run: pip install "
                f"'sacrebleu[{extra}]', or leave bleu out of --metrics."
            )
    dropped = [base for base in bases if "Latin" not in scripts_of(base)]
    if refuse_scripts and "rougel" in names and dropped:
        raise ConfigError(
            f"rougel cannot be computed: got texts in {dropped[0]!r}; expected a language in Latin "
            "letters, since rouge-score drops all others. Leave rougel out of --metrics."
        )


_PERIOD = " ."
_MOST_PERIODS = 100
"""Rows with one from which sacreBLEU warns."""


def num_tokenized(names: Sequence[str], candidates: Iterable[object]) -> int:
    """Count the candidates that end in a period that was cut off, if it matters to a metric."""
    if "bleu" not in names:
        return 0
    return sum(isinstance(text, str) and text.endswith(_PERIOD) for text in candidates)


def tokenized_warning(rows: int) -> str | None:
    """Return the warning of sacreBLEU that texts look tokenized; None for few rows."""
    if rows < _MOST_PERIODS:
        return None
    return (
        f"{rows:,} candidates end in {_PERIOD!r}: they look tokenized, which moves BLEU. Score "
        "detokenized texts, or leave bleu out."
    )


def no_numbers_warning(metrics: Mapping[str, Mapping[str, Any]]) -> str | None:
    """Return the warning of metrics without a number for any row, from a summary; None for none."""
    names = [name for name, own in metrics.items() if own.get("missing") and not own["rows"]]
    if not names:
        return None
    return f"{', '.join(names)}: no row has a number. Look at what the metric needs of its rows."


def identity_of(
    names: Sequence[str], language: str, own: Sequence[OwnMetric] = (), source: str | None = None
) -> dict[str, str]:
    """Return what must be equal for runs with metrics to share a folder; nothing without any.

    Args:
        names: Some of `METRICS`.
        language: The language of all rows; "" if not known.
        own: Metrics of one's own.
        source: Their column of sources.
    """
    made = {}
    if names:  # otherwise the packages may be missing
        packages = ", ".join(f"{package} {version(package)}" for package in _PACKAGES.values())
        made["metrics"] = f"{' '.join(sorted(names))} ({language}; {packages})"
    if own:
        made["own_metrics"] = " ".join(sorted(metric.signature for metric in own))
    return made if source is None else {**made, "source_column": source}


def score_rows(
    names: Sequence[str],
    language: str,
    candidates: Sequence[str],
    references: Sequence[Sequence[str]],
) -> list[tuple[Doubles, IntArray]]:
    """Score rows of one language with each metric; see `score_each`."""
    return [score_each(metric_of(name, language), candidates, references) for name in names]


def score_each(
    metric: Metric, candidates: Sequence[str], references: Sequence[Sequence[str]]
) -> tuple[Doubles, IntArray]:
    """Score rows with a metric; see `Metric.rows`.

    A row that is too long for it has NaN and counts of 0: it must not hold up all others.
    """
    pairs = zip(candidates, references, strict=True)
    fits = np.array([not metric.is_too_long(*pair) for pair in pairs], dtype=np.bool_)
    own, own_counts = metric.rows(
        list(compress(candidates, fits)), list(compress(references, fits))
    )
    scores = np.full(len(fits), np.nan)
    counts = np.zeros((len(fits), own_counts.shape[1]), dtype=np.int64)
    scores[fits], counts[fits] = own, own_counts
    return scores, counts


@lru_cache(maxsize=1024)
def label_of(name: str, language: str) -> str:
    """Return the name under which the rows of a metric are added up.

    Texts that are cut in other ways are not one corpus: such metrics have a name for each way.
    """
    if name not in CORPUS_METRICS:
        return name
    from bertscore_beam.metrics.sacre import cut_of  # an extra

    return f"{name} {cut_of(name, language)}".strip()


def corpus_score(name: str, counts: Sequence[int]) -> float:
    """Return the score of a corpus from the sums of the counts of its rows."""
    metric: Any = metric_of(name)
    return float(metric.corpus(counts))


@lru_cache(maxsize=64)
def num_counts(name: str) -> int:
    """Return how many counts a metric has of each row."""
    _, counts = metric_of(name).rows(["a"], [["a"]])
    return int(counts.shape[1])


def described(
    names: Sequence[str], languages: Sequence[str], *, listed: bool, own: Sequence[OwnMetric] = ()
) -> dict[str, Any]:
    """Return the signatures of metrics by name, of the corpus and of rows, with their languages.

    Args:
        names: Some of `METRICS`.
        languages: Codes of the languages of the rows.
        listed: Whether rows may have several references.
        own: Metrics of one's own, which have one signature, and say whether lower is better.
    """
    made: dict[str, Any] = {
        metric.name: {
            **dict.fromkeys(("signature", "sentence_signature"), metric.signature),
            "lower_is_better": metric.lower_is_better,
        }
        for metric in own
    }
    for name in names:
        both = {one: metric_of(name, one).signatures(listed=listed) for one in languages}
        made[name] = {
            kind: _by_signature({one: signatures[place] for one, signatures in both.items()})
            for place, kind in enumerate(("signature", "sentence_signature"))
        }
    return made


def _by_signature(signatures: Mapping[str, str]) -> str | dict[str, str]:
    """Return the one signature of all languages, or that of each."""
    distinct = set(signatures.values())
    return distinct.pop() if len(distinct) == 1 else dict(signatures)


def format_signatures(signature: str | Mapping[str, str]) -> str:
    """Return a signature as text: of several, each after the languages that have it."""
    if isinstance(signature, str):
        return signature
    languages: dict[str, list[str]] = {}
    for language, own in signature.items():
        languages.setdefault(own, []).append(language)
    return "; ".join(f"{', '.join(names)}: {own}" for own, names in languages.items())
