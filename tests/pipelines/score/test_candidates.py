"""Several candidates a row: scored as a dump that is multiplied out by hand, and what follows."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.dump import CANDIDATE, CANDIDATE_FROM
from bertscore_beam.idf import load_idf
from tests.support.dumps import pair_rows, read_output, sentence
from tests.support.jobs import run_job, score_arguments, summary_of
from tests.support.text_files import to_jsonl, write_text
from tests.support.tolerances import INVARIANCE_ATOL

pytestmark = pytest.mark.job

ROWS = 24
SCORES = ("bertscore_precision", "bertscore_recall", "bertscore_f1")
SETTINGS = {"split_rows": 10, "max_reject_fraction": 1.0, "idf": "corpus"}


def samples_of(row):
    """Return the samples of a row: five, none, a null among two, no list, or one."""
    texts = [sentence(5 * row + number) for number in range(5)]
    return [texts, [], [texts[0], None], None, texts[:1], texts][row % 6]


def sampled_rows():
    rows = pair_rows(ROWS)
    del rows["candidate"]
    return rows | {"samples": [samples_of(row) for row in range(ROWS)], "note": ["x"] * ROWS}


def multiplied_by_hand(rows):
    listed = [dict(zip(rows, values, strict=True)) for values in zip(*rows.values(), strict=True)]
    return [
        {"id": row["id"], "candidate": text, "reference": row["reference"], "from": place}
        for row in listed
        for place, text in [(str(n), t) for n, t in enumerate(row["samples"] or [])]
        or [(None, None)]
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Score rows with lists, the same multiplied out by hand, and as lines of JSON."""
    folder = tmp_path_factory.mktemp("candidates")
    rows, by_hand = sampled_rows(), multiplied_by_hand(sampled_rows())
    (folder / "in").mkdir()
    pq.write_table(pa.table(rows), folder / "in" / "a.parquet", row_group_size=7)
    pq.write_table(pa.Table.from_pylist(by_hand), folder / "by_hand.parquet")
    lines = [dict(zip(rows, values, strict=True)) for values in zip(*rows.values(), strict=True)]
    write_text(folder / "b.jsonl", to_jsonl(lines) + b'{"id": "cut off\n')
    run_job(folder / "in", output=folder / "out", candidate_column=("samples",), **SETTINGS)
    by_id = SETTINGS | {"idf_key": ("id",)}
    run_job(folder / "by_hand.parquet", output=folder / "hand", **by_id)
    return folder


def assert_same_scores(column, expected):
    assert column.is_valid().to_pylist() == expected.is_valid().to_pylist()
    numbers = column.drop_null().to_pylist(), expected.drop_null().to_pylist()
    assert numbers[0] == pytest.approx(numbers[1], abs=INVARIANCE_ATOL, rel=0)


def test_scores_are_those_of_the_rows_multiplied_out_by_hand(folder):
    mine, hand = read_output(folder / "out"), read_output(folder / "hand")
    for name in SCORES:
        assert_same_scores(mine[name], hand[name])
    assert mine.column_names[:5] == ["id", "reference", "note", "samples", CANDIDATE_FROM]
    for name, other in (("id", "id"), ("samples", "candidate"), (CANDIDATE_FROM, "from")):
        assert mine[name].to_pylist() == hand[other].to_pylist()
    table = load_idf(str(folder / "out" / "_manifest" / "idf.npz"))
    assert sum(one.frequencies.num_documents for one in table.tables.values()) == ROWS


