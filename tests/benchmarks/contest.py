"""bert-score and this library in turn on the same texts, each a process with its model loaded."""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tests.benchmarks import gemm
from tests.benchmarks.harness import Recorder, interleave
from tests.benchmarks.models import BenchModel, prepare
from tests.benchmarks.texts import Pairs, fixed, mixed
from tests.benchmarks.worker import Worker, write_pairs

WARM_UP_PAIRS = 64
DEFAULT_PAIRS = {"embedded": 3000, "bert-base": 400, "roberta-large": 100}
SYSTEMS = 8


def peer(
    recorder: Recorder,
    *,
    model: str = "embedded",
    pairs: int = 0,
    rounds: int = 3,
    peer_batches: Sequence[int] = (64,),
    ours: Sequence[str] = ("float32", "bfloat16"),
    device: str = "cpu",
) -> None:
    """This library against bert-score 0.3.13, in turn, in one run.

    Every round runs each contestant once, and measures the matrix product peak. Reported are
    medians over rounds, the ratio to bert-score at the first of its batches, useful FLOP/s (padding
    excluded; see `Shape.flops`) as a share of the peak of the same number format, the share of
    padding, each process's peak memory, and how far F1 is from that of the first contestant
    (`f1_*`; bert-score's padding moves its own scores) and from our float32 (`drift_*`).
    `--ours float32:torch` asks for a backend by name. On `--device cuda` a plain loop replaces
    bert-score if that is not installed, and the line says so.
    """
    texts = {"": mixed(pairs or DEFAULT_PAIRS[model])}
    contest(recorder, prepare(model), texts, rounds, peer_batches, ours, device)


def shapes(
    recorder: Recorder,
    *,
    model: str = "embedded",
    short_pairs: int = 3000,
    long_pairs: int = 32,
    mixed_pairs: int = 1000,
    rounds: int = 3,
    peer_batches: Sequence[int] = (64, 16),
    ours: Sequence[str] = ("float32", "bfloat16"),
) -> None:
    """Texts of unusual shape: the shortest, the longest, and references shared by 8 systems.

    The last runs in the same rounds as as many pairs without sharing; a line a contestant gives the
    ratio of their pairs per second.
    """
    prepared = prepare(model)
    cases = {
        "3 tokens": fixed(short_pairs, 3, words=whole_words(prepared)),
        "512 tokens": fixed(long_pairs, 512),
        "shared": mixed(mixed_pairs, systems=SYSTEMS),
        "distinct": mixed(mixed_pairs),
    }
    seconds = contest(recorder, prepared, cases, rounds, peer_batches, ours)
    for (case, name), shared in seconds.items():
        if case == "shared":
            recorder.add(
                model=model,
                what=f"shared against distinct: {name}",
                n=mixed_pairs,
                seconds=shared,
                ratio=median(seconds["distinct", name]) / median(shared),
            )


def whole_words(model: BenchModel) -> list[str]:
    """List the words that the model's WordPiece vocabulary holds whole."""
    vocabulary = model.path / "vocab.txt"
    if not vocabulary.exists():
        return []
    pieces = vocabulary.read_text(encoding="utf-8").split("\n")
    return [piece for piece in pieces if piece.isascii() and piece.isalpha() and len(piece) > 2]


@dataclass(frozen=True, slots=True)
class Contestant:
    """A process with a model loaded.

    Attributes:
        worker: The process.
        dtype: Number format of its encoder.
        options: What goes with every request to score.
    """

    worker: Worker
    dtype: str
    options: Mapping[str, Any]

    @property
    def backend(self) -> str | None:
        """What runs its encoder; None for bert-score."""
        return self.worker.loaded.get("backend")

    def score(self, path: str, stop: int | None = None) -> dict[str, Any]:
        """Score the pairs of a file."""
        return self.worker.ask("score", path=path, stop=stop, **self.options)


