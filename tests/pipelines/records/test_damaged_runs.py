"""Whatever `_run.json` and `_summary.json` hold, each reader of the run ends with a message."""

import random
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.records.earlier_run import find_reuse, scoring_runs
from bertscore_beam.records.finished import open_finished, open_part
from bertscore_beam.run.folder import RUN_FILE, SUMMARY_FILE
from bertscore_core.errors import BertScoreError, InputError
from tests.support.made_runs import edit_json, made_run, scored

DEEP = b"[" * 100_000
ABSENT: dict[str, bytes | None] = {
    "missing": None,
    "empty": b"",
    "cut": b'{"run": "made-run", "identi',
    "no key": b"{}",
    "a list": b"[]",
    "a number": b"7",
    "deep": DEEP,
    "not UTF-8": b'{"run": "\xff"}',
}
RUNS: dict[str, object] = {
    "run": 7,
    "identity": {"candidate_column": "candidate"},
    **{
        "identity" + " " * at: {"candidate_column": "c", "reference_column": "r", "idf_group": text}
        for at, text in enumerate(("null", "5", '"abc"', "[1]"), 1)
    },
    "started": float("nan"),
    "started ": 1e308,
    "started  ": True,
    "options": None,
    "options ": "x",
    "options  ": {"model": 5},
    "options   ": {"group_by": "system"},
    "signature": 7,
    "signatures": ["x"],
}
SUMMARIES: dict[str, object] = {
    "rows": "60",
    "parts": None,
    "rejected": "x",
    "reused": "x",
    "other_scripts": "x",
    "num_rejected_files": [],
    "rejected_files": ["x"],
    "seconds": float("inf"),
    "tokens": "x",
    "padding": {},
    "signature": 5,
    "languages": ["en"],
    "languages ": {"en": "x"},
    "languages  ": {"en": {"scored": 60, "f1": "x"}},
    "metrics": {"bleu": 5},
    "metrics ": {"bleu": {"sentence_signature": [1]}},
}
DAMAGES = [
    *((name, kind, data) for name in (RUN_FILE, SUMMARY_FILE) for kind, data in ABSENT.items()),
    *((RUN_FILE, kind, {kind.strip(): value}) for kind, value in RUNS.items()),
    *((SUMMARY_FILE, kind, {kind.strip(): value}) for kind, value in SUMMARIES.items()),
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    rows = np.random.default_rng(0).uniform(0.5, 0.9, 60)
    for name in ("one", "other"):
        made_run(folder / name, {"a.parquet": scored(rows)}, part_rows=40)
    (folder / "table.tsv").write_text("LAYER,P,R,F\n" + "0,0.1,0.1,0.1\n" * 8)
    return folder


@pytest.fixture
def folder(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "runs")


def readers(folder):
    """Every command that reads a finished run, with the run "one"."""
    one, other = str(folder / "one"), str(folder / "other")
    page = str(folder / "page.html")
    rescale = ["rescale", one, "--baseline", str(folder / "table.tsv")]
    return {
        "check": ["check", one],
        "compare": ["compare", one, other],
        "compare with": ["compare", other, one],
        "groups": ["groups", one],
        "report": ["report", one, "--output", page],
        "report against": ["report", other, "--against", one, "--output", page],
        "explain": ["explain", one, "--row", "a.parquet:0"],
        "rescale": [*rescale, "--output", str(folder / "rescaled"), "--dry-run"],
    }


def damage(folder, name, how):
    file = folder / "one" / name
    if how is None:
        file.unlink()
    elif isinstance(how, bytes):
        file.write_bytes(how)
    else:
        edit_json(file, **how)


@pytest.mark.parametrize(("name", "how"), [(name, how) for name, _, how in DAMAGES])
def test_every_reader_refuses_a_damaged_run_in_one_sentence(folder, capsys, name, how):
    damage(folder, name, how)
    for reader, words in readers(folder).items():
        assert cli.main(words) == cli.UNUSABLE, reader
        said = capsys.readouterr()
        assert "Traceback" not in said.err, reader
        assert str(folder / "one") in said.err, reader
        assert not said.out, reader


@pytest.mark.parametrize(("name", "how"), [(name, how) for name, _, how in DAMAGES])
def test_a_damaged_run_is_not_reused_in_silence(folder, name, how):
    """`--reuse RUN` refuses it; `latest:` takes the run before it, and says so."""
    damage(folder, name, how)
    one, pattern = str(folder / "one"), f"latest:{folder}/o*e*"
    if name == SUMMARY_FILE:  # which reuse does not read
        assert find_reuse(one, "out", ())[0].root == one
        return
    with pytest.raises(BertScoreError, match="one"):
        find_reuse(one, "out", ())
    runs, left_out = scoring_runs(pattern.removeprefix("latest:"), "--reuse latest:")
    assert [run.root for run in runs] == [str(folder / "other")]
    assert (f"is damaged: 1, such as {one!r}" in left_out) == (how is not None)


def test_check_sees_whether_all_parts_are_there(folder, capsys):
    assert cli.main(["check", str(folder / "one")]) == cli.DONE
    part = folder / "one" / "a.parquet" / "part-000000000040.parquet"
    data = part.read_bytes()
    part.write_bytes(data[:-1])
    assert cli.main(["check", str(folder / "one")]) == cli.UNUSABLE
    part.unlink()
    assert cli.main(["check", str(folder / "one")]) == cli.UNUSABLE
    assert "got 1 whole parts; expected 2 with 60 rows" in capsys.readouterr().err


def test_check_finds_a_flipped_bit_of_a_part_and_names_the_part(folder, capsys):
    words = ["check", str(folder / "one"), "--parts"]
    assert cli.main(words) == cli.DONE
    part = folder / "one" / "a.parquet" / "part-000000000040.parquet"
    data = bytearray(part.read_bytes())
    data[len(data) // 3] ^= 1
    part.write_bytes(data)
    assert cli.main(words[:2]) == cli.DONE
    assert cli.main(words) == cli.UNUSABLE
    said = capsys.readouterr().err
    assert "got 1 of 2, such as 'a.parquet/part-000000000040.parquet'" in said


def test_columns_of_a_part_with_a_flipped_bit_are_those_that_were_written(folder):
    run = open_finished(str(folder / "one"))
    record = run.records[0]
    path = folder / "one" / record.part_name
    data, whole = path.read_bytes(), pq.ParquetFile(path).read()
    chance, noticed = random.Random(0), 0
    for bit in chance.sample(range(8 * len(data)), 600):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            with open_part(run.folder, record) as file:
                assert file.read() == whole, bit
        except InputError:
            noticed += 1
    assert noticed > 300
