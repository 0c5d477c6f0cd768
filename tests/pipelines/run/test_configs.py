"""Every shipped config, taken as far as a job goes without a network: built, fused, described."""

import contextlib
import functools
import io
import json
import re
import runpy
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import apache_beam as beam
import pytest

from pipelines.cli.main import main
from pipelines.options.config_file import load_yaml
from pipelines.options.flags import read_options
from pipelines.options.score import ScoreOptions
from pipelines.run.describe import describe
from pipelines.run.exit_status import BROKEN, DONE, TOO_MANY_REJECTS, UNUSABLE, WORSE
from pipelines.run.folder import OutputFolder
from pipelines.run.runner import Runner
from pipelines.score.job import build_score_pipeline, sketch_score
from pipelines.score.prepare import plan_score, resume_score
from tests.support.dumps import write_dump

ROOT = Path(__file__).resolve().parents[3]
VERBS = ("score", "idf", "baseline")
CONFIGS = [path for verb in VERBS for path in sorted((ROOT / "configs" / verb).glob("*.yaml"))]
DATAFLOW = [path for path in CONFIGS if path.stem == "dataflow"]
GPU_CONFIGS = [path for path in DATAFLOW if path.parent.name != "idf"]
SCORE_DATAFLOW = ROOT / "configs" / "score" / "dataflow.yaml"
PORTABLE = [path for path in CONFIGS if path.stem in ("flink", "spark")]
CARDS = [
    shlex.split(line)[4:]
    for line in (ROOT / "configs" / "README.md").read_text().splitlines()
    if line.startswith("bertscore-beam score --config my.yaml ")
]
"""Flags for each GPU, without the command and the config."""
JOBS = {
    "score": ["score"],
    "idf": ["idf"],
    "baseline": ["fetch", "read", "sample", "pair", "score"],
}
SCORING = {
    "score": ("ScoreSplits/ReadSplit/ParDo(ReadSplit)", "ScoreSplits/WritePart"),
    "baseline": ("ScorePairParts/ReadPairs", "ScorePairParts/WriteMoments"),
}
TEXTS = ("ReadSplit", "ScoreChunk", "ReadPairs", "ScorePairs/", "ExtractLane/", "RunInference")

builds = pytest.mark.job
"""For tests that build a pipeline."""


def name_of(path):
    return f"{path.parent.name}/{path.stem}"


def refuse_connections(monkeypatch):
    """Refuse every connection, and every look-up of a name."""

    def refuse(*args, **_):
        raise AssertionError(f"a connection was tried: {args}")

    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture
def no_network(monkeypatch):
    refuse_connections(monkeypatch)


@functools.cache
def print_job(path, *flags):
    """Return the jobs that a config describes, built without a network.

    Taking a job through Dataflow's runner needs seconds, so each is built once for all tests. They
    only read it.
    """
    arguments = [path.parent.name, "--config", str(path), "--print-job", *flags]
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        refuse_connections(patch)
        assert main(arguments) == DONE
    return json.loads(printed.getvalue())["jobs"]


def scoring_stage(job, verb):
    first, last = SCORING[verb]
    (stage,) = [stage for stage in job["stages"] if first in stage["steps"]]
    assert last in stage["steps"]
    return stage


def scoring_job(jobs):
    return next(job for job in jobs if job["name"] == "score")


def hinted_stages(job, accelerator):
    """Return the stages that ask for a GPU; no other hint may be there."""
    environments = job["environments"]
    assert all(
        environment["hints"] in ({}, {"accelerator": accelerator})
        for environment in environments.values()
    )
    return [stage for stage in job["stages"] if environments[stage["environment"]]["hints"]]


@builds
@pytest.mark.parametrize("path", CONFIGS, ids=name_of)
def test_every_config_is_built_without_network_input_or_model(path):
    jobs = print_job(path)
    assert [job["name"] for job in jobs] == JOBS[path.parent.name]
    for job in jobs:
        known = set(job["environments"]) | {""}
        assert job["stages"]
        assert {stage["environment"] for stage in job["stages"]} <= known


