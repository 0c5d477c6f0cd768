"""No file of an output folder decides which hosts are asked, and so where credentials go.

A listener on loopback records every connection. Files of runs name its address wherever they hold
a text or nothing; commands that do not name it themselves must not reach it.
"""

import io
import json
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.dump.plan_file import OtherPlanError, plan_from_bytes, plan_to_bytes
from bertscore_beam.files.checked import from_json, to_json
from bertscore_beam.run.lease import LEASE_FILE, JobStillRunsError
from bertscore_beam.run.remote_job import end_earlier_job
from bertscore_beam.run.runner import Runner
from bertscore_beam.score.kept_plan import PLANS_FOLDER
from bertscore_beam.score.spec import PENDING
from tests.support import jobs
from tests.support.dumps import pair_rows, write_dump
from tests.support.judgements import write_judgements

pytestmark = [pytest.mark.job, pytest.mark.process]

TABLE = "LAYER,P,R,F\n" + "".join(f"{layer},0.1,0.2,0.15\n" for layer in range(4))
REMOTE = {"--runner": "DataflowRunner", "--project": "p", "--region": "r"}


@dataclass(slots=True)
class Listener:
    """A port on loopback that takes every connection, whatever it speaks, and records it."""

    port: int
    connections: list[Any] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}"

    def answer(self, server: socket.socket) -> None:
        with suppress(OSError):  # it is closed at the end
            while True:
                connection, address = server.accept()
                # At once: who has its answer may look.
                self.connections.append(address)
                with connection, suppress(OSError):
                    connection.settimeout(1)
                    connection.recv(4096)
                    connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")


@contextmanager
def listening() -> Iterator[Listener]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        listener = Listener(server.getsockname()[1])
        thread = threading.Thread(target=listener.answer, args=(server,), daemon=True)
        thread.start()
        yield listener
        server.shutdown(socket.SHUT_RDWR)
    thread.join()


@pytest.fixture
def listener() -> Iterator[Listener]:
    with listening() as found:
        yield found


@pytest.fixture(scope="module")
def nights(tmp_path_factory, tiny_folder):
    """Two runs with idf and rescaling, and what they were made of."""
    folder = tmp_path_factory.mktemp("nights")
    rows = pa.table({**pair_rows(12), "system": ["a", "b"] * 6})
    pq.write_table(rows, folder / "in.parquet", row_group_size=4)
    samples = [[f"{text} one", f"{text} two", text] for text in rows["candidate"].to_pylist()]
    pq.write_table(pa.table({"candidate": samples}), folder / "samples.parquet")
    write_judgements(folder / "judged.parquet")
    (folder / "table.csv").write_text(TABLE)
    for night in ("one", "two"):
        jobs.run_job(
            folder / "in.parquet", output=folder / night, model=str(tiny_folder("bert")),
            num_layers=2, idf="corpus", rescale=True, baseline=str(folder / "table.csv"),
            split_rows=4, backend="torch", group_by=("system",), max_unknown_fraction=1.0,
        )  # fmt: skip
    return folder


@pytest.fixture
def own_nights(nights, tmp_path) -> Path:
    """Return a copy of them that a test may change."""
    return Path(shutil.copytree(nights, tmp_path / "nights"))


Place = tuple[str | int, ...]


def places(content: Any, above: Place = ()) -> Iterator[Place]:
    """Yield where texts and nulls are in JSON: all that could hold an address."""
    if isinstance(content, dict | list):
        items = content.items() if isinstance(content, dict) else enumerate(content)
        for name, inner in items:
            yield from places(inner, (*above, name))
        if not content:
            yield above
    elif content is None or isinstance(content, str):
        yield above


def put(content: Any, place: Place, value: object) -> None:
    for name in place[:-1]:
        content = content[name]
    content[place[-1]] = value


def forge(path: Path, chosen: Callable[[Place], bool], *values: object) -> None:
    """Put a value at the chosen places of a JSON file, with the digest that it has then."""
    content = from_json(path.read_bytes())
    for number, place in enumerate([place for place in places(content) if chosen(place)]):
        put(content, place, values[number % len(values)])
    path.write_bytes(to_json(content, indent=2))


