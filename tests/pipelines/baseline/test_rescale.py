"""What a baseline is for: rescaling the scores of the model that it was made with."""

import shutil

import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.cli.main import main
from bertscore_beam.run.output import DONE, UNUSABLE


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
