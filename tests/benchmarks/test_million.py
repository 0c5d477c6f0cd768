"""The script of a million pairs, with two thousand."""

import pytest

from tests.benchmarks.harness import Recorder
from tests.benchmarks.million import million
from tests.support.tiny_models import build_tiny_model

PAIRS = 2_000


@pytest.mark.long
def test_two_nights_with_two_kills_score_every_row_once(tmp_path):
    model, place = build_tiny_model("bert", tmp_path / "model"), tmp_path / "run"
    small = {"pairs": PAIRS, "model": str(model), "layers": (2, 1, 2), "dtype": "float32"}

    def stamps():
        return {path: path.stat().st_mtime_ns for path in place.glob("night*/**/*")}

    def run():
        recorder = Recorder("million")
        million(recorder, folder=str(place), split_rows=50, **small)
        return {line["what"]: line for line in recorder.lines}

    lines = run()
    rows, first, second = lines["rows"], lines["night-1"], lines["night-2"]
    assert (rows["once"], rows["equal_scores"], rows["unscored"]) == (True, True, 0)
    assert 0.05 * PAIRS < rows["changed"] < 0.15 * PAIRS
    assert (rows["compared"], rows["reused"]) == (PAIRS, PAIRS - rows["changed"])
    assert (first["tries"], second["tries"]) == (3, 1)
    assert 0 < second["share_of_first"] < 1
    assert "system-7" in (place / "page.html").read_text()
    before = stamps()
    assert run() == lines  # nothing is done again
    assert stamps() == before
