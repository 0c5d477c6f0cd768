"""The baseline job: the same tables whatever happens, and nothing short without a word."""

import gzip
import json
import shutil
import subprocess
import sys
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_core import BertScorer, ConfigError, ScorerConfig, parse_baseline
from pipelines import cli
from pipelines.baseline.options import BaselineOptions
from pipelines.transforms.sample import load_sample
from tests.support.crawl_texts import sentences
from tests.support.crawls import (
    LANGUAGES,
    TABLES,
    baseline,
    make_crawl,
    read_tables,
    run_baseline,
)
from tests.support.dumps import read_output
from tests.support.processes import kill_session
from tests.support.s3 import s3_bucket
from tests.support.web import web_server
from tests.support.wet import CRAWL, listing_bytes
from tests.support.workers import worker_pool

SOON = ("--fetch-pause", "0.01", "--fetch-timeout", "0.5")


@pytest.fixture(scope="module")
def model(tiny_folder, tmp_path_factory):
    """Return the folder of a model that is called bert."""
    return shutil.copytree(tiny_folder("bert"), tmp_path_factory.mktemp("models") / "bert")


@pytest.fixture(scope="module")
def crawl(tmp_path_factory):
    return make_crawl(tmp_path_factory.mktemp("crawl"))


@pytest.fixture(scope="module")
def finished(tmp_path_factory, crawl, model):
    """Return the output of a run that nothing befell."""
    output = tmp_path_factory.mktemp("undisturbed") / "out"
    assert run_baseline(crawl, output, model) == cli.DONE
    return output


@pytest.fixture(scope="module")
def tables(finished):
    return read_tables(finished)


@pytest.fixture(scope="module")
def names(crawl):
    """Return the names of the crawl's files."""
    listing = crawl / "crawl-data" / CRAWL / "wet.paths.gz"
    return gzip.decompress(listing.read_bytes()).decode().split()


@pytest.fixture(scope="module")
def namesake(model, tmp_path_factory):
    """Return the folder of another model that is called bert as well."""
    folder = shutil.copytree(model, tmp_path_factory.mktemp("namesakes") / "bert")
    config = folder / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"layer_norm_eps": 0.1}))
    return folder


def description(output: Path, table: str = "en/bert.json"):
    return json.loads((output / table).read_text())


# What comes out.


@pytest.mark.parametrize("overwrite", [False, True])
def test_output_around_the_folder_of_another_run_is_refused(
    tmp_path, crawl, finished, model, capsys, overwrite
):
    shutil.copytree(finished, tmp_path / "all" / "july")
    before = read_tables(tmp_path / "all" / "july")
    more = ["--overwrite"] * overwrite
    assert run_baseline(crawl, tmp_path / "all", model, *more) == cli.UNUSABLE
    assert "holds the folders of other runs: got 'july' below it" in capsys.readouterr().err
    assert read_tables(tmp_path / "all" / "july") == before


def test_table_is_what_scoring_each_layer_alone_gives(finished, model):
    files = sorted((finished / "_pairs" / "en").glob("*.parquet"))
    pairs = pa.concat_tables(map(pq.read_table, files)).to_pydict()
    assert len(pairs["candidate"]) == 120
    table = parse_baseline((finished / "en" / "bert.tsv").read_text(), "it")
    for layer, row in enumerate(table.rows):
        config = ScorerConfig(model=str(model), num_layers=layer, device="cpu")
        scores = BertScorer(config).score(pairs["candidate"], pairs["reference"])
        means = [scores.precision.mean(), scores.recall.mean(), scores.f1.mean()]
        np.testing.assert_allclose(row, means, atol=1e-5)
    assert layer == 3


def test_no_sentence_is_in_two_pairs_or_from_another_language(finished):
    seen = []
    for language in LANGUAGES:
        for file in (finished / "_pairs" / language).glob("*.parquet"):
            pairs = pq.read_table(file)
            seen += pairs["candidate"].to_pylist() + pairs["reference"].to_pylist()
    assert len(seen) == len(set(seen)) == 480


