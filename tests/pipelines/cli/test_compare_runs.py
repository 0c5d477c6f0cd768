"""The command that compares runs: what it prints, and how it ends."""

import json
import re
import shlex

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from bertscore_beam.cli import main as cli
from bertscore_beam.cli.show import show
from bertscore_beam.run.output import DONE, UNJUDGED, UNUSABLE, WORSE, TextTable
from tests.support.made_runs import made_run, many_rows, scored, two_nights, with_column

pytestmark = pytest.mark.usefixtures("few_resamples")


@pytest.fixture(scope="module")
def nights(tmp_path_factory):
    """Return two nights; in the second one system is worse by .02."""
    return two_nights(tmp_path_factory.mktemp("nights"))


def test_a_system_made_worse_on_purpose_is_found_and_the_others_are_not(nights, ran):
    gate = ("--fail-if-drop", 0.01, "--confidence", 0.95)
    words = ("compare", *nights, "--key", "id", "--by", "system", *gate)
    out, err = ran(words, WORSE)
    lines = [line.split("\t") for line in out.splitlines()]
    verdicts = {line[0]: line[-1] for line in lines if line[-1] in ("passed", "failed")}
    assert verdicts.pop("system-1") == "failed"
    assert verdicts == dict.fromkeys(("all", "system-0", "system-2", "system-3"), "passed")
    said = "the group system-1 did not pass the gate: it is lower by more than 0.01"
    assert out.count(said) == 1
    assert err == ""
    found, err = ran([*words, "--json"], WORSE)
    found = json.loads(found)
    assert err.count(said) == 1
    assert said in found["warnings"][0]
    assert (found["status"], found["passed"]) == (WORSE, False)
    moved = found["comparisons"][0]["moved"]
    changes = [one["change"] for one in moved]
    assert changes[:10] == sorted(changes[:10]) < [0]
    assert changes[10:] == sorted(changes[10:], reverse=True) > [0]
    assert [one["group"] for one in moved[:10]] == [["system-1"]] * 10


def test_the_answer_comes_first_and_groups_that_have_not_changed_are_one_line(tmp_path, ran):
    before, now = (many_rows(400, shift=shift) for shift in (0, -0.02))
    first = made_run(tmp_path / "before", {"news.parquet": before})
    second = made_run(tmp_path / "now", {"my news.parquet": now})
    words = ("compare", second, first, "--key", "segment", "system", "--by", "system")
    out = ran([*words, "--fail-if-drop", 0.01], WORSE).out
    lines = out.splitlines()
    assert lines[0] == "gate: not passed"
    assert lines[1].startswith(f"reason: compared with {first}, the group system-1 did not pass")
    assert lines[2].startswith(f"f1 against {first}: lower: -0.00")
    assert lines[3] == "groups: 1 worse, 3 unchanged"
    cells = [line.split("\t") for line in lines]
    start = next(at for at, row in enumerate(cells) if row[0] == "system")
    names = [row[0] for row in cells[start + 1 : start + 4]]
    assert names == ["all", "system-1", "3 groups unchanged"]
    # The row that fell most has its key, and a command that can be pasted.
    named = dict(zip(*cells[start + 4 : start + 6], strict=True))
    row = f"my news.parquet:{4 * int(named['segment']) + 1}"
    assert (named["system"], named["row of run"]) == ("system-1", row)
    pasted = shlex.split(lines[-1])
    assert pasted == ["bertscore-beam", "explain", str(second), f"--row={row}"]
    assert cli.COMMANDS["explain"].read("explain", pasted[2:]).row == (row,)
    (found,) = json.loads(ran([*words, "--json"]).out)["comparisons"]
    assert len(found["groups"]) == 4
    assert found["explain"] == lines[-1]
    assert found["moved"][0]["key"] == {"segment": named["segment"], "system": "system-1"}
    result = found["whole"]["result"]
    assert f"show: {result['detectable']:.6f} (80% of the time)" in out
    assert ran([*words, "--fail-if-drop", 0.1]).out.startswith("gate: passed\nf1 against")


def test_a_command_to_paste_is_not_broken_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(Console, "is_terminal", True)
    monkeypatch.setenv("COLUMNS", "40")
    command = "bertscore-beam explain " + "long" * 40
    show(TextTable("Next step", ("",), [(command,)]))
    assert capsys.readouterr().out == command + "\n"


