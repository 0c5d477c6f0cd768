"""Two runs compared row by row: what is paired, what is counted, and what is refused."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from scipy import stats

from bertscore_beam.compare import keyed_rows, paired_sides
from bertscore_beam.compare.compare import compare_runs
from bertscore_beam.compare.compare_options import CompareOptions
from bertscore_beam.compare.comparison_tables import failures_of, tables_of
from bertscore_beam.compare.settings import SettingsDifference
from bertscore_beam.dump import census, columns
from bertscore_beam.metrics.table import score_rows
from bertscore_beam.pages.report_options import ReportOptions
from bertscore_beam.pages.report_rows import collect
from bertscore_beam.records.groups import group_rows, statistics_of
from bertscore_core.errors import BertScoreError, ConfigError, InputError
from bertscore_core.stats.caveats import Caveat, CaveatKind
from bertscore_core.stats.paired import holm
from tests.support.made_runs import SIGNATURE, made_run, many_rows, scored, with_column

ROWS = 240


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    """Resample less: what that gives is tested in tests/core/stats/test_paired.py."""
    monkeypatch.setattr("bertscore_beam.compare.compare.RESAMPLES", 499)


def table(seed=0, shift=0.0, rows=ROWS):
    return many_rows(rows, seed=seed, shift=shift)


def f1_of(rows):
    return rows[columns.F1].to_numpy().astype(np.float64)


def with_f1(rows, values):
    """Return rows with other scores; NaN for rows without."""
    given = {name: rows[name] for name in rows.column_names if name not in columns.OUTPUT_COLUMNS}
    return scored(np.asarray(values, dtype=np.float64), **given)


def compared(run, against, **options):
    chosen = CompareOptions(run=str(run), against=(str(against),), **options)
    return compare_runs(chosen)


def sole(run, against, **options):
    (one,) = compared(run, against, **options).comparisons
    return one


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Return two runs of the same rows, cut into other parts, with their tables."""
    folder = tmp_path_factory.mktemp("two")
    now, before = table(seed=1, shift=-0.02), table(seed=0)
    made_run(folder / "now", {"a": now.slice(0, 100), "b": now.slice(100)}, part_rows=30)
    made_run(folder / "before", {"a": before.slice(0, 100), "b": before.slice(100)}, part_rows=50)
    return folder / "now", folder / "before", now, before


def test_rows_are_paired_by_file_and_position_however_they_are_cut(two):
    now, before, now_rows, before_rows = two
    found = sole(now, before)
    d = f1_of(now_rows) - f1_of(before_rows)
    expected = stats.ttest_1samp(d, 0)
    assert found.whole.counts.pairs == ROWS
    assert found.whole.result.difference == pytest.approx(d.mean(), rel=1e-12)
    assert found.whole.result.p_value == pytest.approx(expected.pvalue, rel=1e-9)
    assert found.whole.mean == pytest.approx(f1_of(now_rows).mean(), rel=1e-12)
    assert found.whole.against_mean == pytest.approx(f1_of(before_rows).mean(), rel=1e-12)
    assert (found.groups, found.warnings) == ((), ())


def test_groups_and_clusters_are_those_of_their_rows_alone(two):
    now, before, now_rows, before_rows = two
    found = sole(now, before, by=("system", "language"), cluster="document")
    assert len(found.groups) == 4 * 3
    assert [one.group for one in found.groups] == sorted(one.group for one in found.groups)
    for one in found.groups:
        mask = pc.and_(
            pc.equal(now_rows["system"], one.group[0]), pc.equal(now_rows["language"], one.group[1])
        ).to_numpy()
        d = (f1_of(now_rows) - f1_of(before_rows))[mask]
        documents = now_rows["document"].to_numpy()[mask]
        assert one.counts.pairs == len(d)
        assert one.result.difference == pytest.approx(d.mean(), rel=1e-12)
        assert one.result.clusters == len(set(documents))
        without = np.array([d[documents != name].mean() for name in set(documents)])
        number = len(without)
        error = ((number - 1) / number * ((without - d.mean()) ** 2).sum()) ** 0.5
        assert one.result.error == pytest.approx(error, rel=1e-9)
    p_values = [one.p_value for one in found.groups]
    least = min(p_values)
    assert found.groups[p_values.index(least)].p_adjusted == pytest.approx(min(1, 12 * least))


