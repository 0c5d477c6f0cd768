"""Jobs over listings that end before the folder does: no row and no file is lost."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.files import listing
from tests.support.cut_off_store import CutOffStore, cut_off_store
from tests.support.dumps import write_dump
from tests.support.jobs import job_options, prepare_score, run_prepared, start

pytestmark = [pytest.mark.job, pytest.mark.model]

COMMANDS = {
    "score": ("score", "--input", "gs://bucket/in", "--idf", "corpus"),
    "idf": ("idf", "--input", "gs://bucket/in/*.parquet", "--model", "{model}"),
    "tune": ("tune", "--judgements", "gs://bucket/in", "--score-column", "id"),
    "baseline": ("baseline", "--sentences", "en=gs://bucket/in", "--models", "all-MiniLM-L6-v2"),
    "pages": ("baseline", "--wet", "gs://bucket/in/*", "--models", "{model}", "--languages", "en"),
}


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    return write_dump(tmp_path / "dump", [4, 4, 4])


@pytest.fixture
def store() -> Iterator[CutOffStore]:
    with cut_off_store() as found:
        yield found


@pytest.fixture(scope="module")
def model(tiny_folder) -> dict[str, Any]:
    return {"model": str(tiny_folder("bert")), "num_layers": 2}


def flags_of(model: dict[str, Any]) -> list[str]:
    return ["--model", model["model"], "--num-layers", str(model["num_layers"]), "--device", "cpu"]


def run(*words: object) -> int:
    return cli.main([str(word) for word in words])


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_ends_if_its_input_is_cut_off(
    name, dump, store, model, tmp_path, capsys, monkeypatch
):
    for path in dump.iterdir():
        store.pipe_file(f"bucket/in/{path.name}", path.read_bytes())
    monkeypatch.setattr(listing, "GCSFS_STOPS_AT", 2)
    words = [word.format(**model) for word in COMMANDS[name]]
    assert run(*words, "--output", tmp_path / "out") == cli.UNUSABLE
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith(
        "bertscore-beam: the listing of 'gs://bucket/in' may be cut off: got 2 names"
    )
    assert not (tmp_path / "out").exists()


def test_an_output_folder_that_is_cut_off_loses_nothing(dump, store, model, capsys, monkeypatch):
    words = ("score", "--output", "gs://bucket/out", "--input", dump, *flags_of(model))
    assert run(*words, "--split-rows", 2) == cli.DONE
    before = dict(store.objects)
    capsys.readouterr()
    for most in (3, len(before) - 1, len(before)):
        monkeypatch.setattr(listing, "GCSFS_STOPS_AT", most)
        for more in ((), ("--overwrite",), ("--dry-run",), ("--split-rows", 4)):
            assert run(*words, *more) == cli.UNUSABLE
            assert "'gs://bucket/out' may be cut off" in capsys.readouterr().err
        assert run("report", "gs://bucket/out") == cli.UNUSABLE
        assert "'gs://bucket/out' may be cut off" in capsys.readouterr().err
        assert store.objects == before
    monkeypatch.undo()
    assert run(*words, "--split-rows", 2) == cli.DONE
    assert summary_of(store)["parts_of_earlier_runs"] == 6


def summary_of(store: CutOffStore) -> dict:
    return json.loads(store.objects["out/_summary.json"])


def test_a_folder_that_is_cut_off_at_the_end_of_a_run_is_no_success(
    dump, store, model, monkeypatch
):
    options = job_options(dump, "gs://bucket/out", **model)
    job = start(prepare_score(options))
    monkeypatch.setattr(listing, "GCSFS_STOPS_AT", 5)
    with pytest.raises(Exception, match=r"'gs://bucket/out.*' may be cut off: got 5 names"):
        run_prepared(job)
    parts = [name for name in store.objects if name.endswith(".parquet")]
    records = [name for name in store.objects if name.startswith("out/_manifest/parts/")]
    assert len(parts) == len(records) == 3
    assert "out/_SUCCESS" not in store.objects
    assert "out/_summary.json" not in store.objects
    monkeypatch.undo()
    summary = run_prepared(start(prepare_score(options)))
    assert (summary["rows"], summary["parts_of_earlier_runs"], summary["success"]) == (12, 3, True)