def contest(
    recorder: Recorder,
    model: BenchModel,
    cases: Mapping[str, Pairs],
    rounds: int,
    peer_batches: Sequence[int],
    ours: Sequence[str],
    device: str = "cpu",
) -> dict[tuple[str, str], list[float]]:
    """Score every case by every contestant in turn, after a warm-up, and record the results.

    Returns:
        The seconds of every round, by case and contestant.
    """
    with ExitStack() as stack:
        contestants: dict[str, Contestant] = {}
        for batch in peer_batches:
            worker = stack.enter_context(Worker("peer", model, device))
            recorder.facts["peer"] = worker.loaded["versions"]
            name = f"{worker.loaded['name']}, batch {batch}"
            contestants[name] = Contestant(worker, "float32", {"batch_size": batch})
        for asked in ours:
            dtype, _, backend = asked.partition(":")
            options = {"dtype": dtype} | ({"backend": backend} if backend else {})
            worker = stack.enter_context(Worker("ours", model, device, **options))
            contestants[f"ours, {asked}"] = Contestant(worker, dtype, {})
        folder = Path(stack.enter_context(TemporaryDirectory()))
        paths = {
            case: write_pairs(folder / f"{number}.json", pairs)
            for number, (case, pairs) in enumerate(cases.items())
        }
        replies: dict[tuple[str, str], dict[str, Any]] = {}
        peaks = dict.fromkeys(sorted({side.dtype for side in contestants.values()}), 0.0)

        def score(case: str, name: str) -> float:
            replies[case, name] = contestants[name].score(paths[case])
            return float(replies[case, name]["seconds"])

        def measure_peaks() -> float:
            started = time.perf_counter()
            for dtype in peaks:
                peaks[dtype] = max(peaks[dtype], gemm.measure(dtype, device, seconds=0.2).best)
            return time.perf_counter() - started

        for path in paths.values():
            for side in contestants.values():
                side.score(path, stop=WARM_UP_PAIRS)
        turns = {(case, name): partial(score, case, name) for case in cases for name in contestants}
        taken = interleave({"GEMM peak": measure_peaks, **turns}, rounds)
        # Our tokenizer gives the reference's ids, so that its lengths count for both.
        own = [name for name, side in contestants.items() if side.backend is not None]
        lengths = {
            case: contestants[own[0]].worker.ask("lengths", path=path)["lengths"] if own else []
            for case, path in paths.items()
        }
    first = next(iter(contestants))
    exact = next((name for name in own if contestants[name].dtype == "float32"), None)
    for case, name in turns:
        side, seconds, reply = contestants[name], taken[case, name], replies[case, name]
        tokens = sum(lengths[case])
        useful = model.shape.flops(lengths[case]) / median(seconds)
        drift = {}
        if name != first:
            drift = _difference("f1", reply["f1"], replies[case, first]["f1"])
        if exact is not None and side.backend and name != exact:
            drift |= _difference("drift", reply["f1"], replies[case, exact]["f1"])
        recorder.add(
            model=model.name,
            what=f"{case}: {name}" if case else name,
            n=len(cases[case]),
            seconds=seconds,
            ratio=median(taken[case, first]) / median(seconds),
            ratio_of_bests=min(taken[case, first]) / min(seconds),
            pairs_per_second=len(cases[case]) / median(seconds),
            useful_gflops=useful / 1e9,
            share_of_peak=useful / peaks[side.dtype],
            peak_gflops=peaks[side.dtype] / 1e9,
            padding=1 - tokens / reply["padded"] if reply["padded"] else None,
            peak_mb=reply["peak_mb"],
            backend=side.backend,
            distinct_texts=len(lengths[case]),
            mean_tokens=tokens / max(len(lengths[case]), 1),
            **drift,
        )
    return {turn: taken[turn] for turn in turns}


def _difference(prefix: str, left: Sequence[float], right: Sequence[float]) -> dict[str, float]:
    """Compare two lists of F1: largest and mean distance, and the mean difference."""
    difference = np.array(left) - np.array(right)
    return {
        f"{prefix}_max": float(np.abs(difference).max()),
        f"{prefix}_mean": float(np.abs(difference).mean()),
        f"{prefix}_bias": float(difference.mean()),
    }
