"""The job on Prism, where it is given:

    make engines PYTEST_ARGS="-k engines --prism_location=PATH"

It is on the page of each release of Beam, and must be of the version in use. A program `prism` on
the PATH is taken as well.
"""

import shutil

import apache_beam as beam
import pytest
from apache_beam.metrics import MetricsFilter

from bertscore_beam.cli import main as cli
from bertscore_beam.run import counters
from tests.support.crawls import TABLES, baseline, make_crawl, read_tables, run_baseline
from tests.support.dumps import read_output, write_dump
from tests.support.jobs import run_job, summary_of, summed
from tests.support.workers import worker_pool

pytestmark = pytest.mark.long

ROWS, SPLIT_ROWS = 60, 20


@pytest.fixture(scope="module")
def pool():
    with worker_pool() as address:
        yield address


@pytest.fixture
def engine(request, pool):
    """Return the flags of Prism; a test is skipped where it is not."""
    path = request.config.getoption("prism_location") or shutil.which("prism")
    if path is None:
        pytest.skip("--prism_location is not given: no package registry has it")
    flags = ["--runner=PrismRunner", f"--prism_location={path}"]
    return [*flags, "--environment_type=EXTERNAL", f"--environment_config={pool}"]


@pytest.fixture
def results(monkeypatch):
    """Return the list of what Beam's pipelines of the test return."""
    runs, run = [], beam.Pipeline.run

    def run_and_keep(pipeline, *args, **kwargs):
        runs.append(run(pipeline, *args, **kwargs))
        return runs[-1]

    monkeypatch.setattr(beam.Pipeline, "run", run_and_keep)
    return runs


@pytest.mark.parametrize("idf", ["none", "corpus"])
def test_scores_and_counters_are_those_of_the_local_runner(tmp_path, engine, idf, results):
    dump = write_dump(tmp_path / "dump", [ROWS])
    run_job(dump, output=tmp_path / "expected", idf=idf, split_rows=SPLIT_ROWS, backend="torch")
    arguments = ["score", "--input", str(dump), "--output", str(tmp_path / "out")]
    arguments += ["--device", "cpu", "--backend", "torch", "--idf", idf]
    arguments += ["--split-rows", str(SPLIT_ROWS)]
    assert cli.main([*arguments, "--", *engine]) == cli.DONE
    assert read_output(tmp_path / "out").equals(read_output(tmp_path / "expected"))
    assert (tmp_path / "out" / "_SUCCESS").exists()
    assert summed(tmp_path / "out") == summed(tmp_path / "expected")
    expected = summary_of(tmp_path / "expected")
    (result,) = results
    found = result.metrics().query(MetricsFilter().with_namespace(counters.NAMESPACE))
    counted = {metric.key.metric.name: metric.result for metric in found["counters"]}
    assert counted["pairs_scored"] == ROWS
    assert counted["parts_written"] == expected["parts"]
    assert counted["tokens"] == expected["tokens"]
    assert counted["batches"] == expected["batches"]
    assert counted.get("documents_counted", 0) == (ROWS if idf == "corpus" else 0)
    taken = {metric.key.metric.name: metric.result for metric in found["distributions"]}
    assert taken["split_msec"].count == expected["parts"]


def test_an_idf_table_is_that_of_the_local_runner(tmp_path, engine):
    dump = write_dump(tmp_path / "dump", [ROWS])
    tables = []
    for name, flags in (("expected.npz", []), ("out.npz", ["--", *engine])):
        tables.append(tmp_path / name)
        words = ["--input", str(dump), "--output", str(tables[-1]), "--split-rows", str(SPLIT_ROWS)]
        assert cli.main(["idf", *words, "--idf-key", "reference", *flags]) == cli.DONE
    assert tables[0].read_bytes() == tables[1].read_bytes()


def test_baselines_are_those_of_the_local_runner(tmp_path, engine, tiny_folder):
    model = shutil.copytree(tiny_folder("bert"), tmp_path / "bert")
    crawl = make_crawl(tmp_path / "crawl")
    more = ("--languages", "en")
    assert run_baseline(crawl, tmp_path / "expected", model, *more) == cli.DONE
    words = baseline(crawl, tmp_path / "out", model, *more)
    assert cli.main([*words, "--", *engine]) == cli.DONE
    names = [name for name in TABLES if name.startswith("en/")]
    assert read_tables(tmp_path / "out", names) == read_tables(tmp_path / "expected", names)