def commands(folder: Path, model: str) -> dict[str, list[str]]:
    """Return a command for each way to read a run, or to write into the folder of one."""
    one, two, pairs = str(folder / "one"), str(folder / "two"), str(folder / "in.parquet")
    scoring = ["--model", model, "--num-layers", "2", "--device", "cpu", "--backend", "torch"]
    scoring += ["--max-unknown-fraction", "1"]
    table = ["--rescale", "--baseline", str(folder / "table.csv"), "--split-rows", "4"]
    score = ["score", "-i", pairs, *scoring, *table, "--idf", "corpus"]
    return {
        "score": [*score, "--by", "system", "-o", one],
        "reuse": [*score, "-o", str(folder / "new"), "--reuse", one],
        "latest": [*score, "-o", str(folder / "newer"), "--reuse", f"latest:{folder}/*"],
        "explain": ["explain", one, "--worst", "1", "--device", "cpu"],
        "report": [
            "report", two, "--against", one, "--key", "id", "--with-texts", "-o", f"{folder}/r.html"
        ],
        "compare": ["compare", two, one, "--key", "id", "--by", "system"],
        "groups": ["groups", one, "--by", "system"],
        "check": ["check", one, "--parts"],
        "rescale from": ["rescale", one, "--baseline", f"{folder}/table.csv", "-o", f"{folder}/r"],
        "rescale into": ["rescale", two, "--baseline", f"{folder}/table.csv", "-o", one],
        "select": ["select", str(folder / "samples.parquet"), *scoring, "-o", f"{folder}/s"],
        "tune": [
            "tune", "--judgements", str(folder / "judged.parquet"), "--models", model,
            "--score-column", "human", "--device", "cpu", "-o", f"{folder}/t"
        ],
    }  # fmt: skip


@pytest.fixture(scope="module")
def model(tiny_folder) -> str:
    return str(tiny_folder("bert"))


READERS = ("reuse", "latest", "explain", "report", "compare", "groups", "check", "rescale from")
WRITERS = ("score", "rescale into", "select", "tune")
FILES = ("_run.json", "_summary.json", "_manifest/idf.json")


def test_a_command_that_names_the_host_itself_reaches_it(own_nights, model, listener):
    """The tests below can fail."""
    words = commands(own_nights, model)["explain"]
    assert cli.main([*words, "--baseline", f"{listener.url}/table.csv"]) == cli.UNUSABLE
    assert listener.connections


@pytest.mark.parametrize("names", [FILES, ("_manifest.json",)], ids=["files", "head"])
@pytest.mark.parametrize("command", [*READERS, "score", "rescale into"])
def test_addresses_in_the_files_of_a_run_lead_nowhere(own_nights, model, listener, command, names):
    """What a run needs to be opened, and its identity, stays; all else names another host."""
    kept = {"run", "identity", "signature", "signatures", "digest", "token", "state"}
    for name in names:
        url = f"{listener.url}/{name}"
        chosen = own_nights / "one" / name
        forge(chosen, lambda place: kept.isdisjoint(place), url, f"s3://{listener.port}/x", url)
    for part in (own_nights / "one" / "in.parquet").glob("part-000000000004.parquet"):
        part.unlink()  # so that there is something to do
    cli.main(commands(own_nights, model)[command])
    assert listener.connections == []


@pytest.mark.parametrize("command", [*READERS, *WRITERS])
def test_the_service_of_an_earlier_job_is_that_of_the_command_alone(
    own_nights, model, listener, command, capsys
):
    """The lease names none. Whatever else is in the file is not read."""
    lease = {"job": "1", "until": time.time() + 60, "endpoint": listener.url, "no_auth": True}
    words = commands(own_nights, model)[command]
    for output in (own_nights / "one", *([Path(words[-1])] if command in WRITERS else [])):
        (output / LEASE_FILE).parent.mkdir(parents=True, exist_ok=True)
        (output / LEASE_FILE).write_bytes(to_json({**lease, "project": "p", "region": "r"}))
    status = cli.main(words)
    assert listener.connections == []
    assert status == (cli.BROKEN if command in WRITERS else cli.DONE)
    if command in WRITERS:
        said = capsys.readouterr().err
        assert "the Dataflow job 1 of an earlier command may be at work on this output" in said
        assert "no file decides who is asked with your credentials" in said