def test_description_says_where_it_comes_from(finished, names):
    said = description(finished)
    assert (said["pairs"], said["pairs_wanted"]) == (120, 120)
    assert said["source"]["name"] == CRAWL
    assert said["source"]["files_listed"] == len(names) == 4
    assert {file["file"] for file in said["source"]["files"]} <= set(names)
    assert all(len(file["sha256"]) == 64 and file["rows"] for file in said["source"]["files"])
    assert said["source"]["counts"]["pages"] > said["source"]["counts"]["pages_of_language"] > 0
    counts = said["source"]["counts"]
    assert counts["sentences_kept"] > 0
    assert counts["sentences_seen"] > counts["sentences_kept"]
    assert sum(said["sample"]["words"].values()) == 240
    assert "layer_semantics:cut" in said["signature"]
    layer = said["layers"][1]["f1"]
    assert 0 < layer["standard_error"] < layer["standard_deviation"]
    assert said["sample"]["seed"] == 3


def test_sentences_per_page_and_host_are_bounded(tmp_path, crawl, model):
    output = tmp_path / "out"
    caps = ("--sentences-per-page", "2", "--sentences-per-host", "3", "--languages", "en")
    assert run_baseline(crawl, output, model, *caps) == cli.DONE
    sample = load_sample(str(output / "_sample" / "en.npy"))
    blocks = [pq.read_table(file) for file in (output / "_sentences" / "en").rglob("*.pq")]
    rows = pa.concat_tables(blocks).to_pydict()
    hosts = {}
    for priority, host in zip(rows["priority"], rows["host"], strict=True):
        if np.isin(np.uint64(priority), sample):
            hosts.setdefault(host, set()).add(priority)
    assert max(map(len, hosts.values())) == 3
    assert len(sample) < 240
    assert description(output)["pairs"] == len(sample) // 2


def test_small_crawl_is_said_to_be_small(tmp_path, crawl, model, capsys):
    output = tmp_path / "out"
    assert run_baseline(crawl, output, model, "--pairs", 10_000, "--languages", "de") == cli.DONE
    said = capsys.readouterr().err
    assert "the sample was too small" in said
    assert "expected 20,000" in said
    found = description(output, "de/bert.json")
    assert found["pairs"] < found["pairs_wanted"] == 10_000
    assert len(found["source"]["files"]) == 4  # all there are


def test_language_that_is_not_there_gets_no_table(tmp_path, crawl, model, capsys):
    output = tmp_path / "out"
    status = run_baseline(crawl, output, model, "--languages", "en,is")
    assert status == cli.TOO_MANY_REJECTS
    assert "numbers of sentences: is 0; expected at least two" in capsys.readouterr().err
    assert (output / "en" / "bert.tsv").exists()
    assert not (output / "is").exists()
    assert not (output / "_SUCCESS").exists()


def test_dry_run_writes_nothing(tmp_path, crawl, model, capsys):
    assert run_baseline(crawl, tmp_path / "out", model, "--dry-run") == cli.DONE
    assert "files listed: en 4, de 4" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()


# The same tables, however the work is done.


def test_two_processes_make_the_same_tables(tmp_path, crawl, model, tables):
    assert run_baseline(crawl, tmp_path / "out", model, "--workers", 2) == cli.DONE
    assert read_tables(tmp_path / "out") == tables


def test_two_external_workers_make_the_same_tables(tmp_path, crawl, model, tables):
    with worker_pool() as address:
        place = ["--environment_type=EXTERNAL", f"--environment_config={address}"]
        words = baseline(crawl, tmp_path / "out", model, "--workers", 2)
        assert cli.main([*words, "--", *place]) == cli.DONE
    assert read_tables(tmp_path / "out") == tables


