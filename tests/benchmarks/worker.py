"""Scores in other processes: each library in the environment it needs, its model kept loaded.

    python -m tests.benchmarks.worker ours|peer

answers requests on its standard input; `Worker` starts it and asks. Its peak memory is its own.
The peer is bert-score as people use it: BERTScorer with slow tokenizers and the default threads.
"""

import contextlib
import json
import os
import subprocess
import sys
import time
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.benchmarks.harness import peak_mb
from tests.benchmarks.texts import Pairs

ROOT = Path(__file__).resolve().parents[2]
PEER_PYTHON = ROOT / "build" / "golden-venv" / "bin" / "python"


class Worker:
    """The process of one library with a model. A context manager; the process ends with it.

    Args:
        side: `ours`, or `peer` for bert-score.
        model: The model, a `BenchModel`, loaded at once.
        device: Where it computes.
        site: Folder of the peer's packages, which this Python imports before its own; None for the
            environment that `make golden` makes.
        options: What else goes with the request to load: for ours, fields of ScorerConfig.
    """

    def __init__(
        self, side: str, model: Any, device: str = "cpu", site: Path | None = None, **options: Any
    ) -> None:
        python = Path(sys.executable) if side == "ours" or site else PEER_PYTHON
        if not python.exists():
            raise SystemExit(f"{python} is missing; make the reference's environment: make golden")
        offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
        paths = [str(site)] if site else []
        if side == "ours":
            paths += filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
        self._process = subprocess.Popen(
            [str(python), "-m", "tests.benchmarks.worker", side],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=model.folder,
            env={**os.environ, **offline, "PYTHONPATH": os.pathsep.join([*paths, str(ROOT)])},
        )
        name = model.name if side == "peer" else str(model.path)  # the peer looks into the path
        options |= {"model": name, "num_layers": model.shape.layers, "device": device}
        self.loaded = self.ask("load", **options)

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate(timeout=60)

    def ask(self, do: str, **request: Any) -> dict[str, Any]:
        """Send a request and wait for the reply; an error of the process is raised here."""
        self._process.stdin.write(json.dumps({"do": do, **request}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the worker ended with status {self._process.wait()}")
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise RuntimeError(reply["error"])
        return reply


class Ours:
    """This library."""

    def load(self, **options: Any) -> dict[str, Any]:
        """Load a model."""
        from bertscore_core import BertScorer, ScorerConfig

        self._scorer = BertScorer(ScorerConfig(**options))
        return {"backend": self._scorer.settings.backend}

    def score(self, path: str, start: int = 0, stop: int | None = None) -> dict[str, Any]:
        """Score pairs of a file; return seconds, F1, and the positions computed, with padding."""
        from bertscore_core.work import Work

        texts, work, scorer = read_pairs(path, start, stop), Work(), self._scorer
        started = time.perf_counter()
        f1 = scorer.score_tokenized(scorer.tokenize(*texts), scorer.token_weights(None), work).f1
        seconds = time.perf_counter() - started
        return {"seconds": seconds, "f1": f1.tolist(), "padded": work.padded_tokens}

    def lengths(self, path: str) -> dict[str, Any]:
        """Return the tokens of every distinct text of a file."""
        distinct = sorted(set().union(*read_pairs(path, 0, None)))
        return {"lengths": self._scorer.tokenizer.encode(distinct).lengths.tolist()}


class Peer:
    """bert-score."""

    def load(self, model: str, num_layers: int, device: str) -> dict[str, Any]:
        """Load a model by its folder, and let the forward pass count what it computes."""
        import bert_score
        import bert_score.utils

        encode = bert_score.utils.bert_encode

        def counting(model: Any, x: Any, attention_mask: Any, **options: Any) -> Any:
            self._padded += x.numel()
            return encode(model, x, attention_mask, **options)

        bert_score.utils.bert_encode = counting
        self._scorer = bert_score.BERTScorer(
            model_type=model, num_layers=num_layers, batch_size=64, device=device
        )
        names = ("bert-score", "torch", "transformers")
        return {"name": "peer", "versions": {name: version(name) for name in names}}

    def score(
        self, path: str, start: int = 0, stop: int | None = None, batch_size: int = 64
    ) -> dict[str, Any]:
        """Score pairs of a file. The batch size given here counts, not the constructor's."""
        texts, self._padded = read_pairs(path, start, stop), 0
        started = time.perf_counter()
        _, _, f1 = self._scorer.score(*texts, batch_size=batch_size)
        seconds = time.perf_counter() - started
        return {"seconds": seconds, "f1": f1.tolist(), "padded": self._padded}


def serve(side: Any) -> None:
    """Answer requests until the input ends; whatever else is printed goes to standard error."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = getattr(side, request.pop("do"))(**request)
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {error}"}
        reply["peak_mb"] = peak_mb()
        print(json.dumps(reply), file=replies, flush=True)


@lru_cache(maxsize=4)
def read_pairs(path: str, start: int, stop: int | None) -> Pairs:
    """Read candidates and references that `write_pairs` wrote; of them the rows asked for."""
    candidates, references = json.loads(Path(path).read_text(encoding="utf-8"))
    return candidates[start:stop], references[start:stop]


def write_pairs(path: Path, pairs: Pairs) -> str:
    """Write texts for the workers; return the absolute path."""
    path.write_text(json.dumps(pairs), encoding="utf-8")
    return str(path.resolve())


if __name__ == "__main__":
    serve({"ours": Ours, "peer": Peer}[sys.argv[1]]())