def test_a_command_for_dataflow_asks_its_own_service_about_the_id_alone(tmp_path):
    """That service does not know the job: it may be one of another project."""
    output = str(tmp_path)
    with listening() as own, listening() as other:
        flags = {**REMOTE, "--temp_location": "gs://bucket/tmp", "--sdk_container_image": "image"}
        flags["--dataflow_endpoint"] = own.url
        beam = (*(f"{name}={value}" for name, value in flags.items()), "--no_auth")
        runner = Runner.of(jobs.job_options(tmp_path, tmp_path, beam=beam))
        (tmp_path / LEASE_FILE).parent.mkdir()
        for job, words in {"../../1": "a damaged", "2026-1": "from the service of this"}.items():
            lease = {"job": job, "until": time.time() + 60, "endpoint": other.url}
            (tmp_path / LEASE_FILE).write_bytes(to_json(lease))
            assert own.connections == []
            with pytest.raises(JobStillRunsError, match=words):
                end_earlier_job(output, runner, print)
        assert own.connections
        assert other.connections == []


def test_a_baseline_is_not_fetched_from_where_a_run_says(own_nights, model, listener, capsys):
    path = own_nights / "one" / "_run.json"
    forge(path, lambda place: place == ("options", "baseline"), f"{listener.url}/table.csv")
    assert cli.main(commands(own_nights, model)["explain"]) == cli.UNUSABLE
    said = capsys.readouterr().err
    assert "the baseline of the run may be on another machine: got" in said
    assert "Allow it by giving it as --baseline." in said
    assert listener.connections == []


@pytest.mark.long
def test_no_value_of_a_run_makes_explain_ask_a_host(own_nights, model, listener):
    """Every text, null and empty list of `_run.json` by itself."""
    path = own_nights / "one" / "_run.json"
    whole = path.read_bytes()
    every = list(places(from_json(whole)))
    words = commands(own_nights, model)["explain"]
    statuses = []
    for place in every:
        path.write_bytes(whole)
        forge(path, lambda one, place=place: one == place, f"{listener.url}/table.csv")
        statuses.append(cli.main(words))
        assert listener.connections == [], place
    assert statuses.count(cli.DONE) > 30  # the others cannot be read, or name another host
    assert cli.UNUSABLE in statuses


