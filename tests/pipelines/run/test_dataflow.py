"""The commands of the pages on Dataflow and Cloud Storage, on stand-ins of both, to their ends.

From the shipped configs, edited as a reader edits them. The workers have no GPU, and the image is
the environment of the tests: see tests/support/dataflow.py for what only Dataflow itself does.
"""

import io
import json
import re
import shutil
import signal
from operator import attrgetter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import requests
from google.auth.credentials import AnonymousCredentials
from google.cloud.dataflow_v1beta3 import (
    MetricsV1Beta3Client as MetricsClient,
    WorkerIPAddressConfiguration,
)

from bertscore_beam.cli import main as cli
from bertscore_beam.options.values import load_yaml
from bertscore_beam.run.lease import LEASE_FILE
from bertscore_beam.run.remote_job import FOLDER_LABEL, folder_label
from bertscore_core.idf import IdfTable
from tests.support.crawls import baseline, make_crawl, read_tables, run_baseline
from tests.support.dataflow import google_cloud
from tests.support.dataflow_worker import DIVIDED
from tests.support.dumps import pair_rows
from tests.support.faults import FaultRule
from tests.support.jobs import is_staged
from tests.support.judgements import write_judgements
from tests.support.processes import launched
from tests.support.text_files import to_jsonl
from tests.support.waiting import wait_until
from tests.support.web import web_server
from tests.test_docs import commands

pytestmark = [pytest.mark.process, pytest.mark.long]

ROOT = Path(__file__).resolve().parents[3]
CONFIGS = ROOT / "configs"
OWN = "tests.support.own_metrics:overlap"
ROWS, MANY, SPLIT_ROWS = 60, 1800, 10
IN_TEXT = re.compile(r"`-- (--[^`]+)`")
SENT = {
    "--max_num_workers": ("autoscaling_settings.max_num_workers", 3),
    "--no_use_public_ips": ("ip_configuration", WorkerIPAddressConfiguration.WORKER_IP_PRIVATE),
    "--num_workers": ("num_workers", 3),
    "--number_of_worker_harness_threads": ("num_threads_per_worker", 8),
}
"""What Beam sends to the service for its options: where in the description of the workers."""
LONG = 200
"""Seconds after which something has not happened."""


@pytest.fixture(scope="module")
def cloud():
    with google_cloud("bucket") as cloud:
        yield cloud


@pytest.fixture(scope="module")
def model(tiny_folder):
    return ("--model", str(tiny_folder("bert")))


@pytest.fixture(scope="module")
def layer(model):
    return (*model, "--num-layers", "2", "--split-rows", str(SPLIT_ROWS), "--device", "cpu")


def command(cloud, folder: Path, verb: str, *words: str, beam: tuple[str, ...] = ()) -> list[str]:
    """Return a command with a copy of the shipped config that has the reader's own names."""
    text = (CONFIGS / verb / "dataflow.yaml").read_text()
    edited = folder / f"{verb}.yaml"
    edited.write_text(text.replace("your-project", "a-project").replace("your-bucket", "bucket"))
    return [verb, "--config", str(edited), *words, "--", *cloud.flags, *beam]


def rows(start: int = 0) -> pa.Table:
    system = [("a", "b", "c")[number % 3] for number in range(ROWS)]
    return pa.table({**pair_rows(ROWS, start), "system": system})


def put_table(cloud, name: str, table: pa.Table) -> None:
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=20)
    cloud.storage.put("bucket", name, sink.getvalue())


def objects(cloud, prefix: str) -> dict[str, bytes]:
    """Return what lies below a prefix, by the rest of its name."""
    found = sorted(cloud.storage.buckets["bucket"].items())
    return {
        name.removeprefix(prefix): one.content for name, one in found if name.startswith(prefix)
    }


def scored(cloud, night: str) -> pa.Table:
    """Read all parts of a run, in order."""
    parts = [
        content
        for name, content in objects(cloud, f"{night}/").items()
        if "/part-" in name and not name.startswith("_")
    ]
    return pa.concat_tables([pq.read_table(io.BytesIO(part)) for part in parts])


def summary(cloud, night: str) -> dict:
    return json.loads(cloud.storage.read(f"gs://bucket/{night}/_summary.json"))


def last_job(cloud):
    return list(cloud.dataflow.jobs.values())[-1]