def test_groups_are_in_the_order_of_the_command_groups(tmp_path):
    order = ["-2", "9.5", "10", "100", "A", "b", None]
    rows = with_f1(table(rows=70), np.full(70, 0.75))
    rows = rows.append_column("set", pa.array([order[row * 3 % 7] for row in range(70)]))
    run, against = (made_run(tmp_path / name, {"a": rows}) for name in ("now", "before"))
    groups = [one.group for one in sole(run, against, by=("set",)).groups]
    assert groups == [(value,) for value in order]
    assert groups == [row.group for row in group_rows(statistics_of(rows, ["set"], None))[1:]]
    page = collect(ReportOptions(run=str(run), by=("set",)))
    assert [row.group for row in page.groups] == groups  # where means are equal


def test_many_groups_use_the_t_test_where_random_swaps_are_too_few(two):
    found = sole(*two[:2], by=("system", "language"), confidence=0.98)
    tests = [one.result.randomization_p is None for one in (found.whole, *found.groups)]
    assert tests == [False] + [True] * 12
    p_values = [one.result.p_value for one in found.groups]
    assert [one.p_adjusted for one in found.groups] == holm(p_values)
    (words,) = [words for words in found.warnings if "t test" in words]
    assert "The p values of groups come from the t test" in words
    assert "none from 499 random swaps could be below 0.02" in words


def test_several_measures_are_one_family_of_tests_and_each_has_a_gate(tmp_path):
    random = np.random.default_rng(3)
    before, move = table(rows=400), random.normal(0.0005, 0.01, 400)
    f1 = f1_of(before)
    given = {name: before[name] for name in ("id", "system")}
    moved = {"precision": f1 - 0.02 + move, "recall": f1 + 0.02 + move, "votes": np.arange(400)}
    run = made_run(tmp_path / "now", {"a": scored(f1 + move, **moved, **given)})
    against = made_run(tmp_path / "before", {"a": scored(f1, votes=np.ones(400), **given)})
    options = {"key": ("id",), "by": ("system",), "fail_if_drop": 0.005}
    names = ("recall", "f1", "precision")
    result = compared(run, against, measure=names, **options)
    assert [one.measure for one in result.comparisons] == list(names)
    assert not result.passed
    assert [bool(one.failures) for one in result.comparisons] == [False, False, True]
    for one in result.comparisons:
        alone = sole(run, against, measure=(one.measure,), **options)
        assert one.whole.result == alone.whole.result
        assert one.moved == alone.moved
    # Three wholes share one half of the level; groups have the other half.
    wholes = [one.whole for one in result.comparisons]
    corrected = holm([one.result.drop_p_value(0.005) for one in wholes])
    assert [one.gate.p_value for one in wholes] == pytest.approx([min(1, 2 * p) for p in corrected])
    assert [one.p_adjusted for one in wholes] == holm([one.p_value for one in wholes])
    groups = [group for one in result.comparisons for group in one.groups]
    assert [one.p_adjusted for one in groups] == holm([one.p_value for one in groups])
    assert len(groups) == 12
    votes = sole(run, against, measure=("votes",), **options)
    # `explain` explains BERTScore alone.
    assert [one.explain is None for one in (votes, *result.comparisons)] == [True, *[False] * 3]
    assert votes.moved[-1].change < 0
    (words, *_) = failures_of(result)
    assert "precision of the run did not pass the gate: it is lower by more than 0.005" in words


