"""Beam's options: what cannot work is named before any work, and what is printed is run."""

import functools
import subprocess
import sys
from pathlib import Path

import pytest

from bertscore_beam.baseline.baseline_options import BaselineOptions
from bertscore_beam.cli.main import main
from bertscore_beam.options.score_options import ScoreOptions
from bertscore_beam.run.beam_options import check_needs
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.output import UNUSABLE
from bertscore_beam.run.run_step import add_phases
from bertscore_beam.run.runner import Runner
from bertscore_beam.score.job import score_phases
from bertscore_beam.score.prepare import plan_score, resume_score
from bertscore_beam.tune.tune_options import TuneOptions
from tests.support.dumps import write_dump
from tests.support.pipelines import describe, pipelines_of

NEEDED = {
    "project": "a-project",
    "region": "us-central1",
    "temp_location": "gs://know-your-customer/tmp",
    "sdk_container_image": "us-docker.pkg.dev/a/b/gpu:1",
}
DATAFLOW_FLAGS = ("--runner=DataflowRunner", *(f"--{key}={value}" for key, value in NEEDED.items()))
NO_AUTH = (*DATAFLOW_FLAGS, "--no_auth")
GIVEN = {"output": "gs://b/out", "beam": DATAFLOW_FLAGS}


def dataflow_without(missing):
    return [flag for flag in DATAFLOW_FLAGS if not flag.startswith(f"--{missing}=")]


def places(source="gs://a-bucket/in", output="gs://a-bucket/out", *more):
    return ("--input", source, "--output", output, *more)


REFUSED = [
    (places("gs://your-bucket/pairs"), DATAFLOW_FLAGS, "input is a placeholder"),
    (places(output="gs://your-bucket/scores"), DATAFLOW_FLAGS, "output is a placeholder"),
    (places(), (*NO_AUTH, "--project=p"), "Beam's options cannot be used: got"),
    (places(), (*NO_AUTH, "--project=A-Project"), "A-Project"),
    (places(), (*NO_AUTH, "--job_name=Nightly"), "Nightly"),
    *(
        (places(), dataflow_without(name), f"DataflowRunner needs --{name}: got none; expected")
        for name in NEEDED
    ),
    # Beam would replace such a bucket by one of its own.
    *(
        (places(), (*NO_AUTH, f"--{name}={place}"), f"{name} cannot be used: got {place!r}")
        for name in ("temp_location", "staging_location")
        for place in ("/tmp", "gs://b/tmp", "gs://Acme_Eval/tmp", "gs://a-bucket", "s3://a/tmp")
    ),
    # Beam would end the process, with its usage.
    *(
        (places(), (f"--runner={runner}", "--num_workers=many"), "got argument --num_workers: inv")
        for runner in ("DataflowRunner", "FnApiRunner", "PortableRunner")
    ),
    # Places that only the launcher has.
    (places("data/in"), DATAFLOW_FLAGS, "input is on this machine: got"),
    (places("gs://a/in", "/tmp/out"), DATAFLOW_FLAGS, "output is on this machine: got"),
    (places("gs://a/i", "gs://a/o", "--idf", "./t.npz"), DATAFLOW_FLAGS, "idf is on this machine"),
    *(
        (places("in", "out", "--accelerator", hint), (), "'accelerator' cannot be used")
        for hint in ("nvidia-l4", "type:nvidia-l4", "type:nvidia-l4;count:0", "")
    ),
]


@pytest.mark.parametrize(("own", "beam", "message"), REFUSED)
def test_what_cannot_work_is_named_before_any_work(own, beam, message, capsys, no_network):
    assert main(["score", *own, "--", *beam]) == UNUSABLE
    said = capsys.readouterr().err
    assert message in said
    assert "usage" not in said


@pytest.mark.parametrize("source", ["sentences", "documents"])
def test_texts_of_a_baseline_on_this_machine_are_named(source, capsys, no_network):
    words = ["baseline", f"--{source}", "en=gs://b/x", "en=a.jsonl", "--output", "gs://b/out"]
    assert main([*words, "--", *DATAFLOW_FLAGS]) == UNUSABLE
    assert f"{source} is on this machine: got 'en=a.jsonl'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options",
    [
        TuneOptions(judgements=("gs://b/in",), score_column="s", models=("m",), **GIVEN),
        BaselineOptions(sentences=("en=gs://b/x",), models=("m",), idf=True, **GIVEN),
        BaselineOptions(sentences=("en=gs://b/x",), models=("m",), idf=False, **GIVEN),
    ],
)
def test_idf_of_tune_and_baseline_is_no_path(options):
    check_needs(options, Runner.of(options).beam_options)


@pytest.mark.job
@pytest.mark.parametrize("idf", ["none", "corpus"])
@pytest.mark.parametrize("remote", [False, True])
def test_what_tests_describe_is_what_a_prepared_job_builds(idf, remote, tmp_path):
    dump = write_dump(tmp_path / "dump", [20])
    flags = {"beam": DATAFLOW_FLAGS, "accelerator": "type:nvidia-l4;count:1"} if remote else {}
    output = str(tmp_path / "out")
    options = ScoreOptions(input=(str(dump),), output=output, device="cpu", idf=idf, **flags)
    runner = Runner.of(options)
    spec, _ = resume_score(plan_score(options, runner), OutputFolder(output))
    build = functools.partial(add_phases, phases=[*score_phases(spec)])
    (described,) = pipelines_of(options)
    assert describe(runner, described.build) == describe(runner, build)


@pytest.mark.process
def test_missing_credentials_are_named_before_any_work(tmp_path):
    """In a process of its own: Google's library reads NO_GCE_CHECK once."""
    program = Path(sys.executable).with_name("bertscore-beam")
    command = [program, "score", *places(), "--", *DATAFLOW_FLAGS]
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "NO_GCE_CHECK": "true"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == UNUSABLE
    assert "there are no usable Google Cloud credentials: got" in done.stderr
    assert "gcloud auth application-default login" in done.stderr
