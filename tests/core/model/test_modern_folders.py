"""Folders and names of encoders that bert-score does not know: read, or refused with a reason."""

import json
import shutil

import numpy as np
import pytest
from tokenizers import Tokenizer
from transformers import AutoConfig, AutoTokenizer, CLIPConfig, EncoderDecoderConfig

from bertscore_core import BertScorer, ScorerConfig, errors, settle
from bertscore_core.model.resolve import resolve_model
from bertscore_core.tokenizer.tokenization import load_tokenizer
from tests.support.encoders import cache_model
from tests.support.specified import CANDIDATES, REFERENCES

pytestmark = pytest.mark.model

OWN_CODE = {"auto_map": {"AutoModel": "modeling.Model"}}


def test_untuned_model_asks_for_a_layer(tiny_folder, tmp_path, monkeypatch):
    """As for any model of the registry, the hub's cache is looked into."""
    name = "intfloat/multilingual-e5-small"
    cache_model(tiny_folder("e5_small"), name, tmp_path, monkeypatch)
    with pytest.raises(errors.ConfigError) as caught:
        settle(ScorerConfig(model=name))
    assert f"no layer has been tuned for {name}: got no num_layers; expected 0" in str(caught.value)
    assert f"--models {name} --registry layers.json --output tuned`" in str(caught.value)
    assert "--num-layers" in str(caught.value)
    assert settle(ScorerConfig(model=name, num_layers=2)).signature().num_layers == "2"
    assert settle(ScorerConfig(model=name, all_layers=True)).signature().num_layers == "all"


def test_own_code_names_the_same_model_without(changed_model, tmp_path, monkeypatch):
    name = "Alibaba-NLP/gte-multilingual-base"
    cache_model(changed_model("gte", **OWN_CODE, model_type="new"), name, tmp_path, monkeypatch)
    with pytest.raises(errors.ModelLoadError, match="alibaba-nlp-community/gte-multilingual-base"):
        settle(ScorerConfig(model=name, num_layers=1))


def test_tokenizer_json_alone_gives_its_own_ids(tiny_folder, tmp_path):
    """As some models with the pieces of XLM-R have it, without the class of a slow tokenizer."""
    folder = shutil.copytree(tiny_folder("e5_small"), tmp_path / "model")
    AutoTokenizer.from_pretrained(folder).backend_tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "sentencepiece.bpe.model").unlink()
    names = {"cls": "<s>", "sep": "</s>", "pad": "<pad>", "unk": "<unk>", "mask": "<mask>"}
    stated = {f"{name}_token": token for name, token in names.items()}
    stated |= {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 16}
    (folder / "tokenizer_config.json").write_text(json.dumps(stated))
    tokenizer = load_tokenizer(resolve_model(str(folder)))
    texts = [*CANDIDATES, *REFERENCES, "", "a  b", "x <mask> y", "\u00e9t\u00e9 \u4e2d"]
    backend = Tokenizer.from_file(str(folder / "tokenizer.json"))
    backend.enable_truncation(16)
    expected = [encoding.ids for encoding in backend.encode_batch(texts)]
    tokens = tokenizer.encode(texts)
    assert [tokens.row(row).tolist() for row in range(len(texts))] == expected
    assert tokenizer.zero_weight_ids == (0, 2)
    assert tokenizer.pad_id == 1


class TestSentenceTransformers:
    """Their folders: what is read, and what is not."""

    @pytest.fixture
    def embedded(self):
        """The real folder of a published model, with 1_Pooling and a max_seq_length of 256."""
        folder = resolve_model(None).folder
        assert json.loads((folder / "sentence_bert_config.json").read_text())["max_seq_length"]
        assert (folder / "1_Pooling" / "config.json").is_file()
        return folder

    def test_published_folder_is_scored_as_its_encoder(self, embedded):
        common = {"device": "cpu", "backend": "torch"}
        scorer = BertScorer(ScorerConfig(model=str(embedded), num_layers=6, **common))
        signature = scorer.signature()
        assert signature.max_length == "512"  # the tokenizer's, not the 256 of modules
        named = ScorerConfig(**common)
        assert settle(named).signature().weights == signature.weights
        np.testing.assert_array_equal(
            scorer.score(CANDIDATES, REFERENCES).f1,
            BertScorer(named).score(CANDIDATES, REFERENCES).f1,
        )

    def test_encoder_in_a_folder_of_its_own(self, tiny_folder, tmp_path):
        inner = shutil.copytree(tiny_folder("mpnet"), tmp_path / "0_Transformer")
        modules = [
            {"idx": 0, "path": "0_Transformer", "type": "sentence_transformers.models.Transformer"},
            {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
            {"idx": 2, "path": "2_Dense", "type": "sentence_transformers.models.Dense"},
        ]
        (tmp_path / "modules.json").write_text(json.dumps(modules))
        (tmp_path / "config.json").write_text('{"__version__": "0.3.0"}')
        files = resolve_model(str(tmp_path))
        assert (files.name, files.folder) == (tmp_path.name, inner)
        np.testing.assert_array_equal(f1_of(tmp_path), f1_of(tiny_folder("mpnet")))

    def test_table_of_vectors_has_no_layers(self, tmp_path):
        kind = "sentence_transformers.models.StaticEmbedding"
        modules = [{"idx": 0, "path": "0_StaticEmbedding", "type": kind}]
        (tmp_path / "modules.json").write_text(json.dumps(modules))
        with pytest.raises(errors.UnknownModelError, match="first module is StaticEmbedding"):
            resolve_model(str(tmp_path))


class TestRefusals:
    """What cannot work says so, with the reason and a way out."""

    @pytest.mark.parametrize("kind", ["clip", "encoder-decoder"])
    def test_several_models_in_one(self, tiny_folder, tmp_path, kind):
        folder = shutil.copytree(tiny_folder("bert"), tmp_path / "model")
        bert = AutoConfig.from_pretrained(folder)
        if kind == "clip":
            CLIPConfig().save_pretrained(folder)
        else:
            EncoderDecoderConfig.from_encoder_decoder_configs(bert, bert).save_pretrained(folder)
        with pytest.raises(
            errors.ModelLoadError, match=f"not a text encoder: got model_type '{kind}'"
        ):
            settle(ScorerConfig(model=str(folder), num_layers=1))

    def test_own_code_under_a_known_name_with_other_weights(self, changed_model):
        """As jina-embeddings-v2 has, which says that it is BERT."""
        folder = changed_model("nomic", **OWN_CODE, model_type="bert")
        with pytest.raises(errors.ModelLoadError, match=r"code of its own, .*among the weights"):
            BertScorer(ScorerConfig(model=str(folder), num_layers=1, device="cpu"))

    @pytest.mark.parametrize(
        ("stated", "message"),
        [
            ({"n_layer": 24}, "num_hidden_layers 24 in config.json; expected 3"),
            ({"n_inner": 64}, "intermediate_size 64 in config.json; expected 48"),
            ({"rotary_emb_base": 1000}, "rope_theta 1000 in config.json; expected 10000"),
        ],
    )
    def test_sizes_that_would_be_passed_over(self, changed_model, stated, message):
        """As in Nomic's files, under the names of their own code."""
        folder = changed_model("nomic", **OWN_CODE, **stated)
        with pytest.raises(errors.ModelLoadError, match=message):
            settle(ScorerConfig(model=str(folder), num_layers=1))


def f1_of(folder):
    config = ScorerConfig(model=str(folder), num_layers=2, device="cpu", backend="torch")
    return BertScorer(config).score(CANDIDATES, REFERENCES).f1
