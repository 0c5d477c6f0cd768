"""A metric of one's own: a function that is named as `package.module:name`.

It is imported in processes of its own alone, of which each worker has one: a model in it is loaded
once, and nothing that it sets reaches the encoder.
"""

import importlib
import inspect
import platform
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from numbers import Real
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from bertscore_beam.files.checked import digest_of
from bertscore_beam.run.pool import Pool, WorkersDiedError
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
        sources = "|sources" if self.takes_sources else ""
        order = "|lower:better" if self.lower_is_better else ""
        return f"function:{self.path}|version:{self.version}{sources}{order}"


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
    pool, found = Pool(1, restarts=0), list[OwnMetric]()
    try:
        for path in paths:
            found.append(pool.ask(look_at, path, has_sources))
    except WorkersDiedError as error:
        raise ConfigError(
            f"--metrics {path} cannot be imported: got {error.death}; "
            "expected a module that does not end its process. Import it in Python to see why."
        ) from error
    finally:
        pool.kill()
    if has_sources and not any(metric.takes_sources for metric in found):
        raise ConfigError(
            f"--source-column is for metrics that take sources: got {', '.join(paths)}; expected "
            "one with an argument 'sources'. Leave --source-column out."
        )
    return tuple(found)


def look_at(path: str, has_sources: bool) -> OwnMetric:
    """Import a function into this process, and return what is known of it; see `find_metrics`."""
    function = _function_of(path)
    try:
        signature = inspect.signature(function)
        takes_sources = has_sources and "sources" in signature.parameters
        names = ("candidates", "references", *(["sources"] if takes_sources else []))
        in_order, by_name = _arguments(function, {name: [] for name in names})
        signature.bind(*in_order, **by_name)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"--metrics {path} cannot be called: got {error}; expected a function of candidates "
            "and references, and of sources if it needs these: then give --source-column."
        ) from error
    version = getattr(function, "version", None)
    version = _digest_of(path, function) if version is None else version
    lower_is_better = getattr(function, "lower_is_better", False)
    for name, value, expected in (
        ("version", version, (str, int)),
        ("lower_is_better", lower_is_better, (bool,)),
    ):
        if type(value) not in expected or value == "":
            raise ConfigError(
                f"--metrics {path} cannot be used: got {name} of type {type(value).__name__}; "
                f"expected {' or '.join(one.__name__ for one in expected)}, not empty. Correct it."
            )
    return OwnMetric(
        path=path,
        version=str(version),
        lower_is_better=lower_is_better,
        takes_sources=takes_sources,
    )


def _function_of(path: str) -> Callable[..., Any]:
    module, _, name = path.rpartition(":")
    try:
        function = getattr(importlib.import_module(module), name)
    except BaseException as error:
        missing = isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(
            f"{error.name}."
        )
        cure = "Correct the module, or install what it needs."
        if missing:
            cure = "Install it, or name its folder in PYTHONPATH."
        raise ConfigError(
            f"--metrics {path} cannot be imported: got {type(error).__name__}: {error}"
            f"{_place_of(error)}; expected a function {name!r} in a module that Python "
            f"finds here and on every worker. {cure}"
        ) from error
    is_async = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
    if is_async or inspect.isclass(function) or not callable(function):
        raise ConfigError(
            f"--metrics {path} cannot be called: got {'async ' * is_async}"
            f"{type(function).__name__}; expected a function. Name one."
        )
    return function  # type: ignore[no-any-return] # whatever can be called


@lru_cache(maxsize=64)
def _as_planned(metric: OwnMetric) -> Callable[..., Any]:
    """Return the function of a metric, if it is here what it was where the run was planned."""
    here = look_at(metric.path, metric.takes_sources)
    if here != metric:
        raise MetricError(
            f"the metric {metric.path} is another one on {platform.node()!r}: got "
            f"{here.signature}; expected {metric.signature}, as at the start of the run. Keep it "
            "as it is while a run goes on, and the same on all machines."
        )
    return _function_of(metric.path)


