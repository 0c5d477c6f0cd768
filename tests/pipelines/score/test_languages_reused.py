"""Rows of several languages take the scores of an earlier run, each under its own setting."""

import json

import numpy as np
import pyarrow as pa
import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.idf import table_warnings
from bertscore_beam.records import read_index, read_records
from bertscore_beam.run import SUMMARY_FILE, OutputFolder
from bertscore_beam.score import run_warnings
from bertscore_core.baseline import rescale
from tests.support.dumps import read_output
from tests.support.jobs import prepare_score, run_options
from tests.support.mixed import (
    LANGUAGES,
    language_entries,
    language_options,
    mixed_table,
    write_mapping,
    write_mixed,
)

pytestmark = pytest.mark.job

RAW = ("bertscore_raw_precision", "bertscore_raw_recall", "bertscore_raw_f1")
FINAL = ("bertscore_precision", "bertscore_recall", "bertscore_f1")


def options(dump, output, mapping, **changes):
    return language_options(dump, output, mapping, **{"max_reject_fraction": 0.2} | changes)


def odd_table(table):
    """Return a table with texts that are scored with a reason, or not at all."""
    columns = table.to_pydict()
    columns["candidate"][5] = ""
    columns["reference"][11] = None
    columns["candidate"][22] = "word " * 100
    columns["lang"][13] = None
    # The same texts in two languages.
    for name in ("candidate", "reference"):
        columns[name][31] = columns[name][30]
    return pa.table(columns, schema=table.schema)


@pytest.fixture(scope="module")
def night(tmp_path_factory, tiny_folder):
    """A first night with idf and baselines: its folder, its table, its entries."""
    folder = tmp_path_factory.mktemp("nights")
    table = odd_table(mixed_table(40))
    dump = write_mixed(folder / "dump", [table.slice(0, 25), table.slice(25)])
    entries = language_entries(tiny_folder, folder)
    mapping = write_mapping(folder / "languages.yaml", entries)
    run_options(options(dump, folder / "n1", mapping, idf="corpus", rescale=True))
    return folder, table, entries


def test_rows_take_the_scores_of_their_language_and_its_own_baseline(night):
    folder, table, entries = night
    order = np.random.default_rng(2).permutation(len(table))
    moved = write_mixed(folder / "moved", [table.take(order)])
    (moved / "shard-000.parquet").rename(moved / "other.parquet")
    # Every language has the baseline of another one now.
    names = dict(zip(LANGUAGES, (*LANGUAGES[1:], LANGUAGES[0]), strict=True))
    others = {
        name: {**entries[name], "baseline": entries[names[name]]["baseline"]} for name in names
    }
    chosen = options(
        moved,
        folder / "n2",
        write_mapping(folder / "others.yaml", others),
        idf=str(folder / "n1" / "_manifest" / "idf.npz"),
        rescale=True,
        reuse=str(folder / "n1"),
    )
    summary = run_options(chosen)
    assert (summary["rows"], summary["scored"], summary["reused"]) == (40, 38, 38)
    assert (summary["rejected"], summary["batches"]) == (2, 0)
    assert summary["rejected_reasons"] == {"null_language": 1, "null_reference": 1}
    assert summary["reasons"] == {**summary["rejected_reasons"], "empty_candidate": 1}
    assert sum(one["rows"] for one in summary["languages"].values()) == 40
    assert sum(one["scored"] for one in summary["languages"].values()) == 38
    before, after = (read_output(folder / name).sort_by("id") for name in ("n1", "n2"))
    assert before.column_names == after.column_names
    for name in set(before.column_names) - {*FINAL, "bertscore_signature"}:
        assert before[name].to_pylist() == after[name].to_pylist()
    languages = [code and code.lower() for code in after["lang"].to_pylist()]
    raw, final = (
        np.stack([after[name].to_numpy(zero_copy_only=False) for name in names_], axis=-1)
        for names_ in (RAW, FINAL)
    )
    for number, language in enumerate(LANGUAGES):
        rows = [row for row, code in enumerate(languages) if code == language]
        row = np.float32([float(f"0.{(number + 1) % 5 + 1}{n}") for n in (1, 2, 3)])
        expected = rescale(raw[rows].astype(np.float32), row)
        assert final[rows].astype(np.float32).tobytes() == expected.tobytes()


def test_what_the_first_night_lacks_is_said_in_words_of_languages(night, tmp_path, capsys):
    folder, _, entries = night
    summary = json.loads((folder / "n1" / SUMMARY_FILE).read_text())
    (words,) = [said for said in table_warnings(summary["idf"]) if "cannot be scored" in said]
    assert words.startswith("1 rows have no language code: idf does not count them")
    given = ["--baseline", entries["en"]["baseline"], "--output", str(tmp_path / "out")]
    assert cli.main(["rescale", str(folder / "n1"), *given]) == cli.UNUSABLE
    assert "got no signature that all of its scores share" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_other_tables_reuse_nothing_and_the_warning_says_so(night):
    folder, table, entries = night
    dump = write_mixed(folder / "less", [table.slice(0, 11)])
    # A language that the earlier run does not know does not hide those that it knows.
    more = {"aa": {"model": entries["en"]["model"], "num_layers": 3}, "en": dict(entries["en"])}
    del more["en"]["baseline"]
    mapping = write_mapping(folder / "more.yaml", more)
    changes = {"reuse": str(folder / "n1"), "max_reject_fraction": 1.0}
    chosen = options(dump, folder / "n3", mapping, idf="corpus", **changes)
    job = prepare_score(chosen)
    assert job.spec.reuse is not None
    summary = run_options(chosen)
    assert (summary["scored"], summary["reused"]) == (3, 0)
    assert any("its idf table is another one" in said for said in run_warnings(summary, job.spec))


def test_index_follows_a_setting_that_is_replaced(night):
    """The texts are the same, and so is the digest of the run: only a language has changed."""
    folder, table, entries = night
    dump = write_mixed(folder / "small", [table.slice(0, 2)])
    small = {name: {"model": entries[name]["model"]} for name in ("en", "de")}
    small["de"]["num_layers"] = 2
    out = folder / "small-out"
    run_options(options(dump, out, write_mapping(folder / "a.yaml", small)))
    first = read_index(OutputFolder(str(out)))
    small["de"]["num_layers"] = 1
    changed = write_mapping(folder / "b.yaml", small)
    run_options(options(dump, out, changed, overwrite=True))
    second = read_index(OutputFolder(str(out)))
    assert first is not None
    assert second is not None
    assert sum(second.rows) == 2
    (new,) = set(second.signatures) - set(first.signatures)
    assert "num_layers:1" in new
    assert len(read_records(OutputFolder(str(out)))) == 1
