"""Counters, the summary and the log tell the same."""

import json
import logging
import re
from logging.handlers import BufferingHandler
from pathlib import Path

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from bertscore_beam.run import counters
from bertscore_beam.run.output import event
from tests.support.jobs import add_score_pipeline, job_options, prepare_score, start

pytestmark = pytest.mark.job


PAGE = Path(__file__).resolve().parents[3] / "docs" / "output.md"
ROWS = {
    "candidate": ["a cat sat", None, "", "the dog barked for a very long time"] * 5,
    "reference": ["the cat sat", "a", "it rains", "a dog barked"] * 5,
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Run a job; its counters and distributions by name, its summary, and what was logged."""
    folder = tmp_path_factory.mktemp("metrics")
    (folder / "dump").mkdir()
    pq.write_table(pa.table(ROWS), folder / "dump" / "pairs.parquet")
    job_opts = job_options(folder / "dump", folder / "out", split_rows=10, max_reject_fraction=1.0)
    job = start(prepare_score(job_opts))
    pipeline = beam.Pipeline(runner=FnApiRunner())
    add_score_pipeline(pipeline, job)
    ours, handler = logging.getLogger("bertscore_beam"), BufferingHandler(10_000)
    ours.addHandler(handler)
    ours.setLevel(logging.INFO)
    try:
        result = pipeline.run()
    finally:
        ours.removeHandler(handler)
        ours.setLevel(logging.NOTSET)
    found = result.metrics().query()
    values = {
        item.key.metric.name: item.committed
        for item in (*found["counters"], *found["distributions"])
        if item.key.metric.namespace == counters.NAMESPACE
    }
    summary = json.loads((folder / "out" / "_summary.json").read_text())
    return values, summary, [record.getMessage() for record in handler.buffer]


def test_counters_and_summary_agree(finished):
    counted, summary, _ = finished
    reasons = {name: number for name, number in counted.items() if name.startswith("reason_")}
    assert reasons == {"reason_null_candidate": 5, "reason_empty_candidate": 5}
    assert summary["reasons"] == {"null_candidate": 5, "empty_candidate": 5}
    assert counted["pairs_scored"] == summary["scored"] == 15
    assert counted["rows_rejected"] == summary["rejected"] == 5
    assert counted["parts_written"] == summary["parts"] == 2
    assert counted["tokens"] == summary["tokens"] > 0
    assert counted["batches"] == summary["batches"] == 2
    assert counted["memory_retries"] == summary["memory_retries"] == 0
    padded = counted["tokens"] + counted["padding_tokens"]
    assert summary["padding"] == pytest.approx(counted["padding_tokens"] / padded, abs=1e-4)
    busy = pytest.approx(summary["device_busy_seconds"], abs=0.002)
    assert counted["device_busy_msec"] / 1000 == busy
    assert summary["device_idle_seconds"] > 0
    assert counted["split_msec"].count == counted["batch_msec"].count == 2


def test_every_part_and_model_is_a_line_of_json_in_the_log(finished):
    _, _, lines = finished
    events = [json.loads(line) for line in lines if line.startswith('{"event"')]
    (loaded,) = [one for one in events if one["event"] == "model_loaded"]
    assert (loaded["model"], loaded["device"]) == ("all-MiniLM-L6-v2", "cpu")
    parts = [one for one in events if one["event"] == "part_written"]
    assert sorted(one["part"] for one in parts) == [
        "pairs.parquet/part-000000000000.parquet",
        "pairs.parquet/part-000000000010.parquet",
    ]
    assert sum(one["rejected"] for one in parts) == 5
    assert not any("cat" in line for line in lines)


def test_a_log_line_bears_no_credentials():
    line = event("part_written", rows=3, part="s3://key:secret@bucket/part.parquet?token=secret")
    assert "secret" not in line
    assert json.loads(line)["part"].startswith("s3://***@bucket/part.parquet")
    assert json.loads(line)["rows"] == 3


def test_the_page_names_every_metric(finished):
    counted, _, _ = finished
    named = set(re.findall(r"`(\w+)`", PAGE.read_text())) | {"reason_REASON"}
    words = {word for name, word in vars(counters).items() if name.isupper() and type(word) is str}
    known = (words | counters.OF_WORK.keys()) - {counters.NAMESPACE, counters.REASON}
    assert known <= named
    assert {name for name in counted if name.endswith("_msec")} <= known
