"""The worker with this project's library; started by `worker.Worker`."""

import dataclasses
import time
from typing import Any

from bertscore_core import BertScorer, ScorerConfig
from tests.benchmarks.worker import read_pairs, serve

_state: dict[str, Any] = {"padded": 0}


def load(model: str, num_layers: int, **options: Any) -> dict[str, Any]:
    """Load a model; options are fields of ScorerConfig, None for their defaults."""
    known = {one.name for one in dataclasses.fields(ScorerConfig)}
    chosen = {name: value for name, value in options.items() if value is not None}
    if set(chosen) - known:
        raise ValueError(f"ScorerConfig has no {', '.join(sorted(set(chosen) - known))}")
    _state["scorer"] = BertScorer(ScorerConfig(model=model, num_layers=num_layers, **chosen))
    _count(_state["scorer"].encoder)
    return {"backend": _state["scorer"].settings.backend}


def score(path: str, start: int = 0, stop: int | None = None) -> dict[str, Any]:
    """Score pairs of a file; return seconds, F1, and the positions computed, padding included.

    The CPU time is that of all threads. Other work on the machine moves it less than the seconds.
    """
    candidates, references = read_pairs(path, start, stop)
    _state["padded"] = 0
    started, used = time.perf_counter(), time.process_time()
    scores = _state["scorer"].score(candidates, references)
    seconds = time.perf_counter() - started
    return {
        "seconds": seconds,
        "cpu_seconds": time.process_time() - used,
        "f1": scores.f1.tolist(),
        "padded": _state["padded"],
    }


def lengths(path: str, start: int = 0, stop: int | None = None) -> dict[str, Any]:
    """Return the tokens of every distinct text of a file."""
    candidates, references = read_pairs(path, start, stop)
    distinct = sorted({*candidates, *references})
    return {"lengths": _state["scorer"].tokenizer.encode(distinct).lengths.tolist()}


def _count(encoder: Any) -> None:
    """Let the encoder count the positions of its batches; nothing is counted twice."""
    kind = type(encoder)
    start = kind.start
    if getattr(start, "counts", False):
        return

    def counting(self: Any, ids: Any, *others: Any, **options: Any) -> Any:
        _state["padded"] += ids.numel() if hasattr(ids, "numel") else ids.size
        return start(self, ids, *others, **options)

    counting.counts = True  # type: ignore[attr-defined]
    kind.start = counting


if __name__ == "__main__":
    serve({"load": load, "score": score, "lengths": lengths})