def test_order_of_the_list_makes_no_difference(tmp_path, crawl, model, names, tables):
    other = shutil.copytree(crawl, tmp_path / "crawl")
    listing = other / "crawl-data" / CRAWL / "wet.paths.gz"
    listing.write_bytes(listing_bytes(names[::-1]))
    assert run_baseline(other, tmp_path / "out", model) == cli.DONE
    assert read_tables(tmp_path / "out") == tables


def test_web_server_gives_the_same_tables(tmp_path, crawl, model, tables):
    with web_server(crawl) as web:
        flags = (*SOON, "--contact", "mailto:someone@example.org")
        assert run_baseline(f"{web.url}/", tmp_path / "out", model, *flags) == cli.DONE
        agents = {request.headers["user-agent"] for request in web.requests}
        paths = [request.path for request in web.requests]
    assert read_tables(tmp_path / "out") == tables
    assert len(paths) == len(set(paths)) == 1 + 4  # each file once, whole
    assert all("bertscore-beam/" in agent and "someone@example.org" in agent for agent in agents)


def test_object_store_gives_and_takes_the_same_tables(tmp_path, crawl, model, tables):
    with s3_bucket() as bucket:
        store = fsspec.filesystem("s3")
        store.put(str(crawl / "crawl-data"), f"{bucket}/crawl/crawl-data", recursive=True)
        assert run_baseline(f"{bucket}/crawl/", f"{bucket}/out", model) == cli.DONE
        store.get(f"{bucket}/out/", str(tmp_path / "out"), recursive=True)
    assert read_tables(tmp_path / "out") == tables


@pytest.mark.parametrize(
    "landmark",
    [
        "_sentences/**/*.json",
        "_sample/*.npy",
        "_sample/*.json",
        "_pairs/*.json",
        "_moments/**/*.npz",
        "en/*.tsv",
    ],
)
def test_run_killed_at_any_stage_goes_on(tmp_path, crawl, model, tables, landmark):
    output = tmp_path / "out"
    command = [str(Path(sys.executable).with_name("bertscore-beam"))]
    command += baseline(crawl, output, model)
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        while process.poll() is None and not list(output.glob(landmark)):
            pass
    finally:
        kill_session(process.pid)
        process.wait()
    assert not (output / "_SUCCESS").exists() or process.returncode == 0
    assert run_baseline(crawl, output, model) == cli.DONE
    assert read_tables(output) == tables
    assert (output / "_SUCCESS").exists()


# Later additions.


def test_language_added_later_gets_the_table_it_would_have_got(tmp_path, crawl, model, tables):
    output = tmp_path / "out"
    assert run_baseline(crawl, output, model, "--languages", "de") == cli.DONE
    before = {file: file.stat().st_mtime_ns for file in (output / "_sentences").rglob("*.pq")}
    assert run_baseline(crawl, output, model) == cli.DONE
    assert read_tables(output) == tables
    assert {file: file.stat().st_mtime_ns for file in before} == before


def test_model_added_later_needs_no_crawl(tmp_path, finished, model, tiny_folder, tables):
    output = shutil.copytree(finished, tmp_path / "out")
    other = shutil.copytree(tiny_folder("t5"), tmp_path / "t5")
    nowhere = tmp_path / "nowhere"
    both = ("--models", other, "--languages", *LANGUAGES)
    assert run_baseline(nowhere, output, model, *both) == cli.DONE
    assert read_tables(output) == tables
    rows = parse_baseline((output / "de" / "t5.tsv").read_text(), "it").rows
    pairs = pa.concat_tables(map(pq.read_table, (output / "_pairs" / "de").glob("*.parquet")))
    config = ScorerConfig(model=str(other), num_layers=1, device="cpu")
    alone = BertScorer(config).score(*(pairs[side].to_pylist() for side in pairs.column_names[:2]))
    np.testing.assert_allclose(rows[1, 2], alone.f1.mean(), atol=1e-5)


