"""bert-score and this library in turn on the same texts, each a process with its model loaded."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tests.benchmarks import gemm
from tests.benchmarks.harness import Recorder, interleave
from tests.benchmarks.models import BenchModel, prepare, prepare_family
from tests.benchmarks.texts import Pairs, fixed, mixed
from tests.benchmarks.worker import Worker, write_pairs
from tests.support.tiny_models import FAMILIES

WARM_UP_PAIRS = 64
DEFAULT_PAIRS = {"embedded": 3000, "bert-base": 400, "roberta-large": 100}
SYSTEMS = 8
PIECES_PER_WORD = 2.5
"""Tokens that the tokenizers of the tests' families make of a word, about."""


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
    with contest(prepare(model), recorder, peer_batches, ours, device) as run:
        run({"": mixed(pairs or DEFAULT_PAIRS[model])}, rounds)


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
    with contest(prepared, recorder, peer_batches, ours) as run:
        seconds = run(cases, rounds)
    for name, shared in seconds["shared"].items():
        recorder.add(
            model=model,
            what=f"shared against distinct: {name}",
            n=mixed_pairs,
            seconds=shared,
            ratio=median(seconds["distinct"][name]) / median(shared),
        )


def families(
    recorder: Recorder,
    *,
    only: Sequence[str] = tuple(FAMILIES),
    pairs: int = 200,
    rounds: int = 3,
    peer_batches: Sequence[int] = (64,),
    ours: Sequence[str] = ("float32",),
) -> None:
    """Every architecture, by the path that all share, against bert-score.

    Models have random weights, hidden size 256 and 4 layers, with the tokenizers of the tests;
    those cut words into small pieces, so texts are made of fewer words to have about 25 tokens.
    Useful work is counted as for BERT, which is near the truth for most; go by the ratio.
    """
    texts = mixed(pairs)
    cut = Pairs(*([shortened(text) for text in side] for side in texts.sides))
    for family in only:
        try:
            with contest(prepare_family(family), recorder, peer_batches, ours) as run:
                run({"": cut}, rounds)
        except RuntimeError as error:  # one family must not cost the others their results
            recorder.add(model=family, what="failed", n=pairs, error=str(error))


def growth(
    recorder: Recorder,
    *,
    model: str = "embedded",
    sizes: Sequence[int] = (1_000, 5_000, 20_000),
    dtype: str = "float32",
    peer: bool = False,
) -> None:
    """How the time and memory of the bare kernel grow with the number of pairs in one call.

    Every size runs in a process of its own, whose peak memory is reported, the model included; the
    ratio is pairs per second against the smallest size. `--peer` measures bert-score too, which
    takes minutes. See `job_memory` for the job's memory.
    """
    sides = {f"ours, {dtype}": partial(Worker, "ours", prepare(model), dtype=dtype)}
    if peer:
        sides["peer, batch 64"] = partial(Worker, "peer", prepare(model))
    for what, start in sides.items():
        first = 0.0
        for size in sizes:
            with TemporaryDirectory() as folder, start() as worker:
                reply = worker.ask("score", path=write_pairs(Path(folder) / "pairs", mixed(size)))
            rate = size / reply["seconds"]
            first = first or rate
            recorder.add(
                model=model,
                what=what,
                n=size,
                seconds=[reply["seconds"]],
                ratio=rate / first,
                pairs_per_second=rate,
                peak_mb=reply["peak_mb"],
            )


def long_texts(
    recorder: Recorder,
    *,
    model: str = "embedded",
    tokens: Sequence[int] = (600, 5_000, 50_000),
    rounds: int = 3,
) -> None:
    """Seconds and memory of one pair of long texts, cut and in windows.

    Every length and rule runs in a process of its own, whose peak memory is reported, the model
    included. A short pair is scored first, so that no first call is measured. The ratio is the CPU
    time of the windows against that of the cut texts.
    """
    for length in tokens:
        cut = 0.0
        for rule in ("truncate", "windows"):
            with (
                TemporaryDirectory() as folder,
                Worker("ours", prepare(model), long_text=rule) as worker,
            ):
                worker.ask("score", path=write_pairs(Path(folder) / "warm", fixed(1, 300)))
                pair = write_pairs(Path(folder) / "pair", fixed(1, length))
                replies = [worker.ask("score", path=pair) for _ in range(rounds)]
            used = median(reply["cpu_seconds"] for reply in replies)
            cut = cut or used
            recorder.add(
                model=model,
                what=f"{length:,} tokens: {rule}",
                n=1,
                seconds=[reply["seconds"] for reply in replies],
                ratio=used / cut,
                cpu_seconds=used,
                peak_mb=replies[-1]["peak_mb"],
            )


