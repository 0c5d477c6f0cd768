"""How the time and memory of the bare kernel grow with the number of pairs in one call.

    python -m tests.benchmarks.growth --sizes 1000 5000 20000
    python -m tests.benchmarks.growth --peer    # bert-score too, which takes minutes

Every size runs in a process of its own, whose peak memory is reported, the model included; the
ratio is pairs per second against the smallest size. See `job_memory` for the job's memory.
"""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.benchmarks.harness import Recorder, add_out
from tests.benchmarks.models import BUILDERS, BenchModel, prepare
from tests.benchmarks.texts import mixed
from tests.benchmarks.worker import PEER_PYTHON, Worker, write_pairs


def measure(model: BenchModel, path: Path, *, peer: bool, dtype: str) -> tuple[float, float]:
    """Score a file in a fresh process; return seconds and peak memory in MB."""
    layers = model.shape.layers
    if peer:
        with Worker("tests.benchmarks.serve_peer", PEER_PYTHON, folder=model.folder) as worker:
            worker.ask("load", model=model.name, num_layers=layers)
            reply = worker.ask("score", path=str(path))
    else:
        with Worker("tests.benchmarks.serve_ours", folder=model.folder) as worker:
            worker.ask("load", model=str(model.path), num_layers=layers, dtype=dtype)
            reply = worker.ask("score", path=str(path))
    return reply["seconds"], reply["peak_mb"]


def main() -> None:
    """Measure every size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=list(BUILDERS), default="embedded")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 5_000, 20_000])
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--peer", action="store_true", help="measure bert-score too")
    add_out(parser)
    given = parser.parse_args()
    recorder = Recorder("growth", given.out)
    model = prepare(given.model)
    for peer in (False, True) if given.peer else (False,):
        first = 0.0
        for size in given.sizes:
            with TemporaryDirectory() as folder:
                path = write_pairs(Path(folder) / "pairs.json", mixed(size))
                seconds, peak = measure(model, path, peer=peer, dtype=given.dtype)
            rate = size / seconds
            first = first or rate
            recorder.add(
                model=model.name,
                what="peer, batch 64" if peer else f"ours, {given.dtype}",
                n=size,
                seconds=[seconds],
                ratio=rate / first,
                pairs_per_second=rate,
                peak_mb=peak,
            )


if __name__ == "__main__":
    main()
