"""What happens on Prism when parts of a job die, and what a run shows there.

Prism stands for every engine on which a job outlives its launcher and bundles may be tried again.
Without it the tests are skipped; see test_engines.py.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions
from apache_beam.testing.util import assert_that, equal_to

from bertscore_beam.cli import main as cli
from bertscore_beam.run.run_step import RunOnDevice
from tests.support.dumps import read_output, write_dump
from tests.support.jobs import is_staged, run_job, summed, without_token
from tests.support.processes import launched, session_members, workers_among
from tests.support.waiting import wait_until
from tests.support.workers import Server, find_prism, job_server, start_pool
from tests.test_docs import commands

pytestmark = [pytest.mark.process, pytest.mark.long, pytest.mark.timeout(1800)]

PRISM = "--runner=PrismRunner"
ROWS, GROUP_ROWS, SPLIT_ROWS = 3000, 100, 10
PARTS = ROWS // SPLIT_ROWS
"""A job of so many parts takes several heartbeats."""
METRIC = "def lengths(candidates, references):\n    return list(map(len, candidates))\n"
LONG = 300
"""Seconds after which something has not happened; many times what it takes."""


@pytest.fixture(scope="module")
def prism(request) -> Path:
    return find_prism(request.config)


@pytest.fixture(scope="module")
def night(prism, tmp_path_factory) -> Path:
    """Return a folder with a dump and the local runner's scores of it."""
    folder = tmp_path_factory.mktemp("prism")
    dump = write_dump(folder / "dump", [ROWS], row_group_size=GROUP_ROWS)
    run_job(dump, output=folder / "expected", split_rows=SPLIT_ROWS, backend="torch")
    return folder


@contextlib.contextmanager
def pool() -> Iterator[Server]:
    started = start_pool()
    try:
        yield started
    finally:
        started.kill()


def launcher(
    night: Path, out: Path, pool: Server, *beam: str
) -> contextlib.AbstractContextManager[subprocess.Popen]:
    """Start a scoring command, with what it says in a file beside OUT."""
    words = ["score", "--input", str(night / "dump"), "--output", str(out), "--device", "cpu"]
    words += ["--backend", "torch", "--split-rows", str(SPLIT_ROWS), "--", *beam]
    words += ["--environment_type=EXTERNAL", f"--environment_config={pool.address}"]
    words += ["--max_num_workers=1"]  # elements of several splits, which Prism divides
    return launched(words, said(out))


def said(out: Path) -> Path:
    return out.with_suffix(".log")


def parts(out: Path) -> dict[str, Path]:
    paths = out.rglob("part-*.parquet")
    return {str(path.relative_to(out)): path for path in paths if "_manifest" not in path.parts}


def written(out: Path) -> dict[str, int]:
    return {name: path.stat().st_mtime_ns for name, path in parts(out).items()}


def finished(out: Path) -> dict[str, int]:
    """Return the parts that are staged, with the times they were written, which they keep."""
    paths = (path for path in (out / "_work").rglob("*.pq") if is_staged(path.name))
    return {str(path.relative_to(out)): path.stat().st_mtime_ns for path in paths}


def have_stayed(before: dict[str, int], out: Path) -> bool:
    """Tell whether all parts that were staged are published, and were not written again."""
    return set(before.values()) <= set(written(out).values())


def contents(out: Path) -> dict[str, bytes]:
    return {name: without_token(path.read_bytes()) for name, path in parts(out).items()}


def finish(night: Path, out: Path, pool: Server, *beam: str) -> None:
    """Run the same command to its end, and compare every part with the local runner's.

    A job of before that goes on may publish first. Then the command is given again.
    """
    statuses = []
    while not statuses or (statuses == [cli.BROKEN] and "has published" in said(out).read_text()):
        with launcher(night, out, pool, *beam) as process:
            statuses.append(process.wait(LONG))
    assert statuses[-1] == cli.DONE, said(out).read_text()[-5000:]
    assert (out / "_SUCCESS").exists()
    assert len(parts(out)) == PARTS
    assert contents(out) == contents(night / "expected")
    assert summed(out) == summed(night / "expected")
    assert f"of {ROWS:,} rows" in said(out).read_text()  # the progress, by the records of parts


@dataclass(frozen=True, slots=True)
class Slowly:
    """A step that notes which thread works on which item."""

    notes: str

    def open(self):
        return self.work

    def name(self, element: tuple[int, ...]) -> str:
        return "all"

    def work(self, items: tuple[int, ...]) -> Iterator[int]:
        for item in items:
            with open(self.notes, "a") as notes:
                notes.write(f"{threading.get_ident()} {item}\n")
            time.sleep(0.5)
            yield item


def test_an_element_is_divided_between_its_items_while_it_is_worked_on(prism, tmp_path):
    items, notes = tuple(range(40)), tmp_path / "notes"
    with pool() as workers:
        flags = [PRISM, f"--prism_location={prism}", "--environment_type=EXTERNAL"]
        flags += [f"--environment_config={workers.address}"]
        with beam.Pipeline(options=PipelineOptions(flags)) as root:
            step = RunOnDevice(Slowly(str(notes)), None, divisible=True)
            results = root | beam.Create([items]) | step | beam.combiners.ToList()
            assert_that(results | beam.FlatMap(sorted), equal_to(items))
    noted = [tuple(map(int, line.split())) for line in notes.read_text().splitlines()]
    assert sorted(item for _, item in noted) == list(items)
    assert len({thread for thread, _ in noted}) > 1


