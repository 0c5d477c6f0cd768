"""What may befall a run, each for real: it ends with a clear word, and goes on when asked again.

`tests/soak` does the same at random, over all ways to run.
"""

import json
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.files.paths import TEMPORARY_PREFIX
from bertscore_beam.records.records import IDF_FILE
from bertscore_beam.run.folder import SUCCESS_FILE, SUMMARY_FILE
from tests.soak import differences, main as soak, rows_that_differ
from tests.support.dumps import read_output, write_dump
from tests.support.faults import FaultRule, Faults
from tests.support.s3 import s3_bucket
from tests.support.tolerances import INVARIANCE_ATOL

ROWS = 120

pytestmark = pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc")


@pytest.fixture(scope="module")
def model(tiny_folder):
    return tiny_folder("bert")


@pytest.fixture(scope="module")
def dump(tmp_path_factory):
    return write_dump(tmp_path_factory.mktemp("faults") / "dump", [ROWS // 2] * 2, row_group_size=5)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, dump, model):
    """Return the rows of a run that nothing befell."""
    output = tmp_path_factory.mktemp("undisturbed") / "out"
    assert cli.main(score(dump, output, model)) == cli.DONE
    return read_output(output)


def score(dump, output, model, *more) -> list[str]:
    """Return the words of the command."""
    flags = ["--input", dump, "--output", output, "--model", model, "--num-layers", 2]
    flags += ["--idf", "corpus", "--split-rows", 5, "--device", "cpu", *more]
    return ["score", *map(str, flags)]


def assert_whole(output: Path, expected) -> None:
    """Every row once, in order, with its scores; nothing torn, nothing left behind."""
    found = read_output(output)
    assert found.column_names == expected.column_names
    assert found["id"].to_pylist() == list(range(ROWS))
    for name in ("bertscore_precision", "bertscore_recall", "bertscore_f1"):
        here, there = found[name].to_numpy(), expected[name].to_numpy()
        np.testing.assert_allclose(here, there, atol=INVARIANCE_ATOL, rtol=0)
    assert (output / SUCCESS_FILE).exists()
    assert not list(output.rglob(f"{TEMPORARY_PREFIX}*"))


def fetch(url: str, folder: Path) -> Path:
    """Copy what a bucket holds into a folder."""
    fs = fsspec.filesystem("s3")
    fs.invalidate_cache()
    fs.get(url, str(folder), recursive=True)
    return folder


def test_store_that_errs_now_and_then_costs_nothing_but_time(tmp_path, dump, undisturbed, model):
    disturbed: list[Faults] = []
    with s3_bucket(disturbed) as url:
        faults = disturbed[0]
        faults.set(FaultRule(rate=0.05, kinds=("500", "503", "429", "lost", "cut")))
        assert cli.main(score(dump, f"{url}/out", model)) == cli.DONE
        faults.set(FaultRule(rate=0.0))
        assert faults.happened.total() >= 3
        assert_whole(fetch(f"{url}/out", tmp_path / "out"), undisturbed)


def part(ids, f1=0.5):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": ids, "bertscore_f1": [f1] * len(ids)}), sink)
    return bytes(sink.getvalue())


FILE = "shard.parquet"
SOAKED = {
    f"{FILE}/part-0.parquet": part([0, 1]),
    f"{FILE}/part-2.parquet": part([2, 3]),
    IDF_FILE: b"idf",
    SUCCESS_FILE: b"",
    SUMMARY_FILE: b'{"rows": 4, "f1": 0.5}',
}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({f"{FILE}/part-2.parquet": None}, "part-2.parquet is missing"),
        ({f"{FILE}/part-2.parquet": part([3, 2])}, "other bytes in shard.parquet/part-2"),
        ({f"{FILE}/part-2.parquet": part([2, 3], f1=0.6)}, "other bytes in shard.parquet/part-2"),
        ({IDF_FILE: b"other"}, f"other bytes in {IDF_FILE}"),
        ({SUCCESS_FILE: None}, "_SUCCESS is missing"),
        ({".bertscore-tmp-1": b""}, "should not be there"),
        ({SUMMARY_FILE: b'{"rows": 4, "f1": 0.6}'}, "summary: f1 is 0.6; expected 0.5"),
    ],
)
def test_proof_of_a_soak_can_fail(changed, words):
    """And its rows are those of the dump if no bytes differ from those of an undisturbed run."""
    dump = {FILE: pa.table({"id": [0, 1, 2, 3]})}
    assert differences(SOAKED, SOAKED) == rows_that_differ(SOAKED, dump) == []
    found = {name: data for name, data in {**SOAKED, **changed}.items() if data is not None}
    assert any(words in said for said in differences(found, SOAKED))
    if data := changed.get(f"{FILE}/part-2.parquet"):
        assert bool(rows_that_differ(found, dump)) == (data == part([3, 2]))


@pytest.mark.long
@pytest.mark.parametrize("commands", ["score", "select rescale", "tune"])
def test_short_soak(tmp_path, capsys, commands):
    flags = ["--kills", "4", "--modes", "one", "--stores", "local", "--jobs", "1"]
    flags += ["--commands", *commands.split()]
    assert soak([*flags, "--folder", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    found = json.loads(printed[printed.index("{") :])
    assert found["kills"] >= 4
    assert found["cycles"] > 0
    assert found["violations"] == []