def test_other_settings_are_refused_by_name(finished, crawl, model, capsys):
    assert run_baseline(crawl, finished, model, "--seed", 4) == cli.UNUSABLE
    assert "seed: '3' there, '4' now" in capsys.readouterr().err


def test_fewer_pairs_or_another_model_never_take_a_table_away_unasked(
    tmp_path, finished, crawl, model, namesake, tables, capsys
):
    output = shutil.copytree(finished, tmp_path / "out")
    for more in ((), ("--dry-run",)):
        assert run_baseline(crawl, output, model, "--pairs", 100, *more) == cli.UNUSABLE
        assert "got 120 there, 100 now" in capsys.readouterr().err
        assert run_baseline(crawl, output, namesake, *more) == cli.UNUSABLE
        assert "en/bert.tsv was made by another model of that name" in capsys.readouterr().err
    assert read_tables(output) == tables
    for table in tables:
        (output / table).unlink()
    assert run_baseline(crawl, output, model, "--pairs", 100) == cli.UNUSABLE  # sums are there
    assert len(list((output / "_moments").rglob("*.npz"))) >= 2
    fewer = ("--pairs", 100, "--languages", "en")
    assert run_baseline(crawl, output, namesake, *fewer, "--overwrite") == cli.DONE
    assert description(output)["pairs"] == 100
    assert description(output)["signature"] != json.loads(tables["en/bert.json"])["signature"]
    assert run_baseline(crawl, output, namesake, *fewer) == cli.DONE


def test_command_that_was_mistyped_claims_no_folder(tmp_path, crawl, model, capsys):
    output = tmp_path / "out"
    assert run_baseline(tmp_path / "nowhere", output, model) == cli.UNUSABLE
    assert (output / "_run.json").exists()
    assert run_baseline(crawl, output, model, "--seed", 4, "--dry-run") == cli.DONE


def test_output_of_another_command_is_never_overwritten(tmp_path, finished, crawl, model, capsys):
    scored = tmp_path / "scored"
    scored.mkdir()
    (scored / "_run.json").write_text(json.dumps({"identity": {"model": "bert"}}))
    rows = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"candidate": ["a"], "reference": ["b"]}), rows)
    before = (finished / "_run.json").read_bytes()
    for more in ((), ("--overwrite",)):
        assert run_baseline(crawl, scored, model, *more) == cli.UNUSABLE
        (said,) = capsys.readouterr().err.splitlines()
        assert "holds the output of `score`" in said
        words = ["score", "--input", rows, "--output", finished, "--model", "all-MiniLM-L6-v2"]
        assert cli.main([*map(str, words), *more]) == cli.UNUSABLE
        (said,) = capsys.readouterr().err.splitlines()
        assert "holds the output of `baseline`" in said
    assert (finished / "_run.json").read_bytes() == before
    assert [path.name for path in scored.iterdir()] == ["_run.json"]


def test_overwriting_starts_afresh_and_leaves_no_table_of_before(
    tmp_path, finished, crawl, model, tables
):
    output = shutil.copytree(finished, tmp_path / "out")
    (output / "mine.tsv").write_text("kept")
    only = ("--seed", 4, "--languages", "en", "--overwrite")
    assert run_baseline(crawl, output, model, *only) == cli.DONE
    assert description(output)["sample"]["seed"] == 4
    assert (output / "en" / "bert.tsv").read_bytes() != tables["en/bert.tsv"]
    assert sorted(path.name for path in output.rglob("*.tsv")) == ["bert.tsv", "mine.tsv"]


def test_overwriting_with_equal_settings_goes_on(tmp_path, finished, crawl, model, tables):
    output = shutil.copytree(finished, tmp_path / "out")
    (output / "en" / "bert.tsv").unlink()
    before = {file: file.stat().st_mtime_ns for file in (output / "_moments").rglob("*.npz")}
    assert run_baseline(crawl, output, model, "--overwrite") == cli.DONE
    assert read_tables(output) == tables
    assert {file: file.stat().st_mtime_ns for file in before} == before


