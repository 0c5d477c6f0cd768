import json

from tests.benchmarks.harness import Recorder, Shape, interleave


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
