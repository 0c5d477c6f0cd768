"""Beam's options: what cannot work is named before any work, and what is printed is run."""

import functools
import json
import subprocess
import sys
from pathlib import Path

import pytest

from bertscore_beam.cli.main import main
from bertscore_beam.options import ScoreOptions
from bertscore_beam.run import DONE, UNUSABLE, OutputFolder, Runner, describe
from bertscore_beam.score import build_score_pipeline, plan_score, resume_score, sketch_score
from tests.support.dumps import write_dump

ROOT = Path(__file__).resolve().parents[3]
SCORE_DATAFLOW = ROOT / "configs" / "score" / "dataflow.yaml"
DATAFLOW_FLAGS = (
    "--runner=DataflowRunner",
    "--project=a-project",
    "--region=us-central1",
    "--temp_location=gs://know-your-customer/tmp",
    "--sdk_container_image=us-docker.pkg.dev/a/b/gpu:1",
)
NO_AUTH = (*DATAFLOW_FLAGS, "--no_auth")


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("input", ("--input", "gs://your-bucket/pairs", "--output", "gs://a-bucket/out")),
        ("output", ("--input", "gs://a-bucket/in", "--output", "gs://your-bucket/scores")),
    ],
)
def test_placeholders_of_our_own_options_are_named_too(name, flags, capsys, no_network):
    assert main(["score", *flags, "--", *DATAFLOW_FLAGS]) == UNUSABLE
    assert f"bertscore-beam: {name} is a placeholder" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.job
def test_names_that_only_look_like_placeholders_pass(no_network):
    options = ScoreOptions(input=("gs://a/your_data",), output="gs://b/out", beam=NO_AUTH)
    runner = Runner.of(options)
    assert runner.is_remote
    runner.check(options)


@pytest.mark.job
@pytest.mark.parametrize(
    ("first", "last", "runner"),
    [
        ("DataflowRunner", "FnApiRunner", "FnApiRunner"),
        ("FnApiRunner", "FlinkRunner", "FlinkRunner"),
    ],
)
def test_the_last_runner_counts_as_it_does_for_beam(first, last, runner, tmp_path, capsys):
    """Nothing may run that was only to be printed, whatever runner the config names first."""
    arguments = ["score", "--input", "in", "--output", str(tmp_path / "out"), "--print-job"]
    assert main([*arguments, "--", f"--runner={first}", f"--runner={last}"]) == DONE
    (job,) = json.loads(capsys.readouterr().out)["jobs"]
    assert job["runner"] == runner
    assert not (tmp_path / "out").exists()


@pytest.mark.job
@pytest.mark.parametrize("idf", ["none", "corpus"])
@pytest.mark.parametrize("remote", [False, True])
def test_what_is_printed_is_what_a_prepared_job_builds(idf, remote, tmp_path):
    dump = write_dump(tmp_path / "dump", [20])
    flags = {"beam": DATAFLOW_FLAGS, "accelerator": "type:nvidia-l4;count:1"} if remote else {}
    output = str(tmp_path / "out")
    options = ScoreOptions(input=(str(dump),), output=output, device="cpu", idf=idf, **flags)
    runner = Runner.of(options)
    job = resume_score(plan_score(options, runner), OutputFolder(output))
    build = functools.partial(
        build_score_pipeline,
        spec=job.spec,
        idf=job.idf,
    )
    (sketch,) = sketch_score(options, runner)
    assert describe(runner, sketch.build) == describe(runner, build)


@pytest.mark.parametrize("missing", ["project", "region", "temp_location", "sdk_container_image"])
def test_what_dataflow_cannot_do_without_is_named_before_any_work(missing, capsys, no_network):
    values = {
        "project": "a-project",
        "region": "us-central1",
        "temp_location": "gs://a-bucket/tmp",
        "sdk_container_image": "us-docker.pkg.dev/a/b/gpu:1",
    }
    flags = [f"--{name}={value}" for name, value in values.items() if name != missing]
    status = main(
        ["score", "--input", "in", "--output", "out", "--", "--runner=DataflowRunner", *flags]
    )
    assert status == UNUSABLE
    assert f"DataflowRunner needs --{missing}: got none; expected" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["temp_location", "staging_location"])
@pytest.mark.parametrize("only_print", [("--print-job",), ()], ids=["printed", "submitted"])
@pytest.mark.parametrize(
    "place", ["/tmp", "gs://b/tmp", "gs://Acme_Eval/tmp", "gs://a-bucket", "s3://a-bucket/tmp"]
)
def test_a_bucket_that_beam_would_replace_by_one_of_its_own_is_refused(
    place, only_print, option, capsys, no_network
):
    words = ["score", "--input", "gs://a-bucket/in", "--output", "gs://a-bucket/out", *only_print]
    assert main([*words, "--", *NO_AUTH, f"--{option}={place}"]) == UNUSABLE
    assert f"{option} cannot be used: got {place!r}" in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--project=p", "--project=A-Project", "--job_name=Nightly"])
def test_a_value_that_beam_refuses_is_named(flag, capsys, no_network):
    status = main(["score", "--config", str(SCORE_DATAFLOW), "--print-job", "--", flag])
    assert status == UNUSABLE
    said = capsys.readouterr().err
    assert "Beam's options cannot be used" in said
    assert flag.partition("=")[2] in said


@pytest.mark.parametrize("only_print", [True, False])
@pytest.mark.parametrize("runner", ["DataflowRunner", "FnApiRunner", "FlinkRunner"])
def test_a_value_that_would_end_beam_is_named(runner, only_print, capsys, no_network):
    more = ["--print-job"] if only_print else []
    flags = [f"--runner={runner}", "--num_workers=many"]
    status = main(["score", "--input", "in", "--output", "out", *more, "--", *flags])
    assert status == UNUSABLE
    said = capsys.readouterr().err
    assert "Beam's options cannot be used: got argument --num_workers: invalid int" in said
    assert "usage" not in said


@pytest.mark.process
def test_missing_credentials_are_named_before_any_work(tmp_path):
    """In a process of its own: Google's library reads NO_GCE_CHECK once."""
    program = Path(sys.executable).with_name("bertscore-beam")
    places = ("--input", "gs://a-bucket/in", "--output", "gs://a-bucket/out")
    done = subprocess.run(
        [program, "score", *places, "--", *DATAFLOW_FLAGS],
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "NO_GCE_CHECK": "true"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == UNUSABLE
    assert "there are no usable Google Cloud credentials: got" in done.stderr
    assert "gcloud auth application-default login" in done.stderr


@pytest.mark.parametrize("hint", ["nvidia-l4", "type:nvidia-l4", "type:nvidia-l4;count:0", ""])
def test_a_hint_that_no_runner_would_understand_is_refused(hint, capsys):
    status = main(["score", "--input", "in", "--output", "out", "--accelerator", hint])
    assert status == UNUSABLE
    assert "accelerator" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("input", ("--input", "data/in", "--output", "gs://a-bucket/out")),
        ("output", ("--input", "gs://a-bucket/in", "--output", "/tmp/out")),
        ("idf", ("--input", "gs://a/in", "--output", "gs://a/out", "--idf", "./table.npz")),
    ],
)
@pytest.mark.parametrize("only_print", [True, False])
def test_places_that_only_the_launcher_has_are_refused(name, flags, only_print, capsys, no_network):
    more = ("--print-job",) if only_print else ()
    assert main(["score", *flags, *more, "--", *DATAFLOW_FLAGS]) == UNUSABLE
    assert f"bertscore-beam: {name} is on this machine: got" in capsys.readouterr().err
