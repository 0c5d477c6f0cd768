"""What a finished run must come to before it counts as a success."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.records.records import GROUPS_FILE
from bertscore_beam.records.summary import Gates
from bertscore_beam.score import show_run
from tests.support.dumps import SCHEMA, read_output, write_dump
from tests.support.jobs import summary_of

pytestmark = pytest.mark.job


CUT_AT = 16
"""Tokens, which some of a dump's texts exceed and some do not."""


def score(dump, out, *more):
    return cli.main(["score", "--input", str(dump), "--output", str(out), *map(str, more)])


def test_each_gate_has_its_message():
    assert show_run._GATES.keys() == {"parts_of_inputs_gone", *Gates.__dataclass_fields__}


def test_an_empty_input_is_no_success(tmp_path, capsys):
    empty_dump, out = tmp_path / "empty.parquet", tmp_path / "out"
    pq.write_table(SCHEMA.empty_table(), empty_dump)
    assert score(empty_dump, out) == cli.TOO_MANY_REJECTS
    said = capsys.readouterr().err
    assert "the input has 0 rows; expected at least 1 (--min-rows)" in said
    assert "--min-rows 0" in said
    assert summary_of(out)["failed_gates"] == ["min_rows"]
    assert not (out / "_SUCCESS").exists()
    for command in (["check"], ["compare", str(out)], ["groups"]):
        assert cli.main([*command, str(out)]) in {cli.BROKEN, cli.UNUSABLE}
        said = capsys.readouterr().err
        assert "ended, but did not pass min_rows: see its _summary.json" in said
        assert "its scores are kept" in said
    assert score(empty_dump, out, "--min-rows", 0, "--group-by", "id") == cli.DONE
    assert (out / "_SUCCESS").exists()
    assert pq.read_table(out / GROUPS_FILE)["bertscore_rows"].to_pylist() == [0]


def test_cut_texts_are_counted_shown_and_warned_of_and_too_many_are_no_success(tmp_path, capsys):
    dump, out = write_dump(tmp_path / "dump", [30]), tmp_path / "out"
    flags = ("--max-length", CUT_AT, "--split-rows", 10, "--max-truncated-fraction")
    assert score(dump, out, *flags, "0.01") == cli.TOO_MANY_REJECTS
    shown, summary = capsys.readouterr(), summary_of(out)
    cut = sum(read_output(out)["bertscore_truncated"].to_pylist())
    assert 0 < cut < 30
    assert (summary["truncated"], summary["truncated_fraction"]) == (cut, cut / 30)
    assert summary["failed_gates"] == ["max_truncated_fraction"]
    assert f"truncated: {cut} ({cut / 30:.2%})" in shown.out
    assert f"{cut} of 30 scored rows ({cut / 30:.2%}) hold a text that was cut" in shown.err
    assert f"at {CUT_AT} tokens" in shown.err
    assert "more than --max-truncated-fraction 1.00% allows" in shown.err
    assert not (out / "_SUCCESS").exists()
    assert score(dump, out, *flags, "1") == cli.DONE
    assert (out / "_SUCCESS").exists()
    assert "was cut at" in capsys.readouterr().err
    assert score(dump, tmp_path / "uncut") == cli.DONE
    shown = capsys.readouterr()
    assert "truncated: 0 (0.00%)" in shown.out
    assert "was cut" not in shown.err


THAI = ("วันนี้อากาศหนาว", "ฉันหิวมาก", "รถไฟมาสาย"), ("ฉันชอบอ่านหนังสือ", "แมวนอนหลับ", "ตลาดหุ้นตก")
"""Unrelated texts, each one unknown token for the embedded model."""