def test_damaged_note_of_a_run_is_refused_and_can_be_overwritten(
    tmp_path, finished, crawl, model, tables, capsys
):
    output = shutil.copytree(finished, tmp_path / "out")
    (output / "_run.json").write_bytes(b"{")
    assert run_baseline(crawl, output, model) == cli.UNUSABLE
    assert "damaged" in capsys.readouterr().err
    assert run_baseline(crawl, output, model, "--overwrite") == cli.DONE
    assert read_tables(output) == tables


def test_fewer_files_than_before_give_what_they_would_have_given(tmp_path, crawl, model, capsys):
    more, fewer = tmp_path / "more", tmp_path / "fewer"
    one = ("--languages", "en", "--pairs", 2_000)
    assert run_baseline(crawl, more, model, *one) == cli.DONE
    assert run_baseline(crawl, more, model, *one, "--max-files", 1) == cli.DONE
    assert "rested on another sample and was deleted" in capsys.readouterr().err
    assert run_baseline(crawl, fewer, model, *one, "--max-files", 1) == cli.DONE
    names = ("en/bert.tsv", "en/bert.json")
    assert read_tables(more, names) == read_tables(fewer, names)
    assert len(description(more)["source"]["files"]) == 1


def test_other_files_under_the_same_names_are_noticed(tmp_path, finished, crawl, model, capsys):
    output = shutil.copytree(finished, tmp_path / "out")
    other = shutil.copytree(crawl, tmp_path / "crawl")
    listing = other / "crawl-data" / CRAWL / "wet.paths.gz"
    listing.write_bytes(listing_bytes(["crawl-data/CC-MAIN-2026-30/another.warc.wet.gz"]))
    assert run_baseline(other, output, model, "--pairs", 121) == cli.UNUSABLE
    assert "other files" in capsys.readouterr().err


# What goes wrong with files.


@pytest.mark.parametrize("fault", ["503", "429 Retry-After: 1", "close early", "stall", "reset"])
def test_fault_that_passes_costs_a_retry(tmp_path, crawl, model, names, tables, fault):
    with web_server(crawl, {f"/{names[1]}": [fault], f"/{names[2]}": [fault, fault]}) as web:
        assert run_baseline(f"{web.url}/", tmp_path / "out", model, *SOON) == cli.DONE
    kept = tuple(name for name in TABLES if not name.endswith(".json"))
    assert read_tables(tmp_path / "out", kept) == {name: tables[name] for name in kept}
    assert description(tmp_path / "out")["source"]["retries"] == 3


def test_file_that_stays_away_ends_the_run_and_is_tried_again(
    tmp_path, crawl, model, names, tables, capsys
):
    output = tmp_path / "out"
    flags = (*SOON, "--fetch-attempts", 2)
    with web_server(crawl, {f"/{names[0]}": ["503"] * 2, f"/{names[3]}": ["404"]}) as web:
        assert run_baseline(f"{web.url}/", output, model, *flags) == cli.BROKEN
        said = capsys.readouterr().err
        assert not list(output.glob("*/*.tsv"))
        assert "could not be read, more than --max-reject-fraction 0.01 allows" in said
        assert run_baseline(f"{web.url}/", output, model, *flags) == cli.DONE
        paths = [request.path for request in web.requests]
    kept = tuple(name for name in TABLES if name.endswith(".tsv"))
    assert read_tables(output, kept) == {name: tables[name] for name in kept}
    assert paths.count(f"/{names[1]}") == 1  # what was read is not read again
    assert not list((output / "_failed").rglob("*.json"))


