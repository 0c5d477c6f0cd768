"""Every shipped config, taken as far as a job goes without a network: built, fused, described."""

import contextlib
import json
import runpy
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import apache_beam as beam
import pytest

from pipelines.blueprint import describe
from pipelines.cli import main
from pipelines.exit_status import BROKEN, DONE, TOO_MANY_REJECTS, UNUSABLE
from pipelines.lock import RunLock
from pipelines.options import ScoreOptions, load_yaml
from pipelines.prepare import prepare_score
from pipelines.runners import job_pipeline
from pipelines.score import build_score_pipeline
from pipelines.sketch import sketch_score
from tests.support.dumps import write_dump
from tests.support.jobs import job_options

ROOT = Path(__file__).resolve().parents[2]
VERBS = ("score", "idf", "baseline")
CONFIGS = [path for verb in VERBS for path in sorted((ROOT / "configs" / verb).glob("*.yaml"))]
DATAFLOW = [path for path in CONFIGS if path.stem.startswith("dataflow")]
GPU_CONFIGS = [path for path in DATAFLOW if path.parent.name != "idf"]
PORTABLE = [path for path in CONFIGS if path.stem in ("flink", "spark")]
SCORING = {
    "score": ("ScoreSplits/ReadSplit/ParDo(ReadSplit)", "ScoreSplits/WritePart"),
    "baseline": ("ScorePairParts/ReadPairs", "ScorePairParts/WriteMoments"),
}
TEXTS = ("ReadSplit", "ScoreChunk", "ReadPairs", "ScorePairs/", "ExtractLane/", "RunInference")


def name_of(path):
    return f"{path.parent.name}/{path.stem}"


@pytest.fixture
def no_network(monkeypatch):
    """Refuse every connection, and every look-up of a name."""

    def refuse(*args, **_):
        raise AssertionError(f"a connection was tried: {args}")

    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def print_job(path, capsys, *flags):
    status = main([path.parent.name, "--config", str(path), "--print-job", *flags])
    assert status == DONE
    return json.loads(capsys.readouterr().out)["jobs"]


def scoring_stage(job, verb):
    first, last = SCORING[verb]
    (stage,) = [stage for stage in job["stages"] if first in stage["steps"]]
    assert last in stage["steps"]
    return stage


def scoring_job(jobs):
    return next(job for job in jobs if job["name"] == "score")


@pytest.mark.parametrize("path", CONFIGS, ids=name_of)
def test_every_config_is_built_without_network_input_or_model(path, capsys, no_network):
    jobs = print_job(path, capsys)
    names = {
        "score": ["score"],
        "idf": ["idf"],
        "baseline": ["read", "sample", "pair", "score"],
    }
    assert [job["name"] for job in jobs] == names[path.parent.name]
    for job in jobs:
        known = set(job["environments"]) | {""}
        assert job["stages"]
        assert {stage["environment"] for stage in job["stages"]} <= known


@pytest.mark.parametrize("path", PORTABLE, ids=name_of)
def test_workers_of_other_engines_come_from_a_pool(path, capsys):
    for job in print_job(path, capsys):
        (environment,) = job["environments"].values()
        assert environment["kind"] == "beam:env:external:v1"
        assert environment["address"] == "localhost:50000"
        assert environment["staged"] == []


@pytest.mark.parametrize("path", DATAFLOW, ids=name_of)
def test_workers_have_our_image_everywhere_and_nothing_is_staged(path, capsys):
    for job in print_job(path, capsys):
        for environment in job["environments"].values():
            assert environment["kind"] == "beam:env:docker:v1"
            kind = "cpu" if path.parent.name == "idf" else "gpu"
            assert f"/bertscore-beam/{kind}:" in environment["image"]
            assert environment["staged"] == []


@pytest.mark.parametrize("path", GPU_CONFIGS, ids=name_of)
@pytest.mark.parametrize("idf", ["none", "corpus"])
def test_the_gpu_is_asked_for_where_pairs_are_scored_and_nowhere_else(path, idf, capsys):
    verb = path.parent.name
    flags = ("--idf", idf) if verb == "score" else ()
    jobs = print_job(path, capsys, *flags)
    hint = load_yaml(str(path))["accelerator"]
    for job in jobs:
        hinted = {
            name
            for name, environment in job["environments"].items()
            if environment["hints"] == {"accelerator": hint}
        }
        plain = {name for name, item in job["environments"].items() if not item["hints"]}
        assert hinted | plain == set(job["environments"])
        stages = [stage for stage in job["stages"] if stage["environment"] in hinted]
        scores = [scoring_stage(job, verb)] if job["name"] == "score" else []
        assert stages == scores