def test_groups_without_a_move_are_unchanged_unless_they_differ_or_have_lost_a_row(tmp_path):
    rows = table(rows=160)
    values = f1_of(rows)
    number = np.arange(160) % 4
    values[(number == 1).nonzero()[0][0]] = np.nan
    values[number == 2] += 1e-3  # all below the noise, and all in one direction
    values[number == 3] += np.where(np.arange(40) % 2, 1e-3, -9e-4)
    coarse = replace(SIGNATURE, dtype="bfloat16")
    run = made_run(tmp_path / "now", {"a": with_f1(rows, values)}, signature=coarse)
    against = made_run(tmp_path / "before", {"a": rows}, signature=coarse)
    result = compared(run, against, by=("system",))
    (found,) = result.comparisons
    assert [one.is_unchanged for one in found.groups] == [True, False, False, True]
    assert [one.group[0][-1] for one in found.by_change] == ["2", "3", "0", "1"]
    (scores,) = [shown for shown in tables_of(result) if shown.title == "Scores"]
    lost = scores.columns.index("lost")
    shown = "all 1, system-2 0, system-1 1, 2 groups unchanged "
    assert ", ".join(f"{row[0]} {row[lost]}" for row in scores.rows) == shown


def test_rows_are_paired_by_key_in_any_order_and_file(two, tmp_path, monkeypatch):
    monkeypatch.setattr(keyed_rows, "BUCKET_ROWS", 40)  # several buckets
    _, before, now_rows, _ = two
    mixed = now_rows.take(np.random.default_rng(0).permutation(ROWS))
    mixed = with_column(mixed, "id", map(float, mixed["id"].to_pylist()))  # 7.0 is 7
    run = made_run(tmp_path / "mixed", {"c": mixed})
    found, straight = sole(run, before, key=("id",)), sole(*two[:2])
    assert found.whole.counts == straight.whole.counts
    expected = straight.whole.result.difference
    assert found.whole.result.difference == pytest.approx(expected, rel=1e-12)
    ids, mixed_ids = now_rows["id"].to_pylist(), mixed["id"].to_pylist()
    for moved, same in zip(found.moved, straight.moved, strict=True):
        assert moved.change == same.change
        assert (moved.against_file, moved.against_row) == (same.against_file, same.against_row)
        assert mixed_ids[moved.row] == ids[same.row + (100 if same.file == "b" else 0)]
        assert moved.key == {"id": str(int(mixed_ids[moved.row]))}
        assert same.key == {}
    by_two = sole(run, before, key=("segment", "system"))
    assert by_two.whole.counts.pairs == ROWS


NAMES = pa.dictionary(pa.int8(), pa.string())


@pytest.mark.parametrize(
    "kind", [pa.int32(), pa.float64(), pa.string(), pa.large_string(), NAMES], ids=str
)
def test_keys_are_equal_where_their_values_are_whatever_the_type(tmp_path, kind):
    """The texts of the columns do not run into each other, and a null or NaN is no key."""
    numbers = pa.array([7, 8, 9, 7, 8, None])
    texts = pa.array(["a", "", "1", "b", "8", "a"])
    f1 = np.linspace(0.1, 0.6, 6)
    before = made_run(tmp_path / "before", {"a": scored(f1, k=numbers, o=texts)})
    spelled = numbers.cast(pa.string()).cast(kind) if kind != pa.float64() else numbers.cast(kind)
    now = made_run(tmp_path / "now", {"b": scored(f1 + 0.25, k=spelled, o=texts)[::-1]})
    found = sole(now, before, key=("k", "o"))
    assert (found.whole.counts.pairs, found.whole.result.difference) == (5, pytest.approx(0.25))
    assert found.whole.counts.up == 5
    assert found.whole.result.error == pytest.approx(0, abs=1e-7)
    assert "2 rows have a null or NaN in a column of the key" in found.warnings[0]


def test_nulls_are_a_group_of_their_own_and_clusters_by_themselves(tmp_path):
    rows = {
        "system": pa.array(["b", None, "a", "b", "a", None]).dictionary_encode(),
        "year": pa.array([1, 1, 1, 1, 2, 1]),
        "document": pa.array(["x", None, "x", None, "y", "x"]),
    }
    f1 = np.linspace(0.1, 0.6, 6)
    before = made_run(tmp_path / "before", {"a": scored(f1, **rows)}, part_rows=2)
    now = made_run(tmp_path / "now", {"a": scored(f1 + 0.25, **rows)}, part_rows=3)
    result = compared(now, before, by=("system", "year"), cluster="document", fail_if_drop=0)
    (found,) = result.comparisons
    assert [(one.group, one.counts.pairs) for one in found.groups] == [
        (("a", "1"), 1), (("a", "2"), 1), (("b", "1"), 2), ((None, "1"), 2),
    ]  # fmt: skip
    assert found.whole.result.clusters == 4
    said = [str(table.rows) for table in tables_of(result)]
    assert any("the group (null) / 1: got 2 clusters" in words for words in said)
    assert any("('(null)', '1', '2', " in words for words in said)


