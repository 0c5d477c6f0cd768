"""The worker with bert-score, run in its own environment; started by `worker.Worker`.

It is used as people use it: BERTScorer with slow tokenizers, nthreads and threads as they come.
"""

from __future__ import annotations

import time
from importlib.metadata import version
from typing import Any

import bert_score
import bert_score.utils
import torch

from tests.benchmarks.worker import read_pairs, serve

_state: dict[str, Any] = {"padded": 0, "tokens": 0}


def load(model: str, num_layers: int, num_threads: int | None = None) -> dict[str, Any]:
    """Load a model by its folder."""
    if num_threads is not None:
        torch.set_num_threads(num_threads)
    _state["scorer"] = bert_score.BERTScorer(
        model_type=model, num_layers=num_layers, batch_size=64, device="cpu"
    )
    names = ("bert-score", "torch", "transformers")
    return {"versions": {name: version(name) for name in names}}


def score(
    path: str, start: int = 0, stop: int | None = None, batch_size: int = 64
) -> dict[str, Any]:
    """Score pairs of a file; return seconds, F1, and the tokens computed with and without padding.

    The batch size given to `score` is the one that counts: it does not use the constructor's.
    """
    candidates, references = read_pairs(path, start, stop)
    _state["padded"] = _state["tokens"] = 0
    started = time.perf_counter()
    _, _, f1 = _state["scorer"].score(candidates, references, batch_size=batch_size)
    seconds = time.perf_counter() - started
    counted = {"padded": _state["padded"], "tokens": _state["tokens"]}
    return {"seconds": seconds, "f1": f1.tolist(), **counted}


def _count(encode: Any) -> Any:
    """Let bert-score's forward pass count what it computes."""

    def counting(model: Any, x: Any, attention_mask: Any, **options: Any) -> Any:
        _state["padded"] += x.numel()
        _state["tokens"] += int(attention_mask.sum())
        return encode(model, x, attention_mask, **options)

    return counting


if __name__ == "__main__":
    bert_score.utils.bert_encode = _count(bert_score.utils.bert_encode)
    serve({"load": load, "score": score})
