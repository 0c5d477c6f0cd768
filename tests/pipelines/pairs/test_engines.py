"""Ray Data, Spark and Hugging Face datasets score as the job does, also when a worker dies."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.dumps import pair_rows, read_output
from tests.support.jobs import run_job
from tests.support.tolerances import INVARIANCE_ATOL

pytestmark = [pytest.mark.process, pytest.mark.long]

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "other-engines.md"
MEASURES = ("bertscore_precision", "bertscore_recall", "bertscore_f1")

MORTAL = """
import os, signal, sys
from bertscore_beam import ScoreBatches

class Mortal(ScoreBatches):
    '''The first process that scores dies before it is done.'''

    def __call__(self, table):
        scored = super().__call__(table)
        if table.num_rows:
            try:
                os.close(os.open(os.environ["DEATH"], os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return scored
            os.kill(os.getpid(), signal.SIGKILL)
        return scored
"""


@pytest.fixture(scope="module")
def night(tmp_path_factory):
    """Return a folder with a dump of pairs and the job's scores of it."""
    folder = tmp_path_factory.mktemp("engines")
    (dump := folder / "dump").mkdir()
    rows = pair_rows(240)
    rows["candidate"][3:6:2] = [None, ""]
    pq.write_table(pa.table(rows), dump / "a.parquet")
    run_job(dump, output=folder / "out", max_reject_fraction=1)
    (folder / "mortal.py").write_text(MORTAL)
    return folder


def run_script(code, folder, **variables):
    """Run lines of Python in a process of their own."""
    (folder / "run.py").write_text(code)
    environment = {
        **os.environ,
        "SPARK_HOME": str(Path(find_spec("pyspark").origin).parent),
        "SPARK_LOCAL_DIRS": str(folder),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "HF_HOME": str(folder / "hf"),
        **variables,
    }
    # Ray puts sockets there, and their paths must be short.
    with tempfile.TemporaryDirectory(prefix="ray") as sockets:
        done = subprocess.run(
            [sys.executable, str(folder / "run.py")],
            cwd=folder,
            env={**environment, "RAY_TMPDIR": sockets},
            capture_output=True,
            text=True,
            timeout=400,
        )
    assert done.returncode == 0, done.stderr[-5000:]


def check_scores(found, night):
    """Check that a table has the rows and the scores of the job, in any order."""
    found, expected = (table.sort_by("id") for table in (found, read_output(night / "out")))
    assert found.column_names == expected.column_names
    for name in expected.column_names:
        here, there = found[name], expected[name]
        if name in MEASURES:
            np.testing.assert_allclose(
                here.to_numpy(), there.to_numpy(), rtol=0, atol=INVARIANCE_ATOL
            )
        else:
            assert here.to_pylist() == there.to_pylist(), name


@pytest.mark.parametrize(
    ("engine", "dies"), [("ray", True), ("spark", False), ("spark", True), ("datasets", False)]
)
def test_the_examples_of_the_page_score_as_the_job_also_when_a_worker_dies(
    night, tmp_path, engine, dies
):
    if engine == "spark" and shutil.which("java") is None:
        pytest.skip("Spark needs Java, and there is no java on the path")
    examples = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    (code,) = (one for one in examples if f"scored-{engine}" in one)
    if dies:
        code = code.replace("bertscore_beam import", "mortal import Mortal as")
        code = code.replace("local[2]", "local-cluster[2,1,1024]")  # that one tries nothing again
    shutil.copytree(night / "dump", tmp_path / "dump")
    dead = tmp_path / "dead"
    run_script(code, tmp_path, PYTHONPATH=f"{night}{os.pathsep}{ROOT}", DEATH=str(dead))
    assert dead.exists() == dies
    (target,) = tmp_path.glob("scored-*")
    check_scores(pq.read_table(target), night)
