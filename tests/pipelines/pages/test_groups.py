"""Groups of runs: in the job and afterwards the same numbers, whatever way a run took."""

import csv
import json
import shutil

import numpy as np
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.options.answer_options import GroupsOptions
from bertscore_beam.pages.group_rows import outcome_of_groups
from bertscore_beam.records.records import GROUPS_FILE
from bertscore_core.baseline import Baseline, format_baseline
from bertscore_core.errors import ConfigError, InputError
from tests.support.dumps import pair_rows, read_output
from tests.support.jobs import parts_of, run_job, summary_of
from tests.support.records import forget

pytestmark = pytest.mark.job

BY = ("system", "meta.lang")


def write_dump(folder, changed=()):
    """Write two files of 45 rows; the second lacks the nested column, and has one null text."""
    folder.mkdir()
    for number in range(2):
        rows = pair_rows(45, number * 45)
        for row in changed:
            rows["candidate"][row] = f"quite another text {row}"
        rows["system"] = [["A", "B", None][row % 3] for row in range(45)]
        if number:
            rows["candidate"][7] = None
        else:
            rows["meta"] = [{"lang": "de" if row % 2 else "en"} for row in range(45)]
        pq.write_table(pyarrow.table(rows), folder / f"{number}.parquet")
    return folder


@pytest.fixture(scope="module")
def night(tmp_path_factory, tiny_folder):
    """Return a folder with a dump, its run `plain` without groups, and one with them, `out`.

    That one was killed after a part, and went on.
    """
    folder = tmp_path_factory.mktemp("groups")
    dump = write_dump(folder / "dump")
    options = {"split_rows": 20, "max_reject_fraction": 1.0, "num_layers": 2}
    options["model"] = str(shutil.copytree(tiny_folder("bert"), folder / "model"))
    run_job(dump, output=folder / "plain", **options)
    out = shutil.copytree(folder / "plain", folder / "out")
    forget(out)
    min(out.glob("*/part-*.parquet")).unlink()
    (out / "_SUCCESS").unlink()
    run_job(dump, output=out, group_by=BY, **options)
    return folder


def groups_in(out):
    return pq.read_table(out / GROUPS_FILE)


def read_again(out, folder):
    """Return the table that the command `groups` writes."""
    file = folder / "again.parquet"
    outcome_of_groups(GroupsOptions(run=str(out), by=BY, output=str(file)))
    return pq.read_table(file)


def score(night, dump, out, *more):
    words = ["score", "--input", dump, "--output", out, "--device", "cpu", "--num-layers", 2]
    words += ["--model", night / "model", "--split-rows", 20, "--max-reject-fraction", 1]
    return cli.main([*map(str, [*words, "--group-by", *BY, *more])])


def test_groups_of_the_job_are_those_of_its_parts_to_the_bit(night, tmp_path):
    assert read_again(night / "out", tmp_path).equals(groups_in(night / "out"))
    total, *groups = groups_in(night / "out").to_pylist()
    summary = summary_of(night / "out")
    assert [(one["system"], one["meta.lang"]) for one in groups] == [
        (system, lang) for system in ("A", "B", None) for lang in ("de", "en", None)
    ]
    assert sum(one["bertscore_rows"] for one in groups) == total["bertscore_rows"] == 90
    assert dict(total["bertscore_rejected_reasons"]) == summary["rejected_reasons"]
    for name in ("precision", "recall", "f1"):
        assert total[f"bertscore_{name}"] == pytest.approx(summary[name], abs=1e-12)
    own = [
        row["bertscore_f1"]
        for row in read_output(night / "out" / "0.parquet").to_pylist()
        if (row["system"], row["meta"]["lang"]) == ("B", "en")
    ]
    (one,) = (one for one in groups if (one["system"], one["meta.lang"]) == ("B", "en"))
    assert one["bertscore_f1"] == pytest.approx(np.mean(own), abs=1e-11)
    assert summary["groups"]["by"] == list(BY)
    assert summary["groups"]["number"] == 9
    shown = summary["groups"]["shown"][0]
    assert shown["group"] == {"system": "A", "meta.lang": "de"}
    assert shown["f1"] == groups[0]["bertscore_f1"]