def test_a_job_may_last_longer_than_a_server_may_take_to_answer(
    prism, tmp_path, monkeypatch, capfd
):
    """By Beam's default, here 2 seconds for 300, the streams end by which it waits for the job.

    The command is that of the page, but for the reader's own names.
    """
    add_options = PortableOptions._add_argparse_args

    def with_two_seconds(parser):
        add_options(parser)
        parser.set_defaults(job_server_timeout=2)

    monkeypatch.setattr(PortableOptions, "_add_argparse_args", with_two_seconds)
    dump = write_dump(tmp_path / "dump", [20])
    (tmp_path / "my.yaml").write_text(f"input: {dump}\noutput: {tmp_path / 'out'}\n")
    monkeypatch.chdir(tmp_path)
    (words,) = (one for one in commands("docs/machines-and-speed.md") if PRISM in one)
    with pool() as workers:
        own = {"=PATH": f"={prism}", "localhost:50000": workers.address}
        for written, real in own.items():
            words = [word.replace(written, real) for word in words]
        began = time.monotonic()
        assert cli.main(words) == cli.DONE, capfd.readouterr().err[-5000:]
        assert time.monotonic() - began > 2
    assert (tmp_path / "out" / "_SUCCESS").exists()


def test_a_job_whose_workers_are_killed_is_continued_by_the_same_command(night, prism, tmp_path):
    out, beam = tmp_path / "out", (PRISM, f"--prism_location={prism}")
    with pool() as workers, launcher(night, out, workers, *beam) as process:
        wait_until(lambda: finished(out), LONG, process)
        kill_worker(workers)  # Prism 2.77 does not notice
        workers.kill()
        assert process.wait(LONG) == cli.BROKEN, said(out).read_text()[-5000:]
    lines = said(out).read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("bertscore-beam: "))
    assert re.search(r": the job stopped: the job on prism failed: .*worker disconnected", line)
    assert not any(line.startswith("Traceback") for line in lines)
    parts_before = finished(out)
    assert 0 < len(parts_before) < PARTS
    assert not (out / "_SUCCESS").exists()
    with pool() as workers:
        finish(night, out, workers, *beam)
    assert have_stayed(parts_before, out)


def kill_worker(pool: Server) -> None:
    (worker,) = workers_among(session_members(pool.process.pid))
    os.kill(worker, signal.SIGKILL)


def test_a_job_goes_on_without_its_launcher_until_the_same_command_takes_its_folder(
    night, prism, tmp_path
):
    out = tmp_path / "out"
    with job_server(prism) as address, pool() as workers:
        beam = ("--runner=PortableRunner", f"--job_endpoint={address}")
        with launcher(night, out, workers, *beam) as process:
            wait_until(lambda: finished(out), LONG, process)
            process.kill()
            process.wait()
            before = finished(out)
        wait_until(lambda: len(finished(out)) > len(before), LONG)
        first = json.loads((out / "_run.json").read_text())["run"]
        finish(night, out, workers, *beam)
    assert json.loads((out / "_run.json").read_text())["run"] != first
    assert have_stayed(before, out)


def test_a_detached_job_and_another_command_may_work_on_a_folder_at_once(night, prism, tmp_path):
    """Nobody can be asked about a job of a job server. One of the two publishes, or both."""
    out = tmp_path / "out"
    with job_server(prism) as address, pool() as workers:
        beam = ("--runner=PortableRunner", f"--job_endpoint={address}")
        with launcher(night, out, workers, *beam, "--no_wait_until_finish") as process:
            assert process.wait(LONG) == cli.DONE, said(out).read_text()[-5000:]
        wait_until(lambda: finished(out), LONG)
        with pool() as others:
            finish(night, out, others, *beam)
        wait_until(lambda: not list(out.glob("_work/*/plan.pq")), LONG)
    assert contents(out) == contents(night / "expected")


def test_workers_compute_a_metric_of_ones_own_if_they_find_its_module(
    prism, tmp_path, monkeypatch, capfd
):
    dump = write_dump(tmp_path / "dump", [40], row_group_size=10)
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "mine.py").write_text(METRIC)
    score = ["score", "--input", str(dump), "--device", "cpu", "--backend", "torch"]
    score += ["--split-rows", "10", "--metrics", "mine:lengths", "--output"]

    def on_prism(out: Path, workers: Server) -> int:
        own = (f"--prism_location={prism}", f"--environment_config={workers.address}")
        return cli.main([*score, str(out), "--", PRISM, *own, "--environment_type=EXTERNAL"])

    with pool() as workers:
        monkeypatch.setenv("PYTHONPATH", str(tmp_path / "modules"))  # the launcher's alone
        assert on_prism(tmp_path / "out", workers) == cli.UNUSABLE
    said = capfd.readouterr().err
    assert "--metrics mine:lengths cannot be imported: got ModuleNotFoundError" in said
    assert "on every worker. Install it, or name its folder in PYTHONPATH." in said
    with pool() as workers:
        assert on_prism(tmp_path / "out", workers) == cli.DONE, capfd.readouterr().err[-5000:]
    assert cli.main([*score, str(tmp_path / "expected")]) == cli.DONE
    assert contents(tmp_path / "out") == contents(tmp_path / "expected")
    rows = read_output(tmp_path / "out").to_pylist()
    assert [row["metric_lengths"] for row in rows] == [len(row["candidate"]) for row in rows]
