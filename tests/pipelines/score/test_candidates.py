"""Several candidates a row: scored as a dump that is multiplied out by hand, and what follows."""

import json
from dataclasses import replace
from itertools import chain, permutations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.dump.columns import CANDIDATE, CANDIDATE_FROM
from bertscore_beam.idf.idf_tables import load_idf
from bertscore_beam.options.score_options import SelectOptions
from bertscore_beam.score.scored_table import ScoredPairs, ScoredRows, compares_samples
from bertscore_core import BertScorer, InputError, ScorerConfig, Signature, SignatureError
from bertscore_core.work import Work
from tests.support.dumps import pair_rows, read_output, sentence
from tests.support.jobs import job_options, run_job, run_options, score_arguments, summary_of
from tests.support.text_files import to_jsonl, write_text
from tests.support.tolerances import INVARIANCE_ATOL

pytestmark = pytest.mark.job

ROWS = 24
SCORES = ("bertscore_precision", "bertscore_recall", "bertscore_f1")
SETTINGS = {"split_rows": 10, "max_reject_fraction": 1.0, "idf": "corpus"}
SAMPLED = SETTINGS | {"candidate_column": ("samples",)}


def samples_of(row):
    """Return the samples of a row: five, none, a null among two, no list, or one."""
    texts = [sentence(5 * row + number) for number in range(5)]
    return [texts, [], [texts[0], None], None, texts[:1], texts][row % 6]


def sampled_rows():
    rows = pair_rows(ROWS)
    del rows["candidate"]
    return rows | {"samples": [samples_of(row) for row in range(ROWS)], "note": ["x"] * ROWS}


