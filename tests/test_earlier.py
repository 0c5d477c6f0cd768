"""What an earlier version has written is read as before: idf tables, baselines, output folders.

The files in `tests/earlier` were made by 0.2.0, and by the last commit of 0.1.0 in which the job's
import package was called `pipelines`, on six made-up pairs: `idf`, `score --idf --group-by system
--split-rows 3 --backend torch --max-reject-fraction 1`, and, with 0.1.0, `baseline --sentences
--pairs 40 --backend torch`. Of 0.3.0 there is an index of the same rows, with buckets of 2 rows.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.records.index import read_index
from bertscore_beam.records.lookup import EarlierRun
from bertscore_beam.records.row_scores import rows_file, rows_from_bytes
from bertscore_beam.run.folder import OutputFolder
from bertscore_core.stats.score_statistics import NOT_COUNTED

EARLIER = Path(__file__).parent / "earlier"
PARTS = [f"news.parquet/part-{row:012}.parquet" for row in (0, 3)]

pytestmark = [pytest.mark.model, pytest.mark.job]


@pytest.fixture(params=["0.2.0", pytest.param("0.1.0", marks=pytest.mark.long)])
def release(request) -> str:
    """An earlier version. Where `score` runs, the older one is in the long tests."""
    return request.param


@pytest.fixture
def folder(release, tmp_path, monkeypatch):
    """A copy of what a version has made, for a program that scores as that version did."""
    versions = {"bertscore-beam": release, "torch": "2.13.0", "transformers": "5.23.0"}
    monkeypatch.setattr("bertscore_core.config.version", versions.__getitem__)
    return Path(shutil.copytree(EARLIER / release, tmp_path / "earlier"))


def score(folder: Path, *more: str) -> list[str]:
    """The words of the earlier command, with new paths of its files."""
    words = ["score", "--input", str(folder / "news.parquet"), "--output", str(folder / "scores")]
    same = ["--model", "all-MiniLM-L6-v2", "--backend", "torch", "--idf", str(folder / "night.idf")]
    return [*words, *same, "--group-by", "system", "--split-rows", "3", *more]


def run(capsys: pytest.CaptureFixture[str], *words: str) -> dict:
    """Run a command, and return what it prints as JSON."""
    status = cli.main([*words, "--json", "--quiet", "--max-reject-fraction", "1"])
    printed = capsys.readouterr()
    assert status == cli.DONE, printed.err
    return json.loads(printed.out)


def test_a_finished_output_folder_is_finished(folder, capsys):
    before = {name: (folder / "scores" / name).stat().st_mtime_ns for name in PARTS}
    shown = run(capsys, *score(folder))
    assert shown["summary"]["parts_kept"] == len(PARTS)
    assert shown["summary"]["unknown_not_counted"] == shown["summary"]["scored"]
    parts = [pq.read_table(folder / "scores" / name).column("bertscore_f1") for name in PARTS]
    f1 = np.concatenate([part.drop_null().to_numpy() for part in parts]).astype(float)
    assert shown["summary"]["clipped"] == 0  # that version clipped none: its parts are read
    assert shown["summary"]["f1"] == pytest.approx(np.clip(f1, -1, 1).mean(), abs=1e-9)
    assert {name: (folder / "scores" / name).stat().st_mtime_ns for name in PARTS} == before


@pytest.mark.parametrize("release", ["0.1.0", "0.2.0", "0.3.0"], indirect=True)
def test_the_index_of_an_output_folder_finds_its_rows(folder, release):
    source = OutputFolder(str(folder / "scores"))
    index = read_index(source)
    pieces = [rows_from_bytes(source.read(rows_file(name)), name) for name in PARTS]
    for piece in pieces:
        found = EarlierRun(source.root).find(
            "another.parquet", np.arange(len(piece)), piece.digests, piece.signed
        )
        assert (found.found == piece.scored).all()
        assert (found.values["raw_f1"] == piece.values["raw_f1"])[piece.scored].all()
        for name in ("text_tokens", "unknown_tokens"):  # which are counted since 0.3.0
            assert ((piece.values[name] == NOT_COUNTED) == (release < "0.3.0")).all()
            assert (found.values[name] == piece.values[name])[piece.scored].all()
    assert len(index.files) == (3 if release == "0.3.0" else 1)
    assert sum(file.rows for file in index.files) == sum(piece.scored.sum() for piece in pieces)


def test_the_missing_part_of_an_output_folder_is_made_again_with_the_same_scores(
    folder, release, capsys
):
    (folder / "scores" / "_SUCCESS").unlink()
    (folder / "scores" / PARTS[0]).unlink()
    kept = (folder / "scores" / PARTS[1]).stat().st_mtime_ns
    run(capsys, *score(folder))
    assert (folder / "scores" / PARTS[1]).stat().st_mtime_ns == kept
    made = pq.read_table(folder / "scores" / PARTS[0]).column("bertscore_f1").to_pylist()
    earlier = (
        pq.read_table(EARLIER / release / "scores" / PARTS[0]).column("bertscore_f1").to_pylist()
    )
    assert made == pytest.approx(earlier, abs=1e-6)


def test_scores_are_reused(folder, release, capsys, monkeypatch):
    if release == "0.2.0":  # this version scores as that one did
        monkeypatch.undo()
    words = score(folder, "--reuse", str(folder / "scores"))
    words[words.index("--output") + 1] = str(folder / "tonight")
    summary = run(capsys, *words)["summary"]
    # That version did not count unknown tokens: they are not known, which is not 0.
    assert 0 < summary["reused"] == summary["unknown_not_counted"] == summary["scored"]
    assert (summary["unknown_tokens"], summary["unknown_fraction"]) == (0, None)
    for name in PARTS:
        tonight = pq.read_table(folder / "tonight" / name)
        assert not {*tonight["bertscore_unknown"].to_pylist()} - {None}
        assert not {*tonight["bertscore_text_tokens"].to_pylist()} - {None}
        made = pq.read_table(folder / "tonight" / name).column("bertscore_f1")
        assert made == pq.read_table(EARLIER / release / "scores" / name).column("bertscore_f1")


@pytest.mark.parametrize("release", ["0.1.0"], indirect=True)
def test_scores_are_rescaled_with_a_table(folder, capsys):
    table = folder / "baselines" / "en" / "all-MiniLM-L6-v2.tsv"
    words = score(folder, "--rescale", "--baseline", str(table))
    words[words.index("--output") + 1] = str(folder / "rescaled")
    words[words.index("--idf") + 1] = "none"
    shown = run(capsys, *words)
    assert "baseline:none" not in shown["summary"]["signature"]


@pytest.mark.parametrize("release", ["0.1.0"], indirect=True)
def test_scores_of_a_version_that_scored_otherwise_are_not_taken_over(folder, capsys, monkeypatch):
    monkeypatch.undo()
    assert cli.main(score(folder)) == cli.UNUSABLE
    assert "version: '0.1.0' there" in capsys.readouterr().err
    words = score(folder, "--reuse", str(folder / "scores"))
    words[words.index("--output") + 1] = str(folder / "tonight")
    assert run(capsys, *words)["summary"]["reused"] == 0
