"""The heart of the job on one page does what the job does."""

import importlib.util
import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.cli.main import main
from bertscore_beam.run.output import DONE
from tests.support.dumps import read_output
from tests.support.tolerances import INVARIANCE_ATOL

pytestmark = [pytest.mark.job, pytest.mark.model, pytest.mark.process]

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "configs" / "demo" / "sample"


@pytest.fixture
def dump(tmp_path):
    """Return the pattern of two files of some row groups, in one of which a row lacks a text."""
    for name, first in (("news-europe", 208), ("news-world", 0)):
        rows = pq.read_table(SAMPLE / f"{name}.parquet").slice(first, 40)
        pq.write_table(rows, tmp_path / f"{name}.parquet", row_group_size=15)
    return str(tmp_path / "news-*.parquet")


@pytest.fixture
def heart(monkeypatch, dump):
    """Return a function that runs the program in this process."""
    spec = importlib.util.spec_from_file_location("heart", ROOT / "docs" / "heart.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "heart", module)
    spec.loader.exec_module(module)

    def run(output: Path) -> None:
        monkeypatch.setattr(sys, "argv", ["heart.py", dump, str(output)])
        module.main()

    return run


def in_order(rows: pa.Table) -> list[dict[str, object]]:
    """Return rows in an order that does not depend on the names of parts."""
    return sorted(rows.to_pylist(), key=lambda row: repr((row["id"], row["system"])))


def test_heart_scores_as_the_job_does_and_resumes(heart, dump, tmp_path):
    output, job = tmp_path / "heart", tmp_path / "job"
    heart(output)
    words = ["score", "--input", dump, "--output", str(job), "--idf", "corpus"]
    words += ["--model", "all-MiniLM-L6-v2", "--max-unknown-fraction", "1"]
    words += ["--max-reject-fraction", "0.05"]
    assert main(words) == DONE
    parts = sorted(output.glob("part-*.parquet"))
    found = in_order(pa.concat_tables([pq.read_table(part) for part in parts]))
    expected = in_order(read_output(job))
    assert len(found) == len(expected) == 80
    assert sum(row["bertscore_error"] is not None for row in found) == 1
    for ours, theirs in zip(found, expected, strict=True):
        assert ours["candidate"] == theirs["candidate"]
        assert (ours["bertscore_error"] is None) == (theirs["bertscore_f1"] is not None)
        for measure in ("precision", "recall", "f1"):
            score = theirs[f"bertscore_{measure}"]
            wanted = None if score is None else pytest.approx(score, abs=INVARIANCE_ATOL)
            assert ours[f"bertscore_{measure}"] == wanted
    summary = json.loads((job / "_summary.json").read_text())
    means = json.loads((output / "_SUCCESS").read_text())
    assert means["f1"] == pytest.approx(summary["f1"], abs=INVARIANCE_ATOL)
    # A part that is lost is made again, and no other.
    before = {part: part.stat().st_mtime_ns for part in parts}
    whole = parts[0].read_bytes()
    parts[0].unlink()
    heart(output)
    assert parts[0].read_bytes() == whole
    assert [part for part in parts if part.stat().st_mtime_ns != before[part]] == parts[:1]
    assert json.loads((output / "_SUCCESS").read_text()) == means