@pytest.mark.parametrize("path", GPU_CONFIGS, ids=name_of)
def test_a_gpu_machine_runs_one_process_with_two_threads(path, capsys):
    job = scoring_job(print_job(path, capsys))
    assert "no_use_multiple_sdk_containers" in job["experiments"]
    assert job["workers"]["numThreadsPerWorker"] == 2


@pytest.mark.parametrize(
    "path", [path for path in CONFIGS if path.parent.name != "idf"], ids=name_of
)
def test_no_text_crosses_a_stage_of_scoring(path, capsys):
    verb = path.parent.name
    flags = ("--idf", "corpus") if verb == "score" else ()
    job = scoring_job(print_job(path, capsys, *flags))
    scoring_stage(job, verb)
    read = {step for stage in job["stages"] for step in stage["reads"]}
    # Of the reader's outputs only records of parts reused and failed splits leave its stage.
    texts = {step for step in read if any(word in step for word in TEXTS)}
    assert texts <= {"ScoreSplits/ReadSplit/ParDo(ReadSplit)"}
    readers = [stage for stage in job["stages"] if texts & set(stage["reads"])]
    leaving = [["FinishRun/OfReused"], ["FinishRun/OfFailure"]]
    assert [stage["steps"] for stage in readers] in ([], leaving)


@pytest.mark.parametrize("path", GPU_CONFIGS, ids=name_of)
def test_the_worker_pool_is_the_one_that_the_config_says(path, capsys):
    pool = scoring_job(print_job(path, capsys))["workers"]
    given = load_yaml(str(path))
    said = dict(flag.split("=", 1) for flag in (*given["beam"], *given.get("beam_scoring", ())))
    assert pool["machineType"] == said["--machine_type"]
    assert pool["diskSizeGb"] == int(said["--disk_size_gb"])
    assert pool["numWorkers"] == int(said["--num_workers"])
    assert pool["autoscalingSettings"] == {
        "algorithm": f"AUTOSCALING_ALGORITHM_{said['--autoscaling_algorithm']}",
        "maxNumWorkers": int(said["--max_num_workers"]),
    }
    images = {image["containerImage"] for image in pool["sdkHarnessContainerImages"]}
    assert images == {said["--sdk_container_image"]}


def test_the_idf_job_asks_for_no_gpu(capsys):
    (job,) = print_job(ROOT / "configs" / "idf" / "dataflow.yaml", capsys)
    assert all(not environment["hints"] for environment in job["environments"].values())
    steps = [step for stage in job["stages"] for step in stage["steps"]]
    assert "CountDocumentFrequencies/CountSplit" in steps
    assert job["workers"]["autoscalingSettings"] == {"maxNumWorkers": 10}


def test_a_job_with_the_hint_on_the_model_alone_would_store_texts(capsys):
    """The checks above can fail: this is the wiring that they guard against."""

    def build(root):
        rows = root | beam.Create([1]) | "ReadSplit" >> beam.Map(str)
        hint = "type:nvidia-l4;count:1"
        scored = rows | "ScoreChunk" >> beam.Map(len).with_resource_hints(accelerator=hint)
        _ = scored | "WritePart" >> beam.Map(print)

    path = ROOT / "configs" / "score" / "dataflow-l4.yaml"
    options = ScoreOptions.from_mapping(load_yaml(str(path)), str(path))
    read = {step for stage in describe(options, build)["stages"] for step in stage["reads"]}
    assert {"ReadSplit", "ScoreChunk"} <= read


@pytest.mark.parametrize("path", [*DATAFLOW, *PORTABLE], ids=name_of)
def test_placeholders_are_not_submitted(path, capsys, no_network):
    status = main([path.parent.name, "--config", str(path)])
    assert status == UNUSABLE
    said = capsys.readouterr().err
    assert "is a placeholder of the config: got" in said
    assert "your-" in said


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


def test_names_that_only_look_like_placeholders_pass():
    options = ScoreOptions(input=("gs://a/your_data",), output="gs://b/out", beam=NO_AUTH)
    assert job_pipeline(options).runner.__class__.__name__ == "DataflowRunner"


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


@pytest.mark.parametrize("idf", ["none", "corpus"])
@pytest.mark.parametrize("remote", [False, True])
def test_what_is_printed_is_what_a_prepared_job_builds(idf, remote, tmp_path):
    dump = write_dump(tmp_path / "dump", [20])
    flags = {"beam": DATAFLOW_FLAGS, "accelerator": "type:nvidia-l4;count:1"} if remote else {}
    options = job_options(dump, tmp_path / "out", idf=idf, **flags)
    (sketch,) = sketch_score(options)
    job = prepare_score(options)
    lock = RunLock(job.output, "a run")
    real = describe(options, lambda root: build_score_pipeline(root, job, lock))
    assert describe(options, sketch.build) == real