def test_without_a_gate_a_comparison_is_done(nights, ran):
    now, before = nights
    out, err = ran(["compare", now, "--cluster", "document", before])
    assert err == ""
    assert "paired by: file and position" in out
    assert "clusters: 30 of document, as many as 30.0 equal ones" in out
    assert re.search(r"differ by more than 1e-06: 1,\d{3} \(\d{3} up, \d{3} down\)", out)
    ran(["compare", *nights, "--fail-if-drop", 0.01])  # one of four fell by .02: all by .005


def test_systems_are_ranked(nights, ran):
    now, _ = nights
    out, _ = ran(["compare", now, "--systems", "--key", "segment"])
    rows = [line.split("\t") for line in out.splitlines()]
    assert rows[0] == ["cluster", "rank", "system", "mean f1", "significantly better than"]
    assert [row[2] for row in rows[1:5]][-1] == "system-1"
    assert rows[4][:2] == ["2", "4"]
    assert len(rows) == 1 + 4 + 1 + 6
    two = ["compare", now, "--systems", "system-1", "system-0", "--key", "segment"]
    (found,) = json.loads(ran([*two, "--json"]).out)["comparisons"]
    assert found["whole"]["result"]["difference"] == pytest.approx(-0.02, abs=0.01)
    out, _ = ran([*two, "--fail-if-drop", 0], WORSE)
    assert "compared with system-0, system system-1 did not pass the gate: it is lower by" in out
    assert "\npairs: 300\n" in out
    assert "rows\tpairs\tsystem-1\tsystem-0\t" in out
    assert not re.search(r"\b(before|now|run|fell|unchanged)\b", out.replace(str(now), ""))


def test_runs_without_a_common_row_are_not_compared_by_a_gate_either(nights, ran, tmp_path):
    now, before = nights
    # Every row has another id, as where ids are made anew each night.
    rows = many_rows(40)
    ids = pa.array(range(10_000, 10_040))
    rows = rows.set_column(rows.column_names.index("id"), "id", ids)
    other = made_run(now.parent / "other", {"news.parquet": rows})
    how, page = ("--key", "id", "--by", "system"), tmp_path / "report.html"
    for words in (
        ("compare", now, other, before, *how),
        ("compare", now, other, before, *how, "--fail-if-drop", 0.1),
        ("report", now, "--against", before, other, *how, "--fail-if-drop", 0.1, "-o", page),
    ):
        out, err = ran(words, UNUSABLE)
        assert (out, page.exists()) == ("", False)
        assert f"{str(now)!r} and {str(other)!r} cannot be compared: got no row with scores" in err
        assert "0 rows are on both sides" in err


def test_a_warning_comes_once_and_names_its_measure_where_others_have_another(tmp_path, ran):
    """Of 400 rows 5 have no score by F1 on the second night, and 3 others no length then."""
    f1 = np.linspace(0.5, 0.9, 400)
    lengths = np.arange(400.0)
    before = made_run(tmp_path / "before", {"a": scored(f1, id=np.arange(400), length=lengths)})
    lost, cut = np.where(np.arange(400) < 5, np.nan, f1), lengths.copy()
    cut[-3:] = np.nan
    ids = pa.array([*range(399), None])
    now = made_run(tmp_path / "now", {"a": scored(lost, id=ids, length=pa.array(cut))})
    how = ("--key", "id", "--measure", "f1", "precision", "length")
    err = ran(["compare", now, before, *how]).err
    page = tmp_path / "report.html"
    ran(["report", now, "--against", before, *how, "-o", page])
    for shown in (err, page.read_text()):
        assert shown.count("rows that the other side has scored have no score here") == 2
        assert "f1, precision: 6 rows that the other side has scored" in shown
        assert "length: 3 rows that the other side has scored" in shown
        assert shown.count("1 rows have a null or NaN in a column of the key") == 1
        assert "f1, precision, length: " not in shown