@pytest.fixture(scope="module")
def modules():
    """Let the processes of this machine find the tests' modules, as an image has its own."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", f"{ROOT}:{ROOT / 'pipelines'}")
        yield


@pytest.fixture(scope="module")
def nights(cloud, layer, modules, tmp_path_factory):
    """Two nights: of Parquet; and, detached, of text, of which a half has not changed."""
    folder = tmp_path_factory.mktemp("nights")
    put_table(cloud, "pairs/one.parquet", rows())
    more = ("--by", "system", "--idf", "corpus", "--metrics", "chrf")
    first = ("--output", "gs://bucket/nights/1", *layer, *more, OWN)
    assert cli.main(command(cloud, folder, "score", *first)) == cli.DONE
    text = to_jsonl(rows(ROWS // 2).to_pylist())
    cloud.storage.put("bucket", "text/two.jsonl", text)
    more += ("--idf", "gs://bucket/nights/1/_manifest/idf.npz")
    where = ("--input", "gs://bucket/text/*.jsonl", "--output", "gs://bucket/nights/2")
    reuse = ("--reuse", "latest:gs://bucket/nights/*")
    beam = ("--no_wait_until_finish",)
    words = command(cloud, folder, "score", *where, *reuse, *layer, *more, beam=beam)
    assert cli.main(words) == cli.DONE
    assert last_job(cloud).ended.wait(LONG)
    return folder


def test_a_score_job_with_idf_index_groups_and_metrics_is_that_of_this_machine(
    cloud, nights, layer, tmp_path
):
    put = rows()
    pq.write_table(put, tmp_path / "one.parquet", row_group_size=20)
    words = ["score", "--input", str(tmp_path / "one.parquet"), "--output", str(tmp_path / "out")]
    words += [*layer, "--by", "system", "--metrics", "chrf", OWN, "--idf", "corpus"]
    assert cli.main(words) == cli.DONE
    expected = [pq.read_table(path) for path in sorted(tmp_path.glob("out/*/part-*.parquet"))]
    assert scored(cloud, "nights/1").equals(pa.concat_tables(expected))
    own = json.loads((tmp_path / "out" / "_summary.json").read_text())
    found = summary(cloud, "nights/1")
    same = ("rows", "scored", "parts", "f1", "idf", "signature", "groups", "metrics", "success")
    assert {name: found.get(name) for name in same} == {name: own.get(name) for name in same}
    names = objects(cloud, "nights/1/")
    assert "_SUCCESS" in names
    assert LEASE_FILE not in names


def test_the_commands_of_the_page_run_as_they_are_written(
    cloud, layer, tmp_path, monkeypatch, capsys
):
    """But for the reader's own names, and what a machine without a GPU needs.

    With Beam's options that the text of pages names, but for those that have tests of their own.
    """
    texts = [page.read_text() for page in (CONFIGS.parent / "docs").glob("*.md")]
    named = {flag for text in texts for flags in IN_TEXT.findall(text) for flag in flags.split()}
    named -= {"--no_wait_until_finish", "--runner=..."}
    assert {flag.partition("=")[0] for flag in named} == set(SENT)
    put_table(cloud, "page/one.parquet", rows())
    command(cloud, tmp_path, "score")  # writes the config
    (tmp_path / "score.yaml").rename(tmp_path / "my.yaml")
    monkeypatch.chdir(tmp_path)
    shown, ran = (words for words in commands("docs/machines-and-speed.md") if "gs://..." in words)
    for words in (shown, ran):
        for own in ("gs://bucket/page/*.parquet", "gs://bucket/page-scores"):
            words[words.index("gs://...")] = own
        flags = [*cloud.flags, *(flag.replace("=N", "=3") for flag in named)]
        assert cli.main([*words, *layer, "--", *flags]) == cli.DONE
        assert ("_SUCCESS" in objects(cloud, "page-scores/")) == (words is ran)
        if words is shown:
            assert "rows to score: " in capsys.readouterr().out
    (workers,) = last_job(cloud).job.environment.worker_pools
    for flag, (place, value) in SENT.items():
        assert attrgetter(place)(workers) == value, flag


def test_text_is_imported_and_rows_of_an_earlier_night_take_its_scores(cloud, nights):
    imports, job = list(cloud.dataflow.jobs.values())[1:3]
    assert (imports.state, job.state) == ("DONE", "DONE")
    found = summary(cloud, "nights/2")
    assert (found["rows"], found["reused"]) == (ROWS, ROWS // 2)
    assert not [name for name in objects(cloud, "nights/2/") if name.startswith("_input/")]
    first = {row["id"]: row for row in scored(cloud, "nights/1").to_pylist()}
    second = {row["id"]: row for row in scored(cloud, "nights/2").to_pylist()}
    shared = first.keys() & second.keys()
    assert len(shared) == ROWS // 2
    assert all(first[row]["bertscore_f1"] == second[row]["bertscore_f1"] for row in shared)


def test_text_of_a_template_is_imported_by_what_makes_it(cloud, layer, modules, tmp_path):
    cloud.storage.put("bucket", "template/text.jsonl", to_jsonl(rows().to_pylist()))
    where = ("--input", "gs://bucket/template/*.jsonl", "--output", "gs://bucket/from-template")
    beam = ("--template_location=gs://bucket/templates/score",)
    number = len(cloud.dataflow.jobs)
    assert cli.main(command(cloud, tmp_path, "score", *where, *layer, beam=beam)) == cli.DONE
    assert len(cloud.dataflow.jobs) == number
    (template,) = objects(cloud, "templates/").values()
    assert json.loads(template)["type"] == "JOB_TYPE_BATCH"
    (made,) = [name for name in objects(cloud, "from-template/") if name.startswith("_input/")]
    data = cloud.storage.read(f"gs://bucket/from-template/{made}")
    assert pq.read_metadata(io.BytesIO(data)).num_rows == ROWS


def test_counters_of_a_job_are_in_its_console(cloud, nights):
    first = next(iter(cloud.dataflow.jobs.values()))
    options = {"api_endpoint": cloud.endpoint}
    client = MetricsClient(
        credentials=AnonymousCredentials(), transport="rest", client_options=options
    )
    asked = {"project_id": "a-project", "location": "us-central1", "job_id": first.job.id}
    counted = {
        update.name.name: update.scalar
        for update in client.get_job_metrics(asked).metrics
        if update.name.context["namespace"] == "bertscore"
    }
    assert counted["pairs_scored"] == ROWS


def test_runs_in_the_bucket_are_read_where_they_are(cloud, nights, tmp_path, capsys):
    one, two = "gs://bucket/nights/1", "gs://bucket/nights/2"
    assert cli.main(["check", one, "--parts"]) == cli.DONE
    assert cli.main(["groups", one, "--by", "system", "--json"]) == cli.DONE
    capsys.readouterr()
    assert cli.main(["compare", two, one, "--key", "id", "--by", "system", "--json"]) == cli.DONE
    (compared,) = json.loads(capsys.readouterr().out)["comparisons"]
    assert compared["whole"]["counts"]["pairs"] == ROWS // 2
    page = tmp_path / "page.html"
    assert cli.main(["report", two, "--against", one, "--key", "id", "-o", str(page)]) == cli.DONE
    assert "nights/1" in page.read_text()


def test_an_idf_table_is_that_of_this_machine(cloud, model, tmp_path):
    pq.write_table(rows(), tmp_path / "one.parquet")
    put_table(cloud, "idf-pairs/one.parquet", rows())
    words = command(cloud, tmp_path, "idf", "--input", "gs://bucket/idf-pairs/*.parquet", *model)
    assert cli.main(words) == cli.DONE
    words = ["--input", str(tmp_path / "one.parquet"), "--output", str(tmp_path / "own.npz")]
    assert cli.main(["idf", *words, *model]) == cli.DONE
    table = IdfTable.from_bytes(cloud.storage.read("gs://bucket/idf/references.npz"))
    own = IdfTable.from_bytes((tmp_path / "own.npz").read_bytes())
    assert table.frequencies.num_documents == ROWS
    assert table.fingerprint == own.fingerprint


def test_a_flex_template_starts_a_job_that_needs_no_launcher(cloud, layer, tmp_path):
    put_table(cloud, "flex/one.parquet", rows())
    command(cloud, tmp_path, "score")  # writes the config
    cloud.storage.put("bucket", "my.yaml", (tmp_path / "score.yaml").read_bytes())
    parameters = {
        name[2:].replace("-", "_"): value
        for name, value in zip(layer[::2], layer[1::2], strict=True)
    }
    parameters |= {
        "input": "gs://bucket/flex/*.parquet",
        "output": "gs://bucket/flex-scores",
        "config": "gs://bucket/my.yaml",
    }
    environment = {
        "tempLocation": "gs://bucket/tmp",
        "stagingLocation": "gs://bucket/staging",
        "sdkContainerImage": "us-docker.pkg.dev/a/b/gpu:1",
    }
    body = {"jobName": "nightly", "parameters": parameters, "environment": environment}
    url = f"{cloud.endpoint}/v1b3/projects/a-project/locations/us-central1/flexTemplates:launch"
    requests.post(url, json={"launchParameter": body}, timeout=30).raise_for_status()
    job = last_job(cloud)
    assert job.ended.wait(LONG)
    assert job.state == "DONE", job.log()
    names = objects(cloud, "flex-scores/")
    assert "_SUCCESS" in names
    assert LEASE_FILE not in names
    assert scored(cloud, "flex-scores")["id"].to_pylist() == list(range(ROWS))


@pytest.fixture(scope="module")
def many(cloud):
    """A dump whose job takes several heartbeats."""
    table = pa.concat_tables([rows(start) for start in range(0, MANY, ROWS)])
    put_table(cloud, "many/one.parquet", table)
    return ("--input", "gs://bucket/many/*.parquet")


def records(cloud, night: str) -> dict[str, bytes]:
    """Return the parts that are staged."""
    found = objects(cloud, f"{night}/_work/")
    return {name: found[name] for name in found if is_staged(name)}


def published(cloud, night: str) -> set[bytes]:
    return {data for name, data in objects(cloud, f"{night}/one.").items() if "/part-" in name}


def test_a_detached_job_keeps_its_folder_and_survives_the_death_of_a_worker(
    cloud, layer, many, tmp_path, capfd
):
    words = (*many, "--output", "gs://bucket/detached", *layer)
    words = command(cloud, tmp_path, "score", *words, beam=("--no_wait_until_finish",))
    assert cli.main(words) == cli.DONE
    job = last_job(cloud)
    wait_until(lambda: records(cloud, "detached"), LONG)
    assert cli.main([words[0], "--keep-job", *words[1:]]) == cli.BROKEN
    assert "--keep-job leaves it at work on this output" in capfd.readouterr().err
    here = ["score", *many, "--output", "gs://bucket/detached", *layer]
    assert cli.main(here) == cli.BROKEN
    assert (
        f"the Dataflow job {job.job.id} of an earlier command may be at work on this output "
        in (capfd.readouterr().err)
    )
    job.kill_workers()
    before = records(cloud, "detached")
    assert job.ended.wait(LONG)
    assert (job.state, len(job.workers)) == ("DONE", 2)
    assert 0 < len(before) < MANY // SPLIT_ROWS
    assert scored(cloud, "detached")["id"].to_pylist() == list(range(MANY))
    assert set(before.values()) <= published(cloud, "detached")
    assert LEASE_FILE not in objects(cloud, "detached/")


def pages_of(part: bytes) -> bytes:
    """Return a part without its footer."""
    return part[: -8 - int.from_bytes(part[-8:-4], "little")]


def test_work_that_is_divided_while_its_worker_dies_is_neither_lost_nor_done_twice(
    cloud, layer, tmp_path, monkeypatch
):
    """The service takes the later splits of each element at work, and gives them to others."""
    monkeypatch.setattr(cloud.dataflow, "divides", True)
    table = pa.concat_tables([rows(start) for start in range(0, MANY, ROWS)])
    pq.write_table(table, tmp_path / "one.parquet")
    data = (tmp_path / "one.parquet").read_bytes()
    cloud.storage.put("bucket", "whole/one.parquet", data)
    words = ("--input", "gs://bucket/whole/*.parquet", "--output", "gs://bucket/divided", *layer)
    beam = ("--max_num_workers=1", "--no_wait_until_finish")
    assert cli.main(command(cloud, tmp_path, "score", *words, beam=beam)) == cli.DONE
    job = last_job(cloud)
    wait_until(lambda: job.log().count(DIVIDED) > 1 or job.ended.is_set(), LONG)
    before = records(cloud, "divided")
    job.kill_workers()
    assert job.ended.wait(LONG)
    assert (job.state, len(job.workers)) == ("DONE", 2), job.log()
    assert job.log().count(DIVIDED) > 3, job.log()
    assert 0 < len(before) < MANY // SPLIT_ROWS
    assert set(before.values()) <= published(cloud, "divided")
    words = ("score", "--input", str(tmp_path / "one.parquet"), "--output", str(tmp_path / "own"))
    assert cli.main([*words, *layer]) == cli.DONE
    own = {path.name: path.read_bytes() for path in tmp_path.glob("own/*/part-*.parquet")}
    found = objects(cloud, "divided/one.parquet/")
    # But for the footers, which name the version of the file.
    assert {name: pages_of(data) for name, data in found.items()} == {
        name: pages_of(data) for name, data in own.items()
    }


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_fleet_ends_with_its_command(cloud, layer, many, tmp_path, number):
    """Also if the signal comes while the job is being submitted."""
    out = f"signal-{number}"
    words = (*many, "--output", f"gs://bucket/{out}", *layer)
    words = command(cloud, tmp_path, "score", *words)
    number_of_jobs, log = len(cloud.dataflow.jobs), tmp_path / "log"
    if number == signal.SIGINT:
        cloud.faults.set(FaultRule(rate=1.0, kinds=("stall",), stall=5.0, method="POST"))
    with launched(words, log) as process:
        if number == signal.SIGINT:
            wait_until(lambda: cloud.faults.happened["stall"], LONG, process)
        else:
            wait_until(lambda: records(cloud, out), LONG, process)
        process.send_signal(number)
        assert process.wait(30) == 128 + number, log.read_text()
    cloud.faults.set(FaultRule())
    assert len(cloud.dataflow.jobs) == number_of_jobs + 1
    job = last_job(cloud)
    assert f"Cancelled the Dataflow job {job.job.id}." in log.read_text()
    assert job.ended.wait(30)
    assert (job.state, job.works) == ("CANCELLED", False)


def test_the_next_start_ends_the_job_of_a_killed_command_before_it_begins(
    cloud, layer, many, tmp_path, monkeypatch
):
    monkeypatch.setattr(cloud.dataflow, "stop", 5.0)
    words = (*many, "--output", "gs://bucket/killed", *layer)
    words, log = command(cloud, tmp_path, "score", *words), tmp_path / "log"
    with launched(words, log) as process:
        wait_until(lambda: records(cloud, "killed"), LONG, process)
        process.kill()
        process.wait()
    first = last_job(cloud)
    first.suspend()
    assert (first.state, first.works) == ("RUNNING", True)
    with launched([words[0], "--keep-job", *words[1:]], log) as process:
        assert process.wait(LONG) == cli.BROKEN, log.read_text()
    assert f"the Dataflow job {first.job.id} of an earlier command still runs" in log.read_text()
    assert first.state == "RUNNING"
    assert first.job.labels[FOLDER_LABEL] == folder_label("gs://bucket/killed")
    labels = dict(first.job.labels)
    first.job.labels = {FOLDER_LABEL: folder_label("gs://bucket/other")}
    with launched(words, log) as process:
        assert process.wait(LONG) == cli.BROKEN, log.read_text()
    assert f"the Dataflow job {first.job.id} of an earlier command runs and is not cancelled" in (
        log.read_text()
    )
    assert first.state == "RUNNING"
    first.job.labels = labels
    before = records(cloud, "killed")
    with launched(words, log) as process:
        assert process.wait(LONG) == cli.DONE, log.read_text()
    assert first.state == "CANCELLED"
    assert last_job(cloud) is not first
    assert 0 < len(before) < MANY // SPLIT_ROWS
    assert scored(cloud, "killed")["id"].to_pylist() == list(range(MANY))
    assert cloud.dataflow.most_at_once == 1
    assert LEASE_FILE not in objects(cloud, "killed/")


def lose_model(cloud, model: Path) -> None:
    shutil.rmtree(model)


def kill_worker(cloud, model: Path) -> None:
    job = last_job(cloud)
    wait_until(lambda: job.workers)
    job.kill_workers()


def cancel(cloud, model: Path) -> None:
    """As somebody does who presses the button of the console."""
    job = last_job(cloud).job
    url = f"{cloud.endpoint}/v1b3/projects/a-project/locations/us-central1/jobs/{job.id}"
    requests.put(url, json={"requestedState": "JOB_STATE_CANCELLED"}, timeout=30)


@pytest.mark.parametrize(
    ("fault", "status", "words"),
    [
        (lose_model, cli.UNUSABLE, "model 'MODEL'"),
        (kill_worker, cli.BROKEN, "JOB failed: Root cause: The worker lost contact with the "),
        (cancel, cli.BROKEN, "JOB was cancelled"),
    ],
)
def test_a_job_that_fails_is_one_line(cloud, model, tmp_path, monkeypatch, fault, status, words):
    """What it was, its id, and where to look; a traceback comes with `--debug` alone."""
    put_table(cloud, "failing/one.parquet", rows())
    monkeypatch.setattr(cloud.dataflow, "attempts", 1)
    monkeypatch.setattr(cloud.dataflow, "start", 3.0)
    folder = Path(shutil.copytree(model[1], tmp_path / "model"))
    words = words.replace("MODEL", str(folder))
    where = (
        "--input",
        "gs://bucket/failing/*.parquet",
        "--output",
        f"gs://bucket/{fault.__name__}",
    )
    flags = ("--model", str(folder), "--num-layers", "2", "--device", "cpu")
    debug = ("--debug",) if fault is cancel else ()
    jobs, log = len(cloud.dataflow.jobs), tmp_path / "log"
    with launched(command(cloud, tmp_path, "score", *where, *flags, *debug), log) as process:
        wait_until(lambda: len(cloud.dataflow.jobs) > jobs, LONG, process)
        fault(cloud, folder)
        assert process.wait(LONG) == status, log.read_text()
    said, job = log.read_text(), last_job(cloud).job.id
    (line,) = [line for line in said.splitlines() if line.startswith("bertscore-beam: ")]
    assert words.replace("JOB", f"the job stopped: the Dataflow job {job}") in line
    console = "https://console.cloud.google.com/dataflow/jobs/us-central1"
    assert f"see {console}/{job}?project=a-project" in line
    assert ("Traceback" in said) == ("ERROR" in said) == bool(debug)


def test_baselines_of_a_crawl_are_those_of_this_machine(cloud, model, tmp_path, capsys):
    """A job after the other, until there are sentences enough; the crawl comes from the web.

    All languages are paired by one of them.
    """
    crawl = make_crawl(tmp_path / "crawl")
    with web_server(crawl) as web:
        asked = baseline(f"{web.url}/", "gs://bucket/baselines", model[1])
        asked += ["--contact", "mailto:me@example.org"]
        words = command(cloud, tmp_path, *asked)
        jobs = len(cloud.dataflow.jobs)
        assert cli.main(words) == cli.DONE
    ran = list(cloud.dataflow.jobs.values())[jobs:]
    assert {job.state for job in ran} == {"DONE"}
    stages = re.findall(r"^(\w+) .* \.\.\.$", capsys.readouterr().err, re.M)
    assert len(ran) == len(stages)
    assert stages[-1] == "Scoring"
    assert stages[:-1] == ["Reading", "Pairing"] * (len(stages) // 2)
    assert run_baseline(crawl, tmp_path / "own", model[1]) == cli.DONE
    for name, own in read_tables(tmp_path / "own").items():
        assert cloud.storage.read(f"gs://bucket/baselines/{name}") == own, name


def test_tune_scores_on_dataflow_and_finds_what_this_machine_finds(cloud, model, tmp_path):
    judged = write_judgements(tmp_path / "judged.parquet")
    cloud.storage.put("bucket", "judged.parquet", judged.read_bytes())
    words = ["--models", model[1], "--score-column", "human", "--by", "language"]
    words += ["--device", "cpu"]
    where = ["--judgements", "gs://bucket/judged.parquet", "--output", "gs://bucket/tuned"]
    beam = command(cloud, tmp_path, "score")[3:]
    flags = load_yaml(str(tmp_path / "score.yaml"))["beam"]
    assert cli.main(["tune", *where, *words, beam[0], *flags, *beam[1:]]) == cli.DONE
    where = ["--judgements", str(judged), "--output", str(tmp_path / "own")]
    assert cli.main(["tune", *where, *words]) == cli.DONE
    own = (tmp_path / "own" / "agreement.csv").read_bytes()
    assert cloud.storage.read("gs://bucket/tuned/agreement.csv") == own