def test_rows_without_a_candidate_have_their_reason_and_place(folder):
    summary, hand = summary_of(folder / "out"), summary_of(folder / "hand")
    assert summary["success"]
    assert (summary["input_rows"], summary["rows"]) == (ROWS, len(read_output(folder / "out")))
    assert summary["planned_rows"] == summary["rows"] == hand["rows"] == hand["input_rows"]
    assert summary["reasons"] == {"no_candidates": 8, "null_candidate": 4}
    assert (summary["rejected"], summary["reject_fraction"]) == (12, 12 / summary["rows"])
    listed = pq.read_table(folder / "out" / "_rejects").to_pylist()
    places = sorted((row["row"], row["candidate"], row["reason"]) for row in listed)
    empty = [(row, None, "no_candidates") for row in range(ROWS) if row % 6 in (1, 3)]
    null = [(row, "1", "null_candidate") for row in range(2, ROWS, 6)]
    assert places == sorted(empty + null)


def test_what_is_done_stays_and_a_change_beside_the_texts_keeps_the_scores(folder, tmp_path):
    (tmp_path / "in").mkdir()
    file, out = tmp_path / "in" / "a.parquet", tmp_path / "out"
    rows = sampled_rows()
    settings = SETTINGS | {"candidate_column": ("samples",), "output": out}
    pq.write_table(pa.table(rows), file, row_group_size=7)
    first = run_job(file, **settings)
    parts = {path: path.read_bytes() for path in out.rglob("part-*.parquet")}
    assert run_job(file, **settings)["parts_of_earlier_runs"] == len(parts) == first["parts"]
    pq.write_table(pa.table(rows | {"note": ["y"] * ROWS}), file, row_group_size=7)
    again = run_job(file, **settings)
    assert (again["parts_rewritten"], again["f1"]) == (len(parts), first["f1"])
    assert read_output(out)["note"].to_pylist() == ["y"] * first["rows"]
    # The first row has its candidates in another order: its own part alone is scored again.
    rows["samples"][0] = rows["samples"][0][::-1]
    pq.write_table(pa.table(rows | {"note": ["y"] * ROWS}), file, row_group_size=7)
    last = run_job(file, **settings)
    assert (last["parts_kept"], last["rows"]) == (len(parts) - 1, first["rows"])
    assert read_output(out)["samples"].to_pylist()[:5] == rows["samples"][0]


def test_a_later_night_takes_scores_wherever_the_candidates_are(folder, tmp_path):
    rows = sampled_rows()
    rows["samples"][0] = rows["samples"][0][::-1]
    pq.write_table(pa.table(rows), tmp_path / "other.parquet", row_group_size=5)
    night = run_job(
        tmp_path / "other.parquet", output=tmp_path / "out", candidate_column=("samples",),
        reuse=str(folder / "out"), **SETTINGS,
    )  # fmt: skip
    assert night["reused"] == night["scored"] > 30


def test_lines_of_json_give_the_same_rows(folder, tmp_path):
    lines = SETTINGS | {"candidate_column": ("samples",), "output": tmp_path / "out"}
    summary = run_job(folder / "b.jsonl", **lines)
    mine, parquet = read_output(tmp_path / "out"), read_output(folder / "out")
    assert mine["samples"].to_pylist()[:-1] == parquet["samples"].to_pylist()
    assert_same_scores(mine[SCORES[2]][:-1], parquet[SCORES[2]])
    assert summary["reasons"] == {"bad_line": 1, "no_candidates": 8, "null_candidate": 4}
    listed = pq.read_table(tmp_path / "out" / "_rejects").to_pylist()
    assert {row["line"] - row["row"] for row in listed} == {1}


@pytest.fixture(scope="module")
def systems(tmp_path_factory):
    """Score two columns of candidates, once in each of two folders, one of them worse."""
    folder = tmp_path_factory.mktemp("systems")
    rows = pair_rows(ROWS)
    rows["gpt"], rows["claude"] = rows.pop("candidate"), rows["reference"]
    names = ("gpt", "claude")
    for name in ("a", "b"):
        (folder / name).mkdir()
        pq.write_table(pa.table(rows), folder / name / "x.parquet", row_group_size=7)
        run_job(
            folder / name, output=folder / f"out-{name}", candidate_column=names, split_rows=10,
            group_by=(CANDIDATE_FROM,),
        )  # fmt: skip
        rows["gpt"][:4] = ["nothing of the kind"] * 4
    return folder