@pytest.mark.parametrize("languages", [1, 40])
def test_neighbours_that_move_together_are_a_warning_also_of_languages_in_turn(languages, tmp_path):
    rows, random = 4000, np.random.default_rng(5)
    names = [first + second for first in "abcdefgh" for second in "abcde"][:languages]
    given = {"language": pa.array(np.array(names)[np.arange(rows) % languages])}
    f1, moves = random.uniform(0.4, 0.6, rows), random.normal(0, 0.02, rows)
    documents = np.repeat(moves[: rows // 40], 40)
    before, alone, together = (
        made_run(
            tmp_path / name,
            {"x": scored(f1 + change, **given)},
            signature=dict.fromkeys(names, SIGNATURE),
        )
        for name, change in {"a": 0.0 * moves, "b": moves, "c": documents}.items()
    )
    said = "Rows next to each other move together"
    assert not [words for words in sole(alone, before).warnings if said in words]
    (words,) = [words for words in sole(together, before).warnings if said in words]
    assert "(rank correlation 0.9" in words


def test_rows_on_one_side_and_rows_without_scores_are_counted(tmp_path):
    before = table(rows=40)
    values = f1_of(before)
    now = values.copy()
    now[:3] = np.nan  # lost
    values[2:6] = np.nan  # row 2 on neither side, three gained
    run = made_run(tmp_path / "now", {"a": with_f1(before, now).slice(0, 35)})
    against = made_run(tmp_path / "before", {"a": with_f1(before, values).slice(1)})
    found = sole(run, against, key=("id",))
    counts = found.whole.counts
    assert (counts.pairs, counts.lost, counts.gained, counts.unscored) == (29, 1, 3, 1)
    assert (counts.only_run, counts.only_against, counts.only_against_scored) == (1, 5, 5)
    assert counts.missing_fraction == pytest.approx(6 / 35)
    words = "6 rows that the other side has scored have no score here (17.14% of them)"
    assert words in found.warnings[0]


def test_pairs_by_position_must_have_the_same_inputs_and_references(two, tmp_path):
    _, before, now_rows, _ = two
    short = made_run(tmp_path / "short", {"a": now_rows.slice(0, 100), "b": now_rows.slice(101)})
    with pytest.raises(ConfigError, match=r"Of 'b': got 139 rows; expected 140 rows.*--key"):
        compared(short, before)
    swapped = now_rows["reference"].to_pylist()
    swapped[0], swapped[1] = swapped[1], swapped[0]
    other = with_column(now_rows, "reference", swapped)
    run = made_run(tmp_path / "other", {"a": other.slice(0, 100), "b": other.slice(100)})
    with pytest.raises(ConfigError, match="got 2 of 240 rows with other references"):
        compared(run, before)
    assert sole(run, before, force=True).whole.counts.other_references == 2
    # By key, only what the numbers of tokens show.
    tokens = pa.array([21] * 5 + [20] * (ROWS - 5), pa.int32())
    longer = with_column(now_rows, columns.REFERENCE_TOKENS, tokens)
    run = made_run(tmp_path / "longer", {"a": longer})
    assert "5 pairs have references of another length" in sole(run, before, key=("id",)).warnings[0]


def test_tokens_that_the_model_does_not_know_are_a_caveat_of_the_difference(two, tmp_path):
    """The other run is of a version that did not count them."""
    _, before, now_rows, _ = two
    shares = pa.array([1.0] * 60 + [0.5] * 2 + [0.0] * (ROWS - 62), pa.float32())
    rows = now_rows.append_column(columns.TEXT_TOKENS, pa.array([10] * ROWS, pa.int32()))
    rows = rows.append_column(columns.UNKNOWN, shares)
    run = made_run(tmp_path / "unread", {"a": rows.slice(0, 100), "b": rows.slice(100)})
    caveat = Caveat(kind=CaveatKind.UNKNOWN_TOKENS, number=61 / ROWS)
    found = sole(run, before)
    assert caveat in found.whole.caveats
    assert "The model does not know 25.4% of the tokens" in found.caveats[CaveatKind.UNKNOWN_TOKENS]
    by_f1 = sole(run, before, measure=("f1",)).whole.caveats
    with_text = rows.append_column("length", pa.array(range(ROWS)))
    others = [made_run(tmp_path / name, {"a": with_text}) for name in ("one", "two")]
    by_another = sole(*others, measure=("length",)).whole.caveats
    assert caveat in by_f1
    assert caveat not in by_another


def test_scores_of_other_settings_are_refused_field_by_field(two, tmp_path):
    _, before, now_rows, _ = two
    parts = {"a": now_rows.slice(0, 100), "b": now_rows.slice(100)}
    other = replace(SIGNATURE, num_layers="5", idf="abc", baseline="custom@1")
    run = made_run(tmp_path / "other", parts, signature=other)
    words = (
        r"num_layers: got '5'; expected '6'.*idf: got 'abc'; expected 'none'.*"
        r"baseline: got 'custom@1'; expected 'none'.*--force"
    )
    for measure in ("f1", "bertscore_f1"):
        with pytest.raises(ConfigError, match=words):
            compared(run, before, measure=(measure,))
    forced = sole(run, before, force=True)
    assert [one.field for one in forced.settings.moving] == ["num_layers", "idf", "baseline"]
    assert "different settings" in forced.warnings[0]
    # A version between which no score moved.
    newer = made_run(tmp_path / "newer", parts, signature=replace(SIGNATURE, torch="2.14.0"))
    found = sole(newer, before)
    assert [(one.field, one.run) for one in found.settings.harmless] == [("torch", "2.14.0")]
    assert found.settings.moving == ()
    low = made_run(tmp_path / "low", parts, signature=replace(SIGNATURE, dtype="bfloat16"))
    with pytest.raises(ConfigError, match="dtype: got 'bfloat16'"):
        compared(low, before)


def test_languages_are_compared_each_with_itself(tmp_path):
    rows = table(rows=60)
    both = {"de": SIGNATURE, "en": SIGNATURE, "zh": SIGNATURE}
    before = made_run(tmp_path / "before", {"a": rows}, signature=both)
    weighted = {**both, "zh": replace(SIGNATURE, idf="abc")}
    now = made_run(tmp_path / "now", {"a": rows}, signature=weighted)
    again = made_run(tmp_path / "again", {"a": rows}, signature=both)
    assert sole(again, before).whole.result.difference == 0.0
    with pytest.raises(ConfigError, match=r"settings\. idf \(zh\): got 'abc'; expected 'none'"):
        compared(now, before)


def test_each_run_is_compared_with_its_own_noise_and_both_directions_are_kept(tmp_path):
    rows = table(rows=60)
    values = f1_of(rows)
    moved = values.copy()
    moved[:30] += 2e-3
    moved[30:45] -= 1e-3
    exact = made_run(tmp_path / "exact", {"a": rows})
    low = replace(SIGNATURE, dtype="bfloat16")
    coarse = made_run(tmp_path / "coarse", {"a": rows}, signature=low)
    now = made_run(tmp_path / "now", {"a": with_f1(rows, moved)})
    options = CompareOptions(run=str(now), against=(str(exact), str(coarse)), force=True)
    first, second = together = compare_runs(options).comparisons
    assert together == (sole(now, exact), sole(now, coarse, force=True))
    assert (first.settings.noise, second.settings.noise) == (1e-6, 4e-3)
    assert (first.whole.counts.up, first.whole.counts.down) == (30, 15)
    assert (second.whole.counts.up, second.whole.counts.down, second.moved) == (0, 0, ())
    changes = [one.change for one in first.moved]
    assert len(changes) == 20
    assert sum(change > 0 for change in changes) == 10


@pytest.mark.parametrize(("raw", "difference", "up"), [(9e-7, 0.0, 0), (9e-6, 9e-5, 30)])
def test_scores_are_moved_before_rescaling_and_compared_after(raw, difference, up, tmp_path):
    """A baseline of .9 makes ten times as much of the noise, which counts as nothing."""
    values = np.linspace(0.9, 0.99, 30)
    moved = values + raw

    def rescaled(raw):
        rows = scored((raw - 0.9) / 0.1, id=pa.array(range(30)))
        for name in columns.RAW_SCORES.values():
            rows = rows.append_column(name, pa.array(np.float32(raw)))
        return rows

    signature = replace(SIGNATURE, baseline="custom@1")
    before = made_run(tmp_path / "before", {"a": rescaled(values)}, signature=signature)
    now = made_run(tmp_path / "now", {"a": rescaled(moved)}, signature=signature)
    found = sole(now, before)
    assert found.whole.result.difference == pytest.approx(difference, rel=0.05)
    assert (found.whole.counts.up, found.whole.counts.down) == (up, 0)


@pytest.mark.parametrize("measure", ["f1", "bertscore_f1", "bertscore_precision"])
def test_the_last_bits_of_a_processor_decide_no_verdict(tmp_path, measure):
    """The same rows in other batches, or on another processor, differ by up to 5e-7, and to a side.

    They are a t test's proof of a fall, and k moved rows; they must be neither.
    """
    values = np.where(np.arange(400) % 2, 0.4, 1.0)
    noise = np.random.default_rng(5).uniform(-5e-7, 3e-7, 400)
    before = made_run(tmp_path / "before", {"a": scored(values, id=np.arange(400))})
    now = made_run(tmp_path / "now", {"a": scored(values + noise, id=np.arange(400))})
    how = {"key": ("id",), "fail_if_drop": 0.0, "measure": (measure,)}
    found = sole(now, before, **how).whole
    assert (found.result.difference, found.result.moved_units) == (0.0, 0)
    assert (found.gate.failures, found.result.p_value, found.caveats) == ((), 1.0, ())
    fallen = values + noise - np.where(np.arange(400) < 4, 0.3, 0)
    now = made_run(tmp_path / "fallen", {"a": scored(fallen, id=np.arange(400))})
    found = sole(now, before, **how).whole
    assert (found.result.moved_units, found.gate.failures) == (4, ())
    assert "only 4 of its 400 rows have moved" in found.gate.notice


def test_a_fall_of_all_rows_is_found_in_coarse_formats_too(tmp_path):
    """Each has moved by less than the noise of bfloat16, but all to one side."""
    values = np.linspace(0.5, 0.9, 1000)
    signature = replace(SIGNATURE, dtype="bfloat16")
    nights = {"before": values, "now": values - 0.003}
    before, now = (
        made_run(tmp_path / name, {"a": scored(f1, id=np.arange(1000))}, signature=signature)
        for name, f1 in nights.items()
    )
    found = sole(now, before, key=("id",), fail_if_drop=0.002).whole
    assert (found.counts.down, found.result.moved_units) == (0, 1000)
    assert found.gate.failures


def test_a_gate_knows_drops_of_groups_and_rows_that_lost_their_scores(tmp_path):
    rows = table(rows=1600)
    before = made_run(tmp_path / "before", {"a": rows})
    worse = made_run(tmp_path / "worse", {"a": table(seed=1, shift=-0.01, rows=1600)})
    options = {"key": ("id",), "by": ("system",), "fail_if_drop": 0.005}
    found = sole(worse, before, **options)
    assert [group for group, _ in found.failures] == [("system-1",)]
    assert "is lower by more than 0.005" in found.failures[0][1]
    assert sole(worse, before, **{**options, "fail_if_drop": 0.02}).failures == ()
    # A system that rejects its bad rows looks better, and does not pass.
    values = f1_of(rows)
    bad = (values < np.quantile(values, 0.1)) & pc.equal(rows["system"], "system-1").to_numpy()
    hidden = with_f1(rows, np.where(bad, np.nan, values + 1e-4))
    hiding = made_run(tmp_path / "hiding", {"a": hidden})
    found = sole(hiding, before, **options)
    assert found.whole.result.difference > 0
    assert [group for group, _ in found.failures] == [(), ("system-1",)]
    said = "the other side has scored have no score here"
    assert all(said in words for _, words in found.failures)
    assert sole(hiding, before, **options, max_missing_fraction=0.2).failures == ()


def test_groups_are_right_where_some_buckets_have_no_pair(two, tmp_path, monkeypatch):
    monkeypatch.setattr(keyed_rows, "BUCKET_ROWS", 8)
    now, _, now_rows, _ = two
    # Four rows of 240 are common.
    rows = with_column(table(seed=2, rows=20), "id", range(ROWS - 4, ROWS + 16))
    found = sole(now, made_run(tmp_path / "few", {"a": rows}), key=("id",), by=("system",))
    d = f1_of(now_rows)[-4:] - f1_of(rows)[:4]
    assert found.whole.result.difference == pytest.approx(d.mean(), rel=1e-12)
    assert [one.result.difference for one in found.groups] == pytest.approx(d, rel=1e-12)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"key": ("nowhere",)}, r"no key column 'nowhere'.*--key"),
        ({"by": (columns.F1 + "x",)}, "no by column"),
        ({"cluster": "docment"}, "Did you mean 'document'"),
        ({"measure": ("f2",)}, "got no such column 'f2'; expected numbers"),
        ({"measure": ("f1", "f1")}, "several, each once"),
        ({"measure": ()}, "expected at least one"),
        ({"confidence": 1.5}, "between 0 and 1"),
        ({"fail_if_drop": -0.1}, "a number from 0 on"),
        ({"systems": ("a", "b")}, "got AGAINST, too"),
        ({"against": ()}, "got no AGAINST and no --systems"),
        ({"against": (), "systems": ()}, "needs --key"),
        ({"against": ("nowhere",)}, "is not a scoring run"),
        ({"key": ("segment",)}, "60 keys that are there more than once in .*, in 240 rows"),
    ],
)
def test_bad_options_and_keys_that_repeat_are_refused(two, options, words):
    now, before, _, _ = two
    given = {"run": str(now), "against": (str(before),), **options}
    with pytest.raises(BertScoreError, match=words):
        compare_runs(CompareOptions(**given))


