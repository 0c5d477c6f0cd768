"""Jobs that another service runs: here Beam's own job service, with workers of a pool."""

import json
import time
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines import cli
from pipelines.lock import LOCK_FILE
from pipelines.prepare import prepare_score
from pipelines.score import start_run
from tests.support.dumps import read_output, write_dump
from tests.support.jobs import job_options, run_prepared
from tests.support.workers import worker_pool

SERVICE = ("--runner=PortableRunner", "--job_endpoint=embed", "--environment_type=EXTERNAL")


@pytest.fixture(scope="module")
def pool():
    with worker_pool() as address:
        yield address


def score(dump, output, pool, *flags, beam=()):
    arguments = ["score", "--input", str(dump), "--output", str(output), "--device", "cpu"]
    service = [*SERVICE, f"--environment_config={pool}", *beam]
    return cli.main([*arguments, "--split-rows", "20", *flags, "--", *service])


def wait_for(path, seconds=120):
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end, f"{path.name} did not appear"
        time.sleep(0.2)


def test_a_job_of_another_service_is_waited_for(tmp_path, pool, capfd):
    dump = write_dump(tmp_path / "dump", [50])
    assert score(dump, tmp_path / "out", pool) == cli.DONE
    assert read_output(tmp_path / "out")["id"].to_pylist() == list(range(50))
    assert (tmp_path / "out" / "_SUCCESS").exists()
    assert not (tmp_path / "out" / LOCK_FILE).exists()


def test_a_job_that_is_only_submitted_goes_on_by_itself(tmp_path, pool, capfd):
    dump = write_dump(tmp_path / "dump", [50])
    out = tmp_path / "out"
    assert score(dump, out, pool, beam=["--no_wait_until_finish"]) == cli.DONE
    assert "was submitted and goes on by itself" in capfd.readouterr().err
    wait_for(out / "_SUCCESS")
    assert read_output(out)["id"].to_pylist() == list(range(50))
    # The workers write only while the folder is theirs, so the lock stays when the launcher goes.
    assert (out / LOCK_FILE).exists()


def test_a_job_that_nobody_waits_for_fails_with_the_run(tmp_path):
    """Its state is all that a scheduler sees."""
    dump = tmp_path / "dump"
    dump.mkdir()
    table = pa.table({"candidate": ["a cat", None], "reference": ["the cat", "the dog"]})
    pq.write_table(table, dump / "pairs.parquet")
    options = job_options(dump, tmp_path / "out", max_reject_fraction=0.0)
    job = replace(prepare_score(options), detached=True)
    start_run(job, options)
    with pytest.raises(RuntimeError, match=r"the run is not a success: see .*_summary\.json"):
        run_prepared(job)
    assert json.loads((tmp_path / "out" / "_summary.json").read_text())["success"] is False
    assert not (tmp_path / "out" / "_SUCCESS").exists()


@pytest.mark.parametrize("verb", ["idf", "baseline"])
def test_commands_with_work_behind_the_job_wait_for_it(verb, tmp_path, capsys):
    given = {
        "idf": ["--input", "in"],
        "baseline": ["--sentences", "en=a.txt", "--models", "m"],
    }
    arguments = [verb, *given[verb], "--output", str(tmp_path / "out"), "--", *SERVICE]
    assert cli.main([*arguments, "--no_wait_until_finish"]) == cli.UNUSABLE
    assert "cannot leave its job alone" in capsys.readouterr().err