def multiplied_by_hand(rows):
    return [
        {"id": row["id"], "candidate": text, "reference": row["reference"], "from": place}
        for row in rows
        for place, text in [(str(n), t) for n, t in enumerate(row["samples"] or [])]
        or [(None, None)]
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Score rows with lists, the same multiplied out by hand, and as lines of JSON."""
    folder = tmp_path_factory.mktemp("candidates")
    lines = pa.table(sampled_rows()).to_pylist()
    (folder / "in").mkdir()
    pq.write_table(pa.table(sampled_rows()), folder / "in" / "a.parquet", row_group_size=7)
    pq.write_table(pa.Table.from_pylist(multiplied_by_hand(lines)), folder / "by_hand.parquet")
    write_text(folder / "b.jsonl", to_jsonl(lines) + b'{"id": "cut off\n')
    run_job(folder / "in", output=folder / "out", **SAMPLED)
    run_job(folder / "by_hand.parquet", output=folder / "hand", idf_key=("id",), **SETTINGS)
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
    settings = SAMPLED | {"output": out}
    pq.write_table(pa.table(rows), file, row_group_size=7)
    first = run_job(file, **settings)
    parts = {path: path.read_bytes() for path in out.rglob("part-*.parquet")}
    assert run_job(file, **settings)["parts_of_earlier_runs"] == len(parts) == first["parts"]
    pq.write_table(pa.table(rows | {"note": ["y"] * ROWS}), file, row_group_size=7)
    again = run_job(file, **settings)
    assert (again["reused"], again["f1"]) == (first["scored"], first["f1"])
    assert read_output(out)["note"].to_pylist() == ["y"] * first["rows"]
    # The first row has its candidates in another order: each has its scores still.
    rows["samples"][0] = rows["samples"][0][::-1]
    pq.write_table(pa.table(rows | {"note": ["y"] * ROWS}), file, row_group_size=7)
    last = run_job(file, **settings)
    assert (last["reused"], last["rows"]) == (first["scored"], first["rows"])
    assert read_output(out)["samples"].to_pylist()[:5] == rows["samples"][0]


def test_a_later_night_takes_scores_wherever_the_candidates_are(folder, tmp_path):
    rows = sampled_rows()
    rows["samples"][0] = rows["samples"][0][::-1]
    pq.write_table(pa.table(rows), tmp_path / "other.parquet", row_group_size=5)
    reused = SAMPLED | {"reuse": str(folder / "out"), "output": tmp_path / "out"}
    night = run_job(tmp_path / "other.parquet", **reused)
    assert night["reused"] == night["scored"] > 30


def test_lines_of_json_give_the_same_rows(folder, tmp_path):
    summary = run_job(folder / "b.jsonl", output=tmp_path / "out", **SAMPLED)
    mine, parquet = read_output(tmp_path / "out"), read_output(folder / "out")
    assert mine["samples"].to_pylist()[:-1] == parquet["samples"].to_pylist()
    assert_same_scores(mine[SCORES[2]][:-1], parquet[SCORES[2]])
    assert summary["reasons"] == {"bad_line": 1, "no_candidates": 8, "null_candidate": 4}
    listed = pq.read_table(tmp_path / "out" / "_rejects").to_pylist()
    assert {row["line"] - row["row"] for row in listed} == {1}


def test_samples_within_an_answer_are_scored_kept_and_shown(folder, tmp_path, capsys):
    rows = sampled_rows()
    answers = [
        {"choices": None if texts is None else [{"message": {"content": text}} for text in texts]}
        for texts in rows.pop("samples")
    ]
    path, settings = "response.choices.message.content", SAMPLED | {"output": tmp_path / "out"}
    settings["candidate_column"] = (path,)
    for note, is_first in (("x", True), ("x", False), ("y", False)):
        table = pa.table(rows | {"note": [note] * ROWS, "response": answers})
        pq.write_table(table, tmp_path / "a.parquet", row_group_size=7)
        summary = run_job(tmp_path / "a.parquet", **settings)
        assert is_first or summary["reused"] == summary["scored"]
    mine, flat = read_output(tmp_path / "out"), read_output(folder / "out")
    assert mine.column_names[:6] == [
        "id", "reference", "note", "response", CANDIDATE, CANDIDATE_FROM,
    ]  # fmt: skip
    assert mine[CANDIDATE].to_pylist() == flat["samples"].to_pylist()
    assert mine["response"].to_pylist() == [answers[row] for row in mine["id"].to_pylist()]
    for name in (*SCORES, CANDIDATE_FROM, "bertscore_error"):
        assert mine[name].to_pylist() == flat[name].to_pylist()
    capsys.readouterr()
    assert cli.main(["explain", str(tmp_path / "out"), "--row=a.parquet:1"]) == 0
    assert f"candidate: {flat['samples'][1].as_py()}"[:60] in capsys.readouterr().out


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
        given = {"candidate_column": names, "split_rows": 10, "group_by": (CANDIDATE_FROM,)}
        run_job(folder / name, output=folder / f"out-{name}", **given)
        rows["gpt"][:4] = ["nothing of the kind"] * 4
    return folder


@pytest.fixture
def answer(capsys):
    """Return what runs a command and reads its answer in JSON."""

    def read(*words):
        assert cli.main([*map(str, words), "--json"]) == cli.DONE
        return json.loads(capsys.readouterr().out)

    return read


def test_several_columns_are_systems(systems, answer):
    out = systems / "out-a"
    summary = summary_of(out)
    assert (summary["rows"], summary["input_rows"], summary["success"]) == (2 * ROWS, ROWS, True)
    rows = read_output(out).to_pydict()
    assert rows[CANDIDATE_FROM] == ["gpt", "claude"] * ROWS
    assert rows[CANDIDATE][1::2] == rows["reference"][1::2]
    means = {"gpt": rows[SCORES[2]][0::2], "claude": rows[SCORES[2]][1::2]}
    groups = answer("groups", out, "--by", CANDIDATE_FROM)["groups"]
    by_name = {row["group"][CANDIDATE_FROM]: row for row in groups if row["group"]}
    for name, values in means.items():
        assert by_name[name]["f1"] == pytest.approx(sum(values) / ROWS, abs=1e-6)
    named = ("--systems", "claude", "gpt", "--system", CANDIDATE_FROM)
    (found,) = answer("compare", out, *named)["comparisons"]
    assert found["whole"]["counts"]["pairs"] == ROWS
    difference = (sum(means["claude"]) - sum(means["gpt"])) / ROWS
    assert found["whole"]["result"]["difference"] == pytest.approx(difference, abs=1e-6)


def test_two_runs_are_compared_row_by_row_and_candidate_by_candidate(systems, answer):
    runs = [systems / f"out-{name}" for name in "ab"]
    (found,) = answer("compare", *runs, "--by", CANDIDATE_FROM)["comparisons"]
    assert found["whole"]["counts"]["pairs"] == 2 * ROWS
    changed = {group["group"][0]: group["counts"]["up"] for group in found["groups"]}
    assert changed == {"gpt": 4, "claude": 0}
    assert {row["row"] for row in found["moved"]} == {0, 2, 4, 6}
    (shown,) = answer("explain", runs[0], "--row", "x.parquet:3")["explanations"]
    assert (shown["row"], shown["differences"]) == (3, [])
    assert shown["stored"]["f1"] == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"candidate_column": ("gpt", "gpt")}, "each once"),
        ({"candidate_column": ("gpt", "reference")}, "not also the reference column"),
        (
            {"candidate_column": ("gpt", "claude"), "language_column": "gpt"},
            "of several columns each once",
        ),
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


# `select`: the samples of a row scored with each other, against pairs that are scored alone.

FOUR = [sentence(number) for number in range(4)]
SAMPLES = [
    FOUR,
    ["a cat sat", "a dog sat", "a cat sat", "the cat sat there", "a cat sat"],  # three are equal
    ["alone"],
    [],
    [FOUR[0], None, FOUR[1], ""],
    ["alone", None],
    None,
    [FOUR[3], FOUR[3]],
]
REASONS = {"no_references": 2, "no_candidates": 2, "null_candidate": 2, "empty_candidate": 1}
COLUMNS = ("bertscore_utility", "bertscore_best", "bertscore_diversity")
BASELINE = "LAYER,P,R,F\n" + "".join(f"{layer},.2,.25,.3\n" for layer in range(7))


def select(dump, output, **changes):
    values = {"input": (str(dump),), "output": str(output), "device": "cpu", "split_rows": 6}
    return run_options(SelectOptions(**values, max_reject_fraction=1.0, **changes))


def utilities(rows, **config):
    """Return utility, best and diversity of each readable text of each row, from single pairs."""
    scorer = BertScorer(ScorerConfig(empty="zero", device="cpu", **config))
    found = []
    for texts in [[text for text in row or () if text is not None] for row in rows]:
        places = list(permutations(range(len(texts)), 2))
        if places:
            pairs = [(texts[a], texts[b]) for a, b in places]
            f1 = scorer.score(*map(list, zip(*pairs, strict=True))).f1.astype(float)
            of_first = [[f for f, pair in zip(f1, places, strict=True) if pair[0] == place]
                        for place in range(len(texts))]  # fmt: skip
            utility = np.mean(of_first, axis=1)
            first = int((utility > utility.max() - INVARIANCE_ATOL).argmax())
            found += [(u, at == first, 1 - f1.mean()) for at, u in enumerate(utility)]
    return found


def assert_selected(table, rows, **config):
    columns = [table[name].drop_null().to_numpy() for name in COLUMNS]
    wanted = zip(*utilities(rows, **config), strict=True)
    for column, values in zip(columns, wanted, strict=True):
        np.testing.assert_allclose(column, values, atol=2 * INVARIANCE_ATOL, rtol=0)
    assert len({table[name].null_count for name in COLUMNS}) == 1


@pytest.fixture(scope="module")
def selected(tmp_path_factory):
    selected = tmp_path_factory.mktemp("select")
    table = pa.table({"reference": ["a cat"] * len(SAMPLES), "samples": pa.array(SAMPLES)})
    pq.write_table(table, selected / "a.parquet")
    select(selected / "a.parquet", selected / "out", candidate_column=("samples",))
    return selected


def test_utilities_are_means_over_single_pairs(selected):
    table = read_output(selected / "out")
    assert_selected(table, SAMPLES)
    assert table[COLUMNS[0]].equals(table["bertscore_f1"])
    assert table[CANDIDATE_FROM].to_pylist()[4:9] == ["0", "1", "2", "3", "4"]
    assert table[COLUMNS[1]].to_pylist()[4:9] == [True, False, False, False, False]


@pytest.mark.model
def test_the_first_of_equal_samples_is_the_best_whatever_the_noise():
    samples = [["a cat sat", "a dog sat", "a cat sat"], ["rain", "rain"], FOUR[:2] * 3]
    rows = np.repeat(np.arange(3), [len(texts) for texts in samples])
    others = [texts[:at] + texts[at + 1 :] for texts in samples for at in range(len(texts))]
    scorer = BertScorer(ScorerConfig(device="cpu", references="mean"))
    scores = scorer.score(list(chain(*samples)), others)
    random = np.random.default_rng(1)
    for _ in range(50):
        noise = random.uniform(-4e-7, 4e-7, len(rows)).astype(np.float32)
        part = ScoredRows(
            rows=np.arange(len(rows)), scores=replace(scores, raw_f1=scores.raw_f1 + noise),
            work=Work(),
        )  # fmt: skip
        pairs = ScoredPairs.joined([None] * len(rows), [part], {})
        best = compares_samples(pairs, rows)[COLUMNS[1]]
        assert np.flatnonzero(best).tolist() == [0, 3, 5]


def test_samples_without_another_one_have_their_reason(selected):
    reasons = read_output(selected / "out")["bertscore_error"].drop_null().to_pylist()
    assert {reason: reasons.count(reason) for reason in reasons} == REASONS


def test_the_same_again_keeps_all_and_score_is_refused_there(selected):
    again = select(selected / "a.parquet", selected / "out", candidate_column=("samples",))
    assert (again["parts_of_earlier_runs"], again["reasons"]) == (again["parts"], REASONS)
    assert Signature.parse(again["signature"]).references == "mean"
    with pytest.raises(SignatureError, match=r"references.*mean is what `select` writes"):
        run_job(selected / "a.parquet", output=selected / "out", candidate_column=("samples",))


def test_a_change_beside_the_samples_keeps_their_utilities(selected, tmp_path):
    for reference in ("a cat", "a dog"):
        table = pa.table({"reference": [reference] * len(SAMPLES), "samples": pa.array(SAMPLES)})
        pq.write_table(table, tmp_path / "a.parquet")
        again = select(tmp_path / "a.parquet", tmp_path / "out", candidate_column=("samples",))
    assert again["reused"] == again["scored"]
    assert_selected(read_output(tmp_path / "out"), SAMPLES)


def test_rescaled_afterwards_is_as_rescaled_at_once(selected, tmp_path):
    (tmp_path / "en.csv").write_text(BASELINE)
    given = ["--baseline", str(tmp_path / "en.csv"), "--output", str(tmp_path / "later")]
    assert cli.main(["rescale", str(selected / "out"), *given]) == cli.DONE
    later = read_output(tmp_path / "later")
    assert_selected(later, SAMPLES, rescale=True, baseline=str(tmp_path / "en.csv"))


def test_means_of_samples_are_called_what_they_are(selected, capsys):
    words = ["select", str(selected / "a.parquet"), "--candidate-column", "samples", "--by"]
    words += ["reference", "-o", str(selected / "out"), "--max-reject-fraction", "1"]
    words += ["--device", "cpu", "--split-rows", "6"]
    assert cli.main(words) == cli.DONE
    first, groups = capsys.readouterr().out.split("reference\t")
    mean = np.mean([utility for utility, *_ in utilities(SAMPLES)])
    names, values = zip(*(line.split(": ") for line in first.splitlines()[:3]), strict=True)
    assert names == ("precision", "recall", "utility")
    assert float(values[2]) == pytest.approx(mean, abs=1e-6)
    assert cli.main(["groups", str(selected / "out")]) == cli.DONE
    for titles in (groups, capsys.readouterr().out):
        assert "\tutility\t95% of utility\t" in titles.splitlines()[0]


@pytest.mark.parametrize("rows", [["--row", "a.parquet:0"], ["--worst", "1"]])
def test_samples_of_a_run_are_not_explained(rows, selected, capsys):
    assert cli.main(["explain", str(selected / "out"), *rows]) == cli.UNUSABLE
    assert "got samples that `select` has compared with each other" in capsys.readouterr().err


def test_several_columns_are_the_samples(tmp_path):
    rows = [FOUR[:3], FOUR[1:]]
    table = pa.table(dict(zip("xyz", zip(*rows, strict=True), strict=True)))
    pq.write_table(table, tmp_path / "a.parquet")
    select(tmp_path / "a.parquet", tmp_path / "out", candidate_column=("x", "y", "z"))
    table = read_output(tmp_path / "out")
    assert_selected(table, rows)
    assert table[CANDIDATE].to_pylist() == [text for row in rows for text in row]
    assert table[CANDIDATE_FROM].to_pylist() == ["x", "y", "z"] * 2


def test_what_makes_no_sense_is_refused(selected, tmp_path, capsys):
    words = ["select", str(selected / "a.parquet"), "--output", str(tmp_path / "out")]
    refused = {"reference-column": "reference", "reuse": str(selected), "idf": "corpus"}
    for name, value in (refused | {"metrics": "chrf", "candidates": "x.txt"}).items():
        assert cli.main([*words, f"--{name}", value]) == cli.UNUSABLE
        assert f"--{name}" in capsys.readouterr().err
    pq.write_table(pa.table({"candidate": ["a", "b"]}), tmp_path / "one.parquet")
    with pytest.raises(InputError, match=r"'candidate' holds no samples: got type string"):
        select(tmp_path / "one.parquet", tmp_path / "out")
    options = job_options(selected / "a.parquet", tmp_path / "out")
    assert not options.compares_samples


def test_the_column_of_references_is_none_of_the_options_of_samples():
    options = SelectOptions(input=("in",), output="out", drop_columns=("reference",))
    assert options.table_fields.compares_samples
    assert options.table_fields.reference_column == "candidate"
    assert "reference_column" not in options.describe()
