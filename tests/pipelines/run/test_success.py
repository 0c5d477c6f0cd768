"""Whose success a folder holds, on a disk and on an object store that carries a put out late."""

import json
import threading

import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.files import exists, join, read_bytes, write_atomically
from bertscore_beam.records import RunTotals
from bertscore_beam.run import (
    RUN_FILE,
    SUCCESS_FILE,
    FolderLostError,
    OutputFolder,
    Runner,
    declare_success,
    hold,
    lock as locks,
    scorer_config,
    successful_run,
)
from bertscore_beam.score import finish_run, start_run
from bertscore_core import ConfigError
from tests.support.dumps import write_dump
from tests.support.faults import Faults
from tests.support.jobs import job_options, prepare_score, run_job, run_options, start, with_folder
from tests.support.s3 import s3_bucket

pytestmark = [pytest.mark.job, pytest.mark.usefixtures("tiny_jobs")]


@pytest.fixture
def quick(monkeypatch):
    """Let a lock go stale in seconds, and let nobody show signs of life in that time."""
    monkeypatch.setattr(locks, "BEAT_SECONDS", 60.0)
    monkeypatch.setattr(locks, "STALE_SECONDS", 1.0)
    monkeypatch.setattr(locks, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(locks, "LEASE_SECONDS", 0.1)
    monkeypatch.setattr(locks.Holder, "is_alive", lambda self: False)


def put_marker(output, run):
    write_atomically(join(output, SUCCESS_FILE), json.dumps({"run": run}).encode())


def read_json(output, name):
    return json.loads(read_bytes(join(output, name)))


def test_marker_names_the_run_and_its_signature_and_every_run_has_another_name(tmp_path):
    dump, output, names = write_dump(tmp_path / "dump", [5]), str(tmp_path / "out"), set()
    for _ in range(2):
        summary = run_job(dump, output=output)
        marker, run = (read_json(output, name) for name in (SUCCESS_FILE, RUN_FILE))
        assert marker == {"run": run["run"], "signature": summary["signature"]}
        assert successful_run(OutputFolder(output)) == run["run"]
        names.add(run["run"])
    assert len(names) == 2


@pytest.mark.parametrize("marker", [b"", b"{", b"[]", b'{"run": 7}', b'{"run": "other"}', None])
def test_marker_that_does_not_name_the_run_of_the_folder_counts_for_nothing(output, marker, capsys):
    write_atomically(join(output, RUN_FILE), b'{"run": "this", "identity": {}}')
    if marker is not None:
        write_atomically(join(output, SUCCESS_FILE), marker)
    assert successful_run(OutputFolder(output)) is None
    assert cli.main(["check", output]) == cli.BROKEN
    assert "is not done: got no _SUCCESS of it" in capsys.readouterr().err
    put_marker(output, "this")
    assert successful_run(OutputFolder(output)) == "this"
    assert cli.main(["check", output]) == cli.DONE
    assert capsys.readouterr().out == f"{output} is done\n"


def test_folder_without_a_run_is_named_when_it_is_checked(tmp_path, capsys):
    put_marker(str(tmp_path), "this")
    assert cli.main(["check", str(tmp_path)]) == cli.UNUSABLE
    assert "holds no run: got no _run.json" in capsys.readouterr().err
    assert cli.main(["check", str(tmp_path), "--overwrite"]) == cli.UNUSABLE


def test_folder_is_lost_while_the_marker_is_on_its_way(tmp_path, quick):
    """The put of the first run arrives when the second has begun; the first takes it back."""
    dump = write_dump(tmp_path / "dump", [20])
    disturbed: list[Faults] = []
    with s3_bucket(disturbed) as bucket:
        output, failed = f"{bucket}/out", []
        run_job(dump, output=output)
        chosen = job_options(dump, output)
        with hold(output, say=print, lost=print) as lock:
            job = with_folder(prepare_score(chosen), OutputFolder(output, lock))
            start_run(job)

            def finish():
                try:
                    finish_run(job.spec, RunTotals(), None)
                except FolderLostError as error:
                    failed.append(error)

            on_its_way, arrives = threading.Event(), threading.Event()

            def hold_up(request):
                if request["REQUEST_METHOD"] == "PUT" and request["PATH_INFO"].endswith(
                    SUCCESS_FILE
                ):
                    on_its_way.set()
                    arrives.wait(60)

            disturbed[0].watch = hold_up
            first = threading.Thread(target=finish)
            first.start()
            assert on_its_way.wait(60)
            with hold(output, say=print, lost=print) as taken:
                other = job_options(dump, output, num_layers=3, overwrite=True)
                start_run(with_folder(prepare_score(other), OutputFolder(output, taken)))
                assert first.is_alive()
                arrives.set()
                first.join()
                assert len(failed) == 1
                assert not exists(join(output, SUCCESS_FILE))
                assert cli.main(["check", output]) == cli.BROKEN


def test_marker_of_a_dead_run_that_arrives_late_is_no_success_and_goes_with_the_next(tmp_path):
    dump = write_dump(tmp_path / "dump", [20])
    chosen = job_options(dump, tmp_path / "out")
    output = str(tmp_path / "out")
    assert run_options(chosen)["success"]
    late = read_bytes(join(output, SUCCESS_FILE))
    other = job_options(dump, tmp_path / "out", num_layers=3, overwrite=True)
    start(prepare_score(other))
    write_atomically(join(output, SUCCESS_FILE), late)
    assert cli.main(["check", output]) == cli.BROKEN
    (dump / "shard-001.parquet").write_bytes(b"no Parquet")
    unsuccessful = job_options(dump, tmp_path / "out", num_layers=3, overwrite=True)
    assert not run_options(unsuccessful)["success"]
    assert not exists(join(output, SUCCESS_FILE))


def test_run_in_whose_place_another_stands_declares_nothing(tmp_path, quick):
    output = str(tmp_path)
    with hold(output, say=print, lost=print) as first, hold(output, say=print, lost=print):
        with pytest.raises(FolderLostError):
            declare_success(OutputFolder(output, first), "first")
        assert not exists(join(output, SUCCESS_FILE))


def test_earlier_marker_is_nobodys_once_the_next_run_begins(tmp_path):
    """Before a part is deleted: a put of the earlier run may arrive at any time from then on."""
    dump = write_dump(tmp_path / "dump", [20])
    chosen = job_options(dump, tmp_path / "out")
    assert run_options(chosen)["success"]
    output = str(tmp_path / "out")
    late = read_bytes(join(output, SUCCESS_FILE))
    other = job_options(dump, tmp_path / "out", num_layers=3, overwrite=True)
    job = prepare_score(other)
    part = tmp_path / "out" / "shard-000.parquet" / "part-000000000000.parquet"
    part.unlink()
    part.mkdir()  # deleting the parts fails
    with pytest.raises(OSError, match="part-"):
        start(job)
    write_atomically(join(output, SUCCESS_FILE), late)
    assert successful_run(OutputFolder(output)) is None


def test_folder_of_baselines_counts_only_when_its_run_is_done(tmp_path):
    """A table alone has a description to be judged by, so its own path is taken."""
    table = tmp_path / "tables" / "en" / "all-MiniLM-L6-v2.tsv"
    table.parent.mkdir(parents=True)
    table.write_text("LAYER,P,R,F\n" + "".join(f"{layer},0.1,0.1,0.1\n" for layer in range(7)))
    folder = tmp_path / "tables"
    chosen = {"language": "en", "model": "all-MiniLM-L6-v2", "rescale": True}

    def read(path):
        options = job_options("in", tmp_path / "out", **chosen, baseline=str(path))
        return scorer_config(options, Runner.of(options))

    (folder / "_run.json").write_text('{"run": "one"}')
    for marker in (None, "", '{"run": "another"}'):
        if marker is not None:
            (folder / "_SUCCESS").write_text(marker)
        with pytest.raises(ConfigError, match="is not done, or not for every language"):
            read(folder)
    assert read(table).baseline is not None
    (folder / "_SUCCESS").write_text('{"run": "one"}')
    assert read(folder).baseline is not None
    (folder / "_run.json").unlink()
    assert read(folder).baseline is not None
