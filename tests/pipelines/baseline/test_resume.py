"""Which folders a baseline run continues in, what it keeps of them, and which it leaves."""

import json
import shutil
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.cli.main import main
from bertscore_beam.files.checked import from_json, to_json
from bertscore_beam.files.paths import TEMPORARY_PREFIX
from bertscore_beam.run.folder import FORMAT
from bertscore_beam.run.output import DONE, UNUSABLE
from bertscore_core import BertScorer, ScorerConfig, parse_baseline
from tests.support.crawls import (
    LANGUAGES,
    assert_same,
    baseline,
    description,
    read_tables,
    run_baseline,
)
from tests.support.processes import kill_session
from tests.support.web import web_server
from tests.support.wet import CRAWL, listing_bytes


@pytest.mark.long
def test_run_killed_while_it_fetches_continues_with_what_it_has(tmp_path, crawl, model, tables):
    output, program = tmp_path / "out", [sys.executable, "-m", "bertscore_beam"]
    waits = {f"/{path.relative_to(crawl)}": ["wait 1"] for path in crawl.rglob("*.wet.gz")}
    with web_server(crawl, waits) as web:
        for landmark in ("_run.json", "_sentences/*.pq", "_pairs/*/*.parquet"):
            process = subprocess.Popen(
                [*program, *baseline(f"{web.url}/", output, model)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            try:
                while process.poll() is None and not list(output.glob(landmark)):
                    time.sleep(0.005)  # the run needs the processor, too
            finally:
                kill_session(process.pid)
                process.wait()
            assert not (output / "_SUCCESS").exists() or process.returncode == 0
        assert run_baseline(f"{web.url}/", output, model, "--fetch-pause", "0.01") == DONE
        paths = [request.path for request in web.requests if request.path.endswith(".wet.gz")]
    assert_same(output, tables, ".tsv")
    assert len(paths) <= 4 + 3  # each file once, but for those that were under way
    assert not list(output.rglob(f"{TEMPORARY_PREFIX}*"))


def times_of(files):
    return {file: file.stat().st_mtime_ns for file in files}


def test_language_added_later_gets_the_table_it_would_have_got(tmp_path, crawl, model, tables):
    output = tmp_path / "out"
    assert run_baseline(crawl, output, model, "--languages", "de") == DONE
    before = times_of((output / "_sentences").rglob("*.pq"))
    assert run_baseline(crawl, output, model) == DONE
    assert read_tables(output) == tables
    assert times_of(before) == before


def test_model_added_later_needs_no_crawl(tmp_path, output, model, tiny_folder, tables):
    second = shutil.copytree(tiny_folder("t5"), tmp_path / "t5")
    nowhere = tmp_path / "nowhere"
    both = ("--models", second, "--languages", *LANGUAGES)
    assert run_baseline(nowhere, output, model, *both) == DONE
    assert read_tables(output) == tables
    rows = parse_baseline((output / "de" / "t5.tsv").read_text(), "it").rows
    pairs = pa.concat_tables(map(pq.read_table, (output / "_pairs" / "de").glob("*.parquet")))
    config = ScorerConfig(model=str(second), num_layers=1, device="cpu")
    alone = BertScorer(config).score(*(pairs[side].to_pylist() for side in pairs.column_names[:2]))
    np.testing.assert_allclose(rows[1, 2], alone.f1.mean(), atol=1e-5)


def test_output_around_the_folder_of_another_run_is_refused(
    tmp_path, crawl, finished, model, capsys
):
    shutil.copytree(finished, tmp_path / "all" / "july")
    before = read_tables(tmp_path / "all" / "july")
    for more in ((), ("--overwrite",)):
        assert run_baseline(crawl, tmp_path / "all", model, *more) == UNUSABLE
        assert "holds the folders of other runs: got 'july' below it" in capsys.readouterr().err
    assert read_tables(tmp_path / "all" / "july") == before


def age(output):
    """Make a run one of an earlier version, which lacked a part of the identity."""
    run = from_json((output / "_run.json").read_bytes())
    del run["identity"]["layout"]
    (output / "_run.json").write_bytes(to_json(run))


def damage(output):
    (output / "_run.json").write_bytes(b"{")


FEWER = ("--pairs", 100)


@pytest.mark.parametrize(
    ("spoil", "more", "words"),
    [
        (None, ("--seed", 4), "seed: '3' there, '4' now"),
        (None, FEWER, "got 120 there, 100 now"),
        (None, (*FEWER, "--dry-run"), "got 120 there, 100 now"),
        (age, (), "layout: None there, '4' now (of sentences; another version"),
        (damage, (), "damaged"),
    ],
)
def test_folder_in_which_a_run_cannot_continue_is_refused_and_may_be_overwritten(
    output, crawl, model, tables, capsys, spoil, more, words
):
    if spoil:
        spoil(output)
    assert run_baseline(crawl, output, model, *more) == UNUSABLE
    assert words in capsys.readouterr().err
    assert read_tables(output) == tables
    if spoil in (age, damage):
        assert run_baseline(crawl, output, model, "--overwrite") == DONE
        assert read_tables(output) == tables


def test_fewer_pairs_or_another_model_never_take_a_table_away_unasked(
    output, crawl, model, namesake, tables, capsys
):
    for more in ((), ("--dry-run",)):
        assert run_baseline(crawl, output, namesake, *more) == UNUSABLE
        assert "en/bert.tsv was made by another model of that name" in capsys.readouterr().err
    assert read_tables(output) == tables
    for table in tables:
        (output / table).unlink()
    assert run_baseline(crawl, output, model, *FEWER) == UNUSABLE  # sums are there
    assert len(list((output / "_moments").rglob("*.npz"))) >= 2
    fewer = (*FEWER, "--languages", "en")
    assert run_baseline(crawl, output, namesake, *fewer, "--overwrite") == DONE
    assert description(output)["pairs"] == 100
    assert description(output)["signature"] != json.loads(tables["en/bert.json"])["signature"]
    assert run_baseline(crawl, output, namesake, *fewer) == DONE


def test_command_that_was_mistyped_claims_no_folder(tmp_path, crawl, model, capsys):
    output = tmp_path / "out"
    assert run_baseline(tmp_path / "nowhere", output, model) == UNUSABLE
    assert not output.exists()
    assert run_baseline(crawl, output, model, "--seed", 4, "--dry-run") == DONE


def test_output_of_another_command_is_never_overwritten(tmp_path, finished, crawl, model, capsys):
    scored, rows = tmp_path / "scored", tmp_path / "rows.parquet"
    scored.mkdir()
    of_scores = {"format": FORMAT, "identity": {"model": "bert"}}
    (scored / "_run.json").write_bytes(to_json(of_scores))
    pq.write_table(pa.table({"candidate": ["a"], "reference": ["b"]}), rows)
    before = (finished / "_run.json").read_bytes()
    score = f"score --input {rows} --output {finished} --model all-MiniLM-L6-v2".split()
    for more in ([], ["--overwrite"]):
        for words, command in ((baseline(crawl, scored, model), "score"), (score, "baseline")):
            assert main([*words, *more]) == UNUSABLE
            (said,) = capsys.readouterr().err.splitlines()
            assert f"holds the output of `{command}`" in said
    assert (finished / "_run.json").read_bytes() == before
    assert [path.name for path in scored.iterdir()] == ["_run.json"]


def test_overwriting_starts_again_and_leaves_no_earlier_table(output, crawl, model, tables):
    (output / "mine.tsv").write_text("kept")
    only = ("--seed", 4, "--languages", "en", "--overwrite")
    assert run_baseline(crawl, output, model, *only) == DONE
    assert description(output)["sample"]["seed"] == 4
    assert (output / "en" / "bert.tsv").read_bytes() != tables["en/bert.tsv"]
    assert sorted(path.name for path in output.rglob("*.tsv")) == ["bert.tsv", "mine.tsv"]


def test_overwriting_with_equal_settings_continues(output, crawl, model, tables):
    (output / "en" / "bert.tsv").unlink()
    (output / "_pairs" / "en.json").write_bytes(b"")  # paired again
    shutil.rmtree(output / "_sentences")  # and read again for that
    before = times_of((output / "_moments").rglob("*.npz"))
    assert run_baseline(crawl, output, model, "--overwrite") == DONE
    assert read_tables(output) == tables
    assert times_of(before) == before


def test_fewer_files_than_before_give_what_they_would_have_given(tmp_path, crawl, model, capsys):
    more, fewer = tmp_path / "more", tmp_path / "fewer"
    first = ("--languages", "en", "--pairs", 2_000)
    assert run_baseline(crawl, more, model, *first) == DONE
    assert "the sample was too small" in capsys.readouterr().err
    assert description(more)["pairs"] < description(more)["pairs_wanted"] == 2_000
    assert len(description(more)["source"]["files"]) == 4  # all there are
    assert run_baseline(crawl, more, model, *first, "--max-files", 1) == DONE
    assert "en/bert was made from another sample, or" in capsys.readouterr().err
    assert run_baseline(crawl, fewer, model, *first, "--max-files", 1) == DONE
    names = ("en/bert.tsv", "en/bert.json")
    assert read_tables(more, names) == read_tables(fewer, names)
    assert len(description(more)["source"]["files"]) == 1


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"sample": 3}'])
def test_a_damaged_description_costs_no_more_than_its_table(
    output, crawl, model, tables, capsys, content
):
    (output / "en" / "bert.json").write_text(content)
    assert run_baseline(crawl, output, model, "--languages", "en") == DONE
    said = "or the .json beside it is damaged, and is left out. Name its model in --models"
    assert said in capsys.readouterr().err
    assert read_tables(output) == tables


def test_other_files_under_the_same_names_are_noticed(tmp_path, output, crawl, model, capsys):
    second = shutil.copytree(crawl, tmp_path / "crawl")
    listing = second / "crawl-data" / CRAWL / "wet.paths.gz"
    listing.write_bytes(listing_bytes(["crawl-data/CC-MAIN-2026-30/another.warc.wet.gz"]))
    assert run_baseline(second, output, model, "--pairs", 121) == UNUSABLE
    assert "other files" in capsys.readouterr().err
