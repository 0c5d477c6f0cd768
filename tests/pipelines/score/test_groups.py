"""Groups of rows: which rows belong together, and their statistics against those of pandas."""

import datetime
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from bertscore_beam.cli import main as cli
from bertscore_beam.dump.census import MOST_GROUPS, check_number, groups_of, take_census
from bertscore_beam.records.group_notes import GROUPS_KEY
from bertscore_beam.records.groups import (
    caveat_messages_of,
    group_rows,
    merge_statistics,
    statistics_of,
    table_of_groups,
)
from bertscore_beam.records.records import GROUPS_FILE
from bertscore_beam.score import finish
from bertscore_core.errors import ConfigError, InputError
from tests.support.dumps import pair_rows, write_dump
from tests.support.jobs import (
    job_options,
    parts_of,
    prepare_score,
    run_options,
    score_arguments,
    summary_of,
)
from tests.support.made_runs import scored


def found_groups(**columns):
    table = pa.table(columns)
    found = groups_of(table, list(columns))
    return [found.groups[code] for code in found.codes.tolist()]


def test_values_of_every_kind_are_texts_and_those_without_a_value_are_one_group():
    days = [datetime.date(2026, 1, 2), None, datetime.date(2026, 1, 2)]
    assert found_groups(day=pa.array(days)) == [("2026-01-02",), (None,), ("2026-01-02",)]
    assert found_groups(n=[1.0, 1.5, float("nan"), None]) == [("1",), ("1.5",), (None,), (None,)]
    assert found_groups(n=pa.array([7, -7], pa.int8())) == [("7",), ("-7",)]
    assert found_groups(flag=[True, False, None]) == [("true",), ("false",), (None,)]
    words = pa.array(["a", None, "", "a"]).dictionary_encode()
    assert found_groups(word=words) == [("a",), (None,), ("",), ("a",)]
    raw = pa.array([b"\xff", b"ok"], pa.binary()).view(pa.string())
    assert found_groups(word=raw) == [(None,), ("ok",)]
    assert found_groups(nothing=pa.nulls(2)) == [(None,), (None,)]
    assert found_groups(view=pa.array(["a", "b"], pa.string_view())) == [("a",), ("b",)]


def test_several_columns_make_groups_of_all_their_values():
    rng = np.random.default_rng(0)
    first = [["x", "y", None][n] for n in rng.integers(0, 3, 200)]
    second = rng.integers(0, 4, 200).tolist()
    expected = [(one, str(two)) for one, two in zip(first, second, strict=True)]
    assert found_groups(a=first, b=second) == expected


def test_a_nested_column_is_named_by_its_path_and_a_missing_one_has_no_value():
    table = pa.table({"meta": [{"lang": "en"}, None, {"lang": None}]})
    found = groups_of(table, ["meta.lang", "nowhere", "meta.x"])
    assert found.groups == ((None, None, None), ("en", None, None))


def test_a_column_that_is_there_twice_is_refused():
    table = pa.table([pa.array(["a"]), pa.array(["b"])], names=["x", "x"])
    with pytest.raises(InputError, match="column 'x' is not unique: got 2 columns of that"):
        groups_of(table, ["x"])


def test_no_rows_have_no_groups():
    table = pa.table({"word": pa.array([], pa.string())})
    assert groups_of(table, ["word"]).groups == ()
    assert groups_of(table.slice(0, 0), ["nowhere"]).groups == ()


def scored_table(rows):
    """Return a part as `score --rescale` writes it, without its texts."""
    rng = np.random.default_rng(0)
    raw = np.clip(rng.normal(0.7, 0.1, (rows, 3)), -1, 1).astype(np.float32)
    rejected = rng.random(rows) < 0.1
    names = [f"bertscore_raw_{name}" for name in ("precision", "recall", "f1")]
    final = ((raw - 0.4) / 0.6).astype(np.float32)
    columns = dict(zip(names, raw.T, strict=True))
    columns |= {name.replace("raw_", ""): final[:, n] for n, name in enumerate(names)}
    table = {name: pa.array(values, mask=rejected) for name, values in columns.items()}
    return pa.table(
        {
            "system": [["A", "B", "C", None][n] for n in rng.integers(0, 4, rows)],
            "number": rng.integers(1, 12, rows),
            **table,
            "bertscore_truncated": pa.array(rng.random(rows) < 0.3, mask=rejected),
            "bertscore_error": [
                "null_candidate" if no else ("empty_candidate" if n % 9 == 0 else None)
                for n, no in enumerate(rejected)
            ],
        }
    )


