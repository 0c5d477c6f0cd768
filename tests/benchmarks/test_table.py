import json

from tests.benchmarks.table import read_results, to_markdown

MACHINE = {"cpu": "A 1", "cores": 2, "torch": "2.0", "date": "2026-01-01"}


def result(**fields):
    line = {"benchmark": "peer", "model": "m", "what": "ours", "n": 3000, "machine": MACHINE}
    return {**line, **fields}


def test_the_latest_of_equal_measurements_counts(tmp_path):
    path = tmp_path / "lines.jsonl"
    lines = [result(seconds=1.0), result(what="peer", seconds=9.0), result(seconds=2.0)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert [(line["what"], line["seconds"]) for line in read_results([path])] == [
        ("peer", 9.0),
        ("ours", 2.0),
    ]


def test_a_table_has_the_columns_that_hold_something():
    text = to_markdown([result(ratio=2.345, share_of_peak=0.9, drift_max=0.00123)])
    assert text == (
        "A 1; 2 cores; torch 2.0\n\n"
        "## peer: m\n\n"
        "|  | pairs | x | share of peak | drift max |\n"
        "| --- | --- | --- | --- | --- |\n"
        "| ours | 3,000 | 2.35 | 90% | 1.2e-03 |\n"
    )


def test_families_share_a_table_with_a_column_for_the_model():
    lines = [result(benchmark="families", model=model, ratio=2.0) for model in ("bert", "t5")]
    text = to_markdown(lines)
    assert text.count("## families") == 1
    assert "| bert | ours | 3,000 | 2 |" in text
    assert "| t5 | ours | 3,000 | 2 |" in text


def test_the_share_of_the_product_limit_stands_above_the_tables_of_its_machine():
    other = {**MACHINE, "cpu": "B 2"}
    lines = [
        result(share_of_peak=0.21, peak_gflops=515.0, what="peer"),
        result(share_of_peak=0.734, peak_gflops=515.0),
        result(share_of_peak=0.098, peak_gflops=1038.4, model="n"),
        result(share_of_peak=0.5, peak_gflops=99.0, machine=other),
    ]
    text = to_markdown(lines)
    assert text.startswith(
        "A 1; 2 cores; torch 2.0\n\n"
        "## share of this machine's product limit\n\n"
        "|  | m | n |\n"
        "| --- | --- | --- |\n"
        "| peer | 21% of 515 GFLOP/s |  |\n"
        "| ours | 73% of 515 GFLOP/s | 9.8% of 1,038 GFLOP/s |\n"
    )
    assert "|  | m |\n| --- | --- |\n| ours | 50% of 99 GFLOP/s |\n" in text
