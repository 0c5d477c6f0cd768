"""A metric of one's own: a function that is named as `package.module:name`.

It is imported in processes of its own alone, of which each worker has one: a model in it is loaded
once, and nothing that it sets reaches the encoder.
"""

import hashlib
import importlib
import inspect
import math
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from bertscore_beam.run.pool import Pool
from bertscore_core.errors import BertScoreError, ConfigError
from bertscore_core.stats.score_statistics import Doubles

_DIGITS = 12


class MetricError(BertScoreError):
    """A metric of one's own has failed, or has returned no number for each row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnMetric:
    """What is known of a metric of one's own.

    Attributes:
        path: As it was named: `package.module:name`.
        version: The attribute of that name, or a digest of the source of its module.
        lower_is_better: The attribute of that name: whether its numbers count errors.
        takes_sources: Whether it is given sources.
    """

    path: str
    version: str
    lower_is_better: bool = False
    takes_sources: bool = False

    @property
    def name(self) -> str:
        """What the metric is called in columns and results."""
        return self.path.rpartition(":")[2]

    @property
    def signature(self) -> str:
        """Identifies what made its numbers."""
        order = "|lower:better" if self.lower_is_better else ""
        return f"function:{self.path}|version:{self.version}{order}"


def find_metrics(paths: tuple[str, ...], *, has_sources: bool) -> tuple[OwnMetric, ...]:
    """Import functions in a process of their own, and return what is known of them.

    Args:
        paths: Their names, as `package.module:name`.
        has_sources: Whether rows have sources.

    Raises:
        ConfigError: One cannot be imported, or takes other arguments; or none takes the sources.
    """
    if not paths:
        return ()
    pool = Pool(1, restarts=0)
    try:
        found = tuple(pool.ask(look_at, path, has_sources) for path in paths)
    finally:
        pool.kill()
    if has_sources and not any(metric.takes_sources for metric in found):
        raise ConfigError(
            f"--source-column is for metrics that take sources: got {', '.join(paths)}; expected "
            "one with an argument 'sources'. Leave --source-column out."
        )
    return found


def look_at(path: str, has_sources: bool) -> OwnMetric:
    """Import a function into this process, and return what is known of it; see `find_metrics`."""
    function = _function_of(path)
    try:
        parameters = inspect.signature(function).parameters
        takes_sources = has_sources and "sources" in parameters
        inspect.signature(function).bind([], [], **({"sources": []} if takes_sources else {}))
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"--metrics {path} cannot be called: got {error}; expected a function of candidates "
            "and references, and of sources if it needs these: then give --source-column."
        ) from error
    version = getattr(function, "version", None)
    return OwnMetric(
        path=path,
        version=_digest_of(path, function) if version is None else str(version),
        lower_is_better=bool(getattr(function, "lower_is_better", False)),
        takes_sources=takes_sources,
    )


@lru_cache(maxsize=64)
def _function_of(path: str) -> Callable[..., Any]:
    module, _, name = path.rpartition(":")
    try:
        function = getattr(importlib.import_module(module), name)
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"--metrics {path} cannot be imported: got {type(error).__name__}: {error}; expected a "
            f"function {name!r} in a module that Python finds here and on every worker. Install "
            "it, or name its folder in PYTHONPATH."
        ) from error
    if not callable(function):
        raise ConfigError(
            f"--metrics {path} cannot be called: got {type(function).__name__}; expected a "
            "function. Name one."
        )
    return function  # type: ignore[no-any-return] # whatever can be called


def _digest_of(path: str, function: Callable[..., Any]) -> str:
    names = {path.rpartition(":")[0], getattr(function, "__module__", None)}
    files = [getattr(sys.modules.get(name or ""), "__file__", None) for name in names]
    sources = sorted(Path(file).read_bytes() for file in files if file and file.endswith(".py"))
    if not sources:
        raise ConfigError(
            f"--metrics {path} has no version: got neither an attribute 'version' nor the source "
            "of its module; expected one of them, by which later runs know whose numbers they are. "
            f"Set {path.rpartition(':')[2]}.version."
        )
    return hashlib.sha256(b"\0".join(sources)).hexdigest()[:_DIGITS]


def score_with(
    metrics: Sequence[OwnMetric],
    candidates: Sequence[str],
    references: Sequence[Sequence[str]],
    sources: Sequence[str | None],
) -> list[tuple[Doubles, npt.NDArray[np.int64]]]:
    """Score rows with each metric, in this process; see `Metric.rows`. There are no counts.

    A row without a number has NaN, and so has one whose source is no text, of a metric of sources.

    Raises:
        MetricError: A function has failed, or has returned something else than a number a row.
    """
    nothing = np.zeros((len(candidates), 0), np.int64)
    return [(_numbers(metric, candidates, references, sources), nothing) for metric in metrics]


def _numbers(
    metric: OwnMetric,
    candidates: Sequence[str],
    references: Sequence[Sequence[str]],
    sources: Sequence[str | None],
) -> Doubles:
    scores = np.full(len(candidates), np.nan)
    rows = [at for at in range(len(scores)) if not metric.takes_sources or sources[at] is not None]
    texts: list[list[Any]] = [[column[at] for at in rows] for column in (candidates, references)]
    by_name = {"sources": [sources[at] for at in rows]} if metric.takes_sources else {}
    if not rows:
        return scores
    try:
        values = _function_of(metric.path)(*texts, **by_name)
        numbers = np.array(values.tolist() if hasattr(values, "tolist") else [*values], np.float64)
    except (Exception, SystemExit) as error:
        _fail(metric, len(rows), f"{type(error).__name__}{_place_of(error)}")
    if numbers.shape != (len(rows),):
        _fail(metric, len(rows), f"numbers of shape {numbers.shape}")
    scores[rows] = np.where(np.isfinite(numbers), numbers, math.nan)
    return scores


def _fail(metric: OwnMetric, rows: int, got: str) -> NoReturn:
    raise MetricError(
        f"the metric {metric.path} has failed: got {got}; expected a number for each of {rows:,} "
        "rows, NaN for a row without one. Correct it. With the same attribute 'version' as before "
        "the same command then keeps the parts that are done."
    )


def _place_of(error: BaseException) -> str:
    """Return where an error was raised. Its own words may hold texts, and are not shown."""
    frames = traceback.extract_tb(error.__traceback__)[1:]  # the first is of this module
    return f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
