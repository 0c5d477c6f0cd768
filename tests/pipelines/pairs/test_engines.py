"""Ray Data, Spark and Hugging Face datasets score as the job does, also when a worker dies."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.dumps import read_output, write_dump
from tests.support.jobs import run_job
from tests.support.tolerances import INVARIANCE_ATOL

pytestmark = [pytest.mark.process, pytest.mark.long]

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "machines-and-speed.md"
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

RAY = """
import os, sys
import pyarrow as pa, pyarrow.parquet as pq
import ray
from ray.cluster_utils import Cluster
from mortal import Mortal

source, target = sys.argv[1:]
# Nodes listen on the machine's own address: a driver looks for a cluster there, not on loopback.
node = {"num_cpus": 1, "object_store_memory": 100 * 2**20}
cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
cluster.add_node(**node)
ray.init(address=cluster.address)
rows = ray.data.read_parquet(source)
scored = rows.repartition(6).map_batches(Mortal(device="cpu"), batch_format="pyarrow")
tables = ray.get(scored.to_arrow_refs())
pq.write_table(pa.concat_tables(tables, promote_options="permissive"), target)
print("nodes", len(ray.nodes()))
ray.shutdown()
cluster.shutdown()
"""

SPARK = """
import os, sys
import pyspark
os.environ["SPARK_HOME"] = os.path.dirname(pyspark.__file__)
from pyspark.sql import SparkSession
from mortal import Mortal

source, target = sys.argv[1:]
spark = (
    SparkSession.builder.master("local-cluster[2,1,1024]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.sql.execution.arrow.maxRecordsPerBatch", "40")
    .config("spark.executorEnv.DEATH", os.environ["DEATH"])
    .config("spark.executorEnv.PYTHONPATH", os.environ["PYTHONPATH"])
    .getOrCreate()
)
frame = spark.read.parquet(source).repartition(4)
scorer = Mortal(device="cpu")
scored = frame.mapInArrow(scorer.over, scorer.spark_schema(frame.schema))
import pyarrow.parquet as pq
pq.write_table(scored.toArrow(), target)
print("executors", len(spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()) - 1)
spark.stop()
"""

DATASETS = """
import sys
import datasets
from bertscore_beam import ScoreBatches

if __name__ == "__main__":
    source, target = sys.argv[1:]
    rows = datasets.load_dataset("parquet", data_files=source, split="train")
    scorer = ScoreBatches(device="cpu", num_threads=1)
    scored = rows.with_format("arrow").map(scorer, batched=True, batch_size=40, num_proc=2)
    scored.to_parquet(target)
    again = rows.with_format("arrow").map(scorer, batched=True, batch_size=40, num_proc=2)
    print("processes", 2, scored._fingerprint == again._fingerprint)
"""


@pytest.fixture(scope="module")
def night(tmp_path_factory):
    """Return a folder with a dump of pairs and the job's scores of it."""
    folder = tmp_path_factory.mktemp("engines")
    dump = write_dump(folder / "dump", [240])
    table = pq.read_table(next(dump.glob("*.parquet")))
    texts = table["candidate"].to_pylist()
    texts[3], texts[5] = None, ""
    number = table.schema.get_field_index("candidate")
    table = table.set_column(number, "candidate", pa.array(texts, pa.string()))
    pq.write_table(table, next(dump.glob("*.parquet")))
    run_job(dump, output=folder / "out", max_reject_fraction=1)
    (folder / "mortal.py").write_text(MORTAL)
    return folder


def run_script(code, folder, *arguments, **variables):
    """Run lines of Python in a process of their own, and return what it printed."""
    (folder / "run.py").write_text(code)
    environment = {
        **os.environ,
        "SPARK_LOCAL_DIRS": str(folder),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "HF_HOME": str(folder / "hf"),
        **variables,
    }
    # Ray puts sockets there, and their paths must be short.
    with tempfile.TemporaryDirectory(prefix="ray") as sockets:
        done = subprocess.run(
            [sys.executable, str(folder / "run.py"), *map(str, arguments)],
            cwd=folder,
            env={**environment, "RAY_TMPDIR": sockets},
            capture_output=True,
            text=True,
            timeout=400,
        )
    assert done.returncode == 0, done.stderr[-5000:]
    return done.stdout


def check_scores(found, night):
    """Check that a table has the rows and the scores of the job, in any order."""
    found, expected = (table.sort_by("id") for table in (found, read_output(night / "out")))
    assert found.column_names == expected.column_names
    for name in expected.column_names:
        here, there = found[name], expected[name]
        if name in MEASURES:
            np.testing.assert_allclose(here, there, rtol=0, atol=INVARIANCE_ATOL)
        else:
            assert here.to_pylist() == there.to_pylist(), name


def skip_without(engine):
    if engine == "spark" and shutil.which("java") is None:
        pytest.skip("Spark needs Java, and there is no java on the path")


@pytest.mark.parametrize(
    ("engine", "code", "said"),
    [
        ("ray", RAY, "nodes 2"),
        ("spark", SPARK, "executors 2"),
        ("datasets", DATASETS, "processes 2 True"),
    ],
)
def test_scores_are_the_jobs_also_when_a_worker_dies(night, tmp_path, engine, code, said):
    skip_without(engine)
    (source,), target = (night / "dump").glob("*.parquet"), tmp_path / "scored.parquet"
    given = {"PYTHONPATH": f"{night}{os.pathsep}{ROOT}", "DEATH": str(tmp_path / "dead")}
    printed = run_script(code, tmp_path, source, target, **given)
    assert said in printed
    assert (tmp_path / "dead").exists() == (engine != "datasets")
    check_scores(pq.read_table(target), night)


@pytest.mark.parametrize("engine", ["ray", "spark", "datasets"])
def test_the_examples_of_the_page_work(night, tmp_path, engine):
    skip_without(engine)
    examples = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    (code,) = (one for one in examples if f"scored-{engine}" in one)
    shutil.copytree(night / "dump", tmp_path / "dump")
    run_script(code, tmp_path)
    (target,) = tmp_path.glob("scored-*")
    check_scores(pq.read_table(target), night)