def _arguments(
    function: Callable[..., Any], texts: Mapping[str, list[Any]]
) -> tuple[list[Any], dict[str, Any]]:
    """Return texts as arguments: by their names if the function has these, else in their order."""
    by_name = dict(texts)
    if {"candidates", "references"} <= inspect.signature(function).parameters.keys():
        return [], by_name
    return [by_name.pop("candidates"), by_name.pop("references")], by_name


def _modules_of(path: str, function: Callable[..., Any]) -> list[ModuleType]:
    """Return the modules of a function: in which it is named, and in which it is defined."""
    while isinstance(function, partial):
        function = function.func
    names = {path.rpartition(":")[0], getattr(function, "__module__", None)}
    return [sys.modules[name] for name in names if name in sys.modules]


def _digest_of(path: str, function: Callable[..., Any]) -> str:
    sources = []
    for module in _modules_of(path, function):
        with suppress(OSError, TypeError):  # there is none
            sources.append(inspect.getsource(module))
    if not sources:
        raise ConfigError(
            f"--metrics {path} has no version: got neither an attribute 'version' nor the source "
            "of its module; expected one of them, by which later runs know whose numbers they are. "
            f"Set {path.rpartition(':')[2]}.version."
        )
    return digest_of("\0".join(sorted(sources)), _DIGITS)


def score_with(
    metrics: Sequence[OwnMetric],
    candidates: Sequence[str],
    references: Sequence[Sequence[str]],
    sources: Sequence[str | None],
) -> list[tuple[Doubles, npt.NDArray[np.int64]]]:
    """Score rows with each metric, in this process; see `Metric.rows`. There are no counts.

    A row without a number has NaN, and so has one whose source is no text, of a metric of sources.

    Raises:
        MetricError: A function has failed, has returned something else than a number a row, or is
            another one than was planned.
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
    if not rows:
        return scores
    # Lists of its own, which it may change.
    texts: dict[str, list[Any]] = {
        "candidates": [candidates[at] for at in rows],
        "references": [list(references[at]) for at in rows],
    }
    if metric.takes_sources:
        texts["sources"] = [sources[at] for at in rows]
    function = _as_planned(metric)
    in_order, by_name = _arguments(function, texts)
    try:
        values = _plain(function(*in_order, **by_name))
        if isinstance(values, list | tuple | Iterator):  # others have no order, or no rows
            values = [_plain(value) for value in values]
        wrong = _what_is_wrong(values, len(rows))
    except BaseException as error:
        wrong = f"{type(error).__name__}{_place_of(error, _modules_of(metric.path, function))}"
    if wrong:  # here, so that the error holds nothing of the other, whose words may be texts
        raise MetricError(
            f"the metric {metric.path} has failed: got {wrong}; expected a number for each of "
            f"{len(rows):,} rows, None or NaN for a row without one. Correct it. With the same "
            "attribute 'version' as before the same command then keeps the parts that are done."
        )
    scores[rows] = np.array(values, np.float64)
    return scores


def _plain(value: Any) -> Any:
    """Return an array or a number of NumPy, torch or others as Python's own."""
    return value.tolist() if hasattr(value, "tolist") else value


def _what_is_wrong(values: Any, rows: int) -> str:
    """Say why values are not a finite number, NaN or None for each row; "" if they are."""
    if not isinstance(values, list):
        return f"{type(values).__name__}, not a list"
    if len(values) != rows:
        return f"{len(values):,} values"
    others = [one for one in values if not (one is None or isinstance(one, Real))]
    if others:
        return f"{type(others[0]).__name__}, not a number, for a row"
    is_infinite = any(one is not None and abs(one) > sys.float_info.max for one in values)
    return "infinity for a row" if is_infinite else ""


def _place_of(error: BaseException, modules: Sequence[ModuleType] = ()) -> str:
    """Return where an error was raised, if possible in some modules.

    Its own words may hold texts, and are not shown.
    """
    frames = traceback.extract_tb(error.__traceback__)[1:]  # the first is of this module
    importers = ("<frozen ", importlib.__file__)
    others = [frame for frame in frames if not frame.filename.startswith(importers)]
    files = {getattr(module, "__file__", None) for module in modules}
    own = [frame for frame in others if frame.filename in files] or others
    return f" at {own[-1].filename}:{own[-1].lineno}" if own else ""
