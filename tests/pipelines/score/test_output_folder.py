"""Output folders that cannot be taken, and what in them belongs to others."""

import re

import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.files import write_atomically
from bertscore_beam.options import ScoreOptions
from bertscore_beam.run import LOCK_FILE, job as job_module, runs_below
from bertscore_core import ConfigError, InputError
from tests.support.dumps import write_dump
from tests.support.jobs import job_options as options, prepare_score, run_options as run

pytestmark = pytest.mark.job


def test_other_peoples_files_in_the_output_are_left_alone(tmp_path):
    dump = write_dump(tmp_path / "dump", [5])
    (tmp_path / "out" / "sub").mkdir(parents=True)
    for name in ("mine.parquet", "sub/part-000000000000.parquet"):
        (tmp_path / "out" / name).write_bytes(b"mine")
    assert run(options(dump, tmp_path / "out", overwrite=True))["success"]
    assert (tmp_path / "out" / "mine.parquet").read_bytes() == b"mine"
    assert (tmp_path / "out" / "sub" / "part-000000000000.parquet").read_bytes() == b"mine"


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ("scores/2026-11-20", "scores", "holds the folders of other runs: got '2026-11-20' below"),
        ("scores", "scores/2026-11-20", "is in the folder of another run: got '.*/scores' above"),
    ],
)
def test_run_in_or_around_the_folder_of_another_run_is_refused_and_nothing_is_deleted(
    tmp_path, capsys, first, second, message, overwrite
):
    dump, other = (write_dump(tmp_path / name, [5]) for name in ("a", "b"))
    run(options(dump, tmp_path / first))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    flags = ["--input", str(other), "--output", str(tmp_path / second), "--device", "cpu"]
    assert cli.main(["score", *flags, *["--overwrite"] * overwrite]) == cli.UNUSABLE
    said = capsys.readouterr().err
    assert re.search(message, said)
    assert "--overwrite" not in said
    assert "Choose another --output" in said
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert after == before


def test_output_in_the_folder_of_another_run_is_refused_before_a_lock_is_written(
    tmp_path, monkeypatch
):
    dump, other = (write_dump(tmp_path / name, [5]) for name in ("a", "b"))
    run(options(dump, tmp_path / "out"))
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setattr(job_module, "hold", None)
    for place in ("out/below", "."):
        flags = ["--input", str(other), "--output", str(tmp_path / place), "--device", "cpu"]
        assert cli.main(["score", *flags]) == cli.UNUSABLE
    assert sorted(tmp_path.rglob("*")) == before


def test_folder_with_nothing_but_a_lock_is_no_other_run(tmp_path):
    """As one of a command that was killed just after it had taken the folder."""
    names = ["x/_manifest/lock.json", "y/_manifest/lock.json", "y/_manifest/parts/a.json"]
    assert runs_below(names) == {"y"}
    assert runs_below(["_manifest/lock.json", "z/_manifest/parts/b/_manifest/lock.json"]) == {"z"}
    dump = write_dump(tmp_path / "dump", [5])
    write_atomically(str(tmp_path / "out" / "x" / LOCK_FILE), b"{}")
    assert run(options(dump, tmp_path / "out"))["success"]


def test_input_inside_the_output_is_refused(tmp_path):
    dump = write_dump(tmp_path / "dump", [5])
    with pytest.raises(InputError, match="in the output folder"):
        prepare_score(
            ScoreOptions(input=(str(dump / "shard-000.parquet"),), output=str(dump), device="cpu")
        )


def test_memory_of_one_process_is_no_place_for_the_output_of_several():
    with pytest.raises(ConfigError, match="other worker processes cannot reach"):
        prepare_score(ScoreOptions(input=("in",), output="memory://out", workers=2, device="cpu"))
