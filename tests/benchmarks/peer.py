"""bert-score and this library in turn on the same texts, each a process with its model loaded."""

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tests.benchmarks import gemm
from tests.benchmarks.harness import Recorder, interleave
from tests.benchmarks.models import BenchModel, prepare
from tests.benchmarks.texts import mixed
from tests.benchmarks.worker import Worker, write_pairs

WARM_UP_PAIRS = 64
DEFAULT_PAIRS = {"embedded": 3000, "bert-base": 400, "roberta-large": 100}


def peer(
    recorder: Recorder,
    *,
    model: str = "embedded",
    pairs: int = 0,
    rounds: int = 3,
    peer_batches: Sequence[int] = (64,),
    ours: Sequence[str] = ("float32", "bfloat16"),
) -> None:
    """This library against bert-score 0.3.13, in turn, in one run.

    Every round runs each contestant once, and measures the matrix product peak. Reported are
    medians over rounds, the ratio to bert-score at the first of its batches, useful FLOP/s (padding
    excluded; see `Shape.flops`) as a share of the peak of the same number format, the share of
    padding, each process's peak memory, and how far F1 is from that of the first contestant
    (`f1_*`; bert-score's padding moves its own scores) and from our float32 (`drift_*`).
    `--ours float32:torch` asks for a backend by name. On a GPU, first contact does this.
    """
    count = pairs or DEFAULT_PAIRS[model]
    compare(recorder, prepare(model), count, rounds=rounds, peer_batches=peer_batches, ours=ours)


def compare(
    recorder: Recorder,
    prepared: BenchModel,
    count: int,
    *,
    rounds: int,
    peer_batches: Sequence[int] = (64,),
    ours: Sequence[str],
    device: str = "cpu",
    site: Path | None = None,
) -> None:
    """Run the contestants in turn; see `peer`.

    On a GPU a `site` has bert-score and what it needs in other versions than ours.
    """
    workers: dict[str, Worker] = {}
    dtypes: dict[str, str] = {}
    batches: dict[str, dict[str, int]] = {}
    replies: dict[str, dict[str, Any]] = {}
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory())
        path = write_pairs(Path(folder, "pairs.json"), mixed(count))

        def score(name: str, **rows: int) -> float:
            replies[name] = workers[name].ask("score", path=path, **batches.get(name, {}), **rows)
            return float(replies[name]["seconds"])

        for batch in peer_batches:
            worker = stack.enter_context(Worker("peer", prepared, device, site=site))
            recorder.facts["peer"] = worker.loaded["versions"]
            name = f"{worker.loaded['name']}, batch {batch}"
            workers[name], dtypes[name], batches[name] = worker, "float32", {"batch_size": batch}
            score(name, stop=WARM_UP_PAIRS)
        for asked in ours:
            name, (dtype, _, backend) = f"ours, {asked}", asked.partition(":")
            worker = Worker("ours", prepared, device, dtype=dtype, backend=backend or "auto")
            workers[name], dtypes[name] = stack.enter_context(worker), dtype
            score(name, stop=WARM_UP_PAIRS)
        peaks = dict.fromkeys(sorted(dtypes.values()), 0.0)

        def measure_peaks() -> float:
            for dtype in peaks:
                peaks[dtype] = max(peaks[dtype], gemm.measure(dtype, device, seconds=0.2))
            return 0.0

        turns = {name: partial(score, name) for name in workers}
        taken = interleave({"GEMM peak": measure_peaks, **turns}, rounds)
        # Our tokenizer gives the reference's ids, so that its lengths count for both.
        own = [name for name in workers if name.startswith("ours")]
        lengths = workers[own[0]].ask("lengths", path=path)["lengths"]
    first, exact = next(iter(workers)), next((name for name in own if "float32" in name), None)
    figures: dict[str, dict[str, Any]] = {}
    for name, reply in replies.items():
        useful, peak = prepared.shape.flops(lengths) / median(taken[name]), peaks[dtypes[name]]
        figures[name] = {
            "useful_gflops": useful / 1e9,
            "share_of_peak": useful / peak,
            "peak_gflops": peak / 1e9,
            "padding": 1 - sum(lengths) / reply["padded"] if reply["padded"] else None,
            "peak_mb": reply["peak_mb"],
            "backend": workers[name].loaded.get("backend"),
        }
        if name != first:
            figures[name] |= _difference("f1", reply["f1"], replies[first]["f1"])
        if exact is not None and name in own and name != exact:
            figures[name] |= _difference("drift", reply["f1"], replies[exact]["f1"])
    recorder.race({name: taken[name] for name in workers}, count, figures, model=prepared.name)


def _difference(prefix: str, left: Sequence[float], right: Sequence[float]) -> dict[str, float]:
    """Compare two lists of F1: largest and mean distance, and the mean difference."""
    difference = np.array(left) - np.array(right)
    return {
        f"{prefix}_max": float(np.abs(difference).max()),
        f"{prefix}_mean": float(np.abs(difference).mean()),
        f"{prefix}_bias": float(difference.mean()),
    }
