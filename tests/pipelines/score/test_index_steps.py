"""The index of a run: built by all workers of a pipeline or by one process, or left out."""

from dataclasses import replace

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from bertscore_beam.cli import main as cli
from bertscore_beam.options import ScoreOptions
from bertscore_beam.records import INDEX_FILE, INDEX_FOLDER, index as index_module, read_index
from bertscore_beam.run import SUMMARY_FILE, OutputFolder
from bertscore_beam.score import build_score_pipeline
from tests.support.dumps import write_dump
from tests.support.jobs import prepare_score, run_job, start

pytestmark = [pytest.mark.job, pytest.mark.model]


@pytest.fixture
def dump(tmp_path):
    return write_dump(tmp_path / "dump", [12, 9, 6])


def index_of(output):
    """Return the files of the index of a run."""
    folder = OutputFolder(str(output))
    names = [INDEX_FILE, *(f"{INDEX_FOLDER}/{name}" for name in folder.files(INDEX_FOLDER))]
    return {name: folder.read(name) for name in names if folder.exists(name)}


def test_all_workers_build_the_index_that_one_process_builds(
    tmp_path, dump, tiny_folder, monkeypatch
):
    monkeypatch.setattr(index_module, "BUCKET_ROWS", 5)
    given = {"model": str(tiny_folder("bert")), "num_layers": 2, "split_rows": 4}
    run_job(dump, output=tmp_path / "one", **given)
    options = ScoreOptions(
        input=(str(dump),), output=str(tmp_path / "all"), device="cpu", group_by=("id",), **given
    )
    job = start(prepare_score(options))
    # No process builds it here: the pipeline alone does.
    monkeypatch.setattr(index_module, "_build", None)
    pipeline = beam.Pipeline(runner=FnApiRunner())
    build_score_pipeline(pipeline, spec=replace(job.spec, is_remote=True), idf=job.idf)
    pipeline.run().wait_until_finish()
    job.spec.folder.release()
    assert job.spec.folder.read_json(SUMMARY_FILE)["success"]
    assert sum(read_index(job.spec.folder).rows) > 5
    assert len(index_of(tmp_path / "one")) > 5
    assert index_of(tmp_path / "all") == index_of(tmp_path / "one")


def test_no_index_leaves_none_and_files_of_the_same_name_are_still_reused(
    tmp_path, dump, tiny_folder
):
    words = ["score", "--input", dump, "--device", "cpu", "--model", tiny_folder("bert")]
    words += ["--num-layers", 2, "--quiet", "--output"]

    def score(*more):
        return cli.main([*map(str, (*words, *more))])

    assert score(tmp_path / "a") == cli.DONE
    assert len(index_of(tmp_path / "a")) == 3
    assert score(tmp_path / "a", "--no-index") == cli.DONE
    assert index_of(tmp_path / "a") == {}
    assert score(tmp_path / "b", "--reuse", tmp_path / "a") == cli.DONE
    assert OutputFolder(str(tmp_path / "b")).read_json(SUMMARY_FILE)["reused"] == 27
    assert score(tmp_path / "a") == cli.DONE  # without the option it is written again
    assert index_of(tmp_path / "a") == index_of(tmp_path / "b")
