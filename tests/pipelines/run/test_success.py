"""Whose success a folder holds."""

import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.files.checked import to_json
from bertscore_beam.files.paths import join
from bertscore_beam.files.read import exists
from bertscore_beam.files.write import delete, write_atomically
from bertscore_beam.run.folder import FORMAT, RUN_FILE, SUCCESS_FILE, OutputFolder, declare_success
from bertscore_beam.run.loading import scorer_config
from bertscore_beam.run.lock import FolderLostError
from bertscore_beam.run.publication import successful_run
from bertscore_beam.run.runner import Runner
from bertscore_core import ConfigError
from tests.support.dumps import write_dump
from tests.support.jobs import job_options, own, run_job

OF_ANOTHER_COMMAND = to_json({"format": FORMAT, "run": "this", "identity": {"command": "baseline"}})
THIS = to_json({"run": "this"})
MARKERS = [b"", b"{", b"[]", to_json({"run": 7}), to_json({"run": "other"}), None]

pytestmark = [pytest.mark.job, pytest.mark.usefixtures("tiny_jobs")]


def test_marker_names_the_run_and_its_signature_and_every_run_has_another_name(tmp_path):
    dump, output, names = write_dump(tmp_path / "dump", [5]), str(tmp_path / "out"), set()
    for epoch in (1, 2):
        summary = run_job(dump, output=output)
        folder = OutputFolder(output)
        marker, begun = map(folder.read_json, (SUCCESS_FILE, RUN_FILE))
        expected = {"epoch": epoch, "token": begun["run"], "signature": summary["signature"]}
        assert marker == expected
        assert successful_run(folder) == begun["run"]
        names.add(begun["run"])
    assert len(names) == 2


@pytest.mark.parametrize("marker", MARKERS)
def test_marker_that_does_not_name_the_run_of_the_folder_counts_for_nothing(output, marker, capsys):
    write_atomically(join(output, RUN_FILE), OF_ANOTHER_COMMAND)
    if marker is not None:
        write_atomically(join(output, SUCCESS_FILE), marker)
    assert successful_run(OutputFolder(output)) is None
    assert cli.main(["check", output]) == cli.BROKEN
    assert "is not done: got no _SUCCESS of it" in capsys.readouterr().err
    write_atomically(join(output, SUCCESS_FILE), THIS)
    assert successful_run(OutputFolder(output)) == "this"
    assert cli.main(["check", output]) == cli.DONE
    assert capsys.readouterr().out == f"{output} is done\n"
    delete(join(output, RUN_FILE))
    assert cli.main(["check", output]) == cli.UNUSABLE
    assert "holds no run: got no _run.json" in capsys.readouterr().err


def test_run_in_whose_place_another_stands_declares_nothing(tmp_path):
    output = str(tmp_path)
    first, _ = own(output), own(output)
    with pytest.raises(FolderLostError):
        declare_success(first, "first")
    assert not exists(join(output, SUCCESS_FILE))


def test_folder_of_baselines_counts_only_when_its_run_is_done(tmp_path):
    """A table alone has a description to be judged by, so its own path is taken."""
    table = tmp_path / "tables" / "en" / "all-MiniLM-L6-v2.tsv"
    table.parent.mkdir(parents=True)
    table.write_text("LAYER,P,R,F\n" + "".join(f"{layer},0.1,0.1,0.1\n" for layer in range(7)))
    folder = tmp_path / "tables"
    chosen = {"language": "en", "model": "all-MiniLM-L6-v2", "rescale": True}

    def read(path):
        options = job_options("in", tmp_path / "out", **chosen, baseline=str(path))
        return scorer_config(options, Runner.of(options).threads)

    (folder / "_run.json").write_bytes(THIS)
    for marker in (None, b"", to_json({"run": "another"})):
        if marker is not None:
            (folder / "_SUCCESS").write_bytes(marker)
        with pytest.raises(ConfigError, match="is not done, or not for every language"):
            read(folder)
    assert read(table).baseline is not None
    (folder / "_SUCCESS").write_bytes(THIS)
    assert read(folder).baseline is not None
    (folder / "_run.json").unlink()
    assert read(folder).baseline is not None