def test_truncated_file_is_counted_and_named(tmp_path, crawl, model, names, capsys):
    cut = shutil.copytree(crawl, tmp_path / "crawl")
    file = cut / names[0]
    file.write_bytes(file.read_bytes()[:-1000])
    output = tmp_path / "out"
    allowed = ("--max-reject-fraction", 0.5, "--first-files", 4)
    assert run_baseline(cut, output, model, *allowed) == cli.DONE
    assert "1 files could not be read" in capsys.readouterr().err
    failed = description(output)["source"]["failed"]
    assert [note["file"] for note in failed] == [names[0]]
    assert "ends" in failed[0]["reason"]
    assert len(description(output)["source"]["files"]) == 3
    # Mended, it is read by the next run, and the sample is taken anew.
    shutil.copy(crawl / names[0], file)
    assert run_baseline(cut, output, model, "--first-files", 4) == cli.DONE
    assert description(output)["source"]["failed"] == []
    assert len(description(output)["source"]["files"]) == 4


def test_crawl_that_is_not_there_is_refused(tmp_path, model, capsys):
    with web_server({}) as web:
        status = run_baseline(f"{web.url}/", tmp_path / "out", model, *SOON)
    assert status == cli.UNUSABLE
    assert CRAWL in capsys.readouterr().err


def test_server_that_is_down_breaks_the_run_off(tmp_path, crawl, model, capsys):
    listing = f"/crawl-data/{CRAWL}/wet.paths.gz"
    flags = (*SOON, "--fetch-attempts", 2)
    with web_server(crawl, {listing: ["503", "503"]}) as web:
        assert run_baseline(f"{web.url}/", tmp_path / "out", model, *flags) == cli.BROKEN
    assert "goes on from there" in capsys.readouterr().err


# Sentences that somebody has.


def given(tmp_path, model, output, *files, **changes):
    flags = {"--pairs": 300, "--seed": 1, "--device": "cpu", "--models": model} | changes
    words = [str(word) for pair in flags.items() for word in pair]
    given = [f"en={file}" for file in files]
    return cli.main(["baseline", "--sentences", *given, "--output", str(output), *words])


def test_text_and_parquet_give_the_same_table(tmp_path, model):
    texts = sentences("en", 700, 1)
    plain, zipped, table = (tmp_path / name for name in ("a.txt", "b.txt.gz", "c.parquet"))
    plain.write_text("\n".join([*texts, "", *texts[:50]]))
    zipped.write_bytes(gzip.compress("\r\n".join(texts[::-1]).encode()))
    pq.write_table(pa.table({"text": [*texts, None]}), table)
    found = set()
    for file in (plain, zipped, table):
        output = tmp_path / f"of-{file.name}"
        assert given(tmp_path, model, output, file) == cli.DONE
        found.add((output / "en" / "bert.tsv").read_bytes())
    assert len(found) == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no sentence"),
        (b"\xff\xfe\x00bad", "cannot be read"),
        (b"\x1f\x8bxx", "cannot be read"),
    ],
)
def test_bad_files_of_sentences_end_the_run_by_name(tmp_path, model, content, words, capsys):
    file = tmp_path / "bad.txt"
    file.write_bytes(content)
    assert given(tmp_path, model, tmp_path / "out", file) == cli.BROKEN
    said = capsys.readouterr().err
    assert "bad.txt" in said
    assert words in said
    assert "again is of no use" in said
    assert "Run the same command again" not in said


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ({"sentence": ["One."]}, "has no column 'text': got sentence"),
        ({"text": [["One."]]}, "holds no texts: got list"),
    ],
)
def test_parquet_without_a_column_of_texts_is_refused_at_once(
    tmp_path, model, column, words, capsys
):
    file = tmp_path / "wrong.parquet"
    pq.write_table(pa.table(column), file)
    assert given(tmp_path, model, tmp_path / "out", file) == cli.UNUSABLE
    said = capsys.readouterr().err
    assert "wrong.parquet" in said
    assert words in said
    assert not (tmp_path / "out").exists()