@pytest.mark.parametrize("path", PORTABLE, ids=name_of)
def test_the_first_line_of_an_engine_never_run_says_so(path):
    first = path.read_text().partition("\n")[0]
    assert first.startswith("# What was run: ")
    assert first.endswith(f"What was not: {path.stem.capitalize()}.")


@builds
@pytest.mark.parametrize("path", PORTABLE, ids=name_of)
def test_workers_of_other_engines_come_from_a_pool(path):
    for job in print_job(path):
        (environment,) = job["environments"].values()
        assert environment["kind"] == "beam:env:external:v1"
        assert environment["address"] == "localhost:50000"
        assert environment["staged"] == []


@builds
@pytest.mark.parametrize("path", DATAFLOW, ids=name_of)
def test_workers_have_our_image_everywhere_and_nothing_is_staged(path):
    for job in print_job(path):
        for environment in job["environments"].values():
            assert environment["kind"] == "beam:env:docker:v1"
            kind = "cpu" if path.parent.name == "idf" else "gpu"
            assert f"/bertscore-beam/{kind}:" in environment["image"]
            assert environment["staged"] == []


@builds
@pytest.mark.parametrize(
    ("path", "flags"),
    [(path, ()) for path in GPU_CONFIGS] + [(SCORE_DATAFLOW, ("--idf", "corpus"))],
    ids=["score", "baseline", "score with idf"],
)
def test_the_gpu_is_asked_for_where_pairs_are_scored_and_nowhere_else(path, flags):
    verb = path.parent.name
    accelerator = load_yaml(str(path))["accelerator"]
    for job in print_job(path, *flags):
        scores = [scoring_stage(job, verb)] if job["name"] == "score" else []
        assert hinted_stages(job, accelerator) == scores


@builds
@pytest.mark.parametrize("flags", CARDS, ids=lambda flags: re.split("[:;]", flags[5])[1])
def test_the_flags_for_each_card_ask_for_that_card_and_its_machines(flags):
    (job,) = print_job(SCORE_DATAFLOW, *flags)
    options = read_options(ScoreOptions, ["--config", str(SCORE_DATAFLOW), *flags], "test")
    assert options.accelerator == flags[flags.index("--accelerator") + 1]
    assert hinted_stages(job, options.accelerator) == [scoring_stage(job, "score")]
    machines = int(options.beam[-1].partition("=")[2])
    assert job["workers"]["numWorkers"] == machines
    assert job["workers"]["autoscalingSettings"]["maxNumWorkers"] == machines


@builds
def test_the_card_of_the_config_is_one_of_those_with_flags():
    same = [
        flags for flags in CARDS if print_job(SCORE_DATAFLOW, *flags) == print_job(SCORE_DATAFLOW)
    ]
    options = load_yaml(str(SCORE_DATAFLOW))
    ((_, dtype, _, rows, _, accelerator, *_),) = same
    assert (dtype, int(rows), accelerator) == (
        options["dtype"],
        options["split_rows"],
        options["accelerator"],
    )
    assert (
        load_yaml(str(ROOT / "configs" / "baseline" / "dataflow.yaml"))["accelerator"]
        == accelerator
    )


@builds
@pytest.mark.parametrize("path", GPU_CONFIGS, ids=name_of)
def test_a_gpu_machine_runs_one_process_with_some_threads(path):
    job = scoring_job(print_job(path))
    assert "no_use_multiple_sdk_containers" in job["experiments"]
    assert job["workers"]["numThreadsPerWorker"] == (4 if path == SCORE_DATAFLOW else 2)


@builds
@pytest.mark.parametrize(
    "path", [path for path in CONFIGS if path.parent.name != "idf"], ids=name_of
)
def test_no_text_crosses_a_stage_of_scoring(path):
    verb = path.parent.name
    flags = ("--idf", "corpus") if verb == "score" else ()
    job = scoring_job(print_job(path, *flags))
    scoring_stage(job, verb)
    read = {step for stage in job["stages"] for step in stage["reads"]}
    # Of the reader's outputs only records of parts reused and failed splits leave its stage.
    texts = {step for step in read if any(word in step for word in TEXTS)}
    assert texts <= {"ScoreSplits/ReadSplit/ParDo(ReadSplit)"}
    readers = [stage for stage in job["stages"] if texts & set(stage["reads"])]
    leaving = [["FinishRun/OfReused"], ["FinishRun/OfFailure"]]
    assert [stage["steps"] for stage in readers] in ([], leaving)


