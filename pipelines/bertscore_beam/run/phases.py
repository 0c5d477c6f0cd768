"""A job is phases: items, work on each, and a fold.

    before --items--> items --step--> results --fold--> before of the next phase

All phases of a job that can be known beforehand are one Beam pipeline, whatever the runner: see
`run_step`. On this machine the processes of the pool do the work. Where there is only one item to
work on, `run_plainly` does the same without Beam, which takes seconds to import.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, TypeAlias

from bertscore_beam.dump.plan_file import read_plan
from bertscore_beam.dump.splits import RowGroupSplits, split_chunks
from bertscore_beam.files.read import read_bytes
from bertscore_beam.run import pool
from bertscore_beam.run.pool import Step

Items: TypeAlias = Callable[[Any], Iterable[Any]]
Fold: TypeAlias = Callable[[Iterable[Any]], Any]


def ended(results: Iterable[Any]) -> None:
    """Fold results to nothing: the next phase only waits for all of them."""
    for _ in results:
        pass


def only(results: Iterable[Any]) -> Any:
    """Fold the result of a phase of one item to that result."""
    return next((result for result in results if result is not None), None)


def collected(lists: Iterable[Sequence[Any]]) -> list[Any]:
    """Fold lists to one, in any order."""
    return list(chain.from_iterable(lists))


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One phase of a job. All of it is pickled and sent to workers.

    Items and their results may be made twice, or by two workers at once, if one of them dies. Only
    small things may be items or results: neither texts nor scores.

    Attributes:
        name: What Beam calls it.
        items: Returns what is to be done, given what the phase before was folded to; the first
            phase gets None. All are made by one worker.
        step: What is done with an item; None if the items are results themselves.
        fold: Adds up results: in any order, in several steps, and also none.
        by_key: Whether results are lists of keys with values. The values of a key are folded, and
            the next phase gets each key with what its values were folded to.
        accelerator: The GPU that the step needs, in Beam's notation; None for no GPU.
        divisible: Whether items are sequences, and the step yields a result for each of their
            parts, with which it begins when the result is asked for. The runner may then give the
            last parts of an item to a worker that has nothing to do.
    """

    name: str
    items: Items
    step: Step | None = None
    fold: Fold = ended
    by_key: bool = False
    accelerator: str | None = None
    divisible: bool = False


def given(items: Sequence[Any]) -> Items:
    """Return the items of a phase that are known before it begins."""
    return partial(_given, items)


def _given(items: Sequence[Any], _: Any) -> Sequence[Any]:
    return items


def chunks_of(path: str, digest: str, chunks: int | None) -> Items:
    """Return the splits of a saved plan, in chunks, as the items of a phase.

    The job contains only the plan's path: runners limit the size of a job.

    Args:
        path: That of the plan.
        digest: That of the plan's bytes: no other plan is read.
        chunks: How many chunks share the work; None if the number of workers is not known.
    """
    return partial(_chunks, path, digest, chunks)


def _chunks(path: str, digest: str, chunks: int | None, _: Any) -> Iterator[RowGroupSplits]:
    return split_chunks(read_plan(read_bytes(path), digest, path).splits, chunks)


def run_plainly(phases: Iterable[Phase]) -> None:
    """Run phases without Beam, one item after the other."""
    before: Iterable[Any] = [None]
    for phase in phases:
        items = chain.from_iterable(map(phase.items, before))
        results = items if phase.step is None else pool.results(phase.step, items)
        before = _folded(phase, results)


def _folded(phase: Phase, results: Iterable[Any]) -> list[Any]:
    if not phase.by_key:
        return [phase.fold(results)]
    values = defaultdict(list)
    for key, value in chain.from_iterable(results):
        values[key].append(value)
    return [(key, phase.fold(of_key)) for key, of_key in values.items()]
