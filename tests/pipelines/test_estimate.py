"""The estimated time of a run: its parts, its words, and what a dry run shows."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bertscore_core import ScoreSummary
from bertscore_core.encoder import EncoderOptions, load_encoder
from bertscore_core.resolve import resolve_model
from pipelines import cli
from pipelines.estimate import (
    START_SECONDS,
    EncoderShape,
    Estimate,
    duration_words,
    estimate_run,
    expected_seconds,
    measure_speed,
)
from pipelines.options import ScoreOptions
from pipelines.prepare import prepare_score
from pipelines.totals import RunTotals
from tests.support.dumps import write_dump

MINILM = EncoderShape(layers=6, hidden=384, inner=1536)


def options(dump, output, **changes):
    return ScoreOptions(input=(str(dump),), output=str(output), **{"device": "cpu", **changes})


@pytest.fixture
def job(tmp_path):
    return prepare_score(options(write_dump(tmp_path / "dump", [300]), tmp_path / "out"))


def counted_operations(encoder, lengths) -> float:
    """Count the matrix products of a real forward pass over each text alone."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        for length in lengths:
            encoder.encode(torch.ones((1, length), dtype=torch.long), torch.tensor([length]))
    return float(counter.get_total_flops())


@pytest.mark.parametrize(
    "family", ["bert", "albert", "distilbert", "mpnet", "bart", "xlm", "t5", "mt5"]
)
def test_operations_are_those_of_a_real_forward_pass(tiny_folder, family):
    files = resolve_model(str(tiny_folder(family)))
    layers = 2
    shape = EncoderShape.of(files.config, layers)
    lengths = np.array([5, 11], dtype=np.int64)
    encoder = load_encoder(
        files, EncoderOptions(num_layers=layers, device="cpu", attention="eager")
    )
    assert shape.operations(lengths) == pytest.approx(counted_operations(encoder, lengths), rel=0.2)


def test_shape_of_a_model_that_does_not_say_is_unknown():
    assert EncoderShape.of({"model_type": "odd"}, 3) is None
    assert EncoderShape.of({"d_model": 8}, 3) == EncoderShape(layers=3, hidden=8, inner=32)
    assert MINILM.operations(np.array([100])) == 6 * (2 * 12 * 384**2 * 100 + 4 * 384 * 100**2)


def test_time_grows_with_rows_and_parts_and_shrinks_with_workers():
    few = expected_seconds(rows=100, parts=4, row_seconds=0.1, workers=1)
    assert few > START_SECONDS + 10
    assert expected_seconds(rows=200, parts=4, row_seconds=0.1, workers=1) > few
    assert expected_seconds(rows=100, parts=9, row_seconds=0.1, workers=1) > few
    two = expected_seconds(rows=100, parts=4, row_seconds=0.1, workers=2)
    assert two - START_SECONDS == pytest.approx((few - START_SECONDS) / 2)
    assert expected_seconds(rows=100, parts=1, row_seconds=0.1, workers=9) > two


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (11, "15 s"),
        (700, "12 min"),
        (5399, "1 h 30 min"),
        (7200, "2 h"),
        (190_000, "2 days 5 h"),
    ],
)
def test_durations_are_rounded_to_what_is_known(seconds, words):
    assert duration_words(seconds) == words


def test_estimate_says_what_it_rests_on(job):
    estimate = estimate_run(job, RunTotals())
    assert START_SECONDS < estimate.seconds < 600
    assert estimate.words().endswith("a few rows and a test multiplication on this machine)")
    longer = replace(job, pending=job.pending * 50)
    assert estimate_run(longer, RunTotals()).seconds > 2 * estimate.seconds


def test_pace_of_earlier_runs_goes_before_the_models_size(job):
    carried = RunTotals(parts=1, summary=ScoreSummary(rows=50, scored=50), seconds=100.0)
    estimate = estimate_run(replace(job, config=replace(job.config, num_threads=10**6)), carried)
    assert estimate.seconds == pytest.approx(START_SECONDS + 300 * 2.0, rel=0.01)
    assert estimate.basis == "pace of the 50 rows scored earlier"


def test_time_on_workers_elsewhere_is_not_known(tmp_path):
    dump = write_dump(tmp_path / "dump", [9])
    elsewhere = prepare_score(options(dump, tmp_path / "out", beam=("--runner=DataflowRunner",)))
    estimate = estimate_run(elsewhere, RunTotals())
    assert estimate.seconds is None
    assert estimate.words() == "not known: it depends on the workers, which run elsewhere"


def test_nothing_left_takes_the_start_alone(job):
    estimate = estimate_run(replace(job, pending=()), RunTotals())
    assert estimate == Estimate(seconds=START_SECONDS, basis="nothing is left to score")


def test_file_that_is_gone_leaves_the_plan_standing(job, tmp_path):
    (tmp_path / "dump" / "shard-000.parquet").unlink()
    assert estimate_run(job, RunTotals()).words().startswith("not known: no sample could be read")


def test_measuring_leaves_the_number_of_threads_as_it_was():
    before = torch.get_num_threads()
    speed = measure_speed(MINILM, torch.device("cpu"), "float32", before + 1)
    assert torch.get_num_threads() == before
    assert 1e8 < speed < 1e15


def test_dry_run_shows_the_time(tmp_path, capsys):
    dump = write_dump(tmp_path / "dump", [20])
    flags = ["--input", str(dump), "--output", str(tmp_path / "out"), "--device", "cpu"]
    assert cli.main(["score", *flags, "--dry-run"]) == cli.DONE
    assert "estimated time: about" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()
