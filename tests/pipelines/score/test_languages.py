"""Each row by the setting of its language, in one run."""

import json
import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import yaml

from bertscore_beam.cli import main as cli
from bertscore_beam.idf.table_notes import table_warnings
from bertscore_beam.options.flags import read_options
from bertscore_beam.options.score_options import ScoreOptions
from bertscore_beam.run.folder import SUMMARY_FILE
from bertscore_beam.run.loading import nothing_settled
from bertscore_beam.run.output import DONE, UNUSABLE
from bertscore_beam.score.loaded_scorers import LoadedScorers, ModelMemory
from bertscore_beam.score.show_run import run_warnings
from bertscore_core import ConfigError, IdfError, InputError, Signature, SignatureError
from bertscore_core.baseline import rescale
from tests.support import mixed
from tests.support.dumps import read_output
from tests.support.jobs import prepare_score, run_options
from tests.support.tolerances import INVARIANCE_ATOL

pytestmark = pytest.mark.job

FINAL = ("bertscore_precision", "bertscore_recall", "bertscore_f1")
RAW = tuple(name.replace("_", "_raw_") for name in FINAL)
ODD = {3: None, 8: "", 14: "tlh", 21: "an english text, not a code"}
"""Rows without a usable language."""
WHY = ("null_language", "null_language", "language_without_setting", "unknown_language")
REASONS = dict(zip(ODD, WHY, strict=True))


def alone(dump, output, entry, **changes):
    """Options of a run of one language alone."""
    values = {"input": [str(dump)], "output": str(output), "device": "cpu", "split_rows": 20}
    return ScoreOptions.from_mapping(values | entry | changes, "the test")


def options(dump, output, mapping, **changes):
    return mixed.language_options(dump, output, mapping, **{"max_reject_fraction": 0.2} | changes)


def measured(table, raw=False):
    names = RAW if raw else FINAL
    return np.stack([table[name].to_numpy(zero_copy_only=False) for name in names])


@pytest.fixture(scope="module")
def mixed_run(tmp_path_factory, tiny_folder):
    """A dump with odd rows, scored with idf and baselines: its table, entries, output, summary."""
    folder = tmp_path_factory.mktemp("mixed")
    table = mixed.mixed_table(60)
    codes = [ODD.get(row, code) for row, code in enumerate(table["lang"].to_pylist())]
    table = table.set_column(3, "lang", pa.array(codes).dictionary_encode())
    dump = mixed.write_mixed(folder / "dump", [table.slice(0, 33), table.slice(33)])
    entries = mixed.language_entries(tiny_folder, folder)
    mapping = mixed.write_mapping(folder / "languages.yaml", entries)
    chosen = options(dump, folder / "out", mapping, idf="corpus", rescale=True)
    summary = run_options(chosen)
    return folder, table, entries, chosen, summary


def test_a_mixed_run_equals_a_run_for_each_language(mixed_run):
    folder, table, entries, _, summary = mixed_run
    output = read_output(folder / "out")
    assert output.select(table.column_names).to_pylist() == table.to_pylist()
    for language in mixed.LANGUAGES:
        dump = mixed.write_mixed(folder / language / "dump", [mixed.of_language(table, language)])
        own = alone(dump, folder / language / "out", entries[language], idf="corpus", rescale=True)
        expected = run_options(own)
        alone_rows = read_output(folder / language / "out")
        rows = output.filter(pc.is_in(output["id"], alone_rows["id"].combine_chunks()))
        for raw in (False, True):
            here, there = measured(rows, raw), measured(alone_rows, raw)
            np.testing.assert_allclose(here, there, rtol=0, atol=2 * INVARIANCE_ATOL)
        # Rows without a language are counted by no run: the idf tables are equal.
        (signature,) = set(rows["bertscore_signature"].to_pylist())
        assert signature == expected["signature"]
        found = summary["languages"][language]
        assert found["signature"] == signature
        assert (found["rows"], found["scored"]) == (expected["rows"], expected["scored"])
        assert found["f1"] == pytest.approx(expected["f1"], abs=1e-6)


def test_rows_without_a_usable_language_have_a_reason_and_no_scores(mixed_run):
    folder, _, _, _, summary = mixed_run
    output = read_output(folder / "out")
    errors = output["bertscore_error"].to_pylist()
    assert {row: reason for row, reason in enumerate(errors) if reason is not None} == REASONS
    for name in ("bertscore_f1", "bertscore_signature", "bertscore_candidate_tokens"):
        nulls = [row for row, value in enumerate(output[name].to_pylist()) if value is None]
        assert nulls == sorted(REASONS)
    assert summary["rejected"] == len(REASONS)
    assert summary["signature"] is None
    assert summary["languages"]["(none)"]["rows"] == 2
    assert summary["languages"]["tlh"]["reasons"] == {"language_without_setting": 1}
    # No text of the column gets into a message or a file of the run.
    assert "english text" not in (folder / "out" / "_summary.json").read_text()


