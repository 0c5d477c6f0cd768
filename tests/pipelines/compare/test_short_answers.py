"""Answers of one word, scored by a model and compared by the commands of the README."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.run.output import WORSE

pytestmark = [pytest.mark.model, pytest.mark.job]

ROWS, SENTENCES = 400, 40


def write_night(path, accuracy, seed):
    """Write the answers of `qa` to yes/no questions, and the sentences of `mt`, one a row."""
    random = np.random.default_rng(seed)
    truth = np.random.default_rng(0).choice(["Yes", "No"], ROWS)
    right = random.random(ROWS) < accuracy
    answers = np.where(right, truth, np.where(truth == "Yes", "No", "Yes"))
    sentences = [f"The ferry of harbour {row} leaves at nine today" for row in range(SENTENCES)]
    translated = [one.replace("leaves", random.choice(["leaves", "goes"])) for one in sentences]
    rows = {
        "id": range(ROWS + SENTENCES),
        "system": ["qa"] * ROWS + ["mt"] * SENTENCES,
        "candidate": [*answers, *translated],
        "reference": [*truth, *sentences],
    }
    pq.write_table(pa.table(rows), path)
    return right.sum()


def test_a_collapse_of_short_answers_ends_with_status_4(tmp_path, capsys):
    right = {}
    for seed, (name, accuracy) in enumerate((("good", 0.95), ("bad", 0.1))):
        right[name] = write_night(tmp_path / f"{name}.parquet", accuracy, seed)
        command = [
            "score",
            "--input",
            str(tmp_path / f"{name}.parquet"),
            "--device",
            "cpu",
            "--backend",
            "torch",
        ]
        assert cli.main([*command, "--output", str(tmp_path / name), "--quiet"]) == cli.DONE
    capsys.readouterr()
    words = ["compare", str(tmp_path / "bad"), str(tmp_path / "good"), "--key", "id"]
    options = ["--by", "system", "--fail-if-drop", "0.005", "--json"]
    assert cli.main([*words, *options]) == WORSE
    (found,) = json.loads(capsys.readouterr().out)["comparisons"]
    mt, qa = found["groups"]
    assert (mt["group"], qa["group"]) == (["mt"], ["qa"])
    assert (len(mt["gate"]["failures"]), len(qa["gate"]["failures"])) == (0, 1)
    assert qa["gate"]["p_value"] < 1e-20
    result, counts = qa["result"], qa["counts"]
    assert (result["units"], result["repeats"]) == (ROWS, 0)
    assert result["moved_units"] == counts["up"] + counts["down"]
    assert counts["down"] - counts["up"] == right["good"] - right["bad"]
    assert found["whole"]["gate"]["failures"]