def test_too_many_groups_are_refused_by_name(two, monkeypatch):
    monkeypatch.setattr(census, "MOST_GROUPS", 3)
    with pytest.raises(InputError, match=r"got more than 3; .* Leave it out of --by"):
        compared(*two[:2], by=("system",))


class Counted(np.ndarray):
    """An array that counts the elements which functions of numpy look at."""

    seen = 0

    def __array_ufunc__(self, function, method, *given, **more):
        return self.__array_function__(getattr(function, method), (), given, more)

    def __array_function__(self, function, types, given, more):
        found = function(*plain(given), **{name: plain(value) for name, value in more.items()})
        return found.view(Counted) if isinstance(found, np.ndarray) else found


def plain(value):
    if isinstance(value, Counted):
        Counted.seen += value.size
        return value.view(np.ndarray)
    return type(value)(map(plain, value)) if isinstance(value, list | tuple) else value


def test_the_corpora_of_groups_cost_as_much_as_their_rows():
    groups, pieces = 500, 3
    rows = np.zeros(2 * groups, keyed_rows.entry_of("bleu")).view(Counted)
    rows["group"], rows["counts"] = np.arange(2 * groups) % groups, 4
    options = CompareOptions(run="run", against=("against",), measure=("bleu",))
    settings = SettingsDifference(noise=0.0)
    names, reader = (
        [(str(group),) for group in range(groups)],
        keyed_rows.RowReader(options, "bleu"),
    )
    grouping = keyed_rows.Grouping.of(names)
    sums = paired_sides.PairedGroups(reader, (0, 1), "ab", settings, [grouping])
    for _ in range(pieces):
        sums.add(rows, *np.arange(2 * groups).reshape(2, groups))
    for name in names:
        one = sums.compared(name, resamples=0)
        assert (one.counts.pairs, one.corpus.score) == (pieces, one.corpus.against_score)
    assert Counted.seen < 0.5 * pieces * groups**2


