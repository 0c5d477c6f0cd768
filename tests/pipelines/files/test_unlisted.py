"""Jobs over inputs that cannot all be seen, or are no files: nothing is lost in silence."""

import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.cli import main as cli
from tests.support.dumps import read_output
from tests.support.files_below import files_below
from tests.support.hostile import pairs
from tests.support.jobs import summary_of
from tests.support.powers import shut

pytestmark = [pytest.mark.job, pytest.mark.model]


def write_folders(dump: Path) -> Path:
    """Write two folders with three rows each."""
    for name in ("a", "b"):
        (dump / name).mkdir(parents=True)
        pq.write_table(pairs(3), dump / name / "x.parquet")
    return dump


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    return write_folders(tmp_path / "in")


@pytest.fixture(scope="module")
def model(tiny_folder) -> list[str]:
    return ["--model", str(tiny_folder("bert")), "--num-layers", "2", "--device", "cpu"]


@pytest.fixture(scope="module")
def scored_dump(tmp_path_factory, model) -> tuple[Path, Path]:
    """A dump of three files, one row of them rejected, and the output of a run over it."""
    root = tmp_path_factory.mktemp("scored")
    dump = write_folders(root / "in")
    pq.write_table(pa.table({"candidate": [None], "reference": ["a cat"]}), dump / "a" / "z.pq")
    assert score(f"{dump}/*/*", root / "out", model) == cli.DONE
    return dump, root / "out"


def score(dump: Path | str, output: Path, model: list[str], *flags: str) -> int:
    words = ["--input", str(dump), "--output", str(output), "--max-reject-fraction", "1"]
    return cli.main(["score", *words, *model, *flags])


def test_a_run_without_a_folder_it_could_not_list_is_no_success(dump, tmp_path, model):
    output = tmp_path / "out"
    with shut(dump / "b"):
        assert score(dump, output, model) == cli.BROKEN
    assert not (output / "_SUCCESS").exists()
    assert (summary_of(output)["rows"], summary_of(output)["num_unreachable_files"]) == (3, 1)
    listed = pq.read_table(output / "_rejects").to_pylist()
    assert [(row["file"], row["reason"]) for row in listed] == [
        (str(dump / "b"), "unreadable_folder")
    ]
    assert score(dump, output, model) == cli.DONE
    assert read_output(output).num_rows == 6


def test_overwrite_keeps_the_parts_of_a_folder_it_could_not_list(dump, tmp_path, model, capsys):
    output = tmp_path / "out"
    assert score(dump, output, model) == cli.DONE
    with shut(dump / "b"):
        assert score(dump, output, model) == cli.BROKEN
        assert score(dump, output, model, "--overwrite") == cli.BROKEN
    said = capsys.readouterr().err
    assert "no longer given" not in said
    assert summary_of(output)["num_parts_of_inputs_gone"] == 0
    assert read_output(output).num_rows == 6
    assert score(dump, output, model) == cli.DONE
    assert summary_of(output)["parts_of_earlier_runs"] == 2


@pytest.mark.parametrize("folder", ["_manifest", "a", "_rejects"])
@pytest.mark.parametrize("flags", [(), ("--overwrite",), ("--dry-run",)])
def test_an_output_folder_that_cannot_be_listed_costs_no_part(
    scored_dump, tmp_path, model, capsys, folder, flags
):
    dump, done = scored_dump
    output = tmp_path / "out"
    shutil.copytree(done, output)
    before = files_below(output)
    with shut(output / folder):
        assert score(f"{dump}/*/*", output, model, *flags) == cli.BROKEN
    assert f"{folder}' cannot be listed" in capsys.readouterr().err
    assert files_below(output) == before
    assert score(f"{dump}/*/*", output, model) == cli.DONE
    assert summary_of(output)["parts_of_earlier_runs"] == 3


def test_idf_is_not_counted_over_what_could_be_listed(dump, tmp_path, model, capsys):
    with shut(dump / "b"):
        assert score(dump, tmp_path / "out", model, "--idf", "corpus") == cli.BROKEN
        flags = ["--input", str(dump), "--output", str(tmp_path / "t.npz")]
        assert cli.main(["idf", *flags, "--model", "all-MiniLM-L6-v2"]) == cli.BROKEN
    assert capsys.readouterr().err.count("cannot be reached") == 2
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "t.npz").exists()


@pytest.mark.timeout(240)
def test_a_fifo_is_a_rejected_file_and_no_hang(dump, tmp_path, model):
    os.mkfifo(dump / "a" / "fifo.parquet")
    flags = ["--input", str(dump), "--output", str(tmp_path / "out"), *model]
    assert cli.main(["score", *flags]) == cli.TOO_MANY_REJECTS
    (rejected,) = pq.read_table(tmp_path / "out" / "_rejects").to_pylist()
    assert rejected["reason"] == "not_a_file"
    assert "a FIFO" in rejected["message"]
    assert read_output(tmp_path / "out").num_rows == 6
