"""How long a run will take, for `--dry-run`: rough, quick, and said with what it rests on.

What earlier runs on the same output folder took for their rows is the best guide. Without one, a
few rows of the dump are tokenized, the work of the encoder on them is counted from its shape, and a
short multiplication of that shape is timed on this machine. No weight is loaded.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from bertscore_core import BertScoreError, ScorerConfig, Settings, settle
from bertscore_core.encoder import DTYPES, resolve_device
from bertscore_core.openvino_runtime import compile_product
from pipelines.io.columns import texts_from_column
from pipelines.io.parquet import read_split
from pipelines.runners import usable_cores
from pipelines.scoring import TableFields, readable_references
from pipelines.splits import Split
from pipelines.totals import RunTotals

# Measured on two cores with the embedded model: imports, planning, the start of a worker, loading.
START_SECONDS = 10.0
# Reading, writing and flushing a part, and Beam's own work on it.
PART_SECONDS = 0.02
# Tokenizing, matching, and rows in and out of Arrow.
ROW_SECONDS = 0.0005
# A forward pass against its bare matrix products: norms, activations, padding. Measured with the
# embedded model on texts of 4, 12 and 142 tokens: 1.3, 1.3 and 1.25.
FORWARD_OVERHEAD = 1.3

_SAMPLED_SPLITS = 4
_SAMPLED_ROWS = 64
_MEASURE_SECONDS = 0.3
_MEASURED_TOKENS = {"cpu": 1024, "cuda": 32768}

_HIDDEN = ("hidden_size", "d_model", "dim", "emb_dim")
_INNER = ("intermediate_size", "encoder_ffn_dim", "d_ff", "hidden_dim", "d_inner", "ffn_dim")


class JobToEstimate(Protocol):
    """What an estimate needs to know of a job, as `ScoreJob` has it."""

    @property
    def config(self) -> ScorerConfig:
        """How to score."""

    @property
    def fields(self) -> TableFields:
        """Where the texts are."""

    @property
    def pending(self) -> Sequence[Split]:
        """What is left to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Seconds a run will take, and what that rests on; None where nothing can be said."""

    seconds: float | None
    basis: str

    def words(self) -> str:
        """Say it to a person."""
        if self.seconds is None:
            return f"not known: {self.basis}"
        return f"about {duration_words(self.seconds)} ({self.basis})"


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderShape:
    """What decides how much an encoder has to compute.

    Attributes:
        layers: Layers kept.
        hidden: Length of an embedding, H.
        inner: Width of the feed-forward part.
        gated: Whether that part has a third matrix.
    """

    layers: int
    hidden: int
    inner: int
    gated: bool = False

    @classmethod
    def of(cls, config: Mapping[str, Any], layers: int) -> "EncoderShape | None":
        """Read the shape from config.json; None when it does not say how wide the encoder is."""
        hidden = _first(config, _HIDDEN)
        if hidden is None:
            return None
        inner = _first(config, _INNER) or 4 * hidden
        gated = "gated" in str(config.get("feed_forward_proj", ""))
        return cls(layers=layers, hidden=hidden, inner=inner, gated=gated)

    def operations(self, lengths: npt.NDArray[np.int64]) -> float:
        """Count the multiplications and additions of one pass over texts, padding left out.

        Args:
            lengths: Tokens of each text. Shape (N,).
        """
        matrices = 4 * self.hidden**2 + (3 if self.gated else 2) * self.hidden * self.inner
        tokens = float(lengths.sum())
        attended = float((lengths.astype(np.float64) ** 2).sum())
        return self.layers * (2 * matrices * tokens + 4 * self.hidden * attended)


def estimate_run(job: JobToEstimate, carried: RunTotals) -> Estimate:
    """Estimate a run before it starts. Takes about a second; reads a few rows of the dump.

    Args:
        job: What is to be done.
        carried: Totals of the parts that earlier runs committed.
    """
    rows = sum(split.num_rows for split in job.pending)
    threads = job.config.num_threads
    if not rows:
        return Estimate(seconds=START_SECONDS, basis="nothing is left to score")
    if threads is None:
        return Estimate(seconds=None, basis="it depends on the workers, which run elsewhere")
    workers = max(usable_cores() // threads, 1)
    parts = len(job.pending)
    if carried.summary.rows:
        pace = carried.seconds / carried.summary.rows
        seconds = expected_seconds(rows=rows, parts=parts, row_seconds=pace, workers=workers)
        basis = f"pace of the {carried.summary.rows:,} rows scored earlier"
        return Estimate(seconds=seconds, basis=basis)
    try:
        worked_out = _row_seconds(settle(job.config), job)
    except (BertScoreError, ImportError, OSError, RuntimeError) as error:
        return Estimate(seconds=None, basis=f"no sample could be read ({type(error).__name__})")
    if worked_out is None:
        return Estimate(seconds=None, basis="the model does not state its width")
    if resolve_device(job.config.device).type != "cpu":
        workers = 1  # they share the device that was measured
    seconds = expected_seconds(rows=rows, parts=parts, row_seconds=worked_out, workers=workers)
    basis = "from the model's size, a few rows and a test multiplication on this machine"
    return Estimate(seconds=seconds, basis=basis)


def expected_seconds(*, rows: int, parts: int, row_seconds: float, workers: int) -> float:
    """Put the time of a run together.

    Args:
        rows: Rows to score.
        parts: Parts to write.
        row_seconds: Seconds one worker takes for a row.
        workers: Workers, each on cores of its own.
    """
    busy = min(workers, max(parts, 1))
    return START_SECONDS + (rows * row_seconds + parts * PART_SECONDS) / busy


def duration_words(seconds: float) -> str:
    """Say a duration to two digits: 40 s, 12 min, 3 h 20 min, 2 days 5 h."""
    if seconds < 90:
        return f"{max(math.ceil(seconds / 5) * 5, 0)} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    if minutes < 48 * 60:
        hours, minutes = divmod(round(minutes, -1), 60)
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(round(seconds / 3600), 24)
    return f"{days} days {hours} h" if hours else f"{days} days"


def measure_speed(
    shape: EncoderShape, device: torch.device, dtype: str, threads: int, backend: str = "torch"
) -> float:
    """Time the encoder's widest matrix product as its backend computes it. Operations a second."""
    tokens = _MEASURED_TOKENS["cpu" if device.type == "cpu" else "cuda"]
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        if backend == "openvino":
            multiply = compile_product(
                tokens, shape.hidden, shape.inner, dtype=dtype, threads=threads
            )
        else:
            multiply = _torch_product(tokens, shape, device, DTYPES[dtype])
        multiply()  # the first one is slow
        started, rounds = time.perf_counter(), 0
        while time.perf_counter() - started < _MEASURE_SECONDS:
            multiply()
            rounds += 1
        seconds = time.perf_counter() - started
    finally:
        torch.set_num_threads(before)
    return rounds * 2 * tokens * shape.hidden * shape.inner / seconds