def test_texts_that_bleu_cuts_in_several_ways_are_compared_as_corpora_by_language_alone(tmp_path):
    languages = ["en", "zh"] * 6
    texts = [f"row {number} of two" if number % 2 == 0 else f"第{number}行" for number in range(12)]
    for name, candidates in (("now", texts[1:] + texts[:1]), ("before", texts)):
        each = [
            score_rows(["bleu"], language, [candidate], [[text]])[0]
            for language, candidate, text in zip(languages, candidates, texts, strict=True)
        ]
        scores, counts = (np.concatenate(parts) for parts in zip(*each, strict=True))
        made = {"metric_bleu": scores, "metric_bleu_counts": pa.array(counts.tolist())}
        rows = scored(np.full(12, 0.5), id=np.arange(12), language=pa.array(languages), **made)
        signatures = {"en": SIGNATURE, "zh": replace(SIGNATURE, num_layers="5")}
        made_run(tmp_path / name, {"a.parquet": rows}, signature=signatures)
    given = {"key": ("id",), "by": ("language",), "measure": ("bleu",)}
    found = sole(tmp_path / "now", tmp_path / "before", **given)
    assert found.whole.corpus is None
    assert "several_tokenizers" in [own.kind for own in found.whole.caveats]
    assert [group.corpus is None for group in found.groups] == [False, False]
    assert any("the corpus has no single score" in words for words in found.caveats.values())


