"""Phases give the same on Beam, in the processes of this machine, in a plain loop and on Prism."""

from functools import partial
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from bertscore_beam.run import pool
from bertscore_beam.run.phases import Phase, collected, given, only, run_plainly
from bertscore_beam.run.pool import Each, Pool
from bertscore_beam.run.run_step import add_phases
from tests.support.workers import find_prism, start_pool

ROOT = Path(__file__).parents[3]
WORDS = ("the cat sat", "", "on the mat", "the end")
EXPECTED = "cat 1, end 1, mat 1, on 1, sat 1, the 3; 4 lines"


def count_words(line):
    yield [("", 1), *((word, 1) for word in line.split())]


def more(counted):
    """Return two items of a word, and none of the number of lines."""
    word, number = counted
    return [(word, number)] if word else [("4 lines", None)]


def spelled(item):
    word, number = item
    yield [word if number is None else f"{word} {number}"]


def write(path, words):
    last = sorted(word for word in words if "lines" not in word)
    lines = [word for word in words if "lines" in word]
    Path(path).write_text("; ".join([", ".join(last), *lines]))
    yield str(path)


def again(path, before):
    """Note what the phase before was folded to: the only result of its only item."""
    with Path(path).open("a") as file:
        file.write("" if before == str(path) else f" after {before}")
    return ()


def phases(path):
    return (
        Phase(name="Count", items=given(WORDS), step=Each(count_words, str), fold=sum, by_key=True),
        Phase(name="Spell", items=lambda one: more(one), step=Each(spelled, str), fold=collected),
        Phase(name="Write", items=partial(write, path), fold=only),
        Phase(name="Again", items=partial(again, path)),
        Phase(name="None", items=given([]), fold=collected),
        Phase(name="Empty", items=partial(note_empty, path)),
    )


def note_empty(path, before):
    with Path(path).open("a") as file:
        file.write("" if before == [] else f" and {before}")
    return ()


def on_beam(path, *flags):
    runner = None if flags else FnApiRunner()
    with beam.Pipeline(runner=runner, options=PipelineOptions(list(flags))) as root:
        add_phases(root, phases(path))


@pytest.fixture
def pool_of_two(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{ROOT}/pipelines")
    with pool.opening(Pool(2, restarts=0)) as made:
        yield made


@pytest.mark.job
@pytest.mark.parametrize("run", [on_beam, lambda path: run_plainly(phases(path))])
def test_phases_give_the_same_in_a_plain_loop_and_on_beam(tmp_path, run):
    run(tmp_path / "words")
    assert (tmp_path / "words").read_text() == EXPECTED


@pytest.mark.process
@pytest.mark.usefixtures("pool_of_two")
@pytest.mark.parametrize("run", [on_beam, lambda path: run_plainly(phases(path))])
def test_the_processes_of_this_machine_give_the_same(tmp_path, run):
    run(tmp_path / "words")
    assert (tmp_path / "words").read_text() == EXPECTED


@pytest.mark.process
@pytest.mark.long
@pytest.mark.timeout(600)
def test_prism_gives_the_same(request, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{ROOT}/pipelines")
    workers = start_pool()
    try:
        flags = ["--runner=PrismRunner", f"--prism_location={find_prism(request.config)}"]
        flags += ["--environment_type=EXTERNAL", f"--environment_config={workers.address}"]
        on_beam(tmp_path / "words", *flags)
    finally:
        workers.kill()
    assert (tmp_path / "words").read_text() == EXPECTED