def test_groups_change_neither_rows_nor_signatures_and_readers_do_not_see_them(night):
    names = parts_of(night / "plain")
    for name in names:
        grouped, plain = (pq.ParquetFile(night / run / name).read() for run in ("out", "plain"))
        assert grouped.equals(plain)
    assert parts_of(night / "out").keys() == names.keys()
    assert summary_of(night / "out")["signature"] == summary_of(night / "plain")["signature"]
    assert not (night / "plain" / GROUPS_FILE).exists()
    assert summary_of(night / "plain")["groups"] is None
    found = {path.relative_to(night / "out").parts[0] for path in night.glob("out/**/*.parquet")}
    assert found == {"0.parquet", "1.parquet"}
    assert pyarrow.dataset.dataset(night / "out").count_rows() == 90


def test_other_groups_of_a_finished_run_need_no_scores(night, tmp_path, capsys):
    out = shutil.copytree(night / "plain", tmp_path / "out")
    assert score(night, night / "dump", out) == cli.DONE
    said = capsys.readouterr()
    assert "Everything is scored already" in said.err
    assert "system\tmeta.lang\trows" in said.out
    assert groups_in(out).equals(groups_in(night / "out"))
    assert parts_of(out) == parts_of(night / "plain")


def test_rescaled_runs_have_groups(night, tmp_path):
    dump = write_dump(tmp_path / "dump", changed=(0, 3, 6))
    out = tmp_path / "out"
    assert score(night, dump, out, "--reuse", night / "out") == cli.DONE
    total, *groups = groups_in(out).to_pylist()
    assert summary_of(out)["reused"] == 83
    table = Baseline(name="custom", rows=np.array([0.4, 0.5, 0.45]) + np.zeros((7, 1)))
    (tmp_path / "base.tsv").write_text(format_baseline(table))
    again = tmp_path / "rescaled"
    words = ["rescale", str(out), "--baseline", str(tmp_path / "base.tsv"), "--output", str(again)]
    assert cli.main(words) == cli.DONE
    rescaled = groups_in(again).to_pylist()
    for before, after in zip([total, *groups], rescaled, strict=True):
        for name in ("bertscore_raw_f1", "bertscore_raw_f1_q50"):
            assert after[name] == before[name]
        for name in ("", "_low", "_high"):
            value = before[f"bertscore_f1{name}"]  # null: too few rows for an interval
            value = value and pytest.approx((value - 0.45) / 0.55, abs=1e-6)
            assert after[f"bertscore_f1{name}"] == value
        assert after["bertscore_f1_error"] == pytest.approx(before["bertscore_f1_error"] / 0.55)
    assert read_again(again, tmp_path).equals(groups_in(again))


def test_the_command_prints_a_table_or_json_and_writes_files(night, tmp_path, capsys):
    run = str(night / "plain")
    assert cli.main(["groups", run, "--by", "system"]) == cli.DONE
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split("\t")[:3] == ["system", "rows", "rejected"]
    assert [line.split("\t")[0] for line in lines[1:]] == ["all rows", "A", "B", "(null)"]
    for name in ("groups.csv", "groups.pq"):
        words = ["groups", run, "--by", "system", "--json", "--output", str(tmp_path / name)]
        assert cli.main(words) == cli.DONE
        document = json.loads(capsys.readouterr().out)
    systems = [{"system": system} for system in ("A", "B", None)]
    assert [one["group"] for one in document["groups"]] == [None, *systems]
    table = pq.read_table(tmp_path / "groups.pq")
    assert table["bertscore_f1"].to_pylist() == [one["f1"] for one in document["groups"]]
    with (tmp_path / "groups.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["bertscore_f1"]) for row in rows] == table["bertscore_f1"].to_pylist()
    assert json.loads(rows[0]["bertscore_reasons"]) == {"null_candidate": 1}
    assert cli.main(["groups", run]) == cli.DONE
    assert capsys.readouterr().out.count("\n") == 2


def test_what_cannot_be_grouped_is_refused(night, tmp_path, capsys):
    run = str(night / "plain")
    with pytest.raises(InputError, match="no group column 'sytem'"):
        outcome_of_groups(GroupsOptions(run=run, by=("sytem",)))
    with pytest.raises(InputError, match="'meta' cannot be used for --by"):
        outcome_of_groups(GroupsOptions(run=run, by=("meta",)))
    with pytest.raises(InputError, match="between 0 and 1"):
        GroupsOptions(run=run, confidence=95)
    with pytest.raises(ConfigError, match="is not a scoring run"):
        outcome_of_groups(GroupsOptions(run=str(tmp_path)))
    for output, words in (("x.txt", "ends in .parquet"), (f"{run}/x.parquet", "inside the run")):
        assert cli.main(["groups", run, "--output", output]) == cli.UNUSABLE
        assert words in capsys.readouterr().err
