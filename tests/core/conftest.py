"""Scorers and models that tests of the core make."""

import json
import shutil

import pytest
from safetensors.numpy import load_file, save_file

from bertscore_core import BertScorer, ScorerConfig


def write_table(path, layers=7):
    """Write a baseline of so many layers, all of the same values."""
    path.parent.mkdir(exist_ok=True)
    rows = "".join(f"{layer},0.1,0.1,0.1\n" for layer in range(layers))
    path.write_text(f"LAYER,P,R,F\n{rows}")
    return path


@pytest.fixture(scope="session")
def tiny_scorer(tiny_folder):
    """Make a scorer with a tiny model on the CPU; what is not said is as tests mostly want it."""

    def make(family="bert", *, queue=None, **changes):
        config = {"num_layers": 1, "max_length": 32, "device": "cpu", **changes}
        return BertScorer(ScorerConfig(model=str(tiny_folder(family)), **config), queue=queue)

    return make


@pytest.fixture
def changed_model(tiny_folder, tmp_path):
    """Copy a tiny model with other values in its configuration, or its weights changed."""

    def make(family, *, weights=None, **config):
        folder = shutil.copytree(tiny_folder(family), tmp_path / "model")
        stated = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(stated | config))
        if weights is not None:
            changed = weights(load_file(folder / "model.safetensors"))
            save_file(changed, folder / "model.safetensors", metadata={"format": "pt"})
        return folder

    return make
