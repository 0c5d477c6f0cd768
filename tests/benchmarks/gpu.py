"""roberta-large, layer 17, about 30 tokens a text, on a CUDA device.

    python -m tests.benchmarks.gpu --out build/bench/gpu.jsonl

Nothing is downloaded: weights are random, the tokenizer is made here. Needed are torch with CUDA,
transformers, safetensors and numpy, and this checkout; Beam is not. Results: the matrix product
peaks; bert-score on the same device (the package when it can be imported, else `plain_loop`, and
the line says which) against this library in every number format, in turn; useful FLOP/s as a share
of the bfloat16 peak; the rate with texts tokenised beforehand, as the job does beside the device;
shares of time; F1's drift; device memory; and a sweep of the batch budget.

    python -m tests.benchmarks.gpu --first-contact --only first
    python -m tests.benchmarks.gpu --first-contact --only second

On a machine that has just been given a GPU: nine parts in two calls of less than ten minutes each.
Every part passes or fails, from the card's facts to what a job does when the device breaks. See
`first_contact.kit` for what to bring to a machine without network. The findings are printed, and
are in `first_contact.json` in the folder that `--out` names; a table of the rates, measured and
predicted, and sentences for the docs come last.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from bertscore_core import BertScorer, ScorerConfig
from bertscore_core.match import kernel
from tests.benchmarks import gemm
from tests.benchmarks.first_contact import launch
from tests.benchmarks.harness import Recorder, interleave, version_of
from tests.benchmarks.models import BenchModel, prepare
from tests.benchmarks.plain_loop import PlainLoop
from tests.benchmarks.texts import Pairs, mixed

MEAN_TOKENS = 30
PAPER_PAIRS_PER_SECOND = 192.5
"""Zhang et al. 2020, on a GTX-1080Ti."""


Score = Callable[[Pairs], np.ndarray]
"""Scores pairs and returns their F1."""


def load_peer(model: BenchModel, device: str) -> tuple[str, Score]:
    """Return bert-score, or what stands in for it, and its name."""
    layers = model.shape.layers
    if version_of("bert-score") is None:
        loop = PlainLoop(model.path, layers, device, prefix_space=True)
        return "peer (plain loop)", lambda pairs: np.array(
            loop.score(pairs.candidates, pairs.references)
        )
    from bert_score import BERTScorer

    scorer = BERTScorer(model_type=str(model.path), num_layers=layers, device=device)

    def score(pairs: Pairs) -> np.ndarray:
        return scorer.score(pairs.candidates, pairs.references, batch_size=64)[2].numpy()

    return f"peer (bert-score {version_of('bert-score')})", score


def load_ours(model: BenchModel, dtype: str, device: str, **options: Any) -> BertScorer:
    """Load this library's scorer."""
    layers = model.shape.layers
    config = ScorerConfig(
        model=str(model.path), num_layers=layers, dtype=dtype, device=device, **options
    )
    return BertScorer(config)


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    """Run something on the device to its end; return the seconds and its result."""
    _wait()
    started = time.perf_counter()
    result = action()
    _wait()
    return time.perf_counter() - started, result


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


