"""The recipe of a night over made runs: a season of small losses, and nights of too few rows.

The script is the real one, and so are `compare` and `report`. Instead of scoring a dump, a command
puts a run there that was made from drawn scores: no model has run.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from bertscore_beam.run.output import WORSE
from tests.support.made_runs import made_run, scored
from tests.support.seasons import DROP, SPREAD

pytestmark = [pytest.mark.process, pytest.mark.long]

NIGHT = Path(__file__).resolve().parents[3] / "configs" / "nightly" / "night.sh"
ROWS, SYSTEMS = 2000, 4
LOSS = 0.001
"""What the mean of all rows loses every night."""
CHANGED = 0.1
"""Share of the rows that have other texts than the night before, and so other scores."""

COMMAND = f"""\
#!/bin/sh
[ "$1" = score ] || exec "{Path(sys.executable).parent}/bertscore-beam" "$@"
for word; do case $word in scores/20*) cp -r "made/${{word#scores/}}" "$word" ;; esac; done
"""


def declining_scores(seed: int) -> Iterator[np.ndarray]:
    """Yield the scores of night after night: only rows that are changed are lower, by so much."""
    random = np.random.default_rng(seed)
    middle = random.normal(0.8, 0.03, ROWS)
    scores, lost = random.normal(middle, SPREAD), 0.0
    while True:
        yield scores
        changed = random.random(ROWS) < CHANGED
        drawn = random.normal(middle - lost - LOSS / CHANGED, SPREAD)
        scores, lost = np.where(changed, drawn, scores), lost + LOSS


def write_run(folder: Path, scores: np.ndarray, started: float = 1.7e9) -> Path:
    """Write a run in which the systems take turns."""
    rows = np.arange(len(scores))
    names = pa.array([f"system-{number}" for number in rows % SYSTEMS])
    table = scored(np.float32(scores).astype(float), id=pa.array(rows), system=names)
    return made_run(folder, {"news.parquet": table}, started=started)


@pytest.fixture
def run_night(tmp_path):
    """Return a function that runs the script for a day of November, whose scores it is given."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "scores").mkdir()
    (tmp_path / "bin" / "bertscore-beam").write_text(COMMAND)
    (tmp_path / "bin" / "bertscore-beam").chmod(0o755)
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    given = {"cwd": tmp_path, "env": {**os.environ, "PATH": path, "PAUSE": "0"}}

    def run(day: int, scores: np.ndarray) -> subprocess.CompletedProcess[str]:
        write_run(tmp_path / "made" / f"2026-11-{day}", scores, started=1.7e9 + 86_400 * day)
        words = ["sh", str(NIGHT), f"2026-11-{day}"]
        done = subprocess.run(words, capture_output=True, text=True, **given)
        shutil.rmtree(tmp_path / "made")
        return done

    return run


def test_a_loss_of_a_fifth_of_the_drop_every_night_is_found(tmp_path, run_night):
    """Here nine nights after the first; in 20 seasons after 4 to 17, half of them by the tenth."""
    means, statuses = [], []
    for day, scores in zip(range(10, 25), declining_scores(1), strict=False):
        done = run_night(day, scores)
        statuses.append(done.returncode)
        means.append(float(scores.mean()))
        if done.returncode:
            break
    assert statuses[-1] == WORSE, done.stderr
    assert statuses[:-1] == [0] * (len(statuses) - 1)
    assert 7 <= len(statuses) - 1 <= 11
    # No night has lost so much by itself.
    assert max(before - now for before, now in pairwise(means)) < DROP
    last, pinned = json.loads((tmp_path / "pages" / f"2026-11-{day}.json").read_text())[
        "comparisons"
    ]
    assert os.readlink(tmp_path / "scores" / "pinned") == "2026-11-10"
    assert pinned["against"].endswith("scores/pinned")
    assert last["whole"]["gate"]["failures"] == []
    assert pinned["whole"]["result"]["difference"] < -DROP
    assert f"scores/pinned, the run did not pass the gate: it is lower by more than {DROP}" in (
        done.stderr
    )
    page = (tmp_path / "pages" / f"2026-11-{day}.html").read_text()
    assert "The pinned run is 2026-11-10." in page
    assert "the gate is not passed" in page


def test_nights_of_too_few_rows_have_pages_and_pin_nothing(tmp_path, run_night):
    few = np.array([0.8, 0.7, 0.9])
    assert [run_night(day, few - 0.001 * day).returncode for day in (10, 11, 12)] == [0, 5, 5]
    assert not (tmp_path / "scores" / "pinned").is_symlink()
    for day in (11, 12):
        verdict = json.loads((tmp_path / "pages" / f"2026-11-{day}.json").read_text())
        assert verdict["passed"] is None
        assert [one["against"][-10:] for one in verdict["comparisons"]] == ["2026-11-10"]
        page = (tmp_path / "pages" / f"2026-11-{day}.html").read_text()
        assert "No run is pinned yet" in page
        assert "<strong>Passed</strong>" not in page
