"""bert-score and this library in turn on the same texts, for the benchmarks that compare."""

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tests.benchmarks import gemm
from tests.benchmarks.harness import Recorder, add_out, interleave
from tests.benchmarks.models import BenchModel
from tests.benchmarks.texts import Pairs
from tests.benchmarks.worker import PEER_PYTHON, Worker, write_pairs

WARM_UP_PAIRS = 64

Seconds = dict[str, dict[str, list[float]]]
"""Seconds of every round, by case and contestant."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """A process with a model loaded.

    Attributes:
        worker: The process.
        dtype: Number format of its matrix products.
        options: What goes with every request to score.
        backend: What runs its encoder; None for bert-score.
    """

    worker: Worker
    dtype: str
    options: Mapping[str, Any]
    backend: str | None = None

    def score(self, path: Path, stop: int | None = None) -> dict[str, Any]:
        """Score the pairs of a file."""
        return self.worker.ask("score", path=str(path), stop=stop, **self.options)


class Contest:
    """The contestants on one model, loaded. A context manager; they end with it.

    Args:
        model: The model.
        recorder: Where results go.
        peer_batches: Batch sizes of bert-score, a process each. The first is what ratios compare
            with.
        ours: Number formats of this library, each with `:backend` behind it if one is wanted.
    """

    def __init__(
        self,
        model: BenchModel,
        recorder: Recorder,
        *,
        peer_batches: Sequence[int] = (64,),
        ours: Sequence[str] = ("float32", "bfloat16"),
    ) -> None:
        self._model = model
        self._recorder = recorder
        self._stack = ExitStack()
        self._all: dict[str, Contestant] = {}
        with self._stack:
            for batch in peer_batches:
                self._add_peer(batch)
            for asked in ours:
                self._add_ours(asked)
            self._stack = self._stack.pop_all()

    def _add_peer(self, batch: int) -> None:
        worker = Worker("tests.benchmarks.serve_peer", PEER_PYTHON, folder=self._model.folder)
        self._stack.enter_context(worker)
        loaded = worker.ask("load", model=self._model.name, num_layers=self._model.shape.layers)
        self._recorder.facts["peer"] = loaded["versions"]
        self._all[f"peer, batch {batch}"] = Contestant(worker, "float32", {"batch_size": batch})

    def _add_ours(self, asked: str) -> None:
        dtype, _, backend = asked.partition(":")
        worker = Worker("tests.benchmarks.serve_ours", folder=self._model.folder)
        self._stack.enter_context(worker)
        loaded = worker.ask(
            "load",
            model=str(self._model.path),
            num_layers=self._model.shape.layers,
            dtype=dtype,
            backend=backend or None,
        )
        self._all[f"ours, {asked}"] = Contestant(worker, dtype, {}, loaded["backend"])

    def __enter__(self) -> "Contest":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def run(self, cases: Mapping[str, Pairs], rounds: int) -> Seconds:
        """Score every case with every contestant in turn, and record a result for each.

        Args:
            cases: The texts, by a name that is put before the contestant's; "" for none.
            rounds: How often, after a warm-up.
        """
        with TemporaryDirectory() as folder:
            paths = {
                case: write_pairs(Path(folder) / f"{number}.json", pairs)
                for number, (case, pairs) in enumerate(cases.items())
            }
            return self._run(cases, paths, rounds)

    def _run(self, cases: Mapping[str, Pairs], paths: Mapping[str, Path], rounds: int) -> Seconds:
        replies: dict[str, dict[str, dict[str, Any]]] = {case: {} for case in cases}
        peaks: dict[str, float] = dict.fromkeys(
            sorted({one.dtype for one in self._all.values()}), 0
        )

        def turn(case: str, name: str) -> Callable[[], float]:
            def run() -> float:
                replies[case][name] = self._all[name].score(paths[case])
                return float(replies[case][name]["seconds"])

            return run

        def measure_peaks() -> float:
            started = time.perf_counter()
            for dtype in peaks:
                peaks[dtype] = max(peaks[dtype], gemm.measure(dtype, seconds=0.2).best)
            return time.perf_counter() - started

        for path in paths.values():
            for one in self._all.values():
                one.score(path, stop=WARM_UP_PAIRS)
        turns = {f"{case} {name}": turn(case, name) for case in cases for name in self._all}
        taken = interleave({"GEMM peak": measure_peaks, **turns}, rounds)
        seconds = {case: {name: taken[f"{case} {name}"] for name in self._all} for case in cases}
        for case, pairs in cases.items():
            lengths = self._lengths(paths[case])
            for name in self._all:
                self._record(case, name, seconds[case], replies[case], peaks, len(pairs), lengths)
        return seconds

    def _lengths(self, path: Path) -> list[int]:
        """Tokens of every distinct text, by our tokenizer, which gives the reference's ids."""
        ours = [one for one in self._all.values() if one.backend is not None]
        return list(ours[0].worker.ask("lengths", path=str(path))["lengths"]) if ours else []

    def _record(
        self,
        case: str,
        name: str,
        seconds: Mapping[str, Sequence[float]],
        replies: Mapping[str, dict[str, Any]],
        peaks: Mapping[str, float],
        n: int,
        lengths: Sequence[int],
    ) -> None:
        first = next(iter(self._all))
        exact = [
            one for one, entry in self._all.items() if entry.backend and entry.dtype == "float32"
        ]
        taken, reply = seconds[name], replies[name]
        useful = self._model.shape.flops(lengths) / median(taken)
        drift = {}
        if name != first:
            drift = _difference("f1", reply["f1"], replies[first]["f1"])
        if exact and self._all[name].backend and name != exact[0]:
            drift |= _difference("drift", reply["f1"], replies[exact[0]]["f1"])
        self._recorder.add(
            model=self._model.name,
            what=f"{case}: {name}" if case else name,
            n=n,
            seconds=taken,
            ratio=median(seconds[first]) / median(taken),
            ratio_of_bests=min(seconds[first]) / min(taken),
            pairs_per_second=n / median(taken),
            useful_gflops=useful / 1e9,
            share_of_peak=useful / peaks[self._all[name].dtype],
            peak_gflops=peaks[self._all[name].dtype] / 1e9,
            padding=1 - sum(lengths) / reply["padded"] if reply["padded"] else None,
            peak_mb=reply["peak_mb"],
            backend=self._all[name].backend,
            distinct_texts=len(lengths),
            mean_tokens=sum(lengths) / max(len(lengths), 1),
            **drift,
        )


def _difference(prefix: str, one: Sequence[float], other: Sequence[float]) -> dict[str, float]:
    """Compare two lists of F1: largest and mean distance, and the mean difference."""
    difference = np.array(one) - np.array(other)
    return {
        f"{prefix}_max": float(np.abs(difference).max()),
        f"{prefix}_mean": float(np.abs(difference).mean()),
        f"{prefix}_bias": float(difference.mean()),
    }


def add_contest_flags(parser: argparse.ArgumentParser, peer_batches: Sequence[int]) -> None:
    """Add the flags that say who takes part, and how often."""
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer-batches", type=int, nargs="+", default=list(peer_batches))
    parser.add_argument("--ours", nargs="*", default=["float32", "bfloat16"])
    add_out(parser)