def test_link_that_leads_nowhere_is_named(tmp_path, model, capsys):
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "a.txt").write_text("One.\nTwo.\n")
    (folder / "gone.txt").symlink_to(tmp_path / "nowhere.txt")
    assert given(tmp_path, model, tmp_path / "out", folder) == cli.UNUSABLE
    said = capsys.readouterr().err
    assert "gone.txt" in said
    assert "Mend the link, or remove it" in said


def test_table_of_one_pair_is_made_with_a_warning_and_no_check_passes(tmp_path, model, capsys):
    file = tmp_path / "few.txt"
    file.write_text("One.\nTwo.\n")
    output = tmp_path / "out"
    assert given(tmp_path, model, output, file, **{"--pairs": 1}) == cli.DONE
    said = capsys.readouterr().err
    assert "en/bert.tsv: the standard error of F1 is not known with 1 pairs; 4 checks" in said
    assert [check["passed"] for check in description(output)["checks"]] == [None] * 4


# What a baseline is for.


def test_scores_are_not_rescaled_by_the_table_of_another_model(
    tmp_path, finished, model, namesake, capsys
):
    rows = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"candidate": ["a"], "reference": ["b"]}), rows)

    def score(scorer, table):
        words = ["score", "--input", rows, "--output", tmp_path / "scored", "--model", scorer]
        words += ["--num-layers", 1, "--device", "cpu", "--lang", "en", "--dry-run"]
        return cli.main([*map(str, words), "--rescale", "--baseline", str(table)])

    lone = tmp_path / "mine.tsv"
    for kind in (".tsv", ".json"):
        shutil.copy((finished / "en" / "bert.tsv").with_suffix(kind), lone.with_suffix(kind))
    for table in (finished, lone):
        assert score(model, table) == cli.DONE
        capsys.readouterr()
        assert score(namesake, table) == cli.UNUSABLE
        assert "with another model than the one that scores" in capsys.readouterr().err
    lone.with_suffix(".json").unlink()
    assert score(namesake, lone) == cli.DONE
    empty = tmp_path / "empty"
    empty.mkdir()
    assert score(model, empty) == cli.UNUSABLE
    assert "holds no tables" in capsys.readouterr().err


def test_held_out_pairs_rescale_to_zero_and_equal_ones_to_one(tmp_path, scorer):
    """On other pairs of the same kind of text: within 3 errors of 0; equal texts give exactly 1."""
    texts = sentences("en", 6000, 5)
    file, other = tmp_path / "made.txt", tmp_path / "held-out.parquet"
    file.write_text("\n".join(texts[:4000]))
    output, scored = tmp_path / "out", tmp_path / "scored"
    assert given(tmp_path, "all-MiniLM-L6-v2", output, file, **{"--pairs": 2000}) == cli.DONE
    held_out = texts[4000:]
    rows = {
        "candidate": [*held_out[:1000], held_out[0]],
        "reference": [*held_out[1000:], held_out[0]],
    }
    pq.write_table(pa.table(rows), other)
    flags = ["--model", "all-MiniLM-L6-v2", "--lang", "en", "--rescale", "--baseline", output]
    words = ["score", "--input", other, "--output", scored, *flags, "--device", "cpu"]
    assert cli.main([str(word) for word in words]) == cli.DONE
    found = read_output(scored).to_pydict()
    layer = description(output, "en/all-MiniLM-L6-v2.json")["layers"][6]
    for measure in ("precision", "recall", "f1"):
        *values, equal = found[f"bertscore_{measure}"]
        made = layer[measure]
        error = np.hypot(
            np.std(values, ddof=1) / np.sqrt(len(values)),
            made["standard_error"] / (1 - made["mean"]),
        )
        assert abs(np.mean(values)) <= 3 * error
        assert equal == pytest.approx(1, abs=1e-5)
    assert [check["name"] for check in description(output, "en/all-MiniLM-L6-v2.json")["checks"]]
    assert all(
        check["passed"] for check in description(output, "en/all-MiniLM-L6-v2.json")["checks"]
    )


# What is given and not wanted.


