"""The script of a million pairs, with two thousand."""

import json

import pytest

from tests.benchmarks.harness import Recorder
from tests.benchmarks.million import SLICES, million
from tests.support.tiny_models import build_tiny_model

PAIRS = 2_000


@pytest.mark.long
def test_two_nights_with_two_kills_score_every_row_once(tmp_path):
    out = tmp_path / "lines.jsonl"
    model = build_tiny_model("bert", tmp_path / "model")
    small = {"pairs": PAIRS, "model": str(model), "layers": (2, 1, 2)}

    def run():
        recorder = Recorder("million", out)
        place = str(tmp_path / "run")
        million(recorder, folder=place, dtype="float32", split_rows=50, **small)
        return {(line := json.loads(text))["what"]: line for text in out.read_text().splitlines()}

    lines = run()
    rows, first, second = lines["rows"], lines["night-1"], lines["night-2"]
    assert rows["once"]
    assert rows["equal_scores"]
    assert (rows["unscored"], rows["compared"]) == (0, PAIRS)
    assert 0.05 * PAIRS < rows["changed"] < 0.15 * PAIRS
    assert (first["tries"], second["tries"]) == (3, 1)
    assert (first["scored"], second["scored"]) == (PAIRS, PAIRS)
    assert (first["reused"], second["reused"]) == (0, PAIRS - rows["changed"])
    assert 0 < second["share_of_first"] < 1
    assert min(lines["night-1, scoring"][f"{role}_cpu"] for role in ("worker", "metrics")) > 0
    slices = [lines[f"night-1, tenth {number + 1}"] for number in range(SLICES)]
    timed = [line for line in slices if line.get("pairs_per_second")]
    assert len(timed) >= SLICES / 2  # the others were too short to be seen
    assert all(line["worker_mb"] > 100 for line in timed)
    assert "system-7" in (tmp_path / "run" / "page.html").read_text()

    started = sum(1 for _ in tmp_path.rglob("*.log"))
    assert run() == lines  # nothing is done again
    assert started == sum(1 for _ in tmp_path.rglob("*.log")) == 6