def test_what_failed_the_gate_comes_first_and_lost_rows_are_called_so(tmp_path, ran):
    """Of four cells `b de` fell most, though other rows fell further; `c zh` has lost its input."""

    def night(name, *, fallen, names):
        draw = np.random.default_rng(len(names))
        inputs = {}
        for at, cell in enumerate(("a en", "b de", "b zh", "c zh")):
            system, language = cell.split()
            f1 = np.linspace(0.6, 0.9, 300) + at / 100
            if name == "now":
                f1 -= np.where(np.arange(300) % 3 == 0, fallen if cell == "b de" else 0, 0)
                f1 += np.where(draw.random(300) < 0.05, draw.choice([-0.5, 0.05], 300), 0)
            given = {"id": np.arange(300), "system": [system] * 300, "lang": [language] * 300}
            if cell in names:
                given = {key: pa.array(values) for key, values in given.items()}
                inputs[f"{cell}.parquet"] = scored(f1, **given)
        return made_run(tmp_path / name, inputs)

    cells = ("a en", "b de", "b zh", "c zh")
    before = night("before", fallen=0, names=cells)
    now = night("now", fallen=0.2, names=cells[:3])
    how = ("--key", "id", "system", "lang", "--by", "system", "lang", "--fail-if-drop", 0.02)
    out, err = ran(("compare", now, before, *how), WORSE)
    assert err == ""  # the tables say it
    lost = "300 of c zh.parquet, an input that is not in this run"
    assert "the group c / zh did not pass the gate: rows lost: 300 that the other side" in out
    assert lost in out
    assert "\nsystem\tlang\trows lost\tinput\t\nc\tzh\t300\tc zh.parquet\tnot in this run\n" in out
    lines = [line.split("\t") for line in out.splitlines()]
    table = next(at for at, row in enumerate(lines) if row[0] == "change")
    assert [row[3:5] for row in lines[table + 1 : table + 11]] == [["b", "de"]] * 10
    assert "--row=b de.parquet:" in out.splitlines()[-1]
    (found,) = json.loads(ran(("compare", now, before, *how, "--json"), WORSE).out)["comparisons"]
    groups = {" ".join(one["group"]): one for one in found["groups"]}
    assert groups["c zh"]["lost"] == [{"input_name": "c zh.parquet", "rows": 300, "is_gone": True}]
    assert groups["c zh"]["result"]["interval"] is None
    assert groups["c zh"]["caveats"] == []
    assert groups["c zh"]["gate"]["worse"] is groups["b de"]["gate"]["rows_lost"] is None
    moved = found["moved"]
    assert [one["group"] for one in moved[:10]] == [["b", "de"]] * 10
    assert [one["change"] for one in moved[:10]] == sorted(one["change"] for one in moved[:10])
    page = tmp_path / "page.html"
    words = ("report", now, "--against", before, *how, "-o", page, "--quiet")
    lines = ran(words, WORSE).out.splitlines()
    at = lines.index(f"rows lost: c / zh 300: {lost}")
    assert lines[at + 1].startswith("fell: -0.")
    assert "b / de b de.parquet:" in lines[at + 1]
    assert any(line.startswith("next: bertscore-beam explain ") for line in lines[at:])
    answer = page.read_text().partition('aria-label="Answer"')[2].partition("</section>")[0]
    assert "<strong>Worse and rows lost</strong>: the gate is not passed" in answer
    assert '<strong class="lost">rows lost</strong> <bdi class="name">c</bdi>' in answer
    assert "c zh.parquet" in answer

    # If rows are lost and nothing is worse, no row that fell elsewhere is explained.
    alone = made_run(tmp_path / "alone", {"a en.parquet": many_rows(400, shift=-0.001)})
    fewer = {
        "a en.parquet": many_rows(400),
        "b.parquet": with_column(many_rows(40), "id", range(1000, 1040)),
    }
    both = made_run(tmp_path / "both", fewer)
    out, _ = ran(("compare", alone, both, "--key", "id", "--fail-if-drop", 0.5), WORSE)
    assert "rows lost: 40 that the other side has scored" in out
    assert "b.parquet\tnot in this run" in out
    assert "bertscore-beam explain" not in out


def test_too_few_rows_are_a_status_of_their_own_and_lower_without_a_proof_passes(tmp_path, ran):
    def night(name, rows, fallen):
        f1 = np.where(np.arange(rows) < fallen, 0.5, 0.9)
        ids = {"id": pa.array(range(rows)), "system": pa.array(["a"] * (rows - 3) + ["b"] * 3)}
        return made_run(tmp_path / name, {"a.parquet": scored(f1, **ids)})

    for rows, fallen, status, passed in ((4, 4, UNJUDGED, None), (60, 4, DONE, True)):
        runs = night(f"now {rows}", rows, fallen), night(f"before {rows}", rows, 0)
        words = (*runs, "--key", "id", "--by", "system", "--fail-if-drop", 0.005)
        found = json.loads(ran(("compare", *words, "--json"), status).out)
        (one,) = found["comparisons"]
        page = tmp_path / "page.html"
        command = ("report", words[0], "--against", *words[1:], "-o", page)
        report = json.loads(ran((*command, "--json"), status).out)
        assert (found["status"], found["passed"]) == (status, passed)
        assert (report["status"], report["passed"]) == (status, passed)
        out, text = ran(("compare", *words), status).out, page.read_text()
        if passed is None:
            assert out.startswith("gate: not judged\nreason: ")
            assert one["whole"]["gate"]["not_judged"] == "got 4 rows; expected at least 6"
            assert "All rows together cannot be judged: got 4 rows; expected at least 6" in text
        else:
            said = "it is lower by more than 0.005, but only 4 of its 60 rows have moved, too few"
            assert one["whole"]["gate"]["notice"].startswith(said)
            assert f"\nnotice: the run: {said}" in out
            assert "\nnot judged: the group b: got 3 rows; expected at least " in out
            assert f"Passed without a proof: all rows: {said}" in text