@pytest.mark.parametrize("missing", ["project", "region", "temp_location", "sdk_container_image"])
def test_what_dataflow_cannot_do_without_is_named_before_any_work(missing, capsys, no_network):
    given = {
        "project": "a-project",
        "region": "us-central1",
        "temp_location": "gs://a-bucket/tmp",
        "sdk_container_image": "us-docker.pkg.dev/a/b/gpu:1",
    }
    flags = [f"--{name}={value}" for name, value in given.items() if name != missing]
    status = main(
        ["score", "--input", "in", "--output", "out", "--", "--runner=DataflowRunner", *flags]
    )
    assert status == UNUSABLE
    assert f"DataflowRunner needs --{missing}: got none; expected" in capsys.readouterr().err


def test_a_temporary_place_on_this_machine_is_refused(capsys, no_network):
    path = ROOT / "configs" / "score" / "dataflow-l4.yaml"
    status = main(["score", "--config", str(path), "--print-job", "--", "--temp_location=/tmp"])
    assert status == UNUSABLE
    assert "expected a gs:// path" in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--project=p", "--project=A-Project", "--job_name=Nightly"])
def test_a_value_that_beam_refuses_is_named(flag, capsys, no_network):
    path = ROOT / "configs" / "score" / "dataflow-l4.yaml"
    status = main(["score", "--config", str(path), "--print-job", "--", flag])
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


def test_the_nightly_command_is_one_the_parser_takes(capsys, no_network):
    """Airflow itself is not installed here; the command is what can be wrong."""
    text = (ROOT / "configs" / "nightly" / "airflow.py").read_text()
    command = text.split('"""\\\n')[1].split('"""')[0].replace("{{ ds }}", "2026-11-20")
    command = command.replace("{{ ti.try_number }}", "1").split()
    assert command[:2] == ["bertscore-beam", "score"]
    place = command.index("--config") + 1
    command[place] = str(ROOT / "configs" / "score" / command[place].rpartition("/")[2])
    command.insert(command.index("--"), "--print-job")
    assert main(command[1:]) == DONE
    (job,) = json.loads(capsys.readouterr().out)["jobs"]
    assert job["runner"] == "DataflowRunner"


class Skipped(Exception):
    """What Airflow's operator raises for the statuses that it is told to skip."""


class Failed(Exception):
    """What Airflow takes for a failure that is not to be retried."""


class Bash:
    """As much of Airflow's BashOperator as the nightly DAG rests on."""

    made: ClassVar[list["Bash"]] = []

    def __init__(self, *, task_id, bash_command, skip_on_exit_code=(), retries=0, **_):
        self.task_id, self.bash_command = task_id, bash_command
        self.skipped, self.retries, self.follows = skip_on_exit_code, retries, None
        self.made.append(self)

    def __rshift__(self, later):
        later.follows = self

    def execute(self, context):
        status = subprocess.run(["bash", "-c", self.bash_command], check=False).returncode
        if status in self.skipped:
            raise Skipped(f"Bash command returned exit code {status}. Skipping.")
        if status:
            raise RuntimeError(f"exit code {status}")


@pytest.mark.parametrize(
    ("status", "ends"),
    [(DONE, None), (BROKEN, RuntimeError), (UNUSABLE, Failed), (TOO_MANY_REJECTS, Failed)],
)
def test_the_nightly_task_is_tried_again_only_where_that_helps(status, ends, monkeypatch):
    """Airflow itself is not installed here; a stand-in has what its documentation promises."""
    stand_ins = {
        "airflow.exceptions": {"AirflowFailException": Failed, "AirflowSkipException": Skipped},
        "airflow.providers.standard.operators.bash": {"BashOperator": Bash},
        "airflow.sdk": {"DAG": lambda **_: contextlib.nullcontext()},
    }
    for name, content in stand_ins.items():
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(**content))
    monkeypatch.setattr(Bash, "made", [])
    runpy.run_path(str(ROOT / "configs" / "nightly" / "airflow.py"))
    task, check = Bash.made
    assert (task.task_id, task.retries) == ("score", 3)
    assert (check.task_id, check.follows) == ("check", task)
    task.bash_command = f"exit {status}"
    with contextlib.nullcontext() if ends is None else pytest.raises(ends):
        task.execute({})


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
    assert f"bertscore-beam: {name} lies on this machine: got" in capsys.readouterr().err


@pytest.mark.parametrize("address", ["localhost:1", "nowhere.invalid:50000", "localhost:x"])
def test_a_worker_pool_that_does_not_answer_is_named(address, tmp_path, capsys):
    dump = write_dump(tmp_path / "dump", [5])
    pool = ("--environment_type=EXTERNAL", f"--environment_config={address}")
    out = tmp_path / "out"
    assert main(["score", "--input", str(dump), "--output", str(out), "--", *pool]) == UNUSABLE
    assert f"no worker pool answers at '{address}'" in capsys.readouterr().err
    assert not out.exists()
