"""What a baseline is for: rescaling the scores of the model that it was made with."""

import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.cli.main import main
from bertscore_beam.run import DONE, UNUSABLE
from tests.support.crawl_texts import sentences
from tests.support.crawls import description, run_given
from tests.support.dumps import read_output


def test_scores_are_not_rescaled_by_the_table_of_another_model(
    tmp_path, finished, model, namesake, capsys
):
    rows = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"candidate": ["a"], "reference": ["b"]}), rows)
    words = f"score --input {rows} --output {tmp_path}/scored --num-layers 1 --device cpu"
    words += " --language en --dry-run --rescale"

    def score(scorer, table):
        return main([*words.split(), "--model", str(scorer), "--baseline", str(table)])

    lone = tmp_path / "mine.tsv"
    for kind in (".tsv", ".json"):
        shutil.copy((finished / "en" / "bert.tsv").with_suffix(kind), lone.with_suffix(kind))
    for table in (finished, lone):
        assert score(model, table) == DONE
        capsys.readouterr()
        assert score(namesake, table) == UNUSABLE
        assert "with another model than the one that scores" in capsys.readouterr().err
    lone.with_suffix(".json").unlink()
    assert score(namesake, lone) == DONE
    empty = tmp_path / "empty"
    empty.mkdir()
    assert score(model, empty) == UNUSABLE
    assert "holds no tables" in capsys.readouterr().err


@pytest.mark.long
def test_held_out_pairs_rescale_to_zero_and_equal_ones_to_one(tmp_path, scorer):
    """On other pairs of the same kind of text: within 3 errors of 0; equal texts give exactly 1."""
    texts = sentences("en", 6000, 5)
    file, second = tmp_path / "made.txt", tmp_path / "held-out.parquet"
    file.write_text("\n".join(texts[:4000]))
    output, scored = tmp_path / "out", tmp_path / "scored"
    assert run_given("all-MiniLM-L6-v2", output, file, pairs=2000) == DONE
    held_out = texts[4000:]
    sides = [*held_out[:1000], held_out[0]], [*held_out[1000:], held_out[0]]
    pq.write_table(pa.table(sides, names=["candidate", "reference"]), second)
    words = f"score --input {second} --output {scored} --model all-MiniLM-L6-v2 --language en"
    assert main(f"{words} --rescale --baseline {output} --device cpu".split()) == DONE
    result = read_output(scored).to_pydict()
    said = description(output, "en/all-MiniLM-L6-v2.json")
    layer = said["layers"][6]
    for measure in ("precision", "recall", "f1"):
        *values, equal = result[f"bertscore_{measure}"]
        made = layer[measure]
        error = np.hypot(
            np.std(values, ddof=1) / np.sqrt(len(values)),
            made["standard_error"] / (1 - made["mean"]),
        )
        assert abs(np.mean(values)) <= 3 * error
        assert equal == pytest.approx(1, abs=1e-5)
    assert [check["passed"] for check in said["checks"]] == [True, True, None]
    assert said["checks"][-1]["found"] == "not looked at: hosts are not known"
