"""The job on other engines, where what they need is given:

    make engines PYTEST_ARGS="-k engines --flink_job_server_jar=PATH"

The jars come from Maven (beam-runners-flink-1.19-job-server, beam-runners-spark-3-job-server) and
need Java. Prism is on the page of each release of Beam; a program `prism` on the PATH is taken as
well. They must be of the Beam version in use.
"""

import shutil

import pytest

from pipelines.cli import main as cli
from tests.support.dumps import read_output, write_dump
from tests.support.jobs import run_job
from tests.support.workers import worker_pool

pytestmark = pytest.mark.long

ENGINES = {
    "prism_location": ("--runner=PrismRunner", "--prism_location={path}"),
    "flink_job_server_jar": (
        "--runner=FlinkRunner",
        "--flink_master=[local]",
        "--flink_job_server_jar={path}",
    ),
    "spark_job_server_jar": (
        "--runner=SparkRunner",
        "--spark_master_url=local[2]",
        "--spark_job_server_jar={path}",
    ),
}
ROWS = 60


@pytest.mark.parametrize("needed", ENGINES)
@pytest.mark.parametrize("idf", ["none", "corpus"])
def test_scores_are_those_of_the_local_runner(tmp_path, needed, idf, request):
    on_path = shutil.which("prism") if needed == "prism_location" else None
    path = request.config.getoption(needed) or on_path
    if path is None:
        pytest.skip(f"--{needed} is not given: no package registry has it")
    dump = write_dump(tmp_path / "dump", [ROWS])
    run_job(dump, output=tmp_path / "expected", idf=idf, split_rows=20, backend="torch")
    with worker_pool() as address:
        flags = [flag.format(path=path) for flag in ENGINES[needed]]
        flags += ["--environment_type=EXTERNAL", f"--environment_config={address}"]
        arguments = ["score", "--input", str(dump), "--output", str(tmp_path / "out")]
        arguments += ["--device", "cpu", "--backend", "torch", "--split-rows", "20", "--idf", idf]
        assert cli.main([*arguments, "--", *flags]) == cli.DONE
    assert read_output(tmp_path / "out").equals(read_output(tmp_path / "expected"))
    assert (tmp_path / "out" / "_SUCCESS").exists()