class Bench:
    """One model, its texts, and the results so far."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given
        self.recorder = Recorder("gpu", given.out)
        self.model = prepare(given.model)
        self.pairs = mixed(given.pairs, mean_tokens=MEAN_TOKENS)
        few = given.peer_pairs
        self.few = Pairs(self.pairs.candidates[:few], self.pairs.references[:few])
        self.scorers = {dtype: load_ours(self.model, dtype, given.device) for dtype in given.dtypes}
        any_scorer = next(iter(self.scorers.values()))
        self.tokens = any_scorer.tokenize(self.pairs.candidates, self.pairs.references)
        self.work = self.model.shape.flops(self.tokens.texts.lengths.tolist())
        self.peaks: dict[str, float] = {}

    def run(self) -> None:
        """Measure everything."""
        self._measure_peaks()
        self._against_peer()
        for dtype in self.given.dtypes:
            self._phases(dtype)
        for batch_tokens in self.given.batch_tokens:
            self._try_budget(batch_tokens)

    def _add(self, what: str, seconds: list[float], dtype: str, **more: Any) -> None:
        """Record a run over all pairs."""
        useful = self.work / median(seconds)
        rate = len(self.pairs) / median(seconds)
        self.recorder.add(
            model=self.model.name,
            what=what,
            n=len(self.pairs),
            seconds=seconds,
            pairs_per_second=rate,
            to_paper=rate / PAPER_PAIRS_PER_SECOND,
            useful_tflops=useful / 1e12,
            share_of_peak=useful / self.peaks[dtype],
            share_of_bfloat16_peak=useful / self.peaks.get("bfloat16", float("inf")),
            **more,
        )

    def _measure_peaks(self) -> None:
        for dtype in self.given.dtypes:
            peak = gemm.measure(dtype, self.given.device, seconds=1.0).best
            self.peaks[dtype] = peak
            self.recorder.add(
                model="-", what=f"GEMM peak, {dtype}", n=1, seconds=[], peak_tflops=peak / 1e12
            )

    def _against_peer(self) -> None:
        name, peer = load_peer(self.model, self.given.device)
        f1: dict[str, np.ndarray] = {}
        memory: dict[str, float] = {}

        def score_peer() -> float:
            seconds, f1["peer"] = timed(lambda: peer(self.few))
            return seconds

        def score_ours(dtype: str) -> Callable[[], float]:
            def run() -> float:
                before = _reset_memory()
                scorer = self.scorers[dtype]
                texts = (self.pairs.candidates, self.pairs.references)
                seconds, scores = timed(lambda: scorer.score(*texts))
                f1[dtype], memory[dtype] = scores.f1, _peak_memory() - before
                return seconds

            return run

        runs = {"peer": score_peer, **{dtype: score_ours(dtype) for dtype in self.given.dtypes}}
        interleave(runs, 1)  # warm-up
        seconds = interleave(runs, self.given.rounds)
        peer_rate = len(self.few) / median(seconds["peer"])
        self.recorder.add(
            model=self.model.name,
            what=f"{name}, batch 64",
            n=len(self.few),
            seconds=seconds["peer"],
            ratio=1.0,
            pairs_per_second=peer_rate,
        )
        for dtype in self.given.dtypes:
            drift = f1[dtype] - f1.get("float32", f1[dtype])
            to_peer = f1[dtype][: len(self.few)] - f1["peer"]
            self._add(
                f"ours, {dtype}",
                seconds[dtype],
                dtype,
                ratio=len(self.pairs) / median(seconds[dtype]) / peer_rate,
                drift_max=float(np.abs(drift).max()),
                drift_mean=float(np.abs(drift).mean()),
                drift_bias=float(drift.mean()),
                f1_max=float(np.abs(to_peer).max()),
                working_memory_mb=memory[dtype] / 1e6,
            )

    def _phases(self, dtype: str) -> None:
        """Time the parts of a run one after the other, the device waited for in between."""
        scorer = self.scorers[dtype]
        weights = scorer.token_weights(None)
        tokenizing, tokens = timed(
            lambda: scorer.tokenize(self.pairs.candidates, self.pairs.references)
        )

        def score() -> float:
            return timed(lambda: scorer.score_tokenized(tokens, weights))[0]

        encoding: list[float] = []
        embed = kernel.embed

        def watched(*args: Any, **options: Any) -> Any:
            seconds, result = timed(lambda: embed(*args, **options))
            encoding.append(seconds)
            return result

        kernel.embed = watched
        try:
            scoring = score()
        finally:
            kernel.embed = embed
        whole = tokenizing + scoring
        self._add(
            f"ours, {dtype}, tokenised beforehand",
            [score() for _ in range(self.given.rounds)],
            dtype,
            share_tokenizing=tokenizing / whole,
            share_encoding=sum(encoding) / whole,
            share_matching=(scoring - sum(encoding)) / whole,
            tokenizing_texts_per_second=len(tokens.texts) / tokenizing,
        )

    def _try_budget(self, batch_tokens: int) -> None:
        """Score in bfloat16 with a batch budget."""
        scorer = load_ours(self.model, "bfloat16", self.given.device, max_batch_tokens=batch_tokens)
        weights = scorer.token_weights(None)

        def score() -> float:
            return timed(lambda: scorer.score_tokenized(self.tokens, weights))[0]

        score()  # warm-up
        before = _reset_memory()
        seconds = [score() for _ in range(self.given.rounds)]
        self._add(
            f"ours, bfloat16, tokenised beforehand, {batch_tokens} tokens a batch",
            seconds,
            "bfloat16",
            working_memory_mb=(_peak_memory() - before) / 1e6,
        )


def _reset_memory() -> int:
    """Start counting device memory; return the bytes in use, which are the models' weights."""
    if not torch.cuda.is_available():
        return 0
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    return int(torch.cuda.memory_allocated())


def _peak_memory() -> int:
    return int(torch.cuda.max_memory_allocated()) if torch.cuda.is_available() else 0


def main() -> None:
    """Measure on the first CUDA device."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="roberta-large")
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--peer-pairs", type=int, default=2_000)
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16", "float16"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--batch-tokens", type=int, nargs="*", default=[4096, 8192, 16384, 32768, 65536]
    )
    parser.add_argument("--device", default="cuda", help="cpu serves to try the script only")
    parser.add_argument("--out", type=Path, help="append the JSON lines to this file too")
    launch.add_flags(parser)
    given = parser.parse_args()
    if given.first_contact:
        raise SystemExit(launch.run(given))
    if given.device != "cpu" and not torch.cuda.is_available():
        raise SystemExit(
            f"no CUDA device: torch {torch.__version__} finds none (built for CUDA "
            f"{torch.version.cuda}). This benchmark needs one; for the CPU run "
            "python -m tests.benchmarks."
        )
    bench = Bench(given)
    if torch.cuda.is_available():
        bench.recorder.facts["device"] = torch.cuda.get_device_name()
    print(f"measuring on {bench.recorder.facts.get('device', 'cpu')}", file=sys.stderr)
    bench.run()


if __name__ == "__main__":
    main()
