"""Who can reach the workers of a run: nobody else, on a port or through a socket."""

import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner, fn_runner, worker_handlers

from bertscore_beam.cli import main as cli
from bertscore_beam.options.score import ScoreOptions
from bertscore_beam.run.local_runner import LocalRunner
from bertscore_beam.run.private_folder import make_private_folder, remove_private_folder
from bertscore_beam.run.runner import Runner
from bertscore_beam.run.watchdog import descendants
from bertscore_core import ConfigError, ScorerConfig
from bertscore_core.order_of_sums import MKL_VALUE, MKL_VARIABLE
from tests.support.dumps import write_dump
from tests.support.processes import kill_session, listening
from tests.support.stranger import EVERYTHING, HARMLESS, NOBODY, ask_as
from tests.support.waiting import wait_until
from tests.support.workers import worker_pool

pytestmark = pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs /proc")

NOBODY_LISTENS: set[str] = set()
MAIN = "import sys; from bertscore_beam.cli.main import main; sys.exit(main(sys.argv[1:]))"


def square(pipeline: beam.Pipeline, folder: Path) -> None:
    """Write the squares of some numbers, through a shuffle and with a side input."""
    numbers = pipeline | "Numbers" >> beam.Create(range(50)) | beam.Reshuffle()
    one = pipeline | "One" >> beam.Create([1])
    _ = (
        numbers
        | beam.Map(lambda n, factor: n * n * factor, beam.pvalue.AsSingleton(one))
        | beam.combiners.ToList()
        | beam.Map(lambda found: folder.joinpath("squares").write_text(str(sorted(found))))
    )


def assert_squared(folder: Path) -> None:
    assert (folder / "squares").read_text() == str([n * n for n in range(50)])


def squared(folder: Path, mode: str) -> None:
    options = PipelineOptions([f"--direct_running_mode={mode}", "--direct_num_workers=2"])
    pipeline = beam.Pipeline(runner=LocalRunner(), options=options)
    square(pipeline, folder)
    pipeline.run().wait_until_finish()
    assert_squared(folder)


