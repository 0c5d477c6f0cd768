"""The pool: each element once, a death costs one, and no child outlives the launcher."""

import os
import pickle
import queue
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to

from bertscore_beam.run import activity, pool
from bertscore_beam.run.child import _as_they_come
from bertscore_beam.run.pool import Pool, WorkersDiedError
from bertscore_beam.run.run_step import RunStep
from bertscore_core import ConfigError
from tests.support.pool_steps import Work, notes
from tests.support.processes import session_members, wait_until_gone
from tests.support.waiting import wait_until

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _tests_can_be_imported(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{ROOT}/pipelines")


def submitted(made: Pool, folder: Path, *elements: str) -> list[queue.SimpleQueue]:
    """Hand elements over, and return where the answers for each come."""
    work, waiting = Work(str(folder)), []
    for element in elements:
        waiting.append(queue.SimpleQueue())
        made.submit(pickle.dumps(work), work.name(element), element, waiting[-1].put)
    return waiting


def run(folder: Path, elements: list[str], processes=2, restarts=1, at_once=1) -> tuple[list, Pool]:
    """Work on elements, and return the results of each, by element, and the closed pool."""
    made = Pool(processes, restarts=restarts, at_once=at_once)
    with pool.opening(made):
        waiting = submitted(made, folder, *elements)
        return [taken(made, answers) for answers in waiting], made


def taken(made: Pool, answers: queue.SimpleQueue) -> list:
    """Wait until an element is done, and return its results."""
    results, is_last = [], False
    while not is_last:
        answer = answers.get(timeout=60)
        results, is_last = results + made.take(answer), answer.is_last
    return results


def begun(folder: Path) -> Counter[str]:
    return Counter(words for _, words in notes(folder) if words.startswith("begun"))


def test_pipeline_yields_the_results_of_each_element_once(tmp_path):
    elements = [f"echo {number:02d}" for number in range(30)]
    made = Pool(3, restarts=0)
    with pool.opening(made):
        root = beam.Pipeline(runner=FnApiRunner())
        results = root | beam.Create(elements) | beam.ParDo(RunStep(Work(str(tmp_path))))
        texts = results | beam.Filter(lambda result: isinstance(result, str))
        assert_that(texts, equal_to([element.partition(" ")[2] for element in elements]))
        root.run().wait_until_finish()
    assert set(begun(tmp_path).values()) == {1}
    processes = {process for process, words in notes(tmp_path) if words == "opened"}
    assert len(processes) == [words for _, words in notes(tmp_path)].count("opened")
    assert os.getpid() not in processes
    assert 1 <= len(processes) <= 3


def test_without_a_pool_the_step_runs_in_this_process(tmp_path):
    with beam.Pipeline(runner=FnApiRunner()) as root:
        results = root | beam.Create(["echo a"]) | beam.ParDo(RunStep(Work(str(tmp_path))))
        assert_that(results, equal_to(["a", os.getpid()]))


def test_children_are_started_only_for_work_there_is(tmp_path):
    run(tmp_path, ["echo a"], processes=8)
    assert len({process for process, _ in notes(tmp_path)}) == 1


def test_a_death_costs_the_element_in_hand_alone(tmp_path, caplog):
    elements = ["die-once x", *(f"echo {number}" for number in range(20))]
    results, made = run(tmp_path, elements)
    assert results[0] == ["x"]
    assert [first for first, _ in results[1:]] == [str(number) for number in range(20)]
    assert made.restarts == 1
    again = {words for words, times in begun(tmp_path).items() if times > 1}
    assert again == {"begun die-once x"}
    assert "died (return code -9) while working on element die-once x" in caplog.text
    assert "(restart 1 of 1)" in caplog.text


def test_results_come_one_by_one_and_none_again_after_a_death(tmp_path):
    made = Pool(1, restarts=1)
    with pool.opening(made):
        (answers,) = submitted(made, tmp_path, "die-after 3")
        assert made.take(answers.get(timeout=60)) == [0]
        results = taken(made, answers)
    assert results == [1, 2, 3, 4, 5]
    assert begun(tmp_path) == {"begun die-after 3": 2}


@pytest.mark.parametrize(
    ("elements", "restarts", "words"),
    [
        (["die"], 0, "died (return code -9) while working on element die."),
        (["die"], 2, "It had happened 2 times before in this run, while working on the same."),
        (["die SIGSEGV"], 0, "died (return code -11) while working on element die SIGSEGV."),
        (["die-once a", "die"], 1, "It had happened once before in this run, while working on"),
        (["lose"], 0, "died (its GPU failed: CUDA error: unspecified) while working on element"),
        (["lose"], 1, "It had happened once before in this run, while working on the same."),
    ],
)
def test_when_no_restart_is_left_element_and_cause_are_named(tmp_path, elements, restarts, words):
    with pytest.raises(WorkersDiedError) as caught:
        run(tmp_path, elements, processes=1, restarts=restarts)
    assert words in str(caught.value)
    assert str(caught.value).endswith(f"--restarts allows {restarts}.")


def test_threads_of_a_child_give_way_sooner_than_those_of_other_processes():
    with pool.opening(Pool(1, restarts=0, at_once=2)):
        assert pool.ask(sys.getswitchinterval) < sys.getswitchinterval()


def test_child_works_on_several_elements_at_once_with_one_opened_step(tmp_path):
    made = Pool(1, restarts=0, at_once=3)
    with pool.opening(made):
        waiting = submitted(made, tmp_path, *(f"meet {number}" for number in range(6)))
        done = [taken(made, answers) for answers in waiting]
    assert [first for first, _ in done] == [str(number) for number in range(6)]
    assert len({process for _, process in done}) == 1
    assert [words for _, words in notes(tmp_path)].count("opened") == 1


def test_a_death_costs_all_elements_in_the_hands_of_the_child_and_no_other(tmp_path, caplog):
    elements = [f"meet-and-die {number}" for number in range(6)]
    results, made = run(tmp_path, elements, processes=1, at_once=3)
    assert results == [[str(number)] for number in range(6)]
    assert made.restarts == 1
    counts = [begun(tmp_path)[f"begun {element}"] for element in elements]
    assert counts == [2, 2, 2, 1, 1, 1]
    for element in elements[:3]:
        assert f"element {element}" in caplog.text


def test_child_that_somebody_has_ended_is_not_replaced(tmp_path):
    with pytest.raises(
        WorkersDiedError, match=r"\(return code -15\) while working on element die"
    ) as caught:
        run(tmp_path, ["die SIGTERM"], restarts=5)
    assert "--restarts" not in str(caught.value)


def test_child_that_cannot_be_started_says_why(tmp_path, monkeypatch):
    monkeypatch.setattr(pool, "_PROGRAM", (str(tmp_path / "no-program"),))
    with pytest.raises(RuntimeError, match=r"no worker process can be started: got .*No such file"):
        run(tmp_path, ["echo a"])


def test_death_is_seen_though_the_pipe_stays_open(tmp_path):
    try:
        assert run(tmp_path, ["leave a"])[0] == [["a"]]
    finally:
        with suppress(ProcessLookupError):
            os.kill(int((tmp_path / "left").read_text()), signal.SIGKILL)


def test_closing_waits_for_the_end_of_the_children_and_answers_for_all_elements(tmp_path):
    made = Pool(2, restarts=5)
    with pool.opening(made):
        waiting = submitted(made, tmp_path, "wait a", "wait b", "wait c")
        wait_until(lambda: len(begun(tmp_path)) == 2, 60)
        children = {process for process, _ in notes(tmp_path)}
    for child in children:
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)
    assert set(begun(tmp_path).values()) == {1}
    for answers in waiting:
        with pytest.raises(RuntimeError, match="closed"):
            made.take(answers.get(timeout=60))
    with pytest.raises(RuntimeError, match="closed"):
        submitted(made, tmp_path, "echo b")