def test_the_table_of_groups_has_the_numbers_of_pandas():
    table = scored_table(3000)
    rows = group_rows(statistics_of(table, ["system", "number"], None))
    found = table_of_groups(rows, ["system", "number"]).to_pylist()
    frame = table.to_pandas()
    assert [one["bertscore_all_rows"] for one in found] == [True] + [False] * (len(found) - 1)
    # By value: 2 before 11, and no value last.
    assert [one["number"] for one in found[1:12]] == [str(n) for n in range(1, 12)]
    assert [one["system"] for one in found[-12:]] == ["C"] + [None] * 11
    by_key = {(one["system"], one["number"]): one for one in found}
    grouped = frame.groupby(["system", "number"], dropna=False)
    assert len(found) == 1 + grouped.ngroups
    for key, own in [((None, None), frame), *grouped]:
        one = by_key[tuple(None if pd.isna(value) else str(value) for value in key)]
        scored = own.dropna(subset="bertscore_f1")
        assert one["bertscore_rows"] == len(own)
        assert one["bertscore_scored"] == len(scored)
        assert one["bertscore_rejected"] == len(own) - len(scored)
        assert one["bertscore_truncated"] == scored["bertscore_truncated"].sum()
        assert dict(one["bertscore_reasons"]) == own["bertscore_error"].value_counts().to_dict()
        assert dict(one["bertscore_rejected_reasons"]).keys() <= {"null_candidate"}
        for name in ("bertscore_precision", "bertscore_f1", "bertscore_raw_f1"):
            assert one[name] == pytest.approx(scored[name].astype(float).mean(), abs=1e-11)
        assert one["bertscore_f1_error"] == pytest.approx(scored["bertscore_f1"].sem(), rel=1e-5)
        assert one["bertscore_f1_low"] < one["bertscore_f1"] < one["bertscore_f1_high"]
        median = scored["bertscore_raw_f1"].quantile(0.5, interpolation="lower")
        near = 0.05 if len(own) < 99 else 1e-3
        assert one["bertscore_raw_f1_q50"] == pytest.approx(median, abs=near)


def test_parts_in_any_order_and_number_give_the_same_table():
    table = scored_table(1000)
    rows = group_rows(statistics_of(table, ["system"], None))
    parts = [statistics_of(table.slice(n, 20), ["system"], None) for n in range(0, 1000, 20)]
    for cut in (1, 7, 50):
        pieces = [merge_statistics(parts[n : n + cut]) for n in range(0, 50, cut)]
        found = group_rows(merge_statistics(reversed(pieces)))
        assert table_of_groups(found, ["system"]).equals(table_of_groups(rows, ["system"]))


def test_too_many_groups_leave_all_rows_in_any_cut(monkeypatch):
    table = scored_table(300)
    parts = [statistics_of(table.slice(n, 20), ["number"], None) for n in range(0, 300, 20)]
    whole = merge_statistics(parts)
    assert len(whole.groups) == 11
    monkeypatch.setattr("bertscore_beam.records.groups.MOST_GROUPS", 11)
    assert merge_statistics(parts) == whole
    monkeypatch.setattr("bertscore_beam.records.groups.MOST_GROUPS", 10)
    for cut in (1, 4, 15):
        pieces = [merge_statistics(parts[n : n + cut]) for n in range(0, 15, cut)]
        assert merge_statistics(pieces) == replace(whole, groups=None)


def test_a_group_without_scores_has_no_means():
    table = scored_table(200)
    table = table.filter(pa.compute.is_null(table["bertscore_f1"]))
    (total, *_) = group_rows(statistics_of(table, [], None))
    assert total.values["rows"] == total.values["rejected"] == table.num_rows > 3
    for name in ("f1", "f1_error", "f1_low", "raw_f1_q50", "interval"):
        assert total.values[name] is None


def test_groups_whose_variance_few_rows_carry_are_named():
    scores = np.random.default_rng(0).normal(0.8, 0.03, 300)
    scores[[3, 9]] = 0
    systems = [["A", "B", None][row % 3] for row in range(300)]
    rows = group_rows(statistics_of(scored(scores, system=pa.array(systems)), ["system"], None))
    (whole,) = caveat_messages_of(rows).values()
    assert whole.startswith("Few rows (about 3.0) carry most of the variance: ")
    (group,) = caveat_messages_of([replace(rows[0], caveats=()), *rows[1:]]).values()
    assert group.startswith(
        "1 of 3 groups has few rows that carry most of the variance, such as A:"
    )
    assert caveat_messages_of(rows[2:]) == {}
    (null,) = caveat_messages_of([rows[2], replace(rows[1], group=(None,))]).values()
    assert "1 of 1 groups has" in null
    assert "such as (null):" in null
    kinds = table_of_groups(rows, ["system"])["bertscore_caveats"].to_pylist()
    assert kinds == [["few_rows_carry"]] * 2 + [[]] * 2
    assert rows[0].caveats[0].number == rows[0].values["f1_carriers"]


