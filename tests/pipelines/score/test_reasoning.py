"""Candidates with a model's reasoning: told of, and with `--strip-reasoning` scored without it."""

import json

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.testing.util import assert_that

from bertscore_beam import ScorePairs, score_frame
from bertscore_beam.cli import main as cli
from bertscore_core import ScorerConfig
from tests.support.dumps import read_output, sentence
from tests.support.jobs import summary_of

pytestmark = pytest.mark.job

ROWS = 24
SCORES = ("bertscore_precision", "bertscore_recall", "bertscore_f1", "metric_rougel")


def thinking(row):
    """Return a candidate of the second system: in one row nothing but reasoning is there."""
    if row == 1:
        return "<think>The user wants"
    before = ("<think>Let me see.</think>\n\n", "Let me see.\n</think>\n\n", "")[row // 2 % 3]
    return f"{before}{sentence(row + 1)}"


def rows_of(*, with_reasoning):
    texts = [sentence(row + 1) for row in range(ROWS)]
    thoughts = [thinking(row) if row % 2 else text for row, text in enumerate(texts)]
    return {
        "candidate": thoughts if with_reasoning else texts,
        "reference": [sentence(row) for row in range(ROWS)],
        "system": ["plain", "thinks"] * (ROWS // 2),
        "id": [*range(ROWS)],
    }


HOLDING = [row for row in range(ROWS) if row % 2 and thinking(row) != sentence(row + 1)]


def score(folder, dump, out, *more):
    given = ("--input", folder / f"{dump}.parquet", "--output", folder / out, "--by", "system")
    given += ("--metrics", "rougel", "--max-reject-fraction", 1, *more)
    return cli.main(["score", *map(str, given)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Score answers alone, the same with reasoning, and those without it again."""
    folder = tmp_path_factory.mktemp("reasoning")
    for name in ("answers", "thoughts"):
        table = pa.table(rows_of(with_reasoning=name == "thoughts"))
        pq.write_table(table, folder / f"{name}.parquet")
    assert score(folder, "answers", "plain") == cli.DONE
    assert score(folder, "thoughts", "kept") == cli.DONE
    reuse = ("--reuse", folder / "kept")
    assert score(folder, "thoughts", "stripped", "--strip-reasoning", *reuse) == cli.DONE
    return folder


def test_rows_groups_and_all_are_told_of_with_a_caveat(folder, capsys):
    table, summary = read_output(folder / "kept"), summary_of(folder / "kept")
    marks = [row for row, reason in enumerate(table["bertscore_error"].to_pylist()) if reason]
    assert marks == HOLDING
    assert summary["reasons"] == {"reasoning": len(HOLDING)}
    assert (summary["rejected"], summary["scored"]) == (0, ROWS)
    share = {"kind": "reasoning", "number": len(HOLDING) / ROWS}
    assert share in summary["caveats"]
    groups = {own["group"]["system"]: own for own in summary["groups"]["shown"]}
    assert groups["plain"]["reasons"] == {}
    assert groups["thinks"]["reasons"] == {"reasoning": len(HOLDING)}
    assert share | {"number": 2 * len(HOLDING) / ROWS} in groups["thinks"]["caveats"]
    assert score(folder, "thoughts", "kept") == cli.DONE
    said = capsys.readouterr().err
    assert f"The reasoning of a model is in {len(HOLDING) / ROWS:.1%} of the candidates" in said
    assert "take it off with --strip-reasoning" in said
    kept, plain = (read_output(folder / name)["bertscore_f1"] for name in ("kept", "plain"))
    same = [a.as_py() == pytest.approx(b.as_py()) for a, b in zip(kept, plain, strict=True)]
    assert [row for row, is_same in enumerate(same) if not is_same] == HOLDING


def test_answers_have_the_scores_that_they_have_alone(folder):
    table, plain = read_output(folder / "stripped"), read_output(folder / "plain")
    assert table["candidate"].to_pylist() == rows_of(with_reasoning=True)["candidate"]
    rest = [row for row in range(ROWS) if row != 1]
    for name in SCORES:
        assert table[name][1].as_py() is None
        found, wanted = (one[name].take(pa.array(rest)).to_pylist() for one in (table, plain))
        assert found == pytest.approx(wanted, abs=1e-6), name
    summary = summary_of(folder / "stripped")
    assert summary["reasons"] == {"only_reasoning": 1, "stripped_reasoning": len(HOLDING) - 1}
    assert summary["rejected_reasons"] == {"only_reasoning": 1}
    assert summary["caveats"] == summary_of(folder / "plain")["caveats"]
    assert summary["reused"] == 0  # other rows, though the texts are the same
    assert "|reasoning:stripped|" in summary["signature"]


def test_a_resumed_run_and_a_comparison_know_that_these_are_other_rows(folder, capsys):
    assert score(folder, "thoughts", "kept", "--strip-reasoning") == cli.UNUSABLE
    assert "reasoning" in capsys.readouterr().err
    assert score(folder, "thoughts", "stripped", "--strip-reasoning") == cli.DONE
    assert summary_of(folder / "stripped")["parts_of_earlier_runs"] == 1
    runs = str(folder / "stripped"), str(folder / "kept")
    capsys.readouterr()
    assert cli.main(["compare", *runs]) == cli.UNUSABLE
    assert "reasoning" in capsys.readouterr().err
    words = ["compare", str(folder / "plain"), str(folder / "kept"), "--key", "id"]
    words += ["--by", "system", "--json"]
    for measure in ("f1", "rougel"):
        assert cli.main([*words, "--measure", measure]) == cli.DONE
        compared = json.loads(capsys.readouterr().out)
        (own,) = compared["comparisons"]
        share = {"kind": "reasoning", "number": len(HOLDING) / ROWS}
        assert share in own["whole"]["caveats"]
        kinds = {one["group"][0]: [c["kind"] for c in one["caveats"]] for one in own["groups"]}
        assert "reasoning" in kinds["thinks"]
        assert "reasoning" not in kinds["plain"]
        assert (
            sum("take it off with --strip-reasoning" in words for words in compared["notices"]) == 1
        )


def test_a_row_is_explained_as_it_was_scored(folder, capsys):
    run, f1 = folder / "stripped", read_output(folder / "stripped")["bertscore_f1"]
    row = HOLDING[1]
    words = ("explain", str(run), "--device", "cpu", "--json", "--row")
    capsys.readouterr()
    assert cli.main([*words, f"thoughts.parquet:{row}"]) == cli.DONE
    shown = capsys.readouterr().out
    assert "think" not in shown
    assert f"{f1[row].as_py():.4f}"[:6] in shown
    assert cli.main([*words, "thoughts.parquet:1"]) == cli.UNUSABLE
    assert "only_reasoning" in capsys.readouterr().err


def test_frames_and_pipelines_score_the_same(folder):
    run = read_output(folder / "stripped")
    wanted = run.select(["bertscore_f1", "bertscore_error"]).to_pylist()
    rows = pa.table(rows_of(with_reasoning=True))
    frame = score_frame(rows, strip_reasoning=True, device="cpu")
    config = ScorerConfig(strip_reasoning=True, device="cpu")

    def check(found):
        assert len(found) == ROWS
        by_texts = {(row["candidate"], row["reference"]): row for row in found}
        for given, row in zip(rows.to_pylist(), wanted, strict=True):
            own = by_texts[given["candidate"], given["reference"]]
            assert own["bertscore_error"] == row["bertscore_error"]
            assert own["bertscore_f1"] == pytest.approx(row["bertscore_f1"], abs=1e-6)

    check(frame.to_pylist())
    with beam.Pipeline() as pipeline:
        scored = pipeline | beam.Create(rows.to_pylist()) | ScorePairs(config)
        assert_that(scored, check)


def test_samples_are_compared_without_their_reasoning(tmp_path):
    answers = ["the cat sat on the mat", "a cat sat there", "dogs bark at night"]
    thoughts = [f"<think>Hm.</think>{text}" for text in answers]
    for name, samples in (("a", answers), ("b", [*thoughts, "<think>Hm."])):
        pq.write_table(pa.table({"candidate": [samples]}), tmp_path / f"{name}.parquet")
        given = [str(tmp_path / f"{name}.parquet"), "--output", str(tmp_path / name)]
        given += ["--max-reject-fraction", "1"]
        assert cli.main(["select", *given, "--strip-reasoning"]) == cli.DONE
    alone, stripped = read_output(tmp_path / "a"), read_output(tmp_path / "b")
    for name in ("bertscore_utility", "bertscore_diversity"):
        wanted = pytest.approx(alone[name].to_pylist(), abs=1e-6)
        assert stripped[name].to_pylist()[:3] == wanted
    assert stripped["bertscore_best"].to_pylist() == [*alone["bertscore_best"].to_pylist(), None]
    assert stripped["bertscore_error"].to_pylist()[3] == "only_reasoning"


def test_rescaled_rows_keep_their_marks(folder, tmp_path):
    lines = [f"{layer},0.3,0.3,0.3" for layer in range(7)]
    (tmp_path / "table.tsv").write_text("\n".join(["LAYER,P,R,F", *lines, ""]))
    for name in ("kept", "stripped"):
        given = [str(folder / name), "--baseline", str(tmp_path / "table.tsv")]
        assert cli.main(["rescale", *given, "--output", str(tmp_path / name)]) == cli.DONE
        before, after = (read_output(at / name)["bertscore_error"] for at in (folder, tmp_path))
        assert after.to_pylist() == before.to_pylist()