def test_line_that_a_library_logs_wrongly_is_no_error_of_the_step(tmp_path):
    assert run(tmp_path, ["log many"])[0] == [["many"]]


@pytest.mark.parametrize(
    ("element", "kind", "words"),
    [
        ("refuse it", ConfigError, "got it"),
        ("local-error it", RuntimeError, "Local: it"),
        ("exit 0", RuntimeError, "Exit: 0"),
    ],
)
def test_error_of_a_step_is_told_by_its_class_or_in_words_and_not_tried_again(
    tmp_path, element, kind, words
):
    with pytest.raises(kind, match=words) as caught:
        run(tmp_path, [element])
    assert "Traceback" in caught.value.__notes__[0]
    assert begun(tmp_path) == {f"begun {element}": 1}


def test_pipeline_ends_with_the_error_of_the_pool(tmp_path):
    made = Pool(2, restarts=0)
    with pool.opening(made):
        root = beam.Pipeline(runner=FnApiRunner())
        _ = root | beam.Create(["die", "wait"]) | beam.ParDo(RunStep(Work(str(tmp_path))))
        with pytest.raises(Exception, match="return code -9"):
            root.run().wait_until_finish()
    assert isinstance(made.failure, WorkersDiedError)


def test_questions_are_answered_here_or_by_a_child_which_may_die_without_work():
    made = Pool(1, restarts=0)
    assert pool.ask(os.getpid) == os.getpid()
    with pool.opening(made):
        with pytest.raises(ZeroDivisionError):
            pool.ask(divmod, 1, 0)
        assert pool.ask(divmod, 7, 2) == (3, 1)
        before = pool.ask(os.getpid)
        os.kill(before, signal.SIGKILL)
        os.waitid(os.P_PID, before, os.WEXITED | os.WNOWAIT)  # it stays for its thread to find
        assert pool.ask(os.getpid) not in (before, os.getpid())
    assert made.restarts == 0


