"""The table of metrics, what is checked before a run, and processes that compute them.

A metric is a class with `rows` and `signatures`, and with `corpus` where the score of a corpus is
not the mean of its rows. To add one, write it, and name it in `metric_of` here and in `METRICS` of
`dump/columns.py`.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from itertools import compress
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bertscore_beam.dump import METRIC_COUNTS, METRICS, scripts_of
from bertscore_beam.run import Pool
from bertscore_core.errors import ConfigError
from bertscore_core.stats import Doubles


class Metric(Protocol):
    """A metric for texts of one language."""

    def rows(
        self, candidates: Sequence[str], references: Sequence[Sequence[str]]
    ) -> tuple[Doubles, npt.NDArray[np.int64]]:
        """Score each row on its own, against one or more references.

        Returns:
            Scores on the scale of the library, NaN where it has none, shape (N,); and counts that
            add up to those of a corpus, shape (N, K).
        """

    def is_too_long(self, candidate: str, references: Sequence[str]) -> bool:
        """Tell whether a row would take more than some 5 seconds of a core."""

    def signatures(self, *, listed: bool = False) -> tuple[str, str]:
        """Return how the score of a corpus, and those of rows, are made."""


_PACKAGES = {"sacrebleu": "sacrebleu", "rouge_score": "rouge-score"}
_CUTTERS = {"ja": ("MeCab", "ja"), "ko": ("mecab_ko", "ko")}
"""The package by which sacreBLEU cuts texts of a language, and the extra of sacreBLEU with it."""

_MILLISECONDS = {"bleu": 0.07, "chrf": 0.15, "chrf++": 0.19, "ter": 0.75, "rougel": 0.05}
"""Of a core (Zen 4) for a pair of texts of 11 words."""

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


def base_of(language: str) -> str:
    """Return the language of a code such as zh-Hans."""
    return language.lower().replace("_", "-").split("-")[0]


def check_metrics(
    names: Sequence[str], languages: Sequence[str] = (), *, refuse_scripts: bool = False
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


def speed_words(names: Sequence[str]) -> str:
    """Say how many cores metrics need beside the device."""
    rate = 1000 / sum(_MILLISECONDS[name] for name in names)
    return f"{', '.join(names)}: some {rate:,.0f} short rows a second on each core that is free"


def identity_of(names: Sequence[str], language: str) -> dict[str, str]:
    """Return what must be equal for runs with metrics to share a folder; nothing without any."""
    if not names:  # then the packages may be missing
        return {}
    packages = ", ".join(f"{package} {version(package)}" for package in _PACKAGES.values())
    return {"metrics": f"{' '.join(sorted(names))} ({language}; {packages})"}


def score_rows(
    names: Sequence[str],
    language: str,
    candidates: Sequence[str],
    references: Sequence[Sequence[str]],
) -> list[tuple[Doubles, npt.NDArray[np.int64]]]:
    """Score rows of one language with each metric; see `Metric.rows`.

    A row that is too long for a metric has NaN and counts of 0: it must not hold up all others.
    """
    return [_score_rows(metric_of(name, language), candidates, references) for name in names]


def _score_rows(
    metric: Metric, candidates: Sequence[str], references: Sequence[Sequence[str]]
) -> tuple[Doubles, npt.NDArray[np.int64]]:
    pairs = zip(candidates, references, strict=True)
    fits = np.array([not metric.is_too_long(*pair) for pair in pairs], dtype=np.bool_)
    own, own_counts = metric.rows(
        list(compress(candidates, fits)), list(compress(references, fits))
    )
    scores = np.full(len(fits), np.nan)
    counts = np.zeros((len(fits), own_counts.shape[1]), dtype=np.int64)
    scores[fits], counts[fits] = own, own_counts
    return scores, counts


def exceeds(
    most: int, words_of: Callable[[str], int], candidate: str, references: Sequence[str]
) -> bool:
    """Tell whether the words of a candidate times those of its references are more than `most`."""
    # A word has at least one character, so that few rows are cut into words twice.
    if len(candidate) * sum(map(len, references)) <= most:
        return False
    return words_of(candidate) * sum(map(words_of, references)) > most


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


def described(names: Sequence[str], languages: Sequence[str], *, listed: bool) -> dict[str, Any]:
    """Return the signatures of metrics by name, of the corpus and of rows, with their languages."""
    made: dict[str, Any] = {}
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


def signature_words(signature: str | Mapping[str, str]) -> str:
    """Return a signature as text: of several, each after the languages that have it."""
    if isinstance(signature, str):
        return signature
    languages: dict[str, list[str]] = {}
    for language, own in signature.items():
        languages.setdefault(own, []).append(language)
    return "; ".join(f"{', '.join(names)}: {own}" for own, names in languages.items())


_AT_ONCE = 200
"""Rows that a process scores at a time: a fraction of a second."""
_MOST_PROCESSES = 8


class MetricProcesses:
    """Processes that score rows with metrics while the device encodes others. Threads share them.

    They end with the process that made them.
    """

    def __init__(self, names: Sequence[str], sharing: int | None = None) -> None:
        """Make them; they start when there is work.

        Args:
            names: Some of `METRICS`.
            sharing: How many such sets share the cores of this machine; None for one a core.
        """
        self.names = tuple(names)
        cores = os.cpu_count() or 1
        number = max(1, min(cores // (sharing or cores) - 1, _MOST_PROCESSES))
        self.pool = Pool(number, restarts=1)
        self._threads = ThreadPoolExecutor(number)

    def begin(
        self,
        candidates: Sequence[Any],
        references: Sequence[Any],
        rows: npt.NDArray[np.int64],
        language_of: Callable[[int], str],
    ) -> Callable[[], dict[str, pa.Array]]:
        """Begin to score some rows of a table, and return what waits for their columns.

        Args:
            candidates: The texts of all N rows of the table.
            references: The references of each.
            rows: Positions of the rows to score. Shape (M,).
            language_of: Returns the language of a row.
        """
        by_language: dict[str, list[int]] = {}
        for row in rows.tolist():
            by_language.setdefault(language_of(row), []).append(row)
        pieces = [
            (language, own[first : first + _AT_ONCE])
            for language, own in by_language.items()
            for first in range(0, len(own), _AT_ONCE)
        ]
        waiting = [
            self._threads.submit(
                self.pool.ask,
                score_rows,
                self.names,
                language,
                [candidates[row] for row in own],
                [list(references[row]) for row in own],
            )
            for language, own in pieces
        ]

        def wait() -> dict[str, pa.Array]:
            done = [future.result() for future in waiting]
            order = np.array([row for _, own in pieces for row in own], dtype=np.int64)
            return columns_of(self.names, len(candidates), order, done)

        return wait


def columns_of(
    names: Sequence[str],
    number: int,
    rows: npt.NDArray[np.int64],
    scored: Sequence[Sequence[tuple[Doubles, npt.NDArray[np.int64]]]],
) -> dict[str, pa.Array]:
    """Return the columns of metrics: of M rows of a table of N, scored in pieces, in their order.

    A row without a score is null in both columns of a metric.
    """
    made: dict[str, pa.Array] = {}
    for place, name in enumerate(names):
        values = np.full(number, np.nan)
        values[rows] = np.concatenate([np.zeros(0), *(piece[place][0] for piece in scored)])
        missing = np.isnan(values)
        made[METRICS[name]] = pa.array(values, mask=missing)
        if name in METRIC_COUNTS:
            lists: list[list[int] | None] = [None] * number
            counts = [own for piece in scored for own in piece[place][1].tolist()]
            for row, own in zip(rows.tolist(), counts, strict=True):
                lists[row] = None if missing[row] else own
            made[METRIC_COUNTS[name]] = pa.array(lists, pa.list_(pa.int64()))
    return made
