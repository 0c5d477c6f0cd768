"""The image without Docker: an environment filled by the commands of the Dockerfile's last stage.

The command is run in it, as docker/compose.yaml does.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from bertscore_beam.cli import main as cli
from tests.support.containers import ROOT, Container, NoNetworkError, read_dockerfile, rehearse
from tests.support.dumps import write_dump
from tests.support.jobs import score_arguments, without_token

NEEDED_BYTES = 4 * 1024**3

pytestmark = pytest.mark.long


def skip(reason: str) -> NoReturn:
    """Skip, but fail where the rehearsal is required, as in continuous integration."""
    if os.environ.get("REHEARSAL") == "required":
        pytest.fail(f"the rehearsal is required: {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="module")
def container(tmp_path_factory) -> Iterator[Container]:
    """Do what a build of target cpu does, with PIP_ARGS as `make` takes it."""
    folder = tmp_path_factory.mktemp("container")
    free = shutil.disk_usage(folder).free
    if free < NEEDED_BYTES:
        skip(f"needs {NEEDED_BYTES / 1e9:.0f} GB of disk below {folder}: got {free / 1e9:.1f}")
    arguments = {"PIP_ARGS": os.environ.get("PIP_ARGS", ""), "MODELS": ""}
    try:
        yield rehearse(read_dockerfile()["cpu"], folder, arguments)
    except NoNetworkError as error:
        skip(f"pip reaches no index: {error}")
    finally:
        shutil.rmtree(folder)


def versions(lines: list[str]) -> dict[str, str]:
    pairs = (line.split("==") for line in lines if "==" in line and not line.startswith("#"))
    return {name.lower().replace("_", "-"): version for name, version in pairs}


def test_image_holds_the_versions_of_the_constraints(container):
    found = versions(container.run("python", "-m", "pip", "freeze").splitlines())
    named = versions((ROOT / "constraints.txt").read_text().splitlines())
    assert {"apache-beam", "torch", "transformers", "openvino", "s3fs", "gcsfs"} <= found.keys()
    # A build without CUDA, or with another one, says so behind a plus.
    wrong = {n: v for n, v in found.items() if n in named and v.partition("+")[0] != named[n]}
    assert not wrong


def test_image_stands_on_its_own(container):
    """No part of this environment, nor of the sources, is seen from within."""
    assert "No broken requirements found." in container.said
    assert container.run("bertscore-beam", "--version").startswith("bertscore-beam ")
    where = "import bertscore_core as a, bertscore_beam as b; print(a.__file__, b.__file__)"
    for path in container.run("python", "-c", where).split():
        assert Path(path).is_relative_to(container.packages)
    assert container.environment["HF_HUB_OFFLINE"] == "1"
    assert "PYTHONPATH" not in container.environment


def test_the_command_of_the_image_writes_the_same_parts(tmp_path, container):
    dump = write_dump(tmp_path / "dump", [200, 100, 100], row_group_size=5)
    parts = []
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        words = score_arguments(dump, tmp_path / name, "--idf", "corpus", "--split-rows", "5")
        if name == "here":
            assert cli.main(words) == cli.DONE
        else:
            container.run("bertscore-beam", *words, "--workers", "2")
        out = tmp_path / name / "out"
        found = out.glob("shard-*/part-*.parquet")
        read = {str(part.relative_to(out)): part.read_bytes() for part in found}
        parts.append({name: without_token(data) for name, data in read.items()})
    assert len(parts[0]) == 80
    assert parts[0] == parts[1]
