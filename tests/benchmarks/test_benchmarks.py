"""Benchmarks can be called as the docs say, and their arithmetic is right."""

import inspect
import json
import re
from importlib import import_module
from statistics import mean

import pytest

from tests.benchmarks import gemm, host
from tests.benchmarks.__main__ import CASES, SET
from tests.benchmarks.command import steady_seconds
from tests.benchmarks.harness import Recorder, Shape, run_case
from tests.benchmarks.table import to_markdown
from tests.benchmarks.texts import LONGEST, SPECIAL_TOKENS, fixed, mixed


def test_useful_work_is_what_a_count_by_hand_gives():
    # H = 2, I = 3: 4 * 4 + 2 * 2 * 3 = 28 weights, twice for each of 4 tokens = 224;
    # attention 4 * 2 * (3 * 3 + 1 * 1) = 80; two layers of 304.
    assert Shape(layers=2, hidden=2, inner=3).flops([3, 1]) == 608


def test_a_result_is_one_json_line_with_the_median_and_the_machine(tmp_path, capsys):
    recorder = Recorder("b", tmp_path / "new" / "lines.jsonl")
    recorder.add(model="m", what="w", n=3, seconds=[3.0, 1.0, 2.0], ratio=1.5, note=None)
    line = json.loads(capsys.readouterr().out)
    assert json.loads((tmp_path / "new" / "lines.jsonl").read_text()) == line
    assert (line["seconds"], line["all_seconds"], line["ratio"]) == (2.0, [3.0, 1.0, 2.0], 1.5)
    assert "note" not in line
    assert line["machine"]["torch"]


def test_parameters_of_a_case_are_its_flags(tmp_path):
    calls = []

    def case(recorder, *, rows=5, share=0.5, sizes=(1, 2), words=(), fast=False):
        calls.append((recorder.benchmark, recorder.out, rows, share, list(sizes), words, fast))

    run_case(case, [])
    flags = ["--rows", "7", "--share", "1", "--sizes", "3", "4", "--words", "a", "--fast"]
    run_case(case, [*flags, "--out", str(tmp_path)])
    assert calls == [
        ("case", None, 5, 0.5, [1, 2], (), False),
        ("case", tmp_path, 7, 1.0, [3, 4], ["a"], True),
    ]


def test_cases_can_be_called_without_flags_and_take_those_of_the_set():
    flags = {}
    for name, module in CASES.items():
        case = getattr(import_module(f"tests.benchmarks.{module}"), name)
        _, *others = inspect.signature(case).parameters.values()
        assert inspect.getdoc(case)
        assert all(other.default is not other.empty for other in others)
        flags[name] = {other.name for other in others}
    for words, more in SET.items():
        case, *first = words.split()
        named = [word for text in (*more, *first) for word in text.split() if word[:2] == "--"]
        assert {word[2:].replace("-", "_") for word in named} <= flags[case]


def test_a_table_has_the_columns_that_hold_something():
    machine = {"cpu": "A 1", "cores": 2, "torch": "2.0", "date": "2026-01-01"}
    line = {"benchmark": "peer", "model": "m", "what": "ours", "n": 3000, "machine": machine}
    line |= {"ratio": 2.345, "share_of_peak": 0.9, "drift_max": 0.00123}
    assert to_markdown([line]) == (
        "cpu A 1, cores 2, torch 2.0\n\n"
        "## peer: m\n\n"
        "|  | pairs | x | share of peak | drift max |\n"
        "| --- | --- | --- | --- | --- |\n"
        "| ours | 3,000 | 2.35 | 90% | 1.2e-03 |\n"
    )


def token_counts(texts):
    """Count tokens as the models' tokenizers do: one a word or mark, and the special ones."""
    return [len(re.findall(r"\w+|[^\w\s]", text)) + SPECIAL_TOKENS for text in texts]


def test_made_up_pairs_have_the_lengths_that_the_figures_name():
    pairs = mixed(3000)
    for texts in pairs:
        assert len(texts) == 3000
        assert mean(token_counts(texts)) == pytest.approx(25, abs=2)
    assert 200 < max(token_counts(pairs[1])) <= LONGEST
    assert mixed(50, seed=3) == mixed(50, seed=3) != mixed(50, seed=4)
    assert {count for side in fixed(5, 512) for count in token_counts(side)} == {512}


def test_a_job_is_timed_behind_its_first_part():
    parts = [(100, 10), (105, 10), (110, 10)]  # the first takes long: start-up
    assert steady_seconds(parts, 40) == pytest.approx(20)
    with pytest.raises(SystemExit, match="too few"):
        steady_seconds(parts[:1], 20)


@pytest.mark.long
@pytest.mark.parametrize("case", ["minilm-l4", "minilm-quarter-h100"])
def test_a_split_takes_so_little_of_the_processor_that_a_gpu_is_kept_busy(case):
    """RESULTS.md has the share of time that the device is busy; here other tests run beside it."""
    host.measure(host.CASES[case], threads=4, rows=400, splits=2)  # warm
    figures = host.measure(host.CASES[case], threads=4, rows=20_000, splits=3)
    # A split of 5,000 pairs keeps the device busy for 1.08 s and more. Measured: 0.6 s.
    assert figures["processor_seconds_per_split"] < 1.0
    assert figures["busy"] > 0.5


@pytest.mark.model
def test_openvino_is_timed_in_the_formats_that_it_has():
    shape = (8, 16, 32)
    assert gemm._chain_rate(shape, "float32", 0.001) > 0
    assert gemm._chain_rate(shape, "float16", 0.001) == 0  # OpenVINO has it on no CPU