def test_parts_name_the_signature_of_each_language_in_them(mixed_run):
    folder, _, _, _, summary = mixed_run
    (part, *_) = sorted((folder / "out" / "shard-000.parquet").glob("*.parquet"))
    schema = pq.read_schema(part)
    assert schema.field("bertscore_signature").type == pa.dictionary(pa.int32(), pa.string())
    found = json.loads(schema.metadata[b"bertscore.signatures"])
    assert found.keys() == set(mixed.LANGUAGES)
    assert all(found[name] == summary["languages"][name]["signature"] for name in found)
    assert len({Signature.parse(text).baseline for text in found.values()}) == len(mixed.LANGUAGES)
    assert b"bertscore.signature" not in schema.metadata


def test_a_finished_run_is_kept_and_another_setting_is_refused(mixed_run):
    folder, _, entries, chosen, _ = mixed_run
    job = prepare_score(chosen)
    assert (len(job.diff.done), job.diff.to_do) == (4, ())
    changed = {**entries, "fr": {**entries["fr"], "num_layers": 3}}
    mapping = mixed.write_mapping(folder / "changed.yaml", changed)
    other = options(folder / "dump", folder / "out", mapping, idf="corpus", rescale=True)
    with pytest.raises(SignatureError, match="language fr"):
        prepare_score(other)
    assert len(prepare_score(replace(other, overwrite=True)).diff.to_do) == 4


@pytest.fixture
def small(tmp_path, tiny_folder):
    """A dump of two languages in files of their own, and their mapping, without baselines."""
    table = mixed.mixed_table(40).filter(pa.array([i % 5 < 2 for i in range(40)]))
    codes = pc.utf8_lower(table["lang"])
    shards = [table.filter(pc.equal(codes, name)) for name in ("en", "de")]
    dump = mixed.write_mixed(tmp_path / "dump", shards)
    entries = mixed.language_entries(tiny_folder, tmp_path)
    for entry in entries.values():
        del entry["baseline"]
    return tmp_path, dump, {name: entries[name] for name in ("en", "de")}


def test_a_language_that_gets_a_setting_later_is_scored_and_the_others_are_kept(small):
    folder, dump, entries = small
    only_en = mixed.write_mapping(folder / "en.yaml", {"en": entries["en"]})
    first = run_options(
        mixed.language_options(dump, folder / "out", only_en, max_reject_fraction=1.0)
    )
    assert (first["scored"], first["rejected"]) == (8, 8)
    both = mixed.language_options(
        dump, folder / "out", mixed.write_mapping(folder / "both.yaml", entries)
    )
    job = prepare_score(both)
    assert [split.input_name for split in job.diff.done] == ["shard-000.parquet"]
    second = run_options(both)
    assert (second["success"], second["scored"]) == (True, 16)


def test_a_row_whose_language_changes_is_scored_again(small):
    """Its texts are the same: only the language decides."""
    folder, dump, entries = small
    chosen = mixed.language_options(
        dump, folder / "out", mixed.write_mapping(folder / "both.yaml", entries)
    )
    run_options(chosen)
    before = read_output(folder / "out")
    file = dump / "shard-000.parquet"
    table = pq.read_table(file)
    swapped = table.set_column(3, "lang", pa.array(["de"] * len(table)))
    pq.write_table(swapped, file)
    summary = run_options(chosen)
    after = read_output(folder / "out").slice(0, len(table))
    assert (summary["parts_kept"], summary["reused"]) == (0, 0)
    assert (measured(after) != measured(before.slice(0, len(table)))).all()
    (signature,) = set(after["bertscore_signature"].to_pylist())
    assert Signature.parse(signature).model == "bert"


def test_the_registry_chooses_by_language_and_a_dry_run_shows_it(small, capsys, monkeypatch):
    """Nothing of it is on this machine but the embedded model: --model names it for all."""
    folder, dump, _ = small
    flags = ["--input", str(dump), "--output", str(folder / "out"), "--device", "cpu"]
    flags += ["--language-column", "lang", "--model", "all-MiniLM-L6-v2", "--dry-run"]
    assert cli.main(["score", *flags]) == DONE
    lines = capsys.readouterr().out.splitlines()
    assert "language\trows\tmodel\tlayer\tbaseline\tmaximum length" in lines
    assert "de\t8\tall-MiniLM-L6-v2\t6\tnone\t512" in lines
    # Without --model German needs a model that is not here: an error that names the language.
    assert cli.main(["score", *flags[:-3], "--dry-run"]) == UNUSABLE
    assert "language 'de'" in capsys.readouterr().err


