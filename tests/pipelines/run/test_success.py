"""Whose success a folder holds."""

import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.files.checked import to_json
from bertscore_beam.run.folder import FORMAT, RUN_FILE, SUCCESS_FILE, OutputFolder
from bertscore_beam.run.loading import scorer_config
from bertscore_beam.run.publication import publish_files, read_head, successful_run
from bertscore_beam.run.runner import Runner
from bertscore_core import ConfigError
from tests.support.dumps import write_dump
from tests.support.jobs import job_options, run_job

OF_ANOTHER_COMMAND = to_json({"format": FORMAT, "run": "this", "identity": {"command": "baseline"}})
THIS = to_json({"run": "this"})
MARKERS = [b"", b"{", b"[]", *map(to_json, ({"token": "this"}, {"epoch": 1, "token": "x"})), None]

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
    folder = OutputFolder(output)
    publish_files(folder, None, "this", {RUN_FILE: OF_ANOTHER_COMMAND})
    whole = folder.read(SUCCESS_FILE)
    folder.delete(SUCCESS_FILE)
    if marker is not None:
        folder.write(SUCCESS_FILE, marker)
    assert successful_run(OutputFolder(output)) is None
    assert cli.main(["check", output]) == cli.BROKEN
    told = "is not done: got no _SUCCESS of it" if marker is None else "does not belong to its"
    assert told in capsys.readouterr().err
    folder.write(SUCCESS_FILE, whole)
    assert successful_run(OutputFolder(output)) == "this"
    assert cli.main(["check", output]) == cli.DONE
    assert capsys.readouterr().out == f"{output} is done\n"
    folder.delete(RUN_FILE)
    assert cli.main(["check", output]) == cli.UNUSABLE
    assert "holds no run: got no _run.json" in capsys.readouterr().err


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

    done, head = OutputFolder(str(folder)), None
    for is_success in (False, True):
        publish_files(
            done,
            head,
            f"run-{is_success}",
            {RUN_FILE: THIS},
            earlier=[RUN_FILE],
            is_success=is_success,
        )
        head = read_head(done)
        if not is_success:
            with pytest.raises(ConfigError, match="is not done, or not for every language"):
                read(folder)
        assert read(table).baseline is not None
    assert read(folder).baseline is not None
    (folder / "_run.json").unlink()
    assert read(folder).baseline is not None
