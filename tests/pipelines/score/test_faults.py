"""What may befall a run, each for real: it ends with a clear word, and goes on when asked again.

`tests/soak` does the same at random, over all ways to run.
"""

import json
from pathlib import Path

import fsspec
import numpy as np
import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.files import TEMPORARY_PREFIX
from bertscore_beam.run import SUCCESS_FILE
from tests.soak.__main__ import main as soak
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
def finished(tmp_path_factory, dump, model):
    """Return the output of a run that nothing befell."""
    output = tmp_path_factory.mktemp("undisturbed") / "out"
    assert cli.main(score(dump, output, model)) == cli.DONE
    return output


@pytest.fixture(scope="module")
def undisturbed(finished):
    """Return its rows."""
    return read_output(finished)


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
    for name in ("precision", "recall", "f1"):
        np.testing.assert_allclose(
            found[f"bertscore_{name}"].to_numpy(),
            expected[f"bertscore_{name}"].to_numpy(),
            atol=INVARIANCE_ATOL,
            rtol=0,
        )
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


@pytest.mark.long
def test_short_soak(tmp_path, capsys):
    result = tmp_path / "soak.json"
    flags = ["--kills", "4", "--modes", "one", "--stores", "local", "--jobs", "1"]
    assert soak([*flags, "--folder", str(tmp_path), "--json", str(result)]) == 0
    tally = json.loads(result.read_text())
    assert tally["kills"] >= 4
    assert tally["cycles"] > 0
    assert (tally["rows_lost"], tally["rows_doubled"], tally["rows_changed"]) == (0, 0, 0)
    assert "all kills" in capsys.readouterr().out