def test_a_model_that_only_a_run_names_is_not_looked_for_on_the_hub(
    own_nights, model, listener, capsys, monkeypatch
):
    """The hub is asked when the command names the model: here it is the listener."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", listener.url)
    path = own_nights / "one" / "_run.json"
    forge(path, lambda place: place == ("options", "model"), "somebody/model")
    words = commands(own_nights, model)["explain"]
    assert cli.main(words) == cli.UNUSABLE
    assert "the hub is not asked for a model that only a file of the run names" in (
        capsys.readouterr().err
    )
    assert listener.connections == []
    cli.main([*words, "--model", "somebody/model"])
    assert listener.connections


def test_idf_tables_of_a_run_are_not_fetched_from_where_it_says(own_nights, model, listener):
    (own_nights / "one" / "_manifest" / "idf.npz").unlink()
    path = own_nights / "one" / "_run.json"
    words = commands(own_nights, model)["explain"]
    forge(path, lambda place: place == ("options", "idf"), f"{listener.url}/idf.npz")
    assert cli.main(words) == cli.UNUSABLE
    assert listener.connections == []
    assert cli.main([*words, "--idf", f"{listener.url}/idf.npz"]) != cli.DONE
    assert listener.connections


PLANNED = ("path", "references", "data")


def address(name: str, url: str) -> str:
    """Return what a column of a forged plan holds."""
    path = f"{url}/{name}.parquet"
    if name != "references":
        return path
    return json.dumps({"path": path, "key": "id", "digest": "", "names": ["x"], "lists": []})


def forge_plan(path: Path, name: str, url: str) -> None:
    plan = plan_from_bytes(path.read_bytes(), str(path))
    splits = tuple(replace(split, **{name: address(name, url)}) for split in plan.splits)
    path.write_bytes(plan_to_bytes(replace(plan, splits=splits)))


def test_a_plan_that_is_kept_names_no_file_to_open(own_nights, model, listener):
    shutil.rmtree(own_nights / "one")
    words = commands(own_nights, model)["score"]
    assert cli.main(words) == cli.DONE
    (kept,) = (own_nights / "one" / PLANS_FOLDER).glob("*")
    whole = kept.read_bytes()
    for name in PLANNED:
        kept.write_bytes(whole)
        forge_plan(kept, name, listener.url)
        (own_nights / "one" / "in.parquet" / "part-000000000004.parquet").unlink(missing_ok=True)
        cli.main(words)
        assert listener.connections == [], name


@pytest.mark.parametrize("name", PLANNED)
def test_workers_read_the_plan_that_their_command_wrote_alone(tmp_path, listener, name):
    """Also if somebody writes another one in its place while the run works."""
    options = jobs.job_options(write_dump(tmp_path / "dump", [20]), tmp_path / "out")
    job = jobs.start(jobs.prepare_score(options))
    (pending,) = (tmp_path / "out" / "_work").glob(f"*-{PENDING}")
    forge_plan(pending, name, listener.url)
    with pytest.raises(Exception, match="is not the plan of this run") as raised:
        jobs.run_prepared(job)
    assert OtherPlanError.__name__ in repr(raised.value)
    assert listener.connections == []


def delta_table(folder: Path, **added: object) -> Path:
    """Write a Delta table of one file, whose log says more of it, or something else."""
    deltalake = pytest.importorskip("deltalake")
    deltalake.write_deltalake(str(folder), pa.table(pair_rows(5)))
    (log,) = (folder / "_delta_log").glob("*.json")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "add" in line:
            line["add"] |= added
        if "protocol" in line and "deletionVector" in added:
            line["protocol"] |= {
                "minReaderVersion": 3, "minWriterVersion": 7,
                "readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"],
            }  # fmt: skip
    log.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return folder


def vector(url: str) -> dict[str, object]:
    place = {"storageType": "p", "pathOrInlineDv": f"{url}/vector.bin", "offset": 1}
    return {**place, "sizeInBytes": 40, "cardinality": 1}


@pytest.mark.parametrize(
    "added",
    [
        lambda url: {"path": f"{url}/one.parquet"},
        lambda url: {"path": f"{url}/one.parquet".replace(":", "%3A")},
        lambda url: {"path": f"//{url.removeprefix('http://')}/one.parquet"},
        lambda url: {"deletionVector": vector(url)},
    ],
    ids=["address", "encoded", "no scheme", "deletion vector"],
)
def test_the_log_of_a_table_leads_to_no_other_host(tmp_path, listener, capsys, added):
    table = delta_table(tmp_path / "table", **added(listener.url))
    words = ["score", "-i", str(table), "-o", str(tmp_path / "out"), "--device", "cpu"]
    assert cli.main(words) != cli.DONE
    assert "the Delta table" in capsys.readouterr().err
    assert listener.connections == []


def test_a_checkpoint_of_a_table_leads_to_no_other_host(tmp_path, listener):
    table = delta_table(tmp_path / "table")
    deltalake = pytest.importorskip("deltalake")
    deltalake.DeltaTable(str(table)).create_checkpoint()
    (path,) = (table / "_delta_log").glob("*.checkpoint.parquet")
    rows = pq.read_table(path)
    adds = [
        add and {**add, "path": f"{listener.url}/one.parquet"} for add in rows["add"].to_pylist()
    ]
    place = rows.column_names.index("add")
    rows = rows.set_column(place, rows.schema.field("add"), pa.array(adds, rows["add"].type))
    sink = io.BytesIO()
    pq.write_table(rows, sink)
    path.write_bytes(sink.getvalue())
    words = ["score", "-i", str(table), "-o", str(tmp_path / "out"), "--device", "cpu"]
    assert cli.main(words) != cli.DONE
    assert listener.connections == []