def test_other_sentences_are_refused_or_overwrite(tmp_path, model, capsys):
    first, second = tmp_path / "a.txt", tmp_path / "b.txt"
    first.write_text("\n".join(sentences("en", 700, 1)))
    second.write_text("\n".join(sentences("en", 700, 2)))
    output = tmp_path / "out"
    assert given(tmp_path, model, output, first) == cli.DONE
    table = (output / "en" / "bert.tsv").read_bytes()
    assert given(tmp_path, model, output, second) == cli.UNUSABLE
    assert "other files" in capsys.readouterr().err
    assert (output / "en" / "bert.tsv").read_bytes() == table
    shutil.copy(second, first)
    assert given(tmp_path, model, output, first) == cli.UNUSABLE
    words = ["baseline", "--sentences", f"en={first}", "--output", output, "--models", model]
    words += ["--pairs", 300, "--seed", 1, "--device", "cpu", "--overwrite"]
    assert cli.main(list(map(str, words))) == cli.DONE
    assert (output / "en" / "bert.tsv").read_bytes() != table


def test_sentences_of_one_language_come_together_and_of_two_stay_apart(tmp_path, model, capsys):
    folder = tmp_path / "texts"
    for number in (1, 2):
        (folder / str(number)).mkdir(parents=True)
        (folder / str(number) / "s.txt").write_text("\n".join(sentences("en", 200, number)))
    words = ["baseline", "--output", tmp_path / "out", "--models", model, "--pairs", 1_000]
    words += ["--sentences", f"EN={folder}/1/s.txt", f"en={folder}/2", f"de={folder}/1/s.txt"]
    assert cli.main(list(map(str, [*words, "--device", "cpu"]))) == cli.DONE
    found = [description(tmp_path / "out", f"{code}/bert.json") for code in ("en", "de")]
    assert [said["sample"]["sentences"] for said in found] == [400, 200]
    assert "another crawl" not in capsys.readouterr().err


def test_sentences_without_tokens_give_no_table_but_a_word(tmp_path, capsys):
    file = tmp_path / "nothing.txt"
    file.write_text("\n".join("\u0301" * number for number in range(1, 9)))  # accents alone
    output = tmp_path / "out"
    assert given(tmp_path, "all-MiniLM-L6-v2", output, file) == cli.TOO_MANY_REJECTS
    assert "no table en/all-MiniLM-L6-v2.tsv" in capsys.readouterr().err
    assert not (output / "_SUCCESS").exists()
    assert not (output / "en").exists()


def test_options_that_would_do_nothing_are_refused(tmp_path, model, capsys):
    file = tmp_path / "a.txt"
    file.write_text("One sentence.\n")
    more = {"--max-files": 3}
    assert given(tmp_path, model, tmp_path / "out", file, **more) == cli.UNUSABLE
    assert "'max_files' cannot be used: got 3" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "got none; expected one of crawl, wet and sentences"),
        ({"crawl": CRAWL, "wet": "x"}, "got crawl and wet; expected one"),
        ({"crawl": CRAWL, "languages": [False, "en"]}, 'Put Norwegian in quotes: "no"'),
        ({"crawl": CRAWL, "languages": False}, 'Put Norwegian in quotes: "no"'),
    ],
)
def test_options_that_do_not_fit_are_refused_with_a_cure(changes, words):
    with pytest.raises(ConfigError, match=words):
        BaselineOptions.from_mapping({"models": ["m"], "output": "out"} | changes, "my.yaml")


def test_help_says_what_is_wanted_of_each_list_and_what_seed_holds_without_one(capsys):
    with pytest.raises(SystemExit):
        cli.main(["baseline", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "--models NAME [NAME ...]" in said
    assert "--languages CODE [CODE ...]" in said
    assert "--sentences LANGUAGE=PATH" in said
    assert "--wet PATH" in said
    assert ".txt, .txt.gz or .parquet" in said
    assert "are taken (default: 0)" in said
