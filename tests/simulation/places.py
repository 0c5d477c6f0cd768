"""Put a simulated world in the place of clocks, threads, processes and stores."""

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

from bertscore_beam.records import summary
from bertscore_beam.run import alone
from bertscore_beam.score import steps
from bertscore_beam.score.steps import SplitScorer
from tests.simulation.disk import open_disk
from tests.simulation.store import open_store, stored
from tests.simulation.world import World


@contextmanager
def placed(world: World, kind: str, root: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Put a world in the place of clocks, threads, processes and stores.

    Yields:
        The output folder, and what returns its files by their path below it.
    """
    with pytest.MonkeyPatch.context() as patch, parts_of_one_size():
        _place_processes(world, patch)
        if kind == "disk":
            calls = open_disk(world, root / "out", patch)
            yield str(root / "out"), lambda: calls.files
        else:
            output = open_store(kind, world)
            start = len("bucket/out/")
            yield output, lambda: {name[start:]: data for name, data in stored().items()}


@contextmanager
def parts_of_one_size() -> Iterator[None]:
    """Write parts without checksums of their pages, which take four bytes or five.

    Else the size of a part would tell it from one of another setting.
    """
    write = pq.write_table
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            pq, "write_table", lambda *a, **b: write(*a, **b | {"write_page_checksum": False})
        )
        yield


def _place_processes(world: World, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(uuid, "uuid4", world.uuid4)
    patch.setattr(alone, "time", SimpleNamespace(sleep=world.sleep))
    patch.setattr(summary, "time", SimpleNamespace(time=lambda: 1e9))
    patch.setattr(steps, "time", SimpleNamespace(perf_counter=lambda: 0.0))
    patch.setattr(SplitScorer, "score", lambda one, split, rows, *_: one.scorers(split, rows))
    _run_pools_in_line(world, patch)


def _run_pools_in_line(world: World, patch: pytest.MonkeyPatch) -> None:
    """Let the actor itself do what it hands to threads, one after the other in a random order."""
    submit, map_all = ThreadPoolExecutor.submit, ThreadPoolExecutor.map

    def submit_here(pool: Any, work: Callable[..., Any], *words: Any, **more: Any) -> Future[Any]:
        if world.me is None:
            return submit(pool, work, *words, **more)
        done: Future[Any] = Future()
        try:
            done.set_result(work(*words, **more))
        except Exception as error:
            done.set_exception(error)
        return done

    def map_here(pool: Any, work: Callable[..., Any], *items: Any, **more: Any) -> Any:
        if world.me is None:
            return map_all(pool, work, *items, **more)
        calls = list(zip(*items, strict=False))
        order = world.random.sample(range(len(calls)), len(calls))
        done = {place: submit_here(pool, work, *calls[place]) for place in order}
        return (done[place].result() for place in range(len(calls)))

    patch.setattr(ThreadPoolExecutor, "submit", submit_here)
    patch.setattr(ThreadPoolExecutor, "map", map_here)
