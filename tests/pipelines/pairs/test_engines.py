"""The page's examples of Ray Data, Spark and Hugging Face datasets score as the job does.

Also on two nodes of which a worker dies, in small batches, and from the library's cache.
"""

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

TWO_NODES = """
from ray.cluster_utils import Cluster

# Nodes listen on the machine's own address: a driver looks for a cluster there, not on loopback.
node = {"num_cpus": 1, "object_store_memory": 100 * 2**20}
cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
cluster.add_node(**node)
ray.init(address=cluster.address)
assert len(ray.nodes()) == 2
"""

TWO_EXECUTORS = """
    .config("spark.executorEnv.DEATH", os.environ["DEATH"])
    .config("spark.executorEnv.PYTHONPATH", os.environ["PYTHONPATH"])
    .getOrCreate()
"""

SAME_CALL = """
    again = rows.with_format("arrow").map(scorer, batched=True, batch_size=40, num_proc=2)
    assert again._fingerprint == scored._fingerprint
"""

DYING = {"bertscore_beam import ScoreBatches": "mortal import Mortal as ScoreBatches"}
CHANGES = {
    "ray": {
        **DYING,
        "ray.init()": TWO_NODES,
        "rows.map_batches": "rows.repartition(6).map_batches",
        "batch_size=1024": "batch_size=40",
        '"scored-ray")': '"scored-ray")\nray.shutdown()\ncluster.shutdown()',
    },
    "spark": {
        **DYING,
        "from pyspark": "import os, pyspark\n"
        "os.environ['SPARK_HOME'] = os.path.dirname(pyspark.__file__)\nfrom pyspark",
        "local[2]": "local-cluster[2,1,1024]",
        '"1024"': '"40"',
        "    .getOrCreate()": TWO_EXECUTORS,
        'parquet("dump")': 'parquet("dump").repartition(4)',
        "spark.stop()": "infos = spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()\n"
        "assert len(infos) == 1 + 2\nspark.stop()",
    },
    "datasets": {"batch_size=1024": "batch_size=40", "    scored.to": f"{SAME_CALL}    scored.to"},
}
"""What makes more of an example: a text that it holds once, and another in its place."""


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
    return folder


@pytest.mark.parametrize("changes", [{}, CHANGES], ids=["as it stands", "changed"])
@pytest.mark.parametrize("engine", CHANGES)
def test_scores_are_the_jobs_also_when_a_worker_dies(night, tmp_path, engine, changes):
    if engine == "spark" and shutil.which("java") is None:
        pytest.skip("Spark needs Java, and there is no java on the path")
    examples = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    (code,) = (one for one in examples if f"scored-{engine}" in one)
    for old, new in changes.get(engine, {}).items():
        assert code.count(old) == 1
        code = code.replace(old, new)
    (tmp_path / "run.py").write_text(code)
    (tmp_path / "mortal.py").write_text(MORTAL)
    shutil.copytree(night / "dump", tmp_path / "dump")
    environment = {
        **os.environ,
        "SPARK_LOCAL_DIRS": str(tmp_path),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "HF_HOME": str(tmp_path / "hf"),
        "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}",
        "DEATH": str(tmp_path / "dead"),
    }
    # Ray puts sockets there, and their paths must be short.
    with tempfile.TemporaryDirectory(prefix="ray") as sockets:
        done = subprocess.run(
            [sys.executable, "run.py"],
            cwd=tmp_path,
            env={**environment, "RAY_TMPDIR": sockets},
            capture_output=True,
            text=True,
            timeout=400,
        )
    assert done.returncode == 0, done.stderr[-5000:]
    assert (tmp_path / "dead").exists() == ("mortal" in code)
    (target,) = tmp_path.glob("scored-*")
    found, expected = (
        one.sort_by("id") for one in (pq.read_table(target), read_output(night / "out"))
    )
    assert found.column_names == expected.column_names
    for name in expected.column_names:
        here, there = found[name], expected[name]
        if name in MEASURES:
            np.testing.assert_allclose(here, there, rtol=0, atol=INVARIANCE_ATOL)
        else:
            assert here.to_pylist() == there.to_pylist(), name
