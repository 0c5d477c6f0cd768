"""Scorers and models that tests of the core make."""

import json
import multiprocessing
import shutil
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import pytest
from safetensors.numpy import load_file, save_file

from bertscore_core import BertScorer, ScorerConfig
from tests.conftest import TORCH_DEVICES


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


@pytest.fixture(scope="session", params=TORCH_DEVICES)
def triton_device(request) -> str:
    """Return where Triton's kernels run: interpreted on the CPU, compiled on the GPU."""
    return request.param


@pytest.fixture(scope="session")
def triton_process(triton_device) -> Iterator[ProcessPoolExecutor]:
    """Return a process that runs kernels, since Triton decides at its import if it interprets."""
    with (
        pytest.MonkeyPatch.context() as patch,
        ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as processes,
    ):
        patch.setenv("TRITON_INTERPRET", "1" if triton_device == "cpu" else "0")
        processes.submit(int).result()  # it starts here, and takes this environment along
        patch.undo()
        yield processes