@pytest.mark.parametrize(("loads", "opened"), [(True, 2), (False, 1)])
def test_a_stage_drops_what_the_one_before_had_opened_if_that_is_large(tmp_path, loads, opened):
    made = Pool(1, restarts=0)
    with pool.opening(made):
        for _ in range(2):
            made.begin_stage(loads=loads)
            for answers in submitted(made, tmp_path, "echo a", "echo a"):
                taken(made, answers)
    assert [words for _, words in notes(tmp_path)].count("opened") == opened


def test_child_has_its_surroundings_set_before_it_starts(tmp_path, monkeypatch):
    """Modules of the current folder replace none; Ctrl-C is for the launcher; no Beam is loaded."""
    for name in ("signal.py", "pickle.py"):
        (tmp_path / name).write_text(f"open({str(tmp_path / 'executed')!r}, 'w')\n")
    (tmp_path / "multiprocessing").mkdir()
    (tmp_path / "multiprocessing" / "__init__.py").write_text((tmp_path / "signal.py").read_text())
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    made = Pool(2, restarts=0, threads=3, gpus=("4", "7"))
    with pool.opening(made):
        waiting = submitted(made, tmp_path, "tell", "tell")
        first, second = (taken(made, answers)[0] for answers in waiting)
    assert not (tmp_path / "executed").exists()
    for told in (first, second):
        assert "" not in told["path"]
        assert str(tmp_path) not in told["path"]
        assert told["environment"]["OMP_NUM_THREADS"] == "3"
        assert told["environment"]["PYTHONSAFEPATH"] == "1"
        assert not {"apache_beam", "torch", "transformers"} & set(told["modules"])
        assert told["leads"]
    assert {child["environment"]["CUDA_VISIBLE_DEVICES"] for child in (first, second)} <= {"4", "7"}


def test_warnings_come_through_once_and_prints_do_not(tmp_path, caplog, capfd):
    run(tmp_path, ["say something", "say something"], processes=2)
    assert caplog.text.count("UserWarning: something") == 1
    assert capfd.readouterr().out == ""


def test_progress_of_children_is_added_up(tmp_path):
    made = Pool(2, restarts=0)
    with pool.opening(made):
        submitted(made, tmp_path, "wait a", "wait b")
        wait_until(lambda: activity.snapshot().fractions == {"wait a": 0.25, "wait b": 0.25}, 60)
        made.begin_stage()
        assert activity.snapshot().fractions == {}