@contextmanager
def command(*words, **environment):
    """Run a command of ours; it is killed, with its workers, when the body ends."""
    with subprocess.Popen(
        [sys.executable, "-c", MAIN, *map(str, words)],
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            kill_session(process.pid)


def family(process):
    return [process.pid, *descendants(process.pid)]


def long_job(folder, *flags):
    """Return the words of a job of minutes."""
    dump = write_dump(folder / "dump", [2000])
    flags = ["--split-rows", 2, "--device", "cpu", *flags]
    return ["score", "--input", dump, "--output", folder / "out", *flags]


def has_parts(folder):
    return any((folder / "out" / "shard-000.parquet").glob("part-*.parquet"))


@pytest.fixture(scope="module")
def secret(tmp_path_factory):
    path = tmp_path_factory.mktemp("secret") / "secret.txt"
    path.write_text("for the user only")
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def living(tmp_path_factory):
    """Return a job at work on two worker processes."""
    folder = tmp_path_factory.mktemp("living")
    with command(*long_job(folder, "--workers", "2")) as process:
        wait_until(lambda: has_parts(folder), process=process)
        yield process


@pytest.mark.process
def test_a_run_with_worker_processes_listens_on_no_port(living):
    ports, sockets = listening(family(living))
    assert ports == NOBODY_LISTENS
    assert {Path(path).name for path in sockets} == {"control", "data", "state", "logging"}
    (folder,) = {Path(path).parent for path in sockets}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert folder.stat().st_uid == os.getuid()


@pytest.mark.process
@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_another_user_reaches_neither_files_nor_work(living, secret):
    _, sockets = listening(family(living))
    answers = ask_as(NOBODY, sockets, secret, EVERYTHING)
    assert len(answers) == 4
    for answer in answers.values():
        assert answer == {
            "list": "PermissionError",
            "connect": "PermissionError",
            "file": "UNAVAILABLE",
            "data": "UNAVAILABLE",
            "control": "UNAVAILABLE",
        }


@pytest.mark.process
def test_not_even_the_user_is_handed_a_file(living, secret):
    _, sockets = listening(family(living))
    answers = ask_as(os.getuid(), sockets, secret, HARMLESS)
    assert len(answers) == 4
    for answer in answers.values():
        assert answer == {"connect": "got None", "file": "UNIMPLEMENTED"}


@pytest.mark.process
@pytest.mark.long
@pytest.mark.parametrize("verb", ["idf", "baseline"])
def test_other_commands_listen_on_no_port_either(tmp_path, verb):
    seen = set()
    words = [verb, "--workers", 2]
    if verb == "idf":
        dump = write_dump(tmp_path / "dump", [3000])
        words += ["--input", dump, "--split-rows", 2, "--output", tmp_path / "table.npz"]
    else:
        text = tmp_path / "text.txt"
        text.write_text("".join(f"The number of this sentence is {n}.\n" for n in range(3000)))
        words += ["--sentences", f"en={text}", "--pairs", 1000, "--models", "all-MiniLM-L6-v2"]
        words += ["--device", "cpu", "--output", tmp_path / "out"]
    with command(*words) as process:

        def workers_are_there():
            ports, sockets = listening(family(process))
            seen.update(ports)
            return len(descendants(process.pid)) >= 2 and len(sockets) == 4

        wait_until(workers_are_there, process=process)
    assert seen == NOBODY_LISTENS


@pytest.mark.job
@pytest.mark.parametrize("mode", ["multi_processing", "multi_threading"])
def test_beams_own_server_is_never_made(tmp_path, monkeypatch, mode):
    def opens_ports(*_):
        raise AssertionError("it opens ports")

    monkeypatch.setattr(worker_handlers.GrpcServer, "__init__", opens_ports)
    squared(tmp_path, mode)


@pytest.mark.job
@pytest.mark.long
def test_a_worker_has_one_order_of_sums_though_nobody_tells_it(tmp_path, monkeypatch):
    """A worker on another machine inherits nothing from the launcher."""
    monkeypatch.delenv(MKL_VARIABLE, raising=False)

    def say(config):
        return f"{config.device} {os.environ.get(MKL_VARIABLE)} {os.getpid()}"

    config = ScorerConfig(device="cpu")
    options = PipelineOptions(["--direct_running_mode=multi_processing", "--direct_num_workers=2"])
    pipeline = beam.Pipeline(runner=LocalRunner(), options=options)
    said = pipeline | beam.Create([1]) | beam.Map(lambda _, config: say(config), config)
    _ = said | beam.Map(tmp_path.joinpath("said").write_text)
    pipeline.run().wait_until_finish()
    device, value, process = (tmp_path / "said").read_text().split()
    assert (device, value) == ("cpu", MKL_VALUE)
    assert int(process) != os.getpid()


@pytest.mark.job
@pytest.mark.parametrize("name", ["plain", "a b", "100%20", "what?", "#1", "a,b", "ü", "x" * 120])
def test_any_folder_for_temporary_files_does(tmp_path, monkeypatch, name):
    """Its path becomes part of an address, which is a list with escapes, and short."""
    short = Path(tempfile.mkdtemp())
    monkeypatch.setattr(tempfile, "tempdir", str(short / name))
    (short / name).mkdir()
    squared(tmp_path, "multi_threading")
    assert list(short.rglob("*")) == [short / name]


def test_no_folder_for_sockets_is_an_error_with_its_cure(monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "mkdtemp", full)
    with pytest.raises(ConfigError, match=r"no folder for the sockets.*Set TMPDIR, or use --work"):
        make_private_folder(7)


def test_folder_that_another_run_sweeps_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    make, made = tempfile.mkdtemp, []

    def swept_once(**where):
        made.append(make(**where))
        if len(made) == 1:
            Path(made[0]).rmdir()
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", swept_once)
    folder = make_private_folder(7)
    assert [str(folder)] == made[1:]
    remove_private_folder(folder)
    assert not folder.exists()


@pytest.mark.long
@pytest.mark.process
def test_sockets_of_a_killed_run_are_removed_by_the_next(tmp_path, monkeypatch):
    """And those of an interrupted one by itself; those of a living one stay."""
    short = Path(tempfile.mkdtemp())
    monkeypatch.setattr(tempfile, "tempdir", str(short))
    mine = make_private_folder(7)
    with command(*long_job(tmp_path, "--workers", "2"), TMPDIR=str(short)) as process:
        wait_until(lambda: has_parts(tmp_path), process=process)
        assert len(list(short.glob("*-workers-*"))) == 3
        process.kill()
        process.wait()
        assert len(list(short.glob("*-workers-*"))) == 3
    with command(*long_job(tmp_path, "--workers", "2"), TMPDIR=str(short)) as process:
        wait_until(lambda: len(listening(family(process))[1]) == 4, process=process)
        assert len(list(short.glob("*-workers-*"))) == 3
        process.send_signal(signal.SIGTERM)
        process.wait(120)
    assert list(short.glob("*-workers-*")) == [mine]
    remove_private_folder(mine)


def score_options(*flags, workers=1):
    return ScoreOptions(input=("in",), output="out", workers=workers, beam=flags)


def check_runner(chosen):
    Runner.of(chosen).check(chosen)


def starts_workers_in_another_way(self, stage_context, stages):
    """Stand for a Beam to come."""
    raise AssertionError("it was run")


@pytest.mark.parametrize(
    ("flags", "workers"),
    [((), 2), (("--direct_running_mode=multi_threading",), 1)],
    ids=["processes", "threads"],
)
def test_a_beam_that_starts_workers_in_another_way_is_refused(monkeypatch, flags, workers):
    monkeypatch.setattr(FnApiRunner, "run_stages", starts_workers_in_another_way)
    with pytest.raises(
        ConfigError, match=r"no other user can reach them: got Beam .* use --workers 1"
    ):
        check_runner(score_options(*flags, workers=workers))
    check_runner(score_options())


def test_refused_beam_is_said_before_any_work(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(FnApiRunner, "run_stages", starts_workers_in_another_way)
    dump = write_dump(tmp_path / "dump", [3])
    flags = ["--input", str(dump), "--output", str(tmp_path / "out"), "--device", "cpu"]
    assert cli.main(["score", *flags, "--workers", "2"]) == cli.UNUSABLE
    assert "no other user can reach them" in capsys.readouterr().err
    assert not (tmp_path / "out" / "_run.json").exists()


@pytest.mark.job
def test_a_beam_that_does_not_ask_for_our_workers_opens_no_port(tmp_path, monkeypatch):
    """Had the check missed it: the pipeline then runs in this process."""
    plain = fn_runner.WorkerHandlerManager
    monkeypatch.setattr(
        "bertscore_beam.run.local_runner._Workers", lambda *given, **_: plain(*given)
    )
    made = []
    monkeypatch.setattr(worker_handlers.GrpcServer, "__init__", lambda *_: made.append(1))
    squared(tmp_path, "multi_processing")
    assert made == []


@pytest.mark.parametrize("mode", ["multi_processing", "multi_threading"])
def test_beams_direct_runner_may_not_start_workers(mode):
    flags = ("--runner=DirectRunner", f"--direct_running_mode={mode}")
    with pytest.raises(ConfigError, match=r"anybody could reach the workers.*give --workers"):
        check_runner(score_options(*flags))


@pytest.mark.process
@pytest.mark.long
def test_a_run_on_a_worker_pool_hands_out_no_files(tmp_path, secret):
    """Its ports are open, since the pool may be anywhere."""
    with worker_pool() as address:
        pool = ["--environment_type=EXTERNAL", f"--environment_config={address}"]
        with command(*long_job(tmp_path, "--", *pool)) as process:
            wait_until(lambda: has_parts(tmp_path), process=process)
            ports, _ = listening([process.pid])
            assert len(ports) == 4
            numbers = [int(port.rpartition(":")[2], 16) for port in ports]
            addresses = [f"{socket.gethostname()}:{number}" for number in numbers]
            answers = ask_as(os.getuid(), addresses, secret, HARMLESS)
    for answer in answers.values():
        assert answer == {"connect": "got None", "file": "UNIMPLEMENTED"}