def test_too_many_groups_are_refused_by_the_column_with_the_most_values():
    groups = [(str(n % 5), str(n)) for n in range(MOST_GROUPS + 1)]
    check_number(groups[:-1], ["a", "b"])
    with pytest.raises(InputError, match=r"The column 'b' has the most values .*'a' 5, 'b' 10,001"):
        check_number(groups, ["a", "b"])


@pytest.fixture
def dump(tmp_path):
    """Return a dump of three files: two have the column `system`, and one has it nested."""
    folder = tmp_path / "dump"
    folder.mkdir()
    for number in range(3):
        texts = {"candidate": ["a cat"] * 4, "reference": ["the cat"] * 4}
        more = {"system": ["A", "B", "A", None]} if number else {"x": [{"system": "A"}] * 4}
        pq.write_table(pa.table(texts | more), folder / f"{number}.parquet")
    return folder


@pytest.mark.model
def test_groups_are_counted_and_refused_before_anything_is_scored(dump, tmp_path, capsys):
    def planned(*by):
        options = job_options(dump, tmp_path / "out", group_by=by)
        return prepare_score(options).planned.plan.splits

    splits = planned("system", "x.system")
    assert take_census(splits, None, ["system"]).num_groups == 3
    assert take_census(splits, None, ["system", "x.system"]).num_groups == 4
    assert take_census(splits, None, []).num_groups == 0
    with pytest.raises(InputError, match=r"no group column 'sytem'.+ Did you mean 'system'"):
        planned("sytem")
    with pytest.raises(InputError, match="no group column 'bertscore_candidate_from'"):
        planned("bertscore_candidate_from")  # no row has several candidates
    with pytest.raises(InputError, match=r"0\.parquet: the column 'x' cannot be used for --by"):
        planned("x")
    for wrong in (("system", "system"), ("bertscore_f1",)):
        with pytest.raises(ConfigError, match="columns of the input, each once"):
            planned(*wrong)
    many = pa.table({"candidate": ["a"] * 10_001, "reference": ["b"] * 10_001, "id": range(10_001)})
    pq.write_table(many, dump / "many.parquet")
    words = score_arguments(dump, tmp_path, "--split-rows", 20_000, "--group-by")
    assert cli.main([*words, "system", "id"]) == cli.UNUSABLE
    assert "The column 'id' has the most values" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert cli.main([*words, "system", "--dry-run"]) == cli.DONE
    assert "groups: at least 3 by system" in capsys.readouterr().out