def whole_words(model: BenchModel) -> list[str]:
    """List the words that the model's WordPiece vocabulary holds whole."""
    vocabulary = model.path / "vocab.txt"
    if not vocabulary.exists():
        return []
    pieces = vocabulary.read_text(encoding="utf-8").split("\n")
    return [piece for piece in pieces if piece.isascii() and piece.isalpha() and len(piece) > 2]


def shortened(text: str) -> str:
    """Cut a text down to the words that make as many tokens as it had words."""
    words = text.split()
    return " ".join(words[: max(round(len(words) / PIECES_PER_WORD), 1)])


@dataclass(frozen=True, slots=True)
class Contestant:
    """A process with a model loaded.

    Attributes:
        worker: The process.
        dtype: Number format of its encoder.
        options: What goes with every request to score.
        backend: What runs its encoder; None for bert-score.
    """

    worker: Worker
    dtype: str
    options: Mapping[str, Any]
    backend: str | None = None

    def score(self, path: str, stop: int | None = None) -> dict[str, Any]:
        """Score the pairs of a file."""
        return self.worker.ask("score", path=path, stop=stop, **self.options)


Seconds = dict[str, dict[str, list[float]]]
"""Seconds of every round, by case and contestant."""


@contextmanager
def contest(
    model: BenchModel,
    recorder: Recorder,
    peer_batches: Sequence[int],
    ours: Sequence[str],
    device: str = "cpu",
) -> Iterator[Callable[[Mapping[str, Pairs], int], Seconds]]:
    """Load the contestants; yield what lets them score texts in turn and records the results.

    Args:
        model: The model.
        recorder: Where results go.
        peer_batches: Batch sizes of bert-score, a process each. The first is what ratios compare
            with.
        ours: Number formats of this library, each with `:backend` behind it if one is wanted.
        device: Where all of them compute.
    """
    contestants: dict[str, Contestant] = {}
    with ExitStack() as stack:
        for batch in peer_batches:
            worker = stack.enter_context(Worker("peer", model, device))
            recorder.facts["peer"] = worker.loaded["versions"]
            name = f"{worker.loaded['name']}, batch {batch}"
            contestants[name] = Contestant(worker, "float32", {"batch_size": batch})
        for asked in ours:
            dtype, _, backend = asked.partition(":")
            options = {"dtype": dtype} | ({"backend": backend} if backend else {})
            worker = stack.enter_context(Worker("ours", model, device, **options))
            contestants[f"ours, {asked}"] = Contestant(worker, dtype, {}, worker.loaded["backend"])
        yield partial(_run, model, recorder, contestants, device)


def _run(
    model: BenchModel,
    recorder: Recorder,
    contestants: Mapping[str, Contestant],
    device: str,
    cases: Mapping[str, Pairs],
    rounds: int,
) -> Seconds:
    """Score every case with every contestant in turn, after a warm-up, and record the results."""
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

    with TemporaryDirectory() as folder:
        paths = {
            case: write_pairs(Path(folder) / f"{number}.json", pairs)
            for number, (case, pairs) in enumerate(cases.items())
        }
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
    return {case: {name: taken[case, name] for name in contestants} for case in cases}


def _difference(prefix: str, left: Sequence[float], right: Sequence[float]) -> dict[str, float]:
    """Compare two lists of F1: largest and mean distance, and the mean difference."""
    difference = np.array(left) - np.array(right)
    return {
        f"{prefix}_max": float(np.abs(difference).max()),
        f"{prefix}_mean": float(np.abs(difference).mean()),
        f"{prefix}_bias": float(difference.mean()),
    }