def test_unrelated_texts_that_the_model_cannot_read_are_no_success(tmp_path, capsys):
    texts = dict(zip(("candidate", "reference"), map(list, THAI), strict=True))
    dump, out = tmp_path / "thai.parquet", tmp_path / "out"
    pq.write_table(pa.table({**texts, "system": ["A", "B", "B"]}), dump)
    assert score(dump, out) == cli.TOO_MANY_REJECTS
    shown, summary = capsys.readouterr(), summary_of(out)
    assert summary["failed_gates"] == ["max_unknown_fraction"]
    counts = ("text_tokens", "unknown_tokens", "unknown_fraction", "only_unknown_tokens")
    assert [summary[name] for name in counts] == [6, 6, 1.0, 3]
    assert "unknown tokens: 6 (100.00%); 3 rows have only these" in shown.out
    assert "100.0% of the tokens of all rows, more than --max-unknown-fraction 50.00%" in shown.err
    assert not (out / "_SUCCESS").exists()
    table = read_output(out)
    assert table["bertscore_f1"].to_pylist() == pytest.approx([1.0] * 3)
    assert table["bertscore_error"].to_pylist() == [None] * 3
    assert table["bertscore_unknown"].to_pylist() == [1.0] * 3
    assert table["bertscore_text_tokens"].to_pylist() == [2] * 3
    assert score(dump, out, "--max-unknown-fraction", 1) == cli.DONE
    said = capsys.readouterr().err
    assert "The model does not know 100.0% of the tokens: such texts look the same" in said
    # A caveat of an interval is there only where the interval is: in groups.
    assert score(dump, out, "--max-unknown-fraction", 1, "--by", "system") == cli.DONE
    by_group, of_unknown = summary_of(out), {"kind": "unknown_tokens", "number": 1.0}
    assert by_group["caveats"] == [of_unknown]
    (group, *_) = by_group["groups"]["shown"]
    assert group["caveats"] == [of_unknown, {"kind": "few_rows", "number": 1}]


def test_languages_and_groups_that_the_model_cannot_read_are_named(tmp_path, capsys):
    """Fewer than 20 rows of a language do not fail a run; they are warned of."""
    english = ["a cat sat on the mat", "the rain came late"] * 15
    texts = {
        "candidate": [*english, *THAI[0]],
        "reference": [*english, *THAI[1]],
        "lang": ["en"] * 30 + ["th"] * 3,
        "system": ["old"] * 32 + ["new"],
    }
    dump, out = tmp_path / "mixed.parquet", tmp_path / "out"
    pq.write_table(pa.table(texts), dump)
    languages = tmp_path / "languages.yaml"
    entry = "{model: all-MiniLM-L6-v2}"
    languages.write_text(f"languages: {{en: {entry}, th: {entry}}}\n")
    flags = ("--language-column", "lang", "--languages", languages, "--by", "system")
    assert score(dump, out, *flags) == cli.DONE
    shown, summary = capsys.readouterr(), summary_of(out)
    assert summary["languages"]["th"]["unknown_fraction"] == 1.0
    assert summary["languages"]["th"]["only_unknown_tokens"] == 3
    assert summary["languages"]["en"]["unknown_tokens"] == 0
    unread = "more than 5% of tokens unknown to the model, such as"
    assert (
        f"1 of 2 languages has {unread} th (100.0% unknown): such texts look the same" in shown.err
    )
    assert [own["kind"] for own in summary["languages"]["th"]["caveats"]] == ["unknown_tokens"]
    assert shown.err.count(unread) == 1
    assert "100.0% unknown" in shown.out
    groups = pq.read_table(out / GROUPS_FILE)
    names, numbers = groups["system"].to_pylist(), groups["bertscore_unknown_tokens"].to_pylist()
    by_system = dict(zip(names, numbers, strict=True))
    assert by_system == {None: 6, "new": 2, "old": 4}
    assert sum(map(int, groups["bertscore_only_unknown_tokens"].to_pylist())) == 6
    whole = groups.to_pylist()[0]
    assert whole["bertscore_text_tokens"] == summary["text_tokens"]
    assert cli.main(["groups", str(out), "--by", "system"]) == cli.DONE
    unread = unread.replace("such as", "at worst")
    assert f"All th groups have {unread} th / new (100.0% unknown)" in capsys.readouterr().err
