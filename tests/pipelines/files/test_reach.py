"""Places that cannot be reached: one message, the right status, and nothing begun."""

import pickle
import re

import fsspec
import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.files.reach import RefusedError, UnreachedError, before_work
from bertscore_beam.files.read import exists, is_file, open_source, read_if_there
from bertscore_beam.files.versions import NOT_THERE, delete_version, replace_version
from bertscore_beam.files.write import write_atomically
from bertscore_beam.run.loading import STORED_TABLES
from bertscore_core import ConfigError
from bertscore_core.baseline import read_baseline
from tests.support.cloud_storage import gcs_bucket
from tests.support.dumps import write_dump
from tests.support.faults import FaultRule
from tests.support.s3 import s3_bucket
from tests.support.web import web_server

CLOSED = "http://127.0.0.1:1"
"""Nothing listens there."""

BASELINE = ("baseline", "--models", "all-MiniLM-L6-v2", "--pairs", "2")


@pytest.fixture(autouse=True)
def nobody(tmp_path, monkeypatch):
    """Leave no credentials to find, and no file system that was made with some."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_ENDPOINT_URL", CLOSED)
    clear = fsspec.get_filesystem_class("s3").clear_instance_cache
    clear()
    yield
    clear()


@pytest.fixture
def places(tmp_path):
    sentences = tmp_path / "en.txt"
    sentences.write_text("one sentence\nanother sentence\n")
    return {
        "dump": str(write_dump(tmp_path / "dump", [5])),
        "out": str(tmp_path / "out"),
        "sentences": f"en={sentences}",
    }


COMMANDS = {
    "input": ("score", "--input", "s3://bucket/x", "--output", "{out}"),
    "output": ("score", "--input", "{dump}", "--output", "s3://bucket/x"),
    "idf": ("score", "--input", "{dump}", "--output", "{out}", "--idf", "s3://bucket/i.npz"),
    "baseline": (
        *("score", "--input", "{dump}", "--output", "{out}", "--rescale"),
        *("--baseline", "s3://bucket/b.tsv"),
    ),
    "config": ("score", "--config", "s3://bucket/c.yaml"),
    "input of idf": ("idf", "--input", "s3://bucket/x", "--output", "{out}/table.npz"),
    "output of idf": ("idf", "--input", "{dump}", "--output", "s3://bucket/table.npz"),
    "sentences": (*BASELINE, "--sentences", "en=s3://bucket/x.txt", "--output", "{out}"),
    "wet": (*BASELINE, "--wet", "s3://bucket/x", "--languages", "en", "--output", "{out}"),
    "output of baseline": (*BASELINE, "--sentences", "{sentences}", "--output", "s3://bucket/b"),
}
ANSWERS = (
    ("groups", "s3://bucket/run", "--by", "x"),
    ("check", "s3://bucket/run"),
    ("compare", "s3://bucket/run", "s3://bucket/other"),
    ("explain", "s3://bucket/run", "--row", "0"),
    ("explain", "--candidate", "a", "--reference", "b", "--idf", "s3://bucket/i.npz"),
    ("report", "s3://bucket/run", "--output", "{out}.html"),
)


def end(words, places, capsys, *more):
    """Run a command that cannot begin; return what it says, but for the choice of the model."""
    status = cli.main([word.format(**places) for word in (*words, *more)])
    said = capsys.readouterr().err.splitlines()
    return status, [line for line in said if not line.startswith("No model and no language")]


@pytest.fixture
def refused(places, capsys, caplog):
    """Return what runs a command that is refused with status 2, and returns its one message."""

    def line_of(words, *more):
        status, (line,) = end(words, places, capsys, *more)
        assert status == cli.UNUSABLE
        assert not caplog.records
        return line

    return line_of


@pytest.mark.parametrize("more", [(), ("--dry-run",)], ids=["run", "dry run"])
@pytest.mark.parametrize("name", COMMANDS)
def test_missing_credentials_are_one_message_with_status_2(name, more, refused, tmp_path):
    line = refused(COMMANDS[name], *more)
    assert re.match("bertscore-beam: 's3://bucket['/]", line)
    assert "expected credentials. Set AWS_PROFILE" in line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("words", ANSWERS, ids=" ".join)
def test_commands_that_run_no_job_say_so_in_the_same_way(words, refused):
    line = refused(words)
    assert line.startswith("bertscore-beam: 's3://bucket/")
    assert "expected credentials. Set AWS_PROFILE" in line


@pytest.mark.parametrize("name", ["input", "output", "idf", "output of idf"])
def test_a_store_that_nobody_answers_for_is_one_message_with_status_2(name, refused, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    line = refused(COMMANDS[name])
    assert "expected a connection. Check the network, and AWS_ENDPOINT_URL" in line
    assert "hunter2" not in line


def test_the_hub_without_a_network_is_one_message_with_status_2(refused):
    line = refused(("score", "--input", "hf://datasets/a/b", "--output", "{out}"))
    assert "bertscore-beam: 'hf://datasets/a/b' cannot be reached" in line
    assert "HF_HUB_OFFLINE" in line


@pytest.mark.parametrize("name", ["input", "idf", "baseline", "config"])
def test_a_web_server_that_is_not_there_is_named_by_its_host(name, refused):
    """And not in the words of objects of the client."""
    words = [word.replace("s3://bucket", CLOSED) for word in COMMANDS[name]]
    line = refused(words)
    assert line.startswith(f"bertscore-beam: '{CLOSED}/")
    assert "got no connection to 127.0.0.1:1 (ClientConnectorError); expected a connect" in line


@pytest.mark.process
@pytest.mark.parametrize("store", [s3_bucket, gcs_bucket])
def test_what_a_refusal_means_depends_on_the_moment(store):
    """Before the work it is a mistake of the command; in the middle an error of the place."""
    faults = []
    with store(faults) as bucket:
        path = f"{bucket}/a"
        write_atomically(path, b"one")
        faults[0].set(FaultRule(rate=1.0, kinds=("403",)))
        said = f"'{path}' cannot .*credentials. (Set|Run)"
        with pytest.raises(RefusedError, match=said) as caught:
            read_if_there(path)
        assert isinstance(caught.value, PermissionError)
        with pytest.raises(ConfigError, match=said), before_work():
            read_if_there(path)
        with pytest.raises(RefusedError), before_work(lambda: False):
            read_if_there(path)


@pytest.mark.process
def test_what_a_store_says_of_a_file_is_no_error_of_the_store():
    with s3_bucket() as bucket:
        path = f"{bucket}/a"
        assert read_if_there(path) is None
        assert replace_version(path, b"one", NOT_THERE)
        assert not replace_version(path, b"two", "another version")
        delete_version(path, "another version")
        assert read_if_there(path) == b"one"


@pytest.mark.process
def test_what_a_store_cannot_tell_just_now_is_not_said_to_be_missing(monkeypatch):
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    faults = []
    with s3_bucket(faults) as bucket:
        path = f"{bucket}/a"
        assert not exists(path)
        assert not is_file(path)
        write_atomically(path, b"one")
        assert exists(path)
        assert is_file(path)
        assert exists(bucket)
        assert not is_file(bucket)
        faults[0].set(FaultRule(rate=1.0, kinds=("500",)))
        for ask in (exists, is_file):
            with pytest.raises(UnreachedError, match=path):
                ask(path)
        faults[0].set(FaultRule(rate=1.0, kinds=("403",)))
        assert not is_file(path)
    with web_server({"/a": b"one", "/b": b"two"}, {"/b": ["503"] * 2}) as web:
        assert exists(f"{web.url}/a")
        assert not exists(f"{web.url}/c")
        with pytest.raises(UnreachedError, match="status 503"):
            exists(f"{web.url}/b")


@pytest.mark.process
def test_an_input_that_a_web_server_refuses_is_one_message_with_status_2(refused):
    with web_server({"/a.csv": b"x"}, {"/a.csv": ["403"] * 9}) as web:
        line = refused(("score", "--input", f"{web.url}/a.csv", "--output", "{out}"))
    assert "/a.csv' cannot be reached: got status 403" in line


TABLE = b"LAYER,P,R,F\n0,0.1,0.1,0.1\n"


@pytest.mark.process
@pytest.mark.parametrize("answer", ["403", "404"])
def test_a_description_that_a_server_refuses_is_none(answer):
    """A store that one may not list says 403 of what is not there."""
    with web_server({"/t.tsv": TABLE, "/t.json": b"{}"}, {"/t.json": [answer] * 2}) as web:
        read = read_baseline(f"{web.url}/t.tsv", None, str, idf=False, files=STORED_TABLES)
    assert (len(read.rows), read.made_with) == (1, None)


@pytest.mark.process
@pytest.mark.parametrize("path", ["/t.tsv", "/t.json"])
def test_a_baseline_that_cannot_be_read_just_now_is_not_said_to_be_no_table(path):
    faults = {path: ["ok", "503"] if path == "/t.tsv" else ["503"]}
    with (
        web_server({"/t.tsv": TABLE, "/t.json": b"{}"}, faults) as web,
        pytest.raises(UnreachedError, match=f"{path}' cannot be reached: got status 503"),
    ):
        read_baseline(f"{web.url}/t.tsv", None, str, idf=False, files=STORED_TABLES)


@pytest.mark.process
def test_an_open_file_whose_store_is_gone_names_its_path(monkeypatch):
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with s3_bucket() as bucket:
        path = f"{bucket}/a"
        write_atomically(path, bytes(5_000))
        source = open_source(path)
    with pytest.raises(UnreachedError, match=f"'{path}' cannot be reached: got ") as caught:
        source.read()
    arrived = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own
    assert (type(arrived), str(arrived)) == (UnreachedError, str(caught.value))
    assert arrived.lacks_setting
    assert arrived.got in str(arrived)


@pytest.mark.process
def test_a_store_that_fails_just_now_may_be_asked_again(places, tmp_path, capsys, monkeypatch):
    """It answers, so nothing is missing: status 1, and still no word of work that was begun."""
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")  # botocore would retry each of s3fs's own retries
    faults = []
    with s3_bucket(faults) as bucket:
        faults[0].set(FaultRule(rate=1.0, kinds=("500",)))
        words = ("score", "--input", f"{bucket}/\x1b[31mx.parquet", "--output", "{out}")
        status, said = end(words, places, capsys)
    assert status == cli.BROKEN
    assert "\x1b" not in "".join(said)
    assert "Nothing was started. Run the same command again" in said[-1]
    assert "committed" not in "".join(said)
    assert not (tmp_path / "out").exists()