def test_languages_without_a_published_baseline_are_rejected_rows(small, capsys):
    folder, dump, _ = small
    chosen = mixed.language_options(
        dump, folder / "out", None, model="all-MiniLM-L6-v2", rescale=True
    )
    with pytest.raises(ConfigError, match="no language of the column 'lang' has a setting"):
        prepare_score(chosen)
    folder_of_tables = folder / "tables"
    (folder_of_tables / "de").mkdir(parents=True)
    rows = "".join(f"{layer},0.1,0.1,0.1\n" for layer in range(7))
    (folder_of_tables / "de" / "all-MiniLM-L6-v2.tsv").write_text("LAYER,P,R,F\n" + rows)
    chosen = replace(chosen, baseline=str(folder_of_tables), max_reject_fraction=0.5)
    job = prepare_score(chosen)
    assert job.spec.settings.by_language.keys() == {"de"}
    assert job.spec.settings.missing == {"en": "language_without_baseline"}
    # A share that is known before any model runs does not cost a night.
    words = "8 rows (50.00%) are of languages without a setting and get no scores: en (8, language"
    flags = ["--input", str(dump), "--output", str(folder / "out"), "--language-column", "lang"]
    flags += ["--model", "all-MiniLM-L6-v2", "--rescale", "--baseline", str(folder_of_tables)]
    assert cli.main(["score", *flags, "--max-reject-fraction", "0.5", "--dry-run"]) == DONE
    assert words in capsys.readouterr().out
    with pytest.raises(ConfigError, match=rf"^too many rows .+ {re.escape(words)}.+ most 49\.00%"):
        prepare_score(replace(chosen, max_reject_fraction=0.49))


def test_two_languages_with_one_baseline_are_refused_unless_allowed(mixed_run):
    folder, _, entries, _, _ = mixed_run
    shared = {**entries, "ja": {**entries["ja"], "baseline": entries["en"]["baseline"]}}
    mapping = mixed.write_mapping(folder / "one.yaml", shared)
    one = options(folder / "dump", folder / "other", mapping, rescale=True)
    with pytest.raises(ConfigError, match="en, ja would be rescaled with the same baseline"):
        prepare_score(one)
    assert prepare_score(replace(one, allow_shared_baseline=True)).diff.to_do


def test_an_error_says_how_many_languages_it_does_not_name():
    said = str(nothing_settled("lang", [f"x{letter}" for letter in "abcdefghijkl"], {}))
    assert "got xa, xb, xc, xd, xe, xf, xg, xh, xi, xj and 2 more; expected codes" in said


def test_a_column_that_holds_no_languages_is_refused(small, capsys):
    folder, dump, entries = small
    mapping = mixed.write_mapping(folder / "m.yaml", entries)
    words = "no language of the column 'candidate' has a setting: got (no language code); expected"
    with pytest.raises(ConfigError, match=re.escape(words)):
        prepare_score(
            mixed.language_options(dump, folder / "out", mapping, language_column="candidate")
        )
    flags = ["--input", str(dump), "--language-column", "candidate", "--languages", mapping]
    assert cli.main(["idf", *flags, "--output", str(folder / "t.npz")]) == UNUSABLE
    assert words in capsys.readouterr().err
    with pytest.raises(InputError, match=r"no language column 'langs'.*Did you mean 'lang'"):
        prepare_score(
            mixed.language_options(dump, folder / "out", mapping, language_column="langs")
        )


def test_a_table_of_idf_must_be_of_languages(small):
    folder, dump, entries = small
    mapping = mixed.write_mapping(folder / "m.yaml", entries)
    base = ["--input", str(dump), "--reference-column", "reference"]
    plain, by_language = folder / "plain.npz", folder / "languages.npz"
    assert cli.main(["idf", *base, "--output", str(plain)]) == DONE
    languages = ["--language-column", "lang", "--languages", mapping]
    assert cli.main(["idf", *base, *languages, "--output", str(by_language)]) == DONE
    with pytest.raises(IdfError, match="no table of a language"):
        prepare_score(mixed.language_options(dump, folder / "out", mapping, idf=str(plain)))
    counted = run_options(mixed.language_options(dump, folder / "counted", mapping, idf="corpus"))
    given = run_options(
        mixed.language_options(dump, folder / "given", mapping, idf=str(by_language))
    )
    assert given["languages"]["de"]["f1"] == counted["languages"]["de"]["f1"]
    assert given["languages"]["en"]["f1"] == counted["languages"]["en"]["f1"]