@builds
@pytest.mark.parametrize("path", GPU_CONFIGS, ids=name_of)
def test_the_worker_pool_is_the_one_that_the_config_says(path):
    pool = scoring_job(print_job(path))["workers"]
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


@builds
def test_the_idf_job_asks_for_no_gpu():
    (job,) = print_job(ROOT / "configs" / "idf" / "dataflow.yaml")
    assert all(not environment["hints"] for environment in job["environments"].values())
    steps = [step for stage in job["stages"] for step in stage["steps"]]
    assert "CountDocumentFrequencies/CountSplit" in steps
    assert job["workers"]["autoscalingSettings"] == {"maxNumWorkers": 10}


@builds
def test_a_job_with_the_hint_on_the_model_alone_would_store_texts():
    """The checks above can fail: this is the wiring that they guard against."""

    def build(root):
        rows = root | beam.Create([1]) | "ReadSplit" >> beam.Map(str)
        hint = "type:nvidia-l4;count:1"
        scored = rows | "ScoreChunk" >> beam.Map(len).with_resource_hints(accelerator=hint)
        _ = scored | "WritePart" >> beam.Map(print)

    options = ScoreOptions.from_mapping(load_yaml(str(SCORE_DATAFLOW)), "the config")
    stages = describe(Runner.of(options), build)["stages"]
    read = {step for stage in stages for step in stage["reads"]}
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


@pytest.mark.long
@pytest.mark.job
def test_names_that_only_look_like_placeholders_pass(no_network):
    options = ScoreOptions(input=("gs://a/your_data",), output="gs://b/out", beam=NO_AUTH)
    runner = Runner.of(options)
    assert runner.is_remote
    runner.check(options)


@builds
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


@builds
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
        corpus=job.plan.digest,
        accelerator=options.accelerator,
    )
    (sketch,) = sketch_score(options, runner)
    assert describe(runner, sketch.build) == describe(runner, build)


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
    status = main(
        ["score", "--config", str(SCORE_DATAFLOW), "--print-job", "--", "--temp_location=/tmp"]
    )
    assert status == UNUSABLE
    assert "expected a gs:// path" in capsys.readouterr().err


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


@builds
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
        return later

    def execute(self, context):
        status = subprocess.run(["bash", "-c", self.bash_command], check=False).returncode
        if status in self.skipped:
            raise Skipped(f"Bash command returned exit code {status}. Skipping.")
        if status:
            raise RuntimeError(f"exit code {status}")


@pytest.mark.process
@pytest.mark.parametrize(
    ("status", "ends"),
    [
        (DONE, None),
        (BROKEN, RuntimeError),
        (UNUSABLE, Failed),
        (TOO_MANY_REJECTS, Failed),
        (WORSE, Failed),
    ],
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
    task, check, compare, report = Bash.made
    assert (task.task_id, task.retries) == ("score", 3)
    assert (check.task_id, check.follows) == ("check", task)
    assert [compare.follows, report.follows] == [check, check]
    for one in (task, compare):
        one.bash_command = f"exit {status}"
        with contextlib.nullcontext() if ends is None else pytest.raises(ends):
            one.execute({})


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


@pytest.mark.parametrize("address", ["localhost:1", "nowhere.invalid:50000", "localhost:x"])
def test_a_worker_pool_that_does_not_answer_is_named(address, tmp_path, capsys):
    dump = write_dump(tmp_path / "dump", [5])
    pool = ("--environment_type=EXTERNAL", f"--environment_config={address}")
    out = tmp_path / "out"
    assert main(["score", "--input", str(dump), "--output", str(out), "--", *pool]) == UNUSABLE
    assert f"no worker pool answers at '{address}'" in capsys.readouterr().err
    assert not out.exists()