def _torch_product(
    tokens: int, shape: EncoderShape, device: torch.device, dtype: torch.dtype
) -> Callable[[], object]:
    options: dict[str, Any] = {"device": device, "dtype": dtype}
    left = torch.ones((tokens, shape.hidden), **options)
    right = torch.ones((shape.hidden, shape.inner), **options)
    # A GPU answers only when it is asked for a number.
    return lambda: float((left @ right)[0, 0])


def _row_seconds(settings: Settings, job: JobToEstimate) -> float | None:
    """Work out the seconds of a row from the model's shape and some rows of the dump."""
    config = settings.config
    layers = settings.files.depth if config.all_layers else settings.num_layers
    shape = EncoderShape.of(settings.files.config, layers)
    if shape is None:
        return None
    speed = measure_speed(
        shape,
        resolve_device(config.device),
        config.dtype,
        config.num_threads or 1,
        settings.backend,
    )
    rows, lengths = _sample(settings, job)
    return ROW_SECONDS + FORWARD_OVERHEAD * shape.operations(lengths) / speed / rows


def _sample(settings: Settings, job: JobToEstimate) -> tuple[int, npt.NDArray[np.int64]]:
    """Tokenize the first rows of a few splits; return their number and the texts' lengths.

    A text that stands there twice counts once, since it is encoded once.
    """
    columns = [job.fields.candidate_column, job.fields.reference_column]
    splits = [split for split in job.pending if split.num_rows]
    chosen = splits[:: max(len(splits) // _SAMPLED_SPLITS, 1)][:_SAMPLED_SPLITS]
    rows = 0
    lengths: list[npt.NDArray[np.int64]] = []
    for split in chosen:
        head = replace(split, num_rows=min(split.num_rows, _SAMPLED_ROWS))
        table = read_split(head, columns)
        rows += head.num_rows
        candidates = texts_from_column(table[columns[0]])
        texts = {text for text in candidates if isinstance(text, str)}
        texts.update(readable_references(table[columns[1]]))
        lengths.append(settings.tokenizer.encode(sorted(texts)).lengths)
    return rows, np.concatenate(lengths)


def _first(config: Mapping[str, Any], names: Sequence[str]) -> int | None:
    """Return the first of some settings that is a number."""
    values = (config.get(name) for name in names)
    return next((value for value in values if isinstance(value, int)), None)