def test_several_columns_are_systems(systems, capsys):
    out = str(systems / "out-a")
    summary = summary_of(systems / "out-a")
    assert (summary["rows"], summary["input_rows"], summary["success"]) == (2 * ROWS, ROWS, True)
    rows = read_output(systems / "out-a").to_pydict()
    assert rows[CANDIDATE_FROM] == ["gpt", "claude"] * ROWS
    assert rows[CANDIDATE][1::2] == rows["reference"][1::2]
    means = {"gpt": rows[SCORES[2]][0::2], "claude": rows[SCORES[2]][1::2]}
    assert cli.main(["groups", out, "--by", CANDIDATE_FROM, "--json"]) == 0
    groups = json.loads(capsys.readouterr().out)["groups"]
    by_name = {row["group"][CANDIDATE_FROM]: row for row in groups if row["group"]}
    for name, values in means.items():
        assert by_name[name]["f1"] == pytest.approx(sum(values) / ROWS, abs=1e-6)
    assert cli.main(
        ["compare", out, "--systems", "claude", "gpt", "--system", CANDIDATE_FROM, "--json"]
    ) == 0  # fmt: skip
    (found,) = json.loads(capsys.readouterr().out)["comparisons"]
    assert found["whole"]["counts"]["pairs"] == ROWS
    difference = (sum(means["claude"]) - sum(means["gpt"])) / ROWS
    assert found["whole"]["result"]["difference"] == pytest.approx(difference, abs=1e-6)


def test_two_runs_are_compared_row_by_row_and_candidate_by_candidate(systems, capsys):
    runs = [str(systems / f"out-{name}") for name in "ab"]
    assert cli.main(["compare", *runs, "--by", CANDIDATE_FROM, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["comparisons"]
    assert found["whole"]["counts"]["pairs"] == 2 * ROWS
    changed = {group["group"][0]: group["counts"]["up"] for group in found["groups"]}
    assert changed == {"gpt": 4, "claude": 0}
    assert {row["row"] for row in found["moved"]} == {0, 2, 4, 6}
    assert cli.main(["explain", runs[0], "--row", "x.parquet:3", "--json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)["explanations"]
    assert (shown["row"], shown["differences"]) == (3, [])
    assert shown["stored"]["f1"] == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"candidate_column": ("gpt", "gpt")}, "each once"),
        ({"candidate_column": ("gpt", "reference")}, "other than the reference column's"),
        ({"candidate_column": ("gpt", "claude"), "language_column": "gpt"}, "for nothing else"),
        ({"candidate_column": ("gpt", "claude"), "group_by": ("gpt",)}, "Leave gpt and claude out"),
    ],
)
def test_columns_that_make_no_sense_are_refused(systems, tmp_path, changes, message):
    with pytest.raises(Exception, match=message):
        run_job(systems / "a", output=tmp_path / "out", **changes)


def test_rows_of_no_language_are_a_share_of_the_rows_of_the_input(tmp_path, capsys):
    rows = pair_rows(10) | {"lang": ["en"] * 9 + ["xx"]}
    pq.write_table(pa.table({**rows, "other": rows["candidate"]}), tmp_path / "x.parquet")
    (tmp_path / "languages.yaml").write_text("en: {model: all-MiniLM-L6-v2}")
    flags = ["--candidate-column", "candidate", "other", "--language-column", "lang"]
    flags += ["--languages", tmp_path / "languages.yaml", "--max-reject-fraction", 0.06]
    assert cli.main(score_arguments(tmp_path / "x.parquet", tmp_path, *flags)) == cli.UNUSABLE
    said = capsys.readouterr().err
    assert "1 rows (10.00%)" in said
    assert "at most 6.00%" in said