@pytest.mark.job
def test_too_many_groups_that_come_late_cost_the_groups_and_not_the_run(tmp_path, capsys):
    late, out = MOST_GROUPS + 200, tmp_path / "out"
    rows = late // 2 * 3
    ids = ["one"] * (rows - late) + [str(number) for number in range(late)]
    columns = {"id": ids, "side": ["left", "right"] * (rows // 2)}
    columns |= {"candidate": ["a cat"] * rows, "reference": ["the cat"] * rows}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    words = score_arguments(tmp_path / "a.parquet", tmp_path, "--split-rows", late // 2, "--by")
    for _ in range(2):  # the second time nothing is scored, and no pipeline runs
        assert cli.main([*words, "id"]) == cli.DONE
        assert f"got more than {MOST_GROUPS:,} by id; expected" in capsys.readouterr().err
        summary = summary_of(out)
        assert (summary["success"], summary["scored"], summary["groups"]) == (True, rows, None)
        assert (out / "_SUCCESS").exists() > (out / GROUPS_FILE).exists()
    assert cli.main([*words, "side"]) == cli.DONE
    assert "there are no groups" not in capsys.readouterr().err
    numbers = pq.read_table(out / GROUPS_FILE)["bertscore_rows"].to_pylist()
    assert numbers == [rows, rows // 2, rows // 2]


@pytest.mark.job
def test_a_run_of_which_no_split_can_be_read_ends_without_groups(tmp_path, capsys):
    file = tmp_path / "a.parquet"
    columns = {"candidate": [f"cat {n}" for n in range(9)], "reference": ["a"] * 9, "g": ["x"] * 9}
    pq.write_table(pa.table(columns), file, use_dictionary=False)
    data = bytearray(file.read_bytes())
    start = pq.read_metadata(file).row_group(0).column(0).data_page_offset
    data[start : start + 20] = b"\xff" * 20
    file.write_bytes(data)
    assert cli.main([*score_arguments(file, tmp_path, "--by", "g")]) == cli.BROKEN
    assert "1 splits and 0 files could not be read" in capsys.readouterr().err


def notes_of(parts):
    metadata = (pq.read_metadata(pa.BufferReader(data)).metadata for data in parts.values())
    return [found.get(GROUPS_KEY) for found in metadata]


@pytest.mark.job
@pytest.mark.usefixtures("tiny_jobs")
def test_notes_are_the_same_after_a_stop_and_other_columns_score_nothing_again(
    tmp_path, monkeypatch
):
    texts = pair_rows(40) | {"side": ["left", "right"] * 20, "half": ["a"] * 20 + ["b"] * 20}
    dump = write_dump(tmp_path / "dump", [pa.table(texts)], row_group_size=20)
    whole, columns = {}, ("side", "half")
    for by in columns:
        assert run_options(job_options(dump, tmp_path / by, group_by=(by,)))["success"]
        whole[by] = parts_of(tmp_path / by), (tmp_path / by / GROUPS_FILE).read_bytes()
    assert None not in notes_of(whole["side"][0])
    assert whole["side"][0] != whole["half"][0]
    for by in columns:  # of which the second continues what the first has begun
        output = tmp_path / f"stopped-{by}"
        with monkeypatch.context() as patch:
            patch.setattr(finish, "publish", None)  # stands for the death of the run
            with pytest.raises((TypeError, RuntimeError), match="not callable"):
                run_options(job_options(dump, output, group_by=("side",)))
        _, second = sorted((output / "_work").rglob("0000*.pq"))
        second.unlink()
        summary = run_options(job_options(dump, output, group_by=(by,)))
        assert (summary["success"], summary["parts_kept"]) == (True, 1)
        assert (output / GROUPS_FILE).read_bytes() == whole[by][1]
        notes = [notes_of(whole[column][0])[place] for place, column in enumerate(("side", by))]
        assert notes_of(parts_of(output)) == notes
        assert (parts_of(output) == whole[by][0]) == (by == "side")
    summary = run_options(job_options(dump, tmp_path / "side", group_by=("half",)))
    assert (summary["success"], summary["parts_of_earlier_runs"]) == (True, 2)
    assert parts_of(tmp_path / "side") == whole["side"][0]
    assert (tmp_path / "side" / GROUPS_FILE).read_bytes() == whole["half"][1]


CHOOSING = {
    "day": (pa.date32(), [datetime.date(2026, 1, 2), None], ["2026-01-02", None]),
    "at": (
        pa.timestamp("us"),
        [datetime.datetime(2026, 1, 2), datetime.datetime(2026, 1, 2, 3, 4, 5, 500_000)],
        ["2026-01-02T00:00:00", "2026-01-02T03:04:05.5"],
    ),
    "at_utc": (
        pa.timestamp("us", "UTC"),
        [datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC), None],
        ["2026-01-02T00:00:00Z", None],
    ),
    "price": (pa.decimal128(10, 2), [Decimal("1.50"), Decimal("2.00")], ["1.5", "2"]),
    "customer": (pa.decimal128(38, 0), [Decimal(10**37), Decimal(7)], [f"1{'0' * 37}", "7"]),
}


@pytest.mark.job
@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_rows_are_grouped_by_days_moments_and_decimals_at_the_first_try(kind, tmp_path):
    columns = {
        name: pa.array([values[row // 6] for row in range(12)], of)
        for name, (of, values, _) in CHOOSING.items()
    }
    table = pa.table({**pair_rows(12), **columns})
    if kind == "delta":
        write_deltalake(str(tmp_path / "dump"), table, partition_by=[*CHOOSING])
    else:
        halves = pa.array([0.5] * 6 + [1.0] * 6, pa.float16())
        write_dump(tmp_path / "dump", [table.append_column("half", halves)])
    by = [*CHOOSING, *(["half"] if kind == "parquet" else [])]
    words = score_arguments(tmp_path / "dump", tmp_path, "--by", *by)
    assert cli.main([*words, "--dry-run"]) == cli.DONE
    assert cli.main(words) == cli.DONE
    groups = pq.read_table(tmp_path / "out" / GROUPS_FILE).to_pylist()
    assert [group["bertscore_scored"] for group in groups] == [12, 6, 6]
    for name, (_, _, texts) in CHOOSING.items():
        assert sorted(map(str, texts)) == sorted(str(group[name]) for group in groups[1:])
    if kind == "parquet":
        assert sorted(group["half"] for group in groups[1:]) == ["0.5", "1"]
