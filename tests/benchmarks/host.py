"""Whether the host keeps a GPU busy: jobs on a pretended device that takes its time."""

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from bertscore_core import BertScorer, ScorerConfig
from bertscore_core.tokenizer import TextTokenizer
from tests.benchmarks.harness import Recorder
from tests.benchmarks.models import BenchModel, prepare_narrow
from tests.benchmarks.texts import mixed
from tests.support.jobs import job_options, run_options
from tests.support.pretended import PretendedDevice, pretend

MODES = ("scaled", "one process")
SMALLER = 4
"""How many times smaller the splits of scaled cases are, so that they do not take minutes."""

HERE = 2
"""Processors of this machine that a scaled case may use."""


@dataclass(frozen=True, slots=True)
class Case:
    """A model on a GPU.

    Attributes:
        model: Name of the model, as `prepare_narrow` knows it.
        gpu: The machine.
        processors: Its virtual processors for each GPU, N.
        tokens_per_second: The rate by the roofline, padding included.
    """

    model: str
    gpu: str
    processors: int
    tokens_per_second: float


CASES = {
    # 18,000 pairs a second of 45 tokens each (20,000 rows of MLQE-PE have 0.90 million).
    "roberta-large-h100": Case("roberta-large", "H100 (a3-highgpu-1g)", 26, 810_000),
    # 0.90 million tokens in 1.2 s, and 1.4 times as fast after packing and casting weights once.
    "minilm-l4": Case("embedded", "L4 (g2-standard-8)", 8, 1_050_000),
    "minilm-quarter-h100": Case("embedded", "a quarter of an H100 (a3-highgpu-1g)", 26, 1_875_000),
    # 0.90 million tokens in 0.12 s.
    "minilm-h100": Case("embedded", "H100 (a3-highgpu-1g)", 26, 7_500_000),
}


class ElsewhereBackend:
    """A tokenizer's library whose work is done by other processors: known texts take sleep.

    Args:
        backend: The library's tokenizer.
        processors: How many share the work.
    """

    def __init__(self, backend: Any, processors: int) -> None:
        self._backend = backend
        self._processors = processors

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def encode_batch_fast(self, texts: Sequence[str]) -> list[Any]:
        """Return what the library returns, after the time it would take."""
        key = (len(texts), texts[0], texts[-1])
        if key not in _KNOWN:
            with _one_thread():
                started = time.thread_time()
                encodings = self._backend.encode_batch_fast(texts)
                _KNOWN[key] = (encodings, time.thread_time() - started)
        encodings, seconds = _KNOWN[key]
        time.sleep(seconds / self._processors)
        return list(encodings)


_KNOWN: dict[tuple[int, str, str], tuple[list[Any], float]] = {}


@contextmanager
def _one_thread() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOKENIZERS_PARALLELISM", "false")
        yield


def _elsewhere(patch: pytest.MonkeyPatch, processors: int) -> None:
    make = TextTokenizer.__init__

    def init(self: TextTokenizer, tokenizer: Any, **options: Any) -> None:
        make(self, tokenizer, **options)
        self._backend = ElsewhereBackend(self._backend, processors)

    patch.setattr(TextTokenizer, "__init__", init)


def write_dump(path: Path, rows: int, splits: int) -> None:
    """Write as many row groups of the same pairs."""
    pairs = mixed(rows, mean_tokens=22.5)  # 45 tokens a pair
    table = pa.table({"candidate": pairs.candidates, "reference": pairs.references})
    with pq.ParquetWriter(path, table.schema) as writer:
        for _ in range(splits):
            writer.write_table(table, row_group_size=rows)


def measure(case: Case, *, scaled: bool, threads: int, rows: int, splits: int) -> dict[str, float]:
    """Run a job; return the share of the time in which the device was busy, and what it took."""
    device = PretendedDevice(case.tokens_per_second * (HERE / case.processors if scaled else 1.0))
    rows = max(rows // SMALLER, 1) if scaled else rows
    model = prepare_narrow(case.model)
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as scratch:
        patch.setenv("TOKENIZERS_PARALLELISM", "true")
        dump = Path(scratch) / "dump.parquet"
        write_dump(dump, rows, splits)
        if not scaled:
            _elsewhere(patch, case.processors - HERE)
            _tokenize_once(model, dump)
        pretend(patch, device)
        before = time.process_time()
        summary = _run(model, dump, Path(scratch) / "out", threads, rows)
        processor = time.process_time() - before
    wall = device.done_at - (device.first_at or 0.0)
    return {
        "busy": device.busy_seconds / wall,
        "wall": wall,
        "pairs": rows * splits,
        "pairs_per_second": rows * splits / wall,
        "device_seconds_per_split": device.busy_seconds / splits,
        "processor_seconds_per_split": processor / splits,
        "device_idle_seconds": summary["device_idle_seconds"],
        "device_late_seconds": summary["device_late_seconds"],
        "host_waited_seconds": summary["host_waited_seconds"],
    }


def _run(model: BenchModel, dump: Path, output: Path, threads: int, rows: int) -> dict[str, Any]:
    options = job_options(
        dump,
        output,
        model=str(model.path),
        num_layers=model.shape.layers,
        backend="torch",
        max_batch_tokens=32768,
        split_rows=rows,
        min_rows=1,
    )
    flags = ["--direct_running_mode=multi_threading", f"--direct_num_workers={threads}"]
    return run_options(options, FnApiRunner(), flags)


def _tokenize_once(model: BenchModel, dump: Path) -> None:
    """Tokenise the rows of a split as the job does, so that the library knows them."""
    config = ScorerConfig(
        model=str(model.path), num_layers=model.shape.layers, device="cpu", backend="torch"
    )
    rows = pq.ParquetFile(dump).read_row_group(0)
    BertScorer(config).tokenize(rows["candidate"].to_pylist(), rows["reference"].to_pylist())


def host(
    recorder: Recorder,
    *,
    only: Sequence[str] = tuple(CASES),
    modes: Sequence[str] = MODES,
    threads: Sequence[int] = (2, 4),
    rows: int = 20_000,
    splits: int = 8,
) -> None:
    """Whether the host keeps a GPU busy: jobs on a pretended device that takes its time.

    The job is the real one, from Parquet to Parquet: rows are read, tokenised, planned, sent,
    launched (by a model as deep as the real one, but narrow) and written. Only the device is
    pretended (`tests.support.pretended`): it is busy for the tokens it gets, at the rate of a GPU,
    and takes no time of the processor. The share of time in which it is busy is counted from its
    first work to its last. `--threads` are the harness threads of the job, `--rows` those of a
    split at full rate.

    A machine has N virtual processors for each GPU, this one has two. So each case is run twice:

    - `scaled`: the device is N / 2 times slower, and two processors tokenise. This measures the sum
      of the host's work, and what stands in the way of doing it side by side.
    - `one process`: the device has its full rate, and the tokenizer's library, which runs outside
      Python, takes the time it would take on all processors but two, asleep. This measures what
      only one thread of a Python process can do at a time, which more processors do not make
      faster.
    """
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:HERE])
    torch.set_num_threads(1)  # a launch takes one thread
    # Once for what is only loaded and warmed up.
    measure(CASES[only[0]], scaled=True, threads=1, rows=100, splits=2)
    for name, mode, number in product(only, modes, threads):
        figures = measure(
            CASES[name], scaled=mode == MODES[0], threads=number, rows=rows, splits=splits
        )
        recorder.add(
            model=CASES[name].model,
            what=f"{CASES[name].gpu}, {mode}, {number} threads",
            n=int(figures.pop("pairs")),
            seconds=[figures.pop("wall")],
            **figures,
        )
