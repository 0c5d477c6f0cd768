"""Places that cannot be reached: one message, the right status, and nothing begun."""

import fsspec
import pytest

from bertscore_beam.cli import main as cli
from tests.support.dumps import write_dump
from tests.support.faults import FaultRule
from tests.support.s3 import s3_bucket

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
    assert line.startswith(f"bertscore-beam: {name.partition(' ')[0]} 's3://bucket/")
    assert "expected credentials. Set AWS_PROFILE" in line
    assert not (tmp_path / "out").exists()


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
    assert "input 'hf://datasets/a/b' cannot be reached" in line
    assert "HF_HUB_OFFLINE" in line


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