def test_rows_that_moved_are_chosen_and_ordered_by_the_change_that_is_shown(tmp_path):
    """A row at the pole has moved little as means take it."""
    before, now = np.full(60, 0.9), np.full(60, 0.9)
    now[:20] -= np.linspace(0.2, 0.4, 20)
    before[30], now[30] = -0.99, -282.8
    runs = [
        made_run(tmp_path / name, {"a": scored(f1, id=pa.array(range(60)))})
        for name, f1 in (("now", now), ("before", before))
    ]
    changes = [row.change for row in sole(*runs).moved]
    assert changes[0] == pytest.approx(-281.81, abs=1e-2)
    assert changes == sorted(changes)
    assert len(changes) == 10


def test_of_rows_that_moved_equally_far_the_first_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(keyed_rows, "BUCKET_ROWS", 8)
    runs = [
        made_run(tmp_path / name, {"a": scored(np.full(60, f1), id=pa.array(range(60)))})
        for name, f1 in (("now", 0.5), ("before", 0.75))
    ]
    assert [row.row for row in sole(*runs, key=("id",)).moved] == list(range(10))


def test_minus_infinity_counts_as_any_other_f1_without_bound(tmp_path):
    """It is the F1 of P = -R, a number: such a row is neither lost nor left out."""
    rows = {"id": pa.array(range(60)), "system": pa.array(["a", "b"] * 30)}
    rows |= {"segment": pa.array(np.repeat(range(30), 2)), "recall": np.full(60, 0.8)}
    rows["precision"] = rows["recall"]
    before = np.random.default_rng(3).normal(0.8, 0.05, 60)
    before[8] = -np.inf
    runs = {"before": made_run(tmp_path / "before", {"a": scored(before, **rows)})}
    for name, lowest in (("far", -1e6), ("infinite", -np.inf)):
        now = before + 0.01
        now[[7, 8]] = lowest
        runs[name] = made_run(tmp_path / name, {"a": scored(now, **rows)})
    infinite, far = (
        sole(runs[name], runs["before"], key=("id",), by=("system",))
        for name in ("infinite", "far")
    )
    assert infinite.whole == far.whole
    assert infinite.groups == far.groups
    counts = infinite.whole.counts
    assert (counts.pairs, counts.missing, counts.clipped, counts.down) == (60, 0, 2, 1)
    assert (infinite.moved[0].row, infinite.moved[0].change) == (7, -np.inf)
    assert infinite.moved[1:] == far.moved[1:]
    systems = {"systems": ("a", "b"), "system_column": "system", "key": ("segment",)}
    ranked, as_far = (
        compare_runs(CompareOptions(run=str(runs[name]), **systems)).rankings
        for name in ("infinite", "far")
    )
    assert ranked == as_far