IGNORING = """
from signal import SIG_DFL, SIG_IGN, SIGHUP, SIGINT, SIGTERM, getsignal, signal
from bertscore_beam.run.job import end_when_interrupted

for ignored, heard in ((SIGINT, SIGHUP), (SIGHUP, SIGINT)):
    signal(ignored, SIG_IGN)
    signal(heard, SIG_DFL)
    with end_when_interrupted():
        assert getsignal(ignored) == SIG_IGN
        assert callable(getsignal(heard)) and callable(getsignal(SIGTERM))
    assert getsignal(ignored) == SIG_IGN
    print(ignored.name, "stays ignored")
"""


def test_ignored_signal_stays_ignored():
    """As Ctrl-C in a script's background jobs, and a lost terminal below `nohup`."""
    command = [sys.executable, "-c", IGNORING]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "SIGINT stays ignored\nSIGHUP stays ignored\n"


LAUNCHER = """
import pickle, queue, sys
from bertscore_beam.run import pool
from bertscore_beam.run.job import end_when_interrupted
from bertscore_beam.run.pool import Pool
from tests.support.pool_steps import Work

made, answers = Pool(2, restarts=5), queue.SimpleQueue()
with pool.opening(made), end_when_interrupted():
    for element in sys.argv[2:]:
        made.submit(pickle.dumps(Work(sys.argv[1])), element, element, answers.put)
    answers.get()
"""


@pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc")
@pytest.mark.parametrize(
    ("act", "number", "status"),
    [
        ("hold", signal.SIGKILL, -signal.SIGKILL),
        ("hold", signal.SIGTERM, 143),
        ("hold", signal.SIGINT, 130),
        ("wait", signal.SIGINT, 130),  # which the code of Python in a child hears itself
        pytest.param("wait", signal.SIGKILL, -signal.SIGKILL, marks=pytest.mark.long),
        pytest.param("wait", signal.SIGTERM, 143, marks=pytest.mark.long),
    ],
)
def test_no_child_outlives_the_launcher(tmp_path, act, number, status):
    """Not even one in native code, whose threads of Python cannot run."""
    process = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, str(tmp_path), f"{act} a", f"{act} b"],
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        wait_until(lambda: len(begun(tmp_path)) == 2, 60, process=process)
        # Ctrl-C of a terminal reaches every process.
        if number == signal.SIGINT:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        _, said = process.communicate(timeout=30)
        assert process.returncode == status
        assert not wait_until_gone(process.pid, 20)
        assert (b"interrupted" in said) is (number != signal.SIGKILL)
        assert b"died" not in said
    finally:
        for left in session_members(process.pid):
            os.kill(left, signal.SIGKILL)


@pytest.mark.parametrize("act", ["start", "start_below"])
@pytest.mark.parametrize("is_killed", [False, True])
def test_what_a_child_has_started_ends_with_it(tmp_path, act, is_killed):
    """A metric of one's own may fork and not end; no process is left after status 0."""
    made = Pool(1, restarts=1)
    with pool.opening(made):
        (left,) = taken(made, *submitted(made, tmp_path, f"{act} a"))
        os.kill(left, 0)
        if is_killed:
            (child,) = made._children
            os.kill(child._child[0].pid, signal.SIGKILL)
            taken(made, *submitted(made, tmp_path, "say b"))  # to another child
            wait_until(lambda: not lives(left), 10)
    wait_until(lambda: not lives(left), 10)


def lives(number: int) -> bool:
    """Tell whether a process has not ended, whoever its parent is by now."""
    try:
        return "Z" not in Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[:1]
    except OSError:
        return False


def test_results_that_come_fast_are_sent_together_and_others_at_once():
    assert list(_as_they_come(())) == []
    fast = list(_as_they_come(range(1000)))
    assert fast[0] == [0]  # nothing is held back without a reason
    assert len(fast) < 100
    assert [result for together in fast for result in together] == list(range(1000))

    def slow():
        for number in range(3):
            time.sleep(0.06)
            yield number

    assert list(_as_they_come(slow())) == [[0], [1], [2]]