def test_options_are_read_from_yaml_and_flags_and_checked(tmp_path):
    entries = {"EN": {"model": "a"}, "*": {"num-layers": 3, "model": "b"}}
    config = tmp_path / "run.yaml"
    values = {"input": "in", "output": "out", "language_column": "lang", "languages": entries}
    config.write_text(yaml.safe_dump(values))
    given = read_options(ScoreOptions, ["--config", str(config)], "score")
    own = given.by_language(["en", "tr", "?", ""])
    assert (own["en"].model, own["tr"].num_layers, len(own)) == ("a", 3, 2)
    assert json.dumps(given.describe())
    flags = ["--input", "in", "--output", "out", "--language-column", "lang"]
    assert read_options(ScoreOptions, [*flags, "--languages", str(config)], "score") == given
    wrong = {
        "modle": ({"en": {"modle": "a"}}, "Did you mean 'model'"),
        "twice": ({"en": {}, "EN": {}}, "named twice"),
        "no": ({False: {}}, 'Write "no" with quotes'),
        "code": ({"en us": {}}, "language codes"),
        "layer": ({"en": {"num_layers": "x"}}, "a whole number"),
    }
    for languages, words in wrong.values():
        with pytest.raises(ConfigError, match=words):
            ScoreOptions.from_mapping({**values, "languages": languages}, "the test")
    for extra in ({"language": "en"}, {"num_layers": 3}, {"language_column": None}):
        with pytest.raises(ConfigError, match="cannot be used"):
            ScoreOptions.from_mapping({**values, **extra}, "the test")


def test_a_worker_keeps_models_within_its_memory(tiny_folder):
    from bertscore_core import ScorerConfig, settle

    def setting(family, layers):
        model = {"model": str(tiny_folder(family)), "num_layers": layers, "max_length": 40}
        config = ScorerConfig(device="cpu", **model)
        return replace(settle(config).for_workers(), weight_bytes=100)

    first, second, third = setting("bert", 1), setting("bert", 2), setting("roberta", 1)
    scorers = LoadedScorers(ModelMemory(limit=250))
    assert scorers(first) is scorers(first)
    scorers(second)
    assert (scorers.has(first), scorers.has(second)) == (True, True)
    scorers(first)
    scorers(third)
    assert [scorers.has(one) for one in (first, second, third)] == [True, False, True]
    tight = LoadedScorers(ModelMemory(limit=1))
    tight(first)
    tight(second)
    assert [tight.has(one) for one in (first, second)] == [False, True]


# Rows of several languages take the scores of an earlier run, each under its own setting.


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
    table = odd_table(mixed.mixed_table(40))
    dump = mixed.write_mixed(folder / "dump", [table.slice(0, 25), table.slice(25)])
    entries = mixed.language_entries(tiny_folder, folder)
    mapping = mixed.write_mapping(folder / "languages.yaml", entries)
    run_options(options(dump, folder / "n1", mapping, idf="corpus", rescale=True))
    return folder, table, entries


def test_rows_take_the_scores_of_their_language_and_its_own_baseline(night):
    folder, table, entries = night
    order = np.random.default_rng(2).permutation(len(table))
    moved = mixed.write_mixed(folder / "moved", [table.take(order)])
    (moved / "shard-000.parquet").rename(moved / "other.parquet")
    # Every language has the baseline of another one now.
    names = zip(mixed.LANGUAGES, (*mixed.LANGUAGES[1:], mixed.LANGUAGES[0]), strict=True)
    others = {own: entries[own] | {"baseline": entries[of]["baseline"]} for own, of in names}
    mapping, counted = mixed.write_mapping(folder / "others.yaml", others), "n1/_manifest/idf.npz"
    given = {"idf": str(folder / counted), "rescale": True, "reuse": str(folder / "n1")}
    summary = run_options(options(moved, folder / "n2", mapping, **given))
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
    raw, final = (measured(after, is_raw).T for is_raw in (True, False))
    for number, language in enumerate(mixed.LANGUAGES):
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
    dump = mixed.write_mixed(folder / "less", [table.slice(0, 11)])
    # A language that the earlier run does not know does not hide those that it knows.
    more = {"aa": {"model": entries["en"]["model"], "num_layers": 3}, "en": dict(entries["en"])}
    del more["en"]["baseline"]
    mapping = mixed.write_mapping(folder / "more.yaml", more)
    changes = {"reuse": str(folder / "n1"), "max_reject_fraction": 1.0}
    chosen = options(dump, folder / "n3", mapping, idf="corpus", **changes)
    job = prepare_score(chosen)
    summary = run_options(chosen)
    assert (summary["scored"], summary["reused"]) == (3, 0)
    assert any("its idf table is another one" in said for said in run_warnings(summary, job.spec))
