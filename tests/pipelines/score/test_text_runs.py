"""Runs over text files: what is imported when, what stays in the folder, and which rows count."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.dump.inputs import expand_inputs
from bertscore_beam.dump.plan import Imports, RejectedError
from bertscore_beam.dump.text import to_parquet
from bertscore_beam.dump.text.text_source import IMPORTS_FOLDER, INPUT_FOLDER, TextFile, footer_of
from bertscore_beam.dump.text.to_parquet import write_rows as to_parquet_write_rows
from bertscore_beam.files.checked import to_json
from bertscore_beam.records.rejects import FILES_FILE
from bertscore_beam.run import job as job_module
from bertscore_beam.run.folder import FORMAT, RUN_FILE
from tests.support import jobs
from tests.support.dumps import SCHEMA, pair_rows, read_output
from tests.support.files_below import files_below
from tests.support.text_files import to_csv, to_jsonl, write_text
from tests.support.tolerances import INVARIANCE_ATOL

pytestmark = [pytest.mark.job, pytest.mark.usefixtures("tiny_jobs")]

ROWS = 12
FILES = ("a.parquet", "b.jsonl", "c.csv", "d.tsv.gz", "e.jsonl.zst")


def rows_of(start=0, count=ROWS, **more):
    return [row | more for row in pa.table(pair_rows(count, start)).to_pylist()]


def write(path, rows):
    """Write rows in the format that the name says."""
    if path.suffix == ".parquet":
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows), path)
        return path
    if ".jsonl" in path.name:
        return write_text(path, to_jsonl(rows))
    cells = [list(rows[0]), *([str(value) for value in row.values()] for row in rows)]
    return write_text(path, to_csv(cells, "\t" if ".tsv" in path.name else ","))


@pytest.fixture
def mixed(tmp_path):
    """Two files of JSON lines and one of CSV, each with other rows in another language."""
    codes = {"a.jsonl": "en", "b.jsonl.gz": "de", "c.csv": "fr"}
    for number, (name, code) in enumerate(codes.items()):
        write(tmp_path / "dump" / name, rows_of(number * ROWS, lang=code))
    return tmp_path / "dump"


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


@pytest.fixture
def imported(monkeypatch):
    """Return the names of the files that are imported from here on."""
    names, write_rows = [], to_parquet_write_rows

    def noting(text, *given):
        names.append(Path(text.path).name)
        write_rows(text, *given)

    monkeypatch.setattr("bertscore_beam.run.text_import.write_rows", noting)
    return names


@pytest.fixture
def run(tmp_path, mixed):
    """Return what scores the dump into the folder `out`, with further words of the command."""
    return lambda *more: cli.main(words_of(tmp_path, *more))


def words_of(tmp_path, *more):
    given = ("--device", "cpu", "--split-rows", 5, "--quiet", *more)
    return jobs.score_arguments(tmp_path / "dump", tmp_path, *given)


def kept_imports(out):
    return {Path(name).suffix for name in files_below(out / IMPORTS_FOLDER)}


def rejected_files(out):
    if not (out / FILES_FILE).exists():
        return {}
    listed = pq.read_table(out / FILES_FILE).to_pylist()
    return {Path(row["file"]).name: row["reason"] for row in listed}


def test_every_format_and_compression_gives_equal_scores(tmp_path):
    for name in FILES:
        write(tmp_path / "dump" / name, rows_of())
    assert cli.main(words_of(tmp_path)) == cli.DONE
    expected, *others = (read_output(tmp_path / "out" / name) for name in FILES)
    names = [name for name in expected.column_names if name not in SCHEMA.names]
    assert len(names) > 5
    for name, found in zip(FILES[1:], others, strict=True):
        assert found.select(names).equals(expected.select(names))
        parts = sorted(path.name for path in (tmp_path / "out" / name).iterdir())
        assert parts == sorted(path.name for path in (tmp_path / "out" / FILES[0]).iterdir())
    assert not (tmp_path / "out" / INPUT_FOLDER).exists()


def test_only_what_is_not_scored_is_imported_again(out, mixed, run, imported):
    assert run() == cli.DONE
    assert sorted(imported) == ["a.jsonl", "b.jsonl.gz", "c.csv"]
    footers, parts = files_below(out / IMPORTS_FOLDER), jobs.parts_of(out)
    assert (len(footers), len(parts)) == (3, 9)
    imported.clear()

    assert run() == cli.DONE
    assert not imported
    assert not (out / INPUT_FOLDER).exists()
    assert (files_below(out / IMPORTS_FOLDER), jobs.parts_of(out)) == (footers, parts)

    sorted((out / "b.jsonl.gz").iterdir())[1].unlink()
    assert run() == cli.DONE
    assert imported == ["b.jsonl.gz"]
    assert jobs.parts_of(out) == parts
    assert not (out / INPUT_FOLDER).exists()
    assert files_below(out / IMPORTS_FOLDER).keys() == footers.keys()
    imported.clear()

    write(mixed / "a.jsonl", rows_of(1, ROWS))
    assert run() == cli.DONE
    assert imported == ["a.jsonl"]
    assert read_output(out / "a.jsonl")["id"].to_pylist() == list(range(1, ROWS + 1))
    now = files_below(out / IMPORTS_FOLDER)
    assert len(now) == 3
    assert len(now.keys() & footers.keys()) == 2
    imported.clear()

    (mixed / "c.csv").unlink()
    assert run() == cli.TOO_MANY_REJECTS  # its parts are still there
    assert not imported
    assert len(files_below(out / IMPORTS_FOLDER)) == 2
    assert jobs.summary_of(out / "_work" / "failed")["num_parts_of_inputs_gone"] == 3


@pytest.fixture
def behind_planning(monkeypatch):
    """Return a list for what happens between the first planning and the import, each once."""
    changes, phase = [], job_module.import_phase

    def changing(*given):
        while changes:
            changes.pop()()
        return phase(*given)

    monkeypatch.setattr(job_module, "import_phase", changing)
    return changes


def test_file_that_appears_behind_planning_waits_for_the_next_run(out, mixed, run, behind_planning):
    behind_planning.append(lambda: write(mixed / "b2.jsonl", rows_of(100)))
    behind_planning.append(lambda: write(mixed / "z.parquet", rows_of(200)))
    assert run() == cli.DONE
    assert jobs.summary_of(out)["rows"] == 3 * ROWS
    assert {name.partition("/")[0] for name in jobs.parts_of(out)} == {
        "a.jsonl",
        "b.jsonl.gz",
        "c.csv",
    }
    assert run() == cli.DONE
    assert jobs.summary_of(out)["rows"] == 5 * ROWS


@pytest.mark.parametrize("change", ["other rows", "gone"])
def test_file_that_changes_behind_planning_is_scored_by_the_next_run(
    out, mixed, run, behind_planning, change
):
    file = mixed / "b.jsonl.gz"
    others = rows_of(500, ROWS + 1)
    behind_planning.append(file.unlink if change == "gone" else lambda: write(file, others))
    assert run() == cli.BROKEN
    assert rejected_files(out) == {"b.jsonl.gz": "unreadable_file"}
    assert jobs.summary_of(out)["rows"] == 2 * ROWS
    assert not (out / "b.jsonl.gz").exists()
    write(file, others)
    assert run() == cli.DONE
    assert read_output(out / "b.jsonl.gz")["id"].to_pylist() == list(range(500, 501 + ROWS))
    assert not rejected_files(out)
    assert kept_imports(out) == {".pq"}


@pytest.mark.parametrize("change", ["cut off", "gone"])
def test_an_import_that_fails_for_rows_that_are_gone_says_why(
    out, mixed, run, behind_planning, change
):
    assert run() == cli.DONE
    file, lost = mixed / "b.jsonl.gz", sorted((out / "b.jsonl.gz").iterdir())[1]
    lost.unlink()
    behind_planning.append(file.unlink if change == "gone" else lambda: os.truncate(file, 20))
    assert run() == cli.BROKEN
    listed = pq.read_table(out / FILES_FILE).to_pylist()
    assert [(row["file"], row["row"], row["reason"]) for row in listed] == [
        (str(file), 4, "unreadable_rows")
    ]
    assert "b.jsonl.gz" in listed[0]["message"]
    assert INPUT_FOLDER not in listed[0]["message"]


def test_a_plan_is_kept_for_the_imports_that_it_names(out, mixed, run, monkeypatch):
    assert run() == cli.DONE
    next((out / "c.csv").iterdir()).unlink()
    of = TextFile.of
    monkeypatch.setattr(TextFile, "of", lambda *given: replace(of(*given), parser="another"))
    assert run() == cli.DONE


def test_bad_files_of_text_are_rejected_beside_good_ones_until_they_are_repaired(
    out, mixed, run, imported
):
    (mixed / "c.csv").write_bytes(b"")
    noise = [row | {"x": f"{hash((row['id'], n))}" * 20} for n in range(400) for row in rows_of()]
    whole = write(mixed / "b.jsonl.gz", noise).read_bytes()
    (mixed / "b.jsonl.gz").write_bytes(whole[:-100])
    (mixed / "d.csv").write_bytes(b"candidate,reference\n\x1f\x8b\n")
    bad = {"b.jsonl.gz": "not_text_format", "c.csv": "not_text_format"}
    for _ in range(2):
        assert run() == cli.TOO_MANY_REJECTS
        assert rejected_files(out) == bad
        assert jobs.summary_of(out)["rows"] == ROWS + 1
        assert imported.count("b.jsonl.gz") == 1  # why it is bad is kept
    (mixed / "d.csv").unlink()
    shutil.rmtree(out / "d.csv")
    for number, name in enumerate(bad):
        write(mixed / name, rows_of(number * ROWS))
    assert run() == cli.DONE
    assert not rejected_files(out)
    assert jobs.summary_of(out)["rows"] == 3 * ROWS
    assert kept_imports(out) == {".pq"}


def test_keep_input_keeps_the_rows(out, run, imported):
    assert run("--keep-input") == cli.DONE
    kept, parts = files_below(out / INPUT_FOLDER), jobs.parts_of(out)
    assert len(kept) == 3
    sorted((out / "b.jsonl.gz").iterdir())[1].unlink()
    imported.clear()
    assert run("--keep-input") == cli.DONE
    assert not imported
    assert files_below(out / INPUT_FOLDER) == kept
    assert run("--overwrite") == cli.DONE
    assert not files_below(out / INPUT_FOLDER)
    sorted((out / "b.jsonl.gz").iterdir())[1].unlink()
    assert run() == cli.DONE
    assert imported == ["b.jsonl.gz"]
    assert jobs.parts_of(out) == parts


def test_text_is_not_imported_into_the_folder_of_another_command(out, run, imported, capsys):
    out.mkdir()
    of_tune = {"format": FORMAT, "run": "x", "identity": {"command": "tune"}}
    (out / RUN_FILE).write_bytes(to_json(of_tune))
    before = files_below(out)
    assert run() == run("--overwrite") == cli.UNUSABLE
    assert "holds the output of `tune`" in " ".join(capsys.readouterr().err.split())
    assert not imported
    left = {name: data for name, data in files_below(out).items() if "lock" not in name}
    assert left == before


def test_text_is_not_imported_for_a_run_of_other_settings(out, run, imported, capsys):
    assert run("--idf", "corpus") == cli.DONE
    before = files_below(out)
    write(out.parent / "dump" / "a.jsonl", rows_of(1))
    imported.clear()
    assert run() == cli.UNUSABLE
    assert "idf: 'corpus@" in capsys.readouterr().err
    assert not imported
    left = {name: data for name, data in files_below(out).items() if "lock" not in name}
    assert left == before


@pytest.mark.parametrize("languages", [(), ("--languages", "languages.yaml")])
def test_a_file_that_is_only_touched_is_of_the_same_run_whatever_the_corpus(
    out, mixed, run, imported, languages, monkeypatch
):
    monkeypatch.chdir(out.parent)
    write_text(out.parent / "languages.yaml", b"{fr: {num_layers: 1}, en: {}, de: {}}\n")
    words = ("--language-column", "lang", "--idf", "corpus")
    assert run(*words, *languages) == cli.DONE
    write(mixed / "c.csv", rows_of(2 * ROWS, lang="fr"))
    imported.clear()
    assert run(*words, *languages) == cli.DONE
    assert "c.csv" in imported


MIXED = ("--language-column", "lang", "--group-by", "lang")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (("--drop-columns", "nope"), "no column to drop"),
        (("--reference-column", "nope"), "no reference column 'nope'"),
        (("--reuse", "nothing"), "is not a scoring run"),
    ],
)
def test_a_wrong_word_is_refused_before_text_is_imported_and_leaves_all_as_it_is(
    out, mixed, run, imported, capsys, wrong, message
):
    assert run(*wrong) == cli.UNUSABLE
    assert message in capsys.readouterr().err
    assert not out.exists()
    assert run() == cli.DONE
    before = files_below(out)
    write(mixed / "c.csv", rows_of(2 * ROWS, ROWS + 2, lang="fr"))
    imported.clear()
    assert run(*wrong) == cli.UNUSABLE
    assert (imported, files_below(out)) == ([], before)
    assert run() == cli.DONE
    assert imported == ["c.csv"]


def test_what_is_refused_after_an_import_leaves_nothing_of_it(out, mixed, run, capsys):
    assert run() == cli.DONE
    before = files_below(out)
    for number, name in enumerate(("a.jsonl", "b.jsonl.gz", "c.csv")):
        write(mixed / name, rows_of((number + 5) * ROWS, lang="en"))
    for _ in range(2):
        capsys.readouterr()
        assert run() == cli.UNUSABLE
        assert "scores of other texts" in capsys.readouterr().err
        assert files_below(out) == before


def test_damaged_rows_of_an_import_are_imported_again_by_the_next_run(out, run, imported, capsys):
    assert run("--keep-input") == cli.DONE
    rows = next((out / INPUT_FOLDER).glob("*.parquet"))
    rows.write_bytes(rows.read_bytes()[:200])
    for part in out.glob("*/part-*.parquet"):
        part.unlink()
    imported.clear()
    assert run("--keep-input") == cli.BROKEN
    assert imported == []
    assert run("--keep-input") == cli.DONE
    assert len(imported) == 1


def test_keys_without_references_are_refused_each_time(tmp_path, out, capsys):
    plain = [{"id": row["id"], "candidate": row["candidate"]} for row in rows_of()]
    write(tmp_path / "dump" / "x.jsonl", plain)
    found = [{"id": row["id"], "reference": row["reference"]} for row in rows_of()]
    words = ("--reference-file", str(tmp_path / "ref.jsonl"), "--join", "id")
    words += ("--max-reject-fraction", "0.5")
    write(tmp_path / "ref.jsonl", found)
    assert cli.main(words_of(tmp_path, *words)) == cli.DONE
    before = jobs.parts_of(out)
    write(tmp_path / "ref.jsonl", found[2:])
    for _ in range(2):
        capsys.readouterr()
        assert cli.main(words_of(tmp_path, *words)) == cli.UNUSABLE
        assert "rows have no references: got 2 of 12" in capsys.readouterr().err
        assert (out / "_SUCCESS").exists()
        assert jobs.parts_of(out) == before


@pytest.mark.parametrize("more", [(), ("--idf", "corpus"), ("--group-by", "lang"), MIXED[:2]])
def test_dry_run_says_about_how_much_there_is_and_writes_nothing(out, mixed, run, capsys, more):
    assert run("--dry-run", *more) == cli.DONE
    assert "about " in capsys.readouterr().out
    assert not out.exists()
    assert run(*more) == cli.DONE
    before = files_below(out)
    capsys.readouterr()
    assert run("--dry-run", *more) == cli.DONE
    assert f"{3 * ROWS}" in capsys.readouterr().out
    write(mixed / "a.jsonl", rows_of(7, lang="en"))
    assert run("--dry-run", *more) == cli.DONE
    assert "about " in capsys.readouterr().out
    assert files_below(out) == before


def test_languages_and_groups_of_all_rows_are_known_when_one_file_is_read_again(
    out, mixed, run, imported
):

    def told():
        return {code: one["rows"] for code, one in jobs.summary_of(out)["languages"].items()}

    assert run(*MIXED) == cli.DONE
    assert told() == dict.fromkeys(("de", "en", "fr"), ROWS)
    first, parts = jobs.summary_of(out)["languages"], jobs.parts_of(out)
    assert run(*MIXED) == cli.DONE
    assert jobs.parts_of(out) == parts
    assert len(imported) == 3  # the counts are kept with the plan
    sorted((out / "b.jsonl.gz").iterdir())[1].unlink()
    assert run(*MIXED) == cli.DONE
    assert jobs.parts_of(out) == parts
    now = jobs.summary_of(out)["languages"]
    assert {code: now[code]["f1"] for code in now} == {code: first[code]["f1"] for code in first}

    write(mixed / "c.csv", rows_of(90, lang="es"))
    assert run(*MIXED) == cli.DONE
    assert told() == dict.fromkeys(("de", "en", "es"), ROWS)
    groups = pq.ParquetFile(out / "_groups.pq").read(["lang"])
    assert groups["lang"].to_pylist() == [None, "de", "en", "es"]
    assert jobs.summary_of(out)["rejected"] == 0
    assert not (out / INPUT_FOLDER).exists()


def test_import_that_fails_leaves_no_footer_of_an_earlier_one(tmp_path):
    path, folder = write(tmp_path / "a.jsonl.gz", rows_of()), jobs.own(tmp_path / "out")
    (file,) = expand_inputs([str(path)])
    text = TextFile.of(replace(file, size=0, version=""), ["candidate", "reference"], ["reference"])
    jobs.import_here([text], folder)
    assert folder.exists(footer_of(text.data))
    path.write_bytes(path.read_bytes()[:-9])
    jobs.import_here([text], folder)
    assert not folder.exists(footer_of(text.data))
    with pytest.raises(RejectedError, match="cannot be decompressed"):
        Imports(folder=folder.root, are_made=True).layout(text)


def test_lack_of_memory_is_not_kept_as_the_fault_of_a_file(tmp_path, monkeypatch):
    path, folder = write(tmp_path / "a.jsonl", rows_of()), jobs.own(tmp_path / "out")
    (file,) = expand_inputs([str(path)])
    text = TextFile.of(file, ["candidate", "reference"], ["reference"])

    def full(*_):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(to_parquet, "to_table", full)
        jobs.import_here([text], folder)
    imports = Imports(folder=folder.root)
    with pytest.raises(RejectedError, match="too little memory"):
        replace(imports, are_made=True).layout(text)
    assert imports.layout(text) is None  # the next run tries again
    jobs.import_here([text], folder)
    assert sum(group.num_rows for group in imports.layout(text).row_groups) == len(rows_of())


def test_a_column_that_no_step_needs_decides_nothing_and_may_be_dropped(tmp_path, out, capsys):
    rows = [{**row, "error": None} for row in rows_of()]
    rows[3]["error"], rows[-1]["error"] = "slow", {"code": 429}
    write(tmp_path / "dump" / "a.jsonl", rows)
    assert cli.main(words_of(tmp_path)) == cli.DONE
    assert (
        capsys.readouterr().err.count(
            "got 'error'. In such a file every value of the column is kept as its JSON"
        )
        == 1
    )
    assert jobs.summary_of(out)["rejected"] == 0
    first = read_output(out)
    assert first["error"].drop_null().to_pylist() == ['"slow"', '{"code":429}']
    assert cli.main(words_of(tmp_path, "--drop-columns", "error")) == cli.DONE
    assert "reused: 12 rows of an earlier run" in capsys.readouterr().out
    assert read_output(out).equals(first.drop_columns("error"))


# Scoring text files: every line is accounted for, also where its texts are in fields of fields.

BAD = b'{"pair": 1}\n{"pair": "cut off"\n'


def test_bad_lines_are_rows_without_scores_with_their_places_and_reason(tmp_path):
    rows = pa.table(pair_rows(30), schema=SCHEMA)
    file, flat, out = tmp_path / "b.jsonl", tmp_path / "a.parquet", tmp_path / "out"
    pq.write_table(rows, flat)
    write_text(file, to_jsonl([{"pair": row} for row in rows.to_pylist()]) + BAD)
    limits = {"max_reject_fraction": 1.0, "split_rows": 20}
    nested = {"candidate_column": ("pair.candidate",), "reference_column": "pair.reference"}
    summary = jobs.run_job(file, output=out / "nested", **limits, **nested)
    assert (summary["rows"], summary["rejected"]) == (30 + 2, 2)
    assert summary["reasons"] == {"bad_line": 1, "type_drift": 1}
    listed = pq.read_table(out / "nested" / "_rejects").to_pylist()
    data = file.read_bytes()
    found = {row["reason"]: data[row["byte"] :].split(b"\n")[0] for row in listed}
    assert found == dict(zip(("type_drift", "bad_line"), BAD.splitlines(), strict=True))
    assert {row["file"] for row in listed} == {str(file)}
    assert sorted((row["row"], row["line"]) for row in listed) == [(30, 31), (31, 32)]
    lines = read_output(out / "nested")
    last = lines.slice(30).to_pylist()
    assert [row["bertscore_error"] for row in last] == ["type_drift", "bad_line"]
    assert [row["pair"] for row in last] == [None, None]
    jobs.run_job(flat, output=out / "flat", **limits)
    for name in ("bertscore_precision", "bertscore_recall", "bertscore_f1"):
        expected = read_output(out / "flat")[name].to_pylist()
        given = lines[name].to_pylist()[:30]
        assert given == pytest.approx(expected, abs=INVARIANCE_ATOL, rel=0)
