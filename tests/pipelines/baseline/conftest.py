"""A small crawl, a tiny model, and one finished run of them that the tests share."""

import json
import shutil

import pytest

from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.output import DONE
from tests.support.crawls import make_crawl, read_tables, run_baseline


@pytest.fixture(scope="session")
def model(tiny_folder, tmp_path_factory):
    """Return the folder of a model that is called bert."""
    return shutil.copytree(tiny_folder("bert"), tmp_path_factory.mktemp("models") / "bert")


@pytest.fixture(scope="session")
def namesake(model, tmp_path_factory):
    """Return the folder of another model that is called bert as well."""
    folder = shutil.copytree(model, tmp_path_factory.mktemp("namesakes") / "bert")
    config = folder / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"layer_norm_eps": 0.1}))
    return folder


@pytest.fixture(scope="session")
def crawl(tmp_path_factory):
    return make_crawl(tmp_path_factory.mktemp("crawl"))


@pytest.fixture(scope="session")
def finished(tmp_path_factory, crawl, model):
    """Return the output of a finished run. Tests change copies only."""
    output = tmp_path_factory.mktemp("undisturbed") / "out"
    assert run_baseline(crawl, output, model) == DONE
    return output


@pytest.fixture(scope="session")
def tables(finished):
    """Return the files of its tables by name."""
    return read_tables(finished)


@pytest.fixture
def output(finished, tmp_path):
    """Return a copy of its folder."""
    return shutil.copytree(finished, tmp_path / "out")


@pytest.fixture
def folder(tmp_path):
    """Return an output folder."""
    return OutputFolder(str(tmp_path / "run"))
