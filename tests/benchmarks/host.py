"""Whether the host keeps a GPU busy: jobs on a pretended device that takes its time."""

import inspect
import math
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from bertscore_beam.dump.digests import RowDigests
from bertscore_beam.dump.read_rows import SplitReader
from bertscore_beam.run.child import SWITCH_SECONDS
from bertscore_beam.score import rows as score_rows
from bertscore_beam.score.steps import SplitScorer
from bertscore_core import scorer
from bertscore_core.match import embedding, kernel
from tests.benchmarks.command import write_pair_groups
from tests.benchmarks.harness import Recorder
from tests.benchmarks.models import prepare
from tests.benchmarks.texts import mixed
from tests.support.jobs import job_options, run_options
from tests.support.pretended import PretendedDevice, pretend

SMALLER = 4
"""How many times smaller the splits are than at full rate, so that they do not take minutes."""

HERE = 2
"""Processors of this machine that a case may use."""

WAITED = ("device_idle_seconds", "device_late_seconds", "host_waited_seconds")


class Case(NamedTuple):
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
    # 1,690 pairs a second at its full rate, of which the host's share is small.
    "roberta-large-l4": Case("roberta-large", "L4, at its full rate", 2, 76_000),
    "roberta-large-h100": Case("roberta-large", "H100 (a3-highgpu-1g)", 26, 810_000),
    # 0.90 million tokens in 1.2 s, and 1.4 times as fast after packing and casting weights once.
    "minilm-l4": Case("embedded", "L4 (g2-standard-8)", 8, 1_050_000),
    "minilm-quarter-h100": Case("embedded", "a quarter of an H100 (a3-highgpu-1g)", 26, 1_875_000),
    # 0.90 million tokens in 0.12 s.
    "minilm-h100": Case("embedded", "H100 (a3-highgpu-1g)", 26, 7_500_000),
    # What the kernels make possible: one process must feed the first, and not the second.
    "roberta-large-h200": Case("roberta-large", "H200, at its full rate", 2, 1_100_000),
    "minilm-h200": Case("embedded", "H200, at its full rate", 2, 8_000_000),
}

STEPS: dict[str, Sequence[tuple[Any, str]]] = {
    "read": [(SplitReader, "read")],
    "texts": [(score_rows.PairTexts, "of_rows")],
    "digest": [(score_rows, "digest_texts"), (RowDigests, "of")],
    "tokenise": [(scorer.BertScorer, "tokenize")],
    "plan": [(embedding, "plan_embedding")],
    "launch": [(kernel, "_queue_block")],
    "scores": [(scorer, "assemble"), (score_rows, "with_scores")],
    "write": [(SplitScorer, "_write")],
    "all": [(SplitScorer, "run")],
}
"""Functions that do the steps of a split's work; none calls another but `all`."""


def measure(
    case: Case, *, threads: int, rows: int, splits: int, metrics: Sequence[str] = ()
) -> dict[str, float]:
    """Run a job; return the share of the time in which the device was busy, and what it took."""
    device = PretendedDevice(case.tokens_per_second * HERE / case.processors)
    rows = max(rows // SMALLER, 1)
    model = prepare(case.model, narrow=True)
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as scratch:
        dump = Path(scratch) / "dump.parquet"
        left, right = mixed(rows, mean_tokens=22.5)  # 45 tokens a pair
        write_pair_groups(dump, (left * splits, right * splits), rows)
        options = job_options(
            dump,
            Path(scratch) / "out",
            model=str(model.path),
            num_layers=model.shape.layers,
            backend="torch",
            max_batch_tokens=32768,
            split_rows=rows,
            min_rows=1,
            metrics=tuple(metrics),
        )
        pretend(patch, device)
        before, begun = time.process_time(), time.monotonic()
        flags = ["--direct_running_mode=multi_threading", f"--direct_num_workers={threads}"]
        summary = run_options(options, FnApiRunner(), flags)
        processor, run = time.process_time() - before, time.monotonic() - begun
    wall = device.done_at - (device.first_at or 0.0)
    return {
        "busy": device.busy_seconds / wall,
        "wall": wall,
        "run": run,
        "pairs": rows * splits,
        "pairs_per_second": rows * splits / wall,
        "device_seconds_per_split": device.busy_seconds / splits,
        "processor_seconds_per_split": processor / splits,
        **{name: summary[name] for name in WAITED},
    }


def host(
    recorder: Recorder,
    *,
    only: Sequence[str] = tuple(CASES),
    threads: Sequence[int] = (2, 4),
    rows: int = 20_000,
    splits: int = 8,
    metrics: Sequence[str] = (),
) -> None:
    """Whether the host keeps a GPU busy: jobs on a pretended device that takes its time.

    The job is the real one, from Parquet to Parquet: rows are read, tokenised, planned, sent,
    launched (by a model as deep as the real one, but narrow) and written. Only the device is
    pretended (`tests.support.pretended`): it is busy for the tokens it gets, at the rate of a GPU,
    and takes no time of the processor. The share of time in which it is busy is counted from its
    first work to its last. `--threads` are the harness threads of the job, `--rows` those of a
    split at full rate. `--metrics` are other metrics, in processes beside it: `run` is the time of
    the whole job.

    A machine has N virtual processors for each GPU, this one has two. So the device is N / 2 times
    slower, and two processors tokenise. This measures the sum of the host's work, and what stands
    in the way of doing it side by side.
    """
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:HERE])
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    sys.setswitchinterval(SWITCH_SECONDS)  # as a worker with a GPU does
    # Once for what is only loaded and warmed up.
    measure(CASES[only[0]], threads=1, rows=100, splits=2)
    for name, number in product(only, threads):
        figures = measure(CASES[name], threads=number, rows=rows, splits=splits, metrics=metrics)
        recorder.add(
            model=CASES[name].model,
            what=f"{CASES[name].gpu}, {number} threads",
            n=int(figures.pop("pairs")),
            seconds=[figures.pop("wall")],
            **figures,
        )


def host_steps(
    recorder: Recorder, *, models: Sequence[str] = ("roberta-large", "embedded"), rows: int = 10_000
) -> None:
    """What the host does for a pair, in microseconds of the processor, step by step.

    The job is the one of `host`, in one thread, on a device that takes no time; a pair has 45
    tokens, and one tokenizer thread works. The least of three splits counts; in the
    first, which is left out, most words are new. A launch is that of a model as deep as the real
    one on a CPU: on a GPU it takes as long or longer.
    """
    for name in models:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TOKENIZERS_PARALLELISM", "false")
            spent: dict[str, list[float]] = defaultdict(list)
            for step, functions in STEPS.items():
                for owner, function in functions:
                    patch.setattr(owner, function, _timed(owner, function, spent[step]))
            case = Case(name, "", HERE, math.inf)
            measure(case, threads=1, rows=rows * SMALLER, splits=4)
        costs = {
            step: 1e6 * sum(min(seconds[at::each][1:]) for at in range(each)) / rows
            for step, seconds in spent.items()
            if (each := len(STEPS[step]))
        }
        recorder.add(model=name, what="one thread", n=rows, **costs)


def _timed(owner: Any, name: str, spent: list[float]) -> Any:
    call: Callable[..., Any] = getattr(owner, name)

    @contextmanager
    def timing() -> Iterator[None]:
        begun = time.thread_time()
        yield
        spent.append(time.thread_time() - begun)

    @wraps(call)
    def timed(*args: Any, **kwargs: Any) -> Any:
        with timing():
            found = call(*args, **kwargs)
            return list(found) if inspect.isgenerator(found) else found

    return staticmethod(timed) if inspect.ismethod(call) else timed
