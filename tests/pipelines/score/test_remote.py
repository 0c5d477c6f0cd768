"""Jobs that another service runs: here Beam's own job service, with workers of a pool."""

import contextlib
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import grpc
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.dump.text.text_source import INPUT_FOLDER
from bertscore_beam.run.alone import LOCK_FILE
from bertscore_beam.run.publication import read_head
from tests.support.dumps import pair_rows, read_output, write_dump
from tests.support.jobs import job_options, own, prepare_score, run_prepared, start, summary_of
from tests.support.processes import kill_session
from tests.support.text_files import to_jsonl, write_text
from tests.support.waiting import wait_until
from tests.support.workers import worker_pool

pytestmark = [pytest.mark.job, pytest.mark.process]


EMBEDDED = "--job_endpoint=embed"


@pytest.fixture(scope="module")
def pool():
    with worker_pool() as address:
        yield address


@pytest.fixture(scope="module")
def service():
    """Start a job service in a process of its own, which does not end with the command."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    module = "apache_beam.runners.portability.local_job_service_main"
    process = subprocess.Popen(
        [sys.executable, "-m", module, f"--job_port={port}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )

    def answers():
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True

    wait_until(answers, process=process)
    yield f"--job_endpoint=localhost:{port}"
    kill_session(process.pid)
    process.wait()


def arguments(dump, output, pool, *beam, flags=()):
    given = ["score", "--input", str(dump), "--output", str(output), "--device", "cpu"]
    workers = ("--environment_type=EXTERNAL", f"--environment_config={pool}")
    remote = ("--runner=PortableRunner", *workers, *beam)
    return [*given, "--split-rows", "20", *flags, "--", *remote]


def test_a_job_of_another_service_is_waited_for(tmp_path, pool, capfd):
    dump = write_dump(tmp_path / "dump", [50])
    assert cli.main(arguments(dump, tmp_path / "out", pool, EMBEDDED)) == cli.DONE
    assert read_output(tmp_path / "out")["id"].to_pylist() == list(range(50))
    assert (tmp_path / "out" / "_SUCCESS").exists()
    assert not (tmp_path / "out" / LOCK_FILE).exists()


@pytest.mark.long
def test_a_job_that_is_only_submitted_goes_on_when_its_launcher_has_ended(tmp_path, pool, service):
    dump = write_dump(tmp_path / "dump", [50])
    write_text(dump / "text.jsonl", to_jsonl(pa.table(pair_rows(10, 50)).to_pylist()))
    out = tmp_path / "out"
    command = arguments(dump, out, pool, service, "--no_wait_until_finish")
    # The second finds nothing to score, and submits a job all the same. The third imports again.
    for number in range(3):
        before = publisher_of(out)
        if number == 2:
            next((out / "text.jsonl").iterdir()).unlink()
        words = [sys.executable, "-m", "bertscore_beam", *command]
        done = subprocess.run(words, capture_output=True, text=True, timeout=300)
        assert done.returncode == cli.DONE, done.stderr
        assert "was submitted and runs without this command" in done.stderr
        wait_until(lambda before=before: publisher_of(out) not in (None, before))
        wait_until((out / "_SUCCESS").exists)
        wait_until(lambda: not (out / INPUT_FOLDER).exists())
        # What needs no one to wait for leaves the folder as tidy as a command that waits.
        wait_until(lambda: not (out / LOCK_FILE).exists())
        assert not list((out / "_manifest").glob("*.pq"))
        assert read_output(out)["id"].to_pylist() == list(range(60))


def publisher_of(out):
    """Return the run that has published last; None before the first."""
    head = read_head(own(out))
    return head and head.token


@pytest.mark.parametrize(
    "beam",
    [
        ("--runner=PortableRunner", EMBEDDED, "--environment_type=LOOPBACK"),
        ("--runner=PortableRunner", "--job_endpoint=host:1", "--environment_type=LOOPBACK"),
        ("--runner=PrismRunner",),
        ("--runner=DirectRunner",),
        (),
    ],
    ids=["embedded", "loopback", "prism", "direct", "default"],
)
def test_a_job_that_would_end_with_its_launcher_is_not_only_submitted(beam, tmp_path, capsys):
    given = ["score", "--input", "in", "--output", str(tmp_path / "out"), "--"]
    assert cli.main([*given, *beam, "--no_wait_until_finish"]) == cli.UNUSABLE
    assert "cannot run without this command" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_launcher_that_submits_nothing_keeps_no_lock(tmp_path, pool, capfd):
    dump = write_dump(tmp_path / "dump", [50])
    with service_that_takes_no_job() as address:
        beam = (f"--job_endpoint={address}", "--no_wait_until_finish")
        assert cli.main(arguments(dump, tmp_path / "out", pool, *beam)) == cli.BROKEN
    assert not (tmp_path / "out" / LOCK_FILE).exists()


@contextlib.contextmanager
def service_that_takes_no_job():
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port("localhost:0")
    server.start()
    yield f"localhost:{port}"
    server.stop(None)


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
@pytest.mark.parametrize(
    ("beam", "said"),
    [
        ("Portable", "needs --job_endpoint: got none"),
        (
            "Portable --job_endpoint=localhost:1",
            "does not answer: got no connection to --job_endpoint=localhost:1 in 1 s",
        ),
        ("Prism --job_endpoint=localhost:1", "does not answer: got no connection"),
        ("Prism --prism_location=no/prism", "the program of runner 'prism' is not there"),
        ("Flink", "no job has ever run on it"),
        ("Interactive", "it is for notebooks"),
    ],
)
def test_a_runner_that_is_not_there_is_refused_before_anything_is_written(
    tmp_path, capsys, monkeypatch, beam, said, more
):
    monkeypatch.setattr("bertscore_beam.run.beam_options.ANSWER_SECONDS", 1)
    dump = write_dump(tmp_path / "dump", [5])
    kind, *flags = beam.split()
    words = ["--input", str(dump), "--output", str(tmp_path / "out"), *more, "--"]
    assert cli.main(["score", *words, f"--runner={kind}Runner", *flags]) == cli.UNUSABLE
    error = " ".join(capsys.readouterr().err.split())
    assert said in error
    assert "Traceback" not in error
    assert not (tmp_path / "out").exists()


def test_a_job_that_nobody_waits_for_fails_with_the_run(tmp_path):
    """Its state is all that a scheduler sees."""
    table = pa.table({"candidate": ["a cat", None], "reference": ["the cat", "the dog"]})
    pq.write_table(table, tmp_path / "pairs.parquet")
    options = job_options(tmp_path / "pairs.parquet", tmp_path / "out", max_reject_fraction=0.0)
    job = prepare_score(options)
    job = start(replace(job, spec=replace(job.spec, detached=True)))
    with pytest.raises(RuntimeError, match=r"the run is not a success: see .*_summary\.json"):
        run_prepared(job)
    assert summary_of(tmp_path / "out")["success"] is False
    assert not (tmp_path / "out" / "_SUCCESS").exists()
