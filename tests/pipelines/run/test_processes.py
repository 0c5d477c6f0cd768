"""A run with worker processes keeps to itself: no port, no socket, no file outside its output."""

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from bertscore_beam.run.pool import Pool
from bertscore_core.scorer_config import MKL_VALUE, MKL_VARIABLE
from tests.support.dumps import write_dump
from tests.support.processes import children, descendants, kill_session, listening
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc"),
]

NOBODY_LISTENS: tuple[set[str], set[str]] = (set(), set())


@contextmanager
def two_children(folder, *words):
    """Run a command with two workers, until they are there; it is killed when the body ends."""
    (folder / "tmp").mkdir()
    with subprocess.Popen(
        [sys.executable, "-m", "bertscore_beam", *map(str, words), "--workers", "2"],
        env={**os.environ, "TMPDIR": str(folder / "tmp")},
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            wait_until(lambda: len(children(process.pid)) == 2, process=process)
            yield process
        finally:
            kill_session(process.pid)


def words_of(verb, folder):
    """Return the words of a job of minutes."""
    if verb == "baseline":
        text = folder / "text.txt"
        text.write_text("".join(f"The number of this sentence is {n}.\n" for n in range(3000)))
        flags = ["--sentences", f"en={text}", "--pairs", 1000, "--models", "all-MiniLM-L6-v2"]
        return [verb, *flags, "--device", "cpu", "--output", folder / "out"]
    flags = ["--input", write_dump(folder / "dump", [3000]), "--split-rows", 2]
    device = ["--device", "cpu"] if verb == "score" else []
    return [verb, *flags, *device, "--output", folder / ("out" if device else "table.npz")]


LONG = [pytest.param(verb, marks=pytest.mark.long) for verb in ("idf", "baseline")]


@pytest.mark.parametrize("verb", ["score", *LONG])
def test_nobody_can_reach_the_processes_of_a_run(tmp_path, verb):
    words = words_of(verb, tmp_path)
    before = set(tmp_path.iterdir())
    with two_children(tmp_path, *words) as process:
        if verb == "score":  # in the midst of the work
            staged = tmp_path / "out" / "_work"
            wait_until(lambda: any(staged.glob("*/[0-9]*.pq")), process=process)
        family = [process.pid, *descendants(process.pid)]
        assert listening(family) == NOBODY_LISTENS
    # Killed with no chance to tidy up, it leaves its output, and empty folders of Beam's.
    assert all(path.is_dir() for path in (tmp_path / "tmp").rglob("*"))
    new = {path.name for path in set(tmp_path.iterdir()) - before}
    assert new - {"tmp"} <= {"out", "table.npz", ".table.npz.run"}


def order_of_sums():
    """Return what torch's library for products is told, and this process."""
    import bertscore_core.model.encoder  # noqa: F401 - as who scores does

    return os.environ.get(MKL_VARIABLE), os.getpid()


def test_a_child_has_one_order_of_sums_though_nobody_tells_it(monkeypatch):
    monkeypatch.delenv(MKL_VARIABLE, raising=False)
    root = Path(__file__).parents[3]
    monkeypatch.setenv("PYTHONPATH", f"{root}:{root}/pipelines")
    pool = Pool(1, restarts=0)
    try:
        value, process = pool.ask(order_of_sums)
    finally:
        pool.kill()
    assert value == MKL_VALUE
    assert process != os.getpid()