def test_what_cannot_be_compared_ends_with_status_2(nights, ran, monkeypatch):
    now, before = nights
    (same := before.parent / "same").symlink_to(now)
    itself = "a run cannot be compared with itself"
    for words, message in (
        (("compare", now), "there is nothing to compare the run with"),
        (("compare", now, before, "--kye", "id"), "unknown argument '--kye'"),
        (("compare", now, before, "--key", "segment"), "--key segment does not identify a row"),
        (("compare", now, same, "--key", "id"), itself),
        (("report", now, "--against", same, "--key", "id"), itself),
    ):
        assert message in ran(words, UNUSABLE).err


def test_a_pair_near_the_pole_of_f1_hides_no_night_on_which_all_others_are_worse(tmp_path, capsys):
    before = np.random.default_rng(5).normal(0.85, 0.05, 200)
    now = before - np.random.default_rng(6).normal(0.11, 0.03, 200)
    before[-1], now[-1] = 1.0, -282.8  # `forms` | `forms`, then `might` | `forms`
    ids = {"id": np.arange(200)}
    for name, f1 in (("before", before), ("now", now)):
        made_run(tmp_path / name, {"a.parquet": scored(f1, **ids)})
    words = ["compare", tmp_path / "now", tmp_path / "before", "--key", "id", "--json"]
    assert cli.main([*map(str, words), "--fail-if-drop", "0.005"]) == WORSE
    shown = json.loads(capsys.readouterr().out)["comparisons"][0]
    clipped = np.float32(now[:-1]).astype(float).sum() - 1
    assert shown["whole"]["mean"] == pytest.approx(clipped / 200)
    assert shown["whole"]["counts"]["clipped"] == 1
    assert shown["whole"]["gate"]["p_value"] < 1e-6
    assert shown["moved"][0]["score"] == pytest.approx(-282.8)  # the row keeps its F1
    # In the earlier run, it cannot make a night look better.
    before[-1], now[-1] = -282.8, 1.0
    for name, f1 in (("before", before), ("now", now)):
        made_run(tmp_path / name, {"a.parquet": scored(f1, **ids)})
    assert cli.main([*map(str, words), "--fail-if-drop", "0.005"]) == WORSE


VIEWS = {
    "id": pa.string_view(),
    "lists": pa.list_(pa.string_view()),
    "structs": pa.struct([("bytes", pa.binary_view())]),
}
"""Types that Arrow can neither filter nor take from: Parquet keeps them."""


def test_columns_of_views_are_read_by_every_command(tmp_path, ran):
    ids = [f"row {number}" for number in range(40)]
    values = {"id": ids, "lists": [[one] for one in ids], "structs": [{"bytes": b"x"}] * 40}
    given = {name: pa.array(values[name], kind) for name, kind in VIEWS.items()}
    given |= {name: pa.array(ids, pa.string_view()) for name in ("candidate", "reference")}
    given["system"] = pa.array(["a", "b"] * 20, pa.string_view())
    f1 = np.random.default_rng(1).normal(0.8, 0.05, 40)
    now, before = (
        made_run(tmp_path / name, {"a": scored(f1 + shift, **given)})
        for name, shift in (("now", -0.1), ("before", 0))
    )
    options = ("--key", "id", "--by", "system", "--cluster", "id")
    assert "row 7" in ran(("compare", now, before, *options)).out
    assert ran(("compare", now, before, "--key", "id", "--cluster", "structs.bytes")).out
    ran(("compare", now, before, "--key", "id", "--cluster", "structs"), UNUSABLE)
    assert ran(("groups", now, "--by", "system")).out.count("\n") == 4
    page = tmp_path / "page.html"
    assert ran(("report", now, "--against", before, *options, "-o", page, "--quiet")).err == ""
    assert "row 7" in page.read_text()
