import inspect
import json
from importlib import import_module

import pytest

from tests.benchmarks.__main__ import CASES, SET
from tests.benchmarks.harness import Recorder, Shape, interleave, run_case


def test_useful_work_is_what_a_count_by_hand_gives():
    # H = 2, I = 3: 4 * 4 + 2 * 2 * 3 = 28 weights, twice for each of 4 tokens = 224;
    # attention 4 * 2 * (3 * 3 + 1 * 1) = 80; two layers of 304.
    assert Shape(layers=2, hidden=2, inner=3).flops([3, 1]) == 608


def test_a_layer_of_bert_base_has_seven_million_weights():
    one_token = Shape(layers=1, hidden=768, inner=3072).flops([1])
    assert one_token == 2 * 7_077_888 + 4 * 768


def test_variants_take_turns():
    calls = []
    seconds = interleave(
        {"a": lambda: calls.append("a") or 1.0, "b": lambda: calls.append("b") or 2.0}, rounds=2
    )
    assert calls == ["a", "b", "a", "b"]
    assert seconds == {"a": [1.0, 1.0], "b": [2.0, 2.0]}


def test_a_result_is_one_json_line_with_the_median_and_the_machine(tmp_path, capsys):
    recorder = Recorder("b", tmp_path / "new" / "lines.jsonl")
    recorder.add(model="m", what="w", n=3, seconds=[3.0, 1.0, 2.0], ratio=1.5, note=None)
    line = json.loads(capsys.readouterr().out)
    assert json.loads((tmp_path / "new" / "lines.jsonl").read_text()) == line
    assert line["seconds"] == 2.0
    assert line["all_seconds"] == [3.0, 1.0, 2.0]
    assert line["ratio"] == 1.5
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


@pytest.mark.parametrize("module", CASES)
def test_every_case_of_the_table_can_be_called_without_flags(module):
    for name in CASES[module].split():
        case = getattr(import_module(f"tests.benchmarks.{module}"), name)
        _, *others = inspect.signature(case).parameters.values()
        assert inspect.getdoc(case)
        assert all(other.default is not other.empty for other in others)


def test_the_set_has_flags_that_its_cases_take():
    modules = {case: module for module, cases in CASES.items() for case in cases.split()}
    for words, flags in SET.items():
        case, *more = words.split()
        known = inspect.signature(
            getattr(import_module(f"tests.benchmarks.{modules[case]}"), case)
        ).parameters
        given = [word for text in (*flags, *more) for word in text.split() if word[:2] == "--"]
        assert {word[2:].replace("-", "_") for word in given} <= known.keys()
