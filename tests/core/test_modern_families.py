"""Encoders that bert-score does not know, against transformers itself.

Expected vectors come from the whole encoder of transformers, which reads one text at a time without
any padding; expected scores are computed from them in plain steps.
"""

import json
import logging
import shutil
from functools import cache

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer
from torch import nn
from transformers import AutoConfig, AutoTokenizer, CLIPConfig, EncoderDecoderConfig

from bertscore_core import (
    BertScorer,
    ConfigError,
    ModelLoadError,
    ScorerConfig,
    UnknownModelError,
    settle,
)
from bertscore_core.architectures import has_local_layers, reads_left_to_right
from bertscore_core.encoder import _CONVERTED, EncoderOptions
from bertscore_core.resolve import resolve_model
from bertscore_core.tokenization import load_tokenizer
from tests.support.cached_models import cache_model
from tests.support.encoders import shared_encoder
from tests.support.modern_families import MODERN_BUILDERS
from tests.support.plain_matching import greedy_match_pair
from tests.support.plain_windows import load_plain, plain_states, plain_vectors
from tests.support.tiny_families import FAMILY_BUILDERS, LAYERS
from tests.support.tolerances import INVARIANCE_ATOL, PARITY_ATOL

pytestmark = pytest.mark.model

FAMILIES = list(MODERN_BUILDERS)
FINAL_NORM = {"modernbert": "final_norm", "eurobert": "norm", "gemma": "norm", "qwen3": "norm"}
"""The norm behind the last layer, which the encoder cut at a layer applies to its states."""

ADDED = {"eurobert": (1, 1), "gemma": (1, 1), "qwen3": (0, 1)}
"""Tokens put before and after a text. (1, 1) for the others, whose names are [CLS] and [SEP]."""

# Of 3 to 40 tokens, so that padding is longer than the windows of local attention.
LENGTHS = (3, 40, 17, 9)
CANDIDATES = [
    "The old harbour slept under a thin grey fog.",
    "rain",
    "Nobody knows who rang the bell at noon, but it was heard in New York and in Rome.",
]
REFERENCES = [
    "Under a grey fog the harbour slept.",
    "A cat on the warm roof watched the rivers bend around old stones.",
    "Who rang the bell?",
]


@pytest.fixture(scope="module")
def plain(tiny_folder):
    """Load the whole encoder of a family, straight from transformers."""
    return cache(lambda family: load_plain(tiny_folder(family), family))


def unit(vectors):
    return nn.functional.normalize(vectors, dim=-1)


def rows_of_ids():
    random = torch.Generator().manual_seed(1)
    return [torch.randint(5, 60, (length,), generator=random).tolist() for length in LENGTHS]


def found(files, rows, backend="torch", **changes):
    """Encode rows of ids in one padded batch. One (layers, tokens, H) for each row."""
    options = EncoderOptions(device="cpu", backend=backend, max_length=max(LENGTHS), **changes)
    encoder = shared_encoder(files, options)
    ids = torch.zeros((len(rows), max(LENGTHS)), dtype=torch.int64)
    for place, row in enumerate(rows):
        ids[place, : len(row)] = torch.tensor(row)
    hidden = unit(encoder.encode(ids, torch.tensor(LENGTHS)))
    return [hidden[:, place, : len(row)] for place, row in enumerate(rows)]


def assert_near(actual, expected, atol):
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), atol=atol, rtol=0)


@torch.inference_mode()
def as_cut(model, family, states):
    """Apply to the states of layers below the last what a cut encoder does to its last."""
    if family not in FINAL_NORM:
        return states
    norm = model.get_submodule(FINAL_NORM[family])
    return torch.cat([norm(states[:-1]), states[-1:]])


def some_first(*first, families=FAMILIES):
    """Parametrize by family; those that are not named are among the long tests."""
    others = [family for family in families if family not in first]
    later = [pytest.param(family, marks=pytest.mark.long) for family in others]
    return pytest.mark.parametrize("family", [*first, *later])


@pytest.mark.parametrize("family", FAMILIES)
def test_states_of_a_padded_batch_are_transformers_own(tiny_folder, plain, family):
    files, model = resolve_model(str(tiny_folder(family))), plain(family)
    rows = rows_of_ids()
    states = [plain_states(model, row) for row in rows]
    every = found(files, rows, num_layers=LAYERS, all_layers=True)
    assert_near(every, map(unit, states), 2 * INVARIANCE_ATOL)
    expected = [unit(as_cut(model, family, state)) for state in states]
    cut = {"all_layers": True, "layer_semantics": "cut"}
    assert_near(found(files, rows, num_layers=LAYERS, **cut), expected, 2 * INVARIANCE_ATOL)
    for layer in (0, 1, LAYERS):
        alone = found(files, rows, num_layers=layer)
        assert_near(alone, [row[layer : layer + 1] for row in expected], 2 * INVARIANCE_ATOL)


@some_first("modernbert")
def test_eager_attention_gives_the_same(tiny_folder, plain, family):
    files, model = resolve_model(str(tiny_folder(family))), plain(family)
    rows = rows_of_ids()
    states = [plain_states(model, row)[LAYERS:] for row in rows]
    eager = found(files, rows, num_layers=LAYERS, attention="eager")
    assert_near(eager, map(unit, states), 2 * INVARIANCE_ATOL)


@pytest.mark.parametrize("family", FAMILIES)
def test_scores_are_those_of_plain_steps(tiny_folder, plain, family):
    folder = tiny_folder(family)
    config = {"model": str(folder), "device": "cpu", "backend": "torch"}
    scorer = BertScorer(ScorerConfig(**config, num_layers=2))
    scores = scorer.score(CANDIDATES, REFERENCES)
    raw = AutoTokenizer.from_pretrained(folder)
    ends = {raw.cls_token_id, raw.sep_token_id} - {None}
    model = plain(family)
    for row, pair in enumerate(zip(CANDIDATES, REFERENCES, strict=True)):
        # No prompt such as "query: ": the text alone, between the tokenizer's own marks.
        ids = [raw(text, truncation=True)["input_ids"] for text in pair]
        vectors = [unit(as_cut(model, family, plain_states(model, one))[2]) for one in ids]
        weights = [torch.tensor([float(token not in ends) for token in one]) for one in ids]
        expected = greedy_match_pair(*vectors, *weights)
        actual = scores.precision[row], scores.recall[row], scores.f1[row]
        parts = expected.precision, expected.recall, expected.f1
        np.testing.assert_allclose(actual, torch.cat(parts), atol=INVARIANCE_ATOL, rtol=0)


@some_first("modernbert", "gte", "gemma")
def test_openvino_gives_the_same_or_refuses_by_name(tiny_folder, family):
    files = resolve_model(str(tiny_folder(family)))
    rows = rows_of_ids()
    if family == "gemma":
        with pytest.raises(ModelLoadError, match=r"Gemma3TextModel cannot .*--backend torch"):
            found(files, rows, "openvino", num_layers=LAYERS)
        return
    assert (files.model_type in _CONVERTED) == (family != "qwen3")
    expected = found(files, rows, num_layers=LAYERS)
    assert_near(found(files, rows, "openvino", num_layers=LAYERS), expected, PARITY_ATOL)


def test_openvino_is_compared_where_padding_sees_no_token(tmp_path, tiny_folder):
    """Attention that masks with infinity gives NaN there, and spreads it."""
    folder = shutil.copytree(tiny_folder("modernbert"), tmp_path / "wide")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"local_attention": 128}))
    files = resolve_model(str(folder))
    rows = [[7] * length for length in LENGTHS]
    options = {"num_layers": LAYERS, "attention": "sdpa"}
    with pytest.raises(ModelLoadError, match="ModernBertModel computes something else on OpenVINO"):
        shared_encoder(
            files, EncoderOptions(device="cpu", backend="openvino", max_length=300, **options)
        )
    assert_near(found(files, rows, "openvino", **options), found(files, rows, **options), 1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_special_tokens_around_a_text(tiny_folder, plain, family):
    """They decide the windows of long texts, and what an empty text is."""
    folder, (before, after) = tiny_folder(family), ADDED.get(family, (1, 1))
    tokenizer = load_tokenizer(resolve_model(str(folder)), max_length=12, in_windows=True)
    assert (tokenizer.windows.leading, tokenizer.windows.trailing) == (before, after)
    assert len(tokenizer.empty_ids) == before + after
    assert len(tokenizer.zero_weight_ids) == (0 if family in ADDED else 2)
    config = {"model": str(folder), "num_layers": 2, "max_length": 12, "long_text": "windows"}
    scorer = BertScorer(ScorerConfig(**config, device="cpu", backend="torch"))
    text = CANDIDATES[2]
    score = scorer.score([text], [REFERENCES[1]])
    vectors, weights = [], []
    for one in (text, REFERENCES[1]):
        ids = tokenizer.encode([one]).row(0).tolist()
        states = plain_vectors(plain(family), ids, length=12, leading=before, trailing=after)
        vectors.append(unit(as_cut(plain(family), family, states)[2]))
        weights.append(torch.tensor([float(i not in tokenizer.zero_weight_ids) for i in ids]))
    expected = greedy_match_pair(*vectors, *weights)
    np.testing.assert_allclose(score.f1, expected.f1, atol=INVARIANCE_ATOL, rtol=0)


@some_first("modernbert", "eurobert")
def test_short_formats_stay_near_float32(tiny_folder, family):
    files = resolve_model(str(tiny_folder(family)))
    rows = rows_of_ids()
    exact = found(files, rows, num_layers=LAYERS)
    assert_near(found(files, rows, num_layers=LAYERS, dtype="bfloat16"), exact, 0.05)


# Not led and longformer, whose windows ask for a least length.
@some_first(*FAMILIES, families=sorted(set(FAMILY_BUILDERS) - {"led", "longformer"}))
def test_left_to_right_is_told_from_the_configuration(tiny_folder, family):
    """The model itself is asked: does a later token change the vector of an earlier one?"""
    folder = tiny_folder(family)
    model = load_plain(folder, family if family != "mt5" else "t5")
    first, second = (plain_states(model, [7, 8, 9, last])[-1, 0] for last in (10, 11))
    is_blind = bool(torch.equal(first, second))
    assert reads_left_to_right(AutoConfig.from_pretrained(folder)) == is_blind
    assert is_blind == (family == "qwen3")


def test_left_to_right_is_said_once(tiny_folder, tmp_path, caplog):
    folder = shutil.copytree(tiny_folder("qwen3"), tmp_path / "some-decoder")
    config = ScorerConfig(model=str(folder), num_layers=2)
    with caplog.at_level(logging.WARNING, "bertscore_core"):
        settle(config)
        settle(config)
    (record,) = caplog.records
    assert "some-decoder reads texts from left to right" in record.getMessage()


def test_local_layers_are_known(tiny_folder):
    for family in ("modernbert", "eurobert"):
        config = AutoConfig.from_pretrained(tiny_folder(family))
        assert has_local_layers(config) == (family == "modernbert")


def test_rotary_positions_take_any_length(tiny_folder):
    for family in FAMILIES:
        ends = family in ("e5_small", "labse")
        config = ScorerConfig(
            model=str(tiny_folder(family)), num_layers=1, max_length="unlimited", backend="torch"
        )
        if ends:
            with pytest.raises(ConfigError, match="max_length unlimited cannot be used"):
                settle(config)
        else:
            length = BertScorer(config).tokenizer.encode(["old stones " * 5000]).lengths
            assert length > 8194
            assert np.isfinite(BertScorer(config).score(["rain " * 100], ["rain"]).f1).all()


def test_untuned_model_asks_for_a_layer(tiny_folder, tmp_path, monkeypatch):
    """As for any model of the registry, the hub's cache is looked into."""
    name = "intfloat/multilingual-e5-small"
    cache_model(tiny_folder("e5_small"), name, tmp_path, monkeypatch)
    with pytest.raises(ConfigError) as caught:
        settle(ScorerConfig(model=name))
    assert f"no layer has been tuned for {name}: got no num_layers; expected 0" in str(caught.value)
    assert "--num-layers" in str(caught.value)
    assert settle(ScorerConfig(model=name, num_layers=2)).signature().num_layers == "2"
    assert settle(ScorerConfig(model=name, all_layers=True)).signature().num_layers == "all"


def test_own_code_names_the_same_model_without(tiny_folder, tmp_path, monkeypatch):
    name = "Alibaba-NLP/gte-multilingual-base"
    folder = cache_model(tiny_folder("gte"), name, tmp_path, monkeypatch)
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "new", "auto_map": {"AutoModel": "modeling.NewModel"}}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelLoadError, match="alibaba-nlp-community/gte-multilingual-base"):
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
        config = {"num_layers": 2, "device": "cpu", "backend": "torch"}
        scores, expected = (
            BertScorer(ScorerConfig(model=str(folder), **config)).score(CANDIDATES, REFERENCES)
            for folder in (tmp_path, tiny_folder("mpnet"))
        )
        np.testing.assert_array_equal(scores.f1, expected.f1)

    def test_table_of_vectors_has_no_layers(self, tmp_path):
        kind = "sentence_transformers.models.StaticEmbedding"
        modules = [{"idx": 0, "path": "0_StaticEmbedding", "type": kind}]
        (tmp_path / "modules.json").write_text(json.dumps(modules))
        with pytest.raises(UnknownModelError, match="first module is StaticEmbedding"):
            resolve_model(str(tmp_path))

    def test_their_length_is_suggested_where_the_tokenizer_has_none(self, tiny_folder, tmp_path):
        folder = shutil.copytree(tiny_folder("mt5"), tmp_path / "model")
        (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 256}')
        with pytest.raises(ConfigError, match=r"Give --max-length 256 to cut texts there"):
            settle(ScorerConfig(model=str(folder), num_layers=1))


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
        with pytest.raises(ModelLoadError, match=f"no text encoder: got model_type '{kind}'"):
            settle(ScorerConfig(model=str(folder), num_layers=1))

    def test_own_code_under_an_unknown_name(self, tiny_folder, tmp_path):
        folder = self._changed(tiny_folder("gte"), tmp_path, model_type="new")
        with pytest.raises(ModelLoadError, match=r"code of its own, .*got model_type 'new'"):
            settle(ScorerConfig(model=str(folder), num_layers=1))

    def test_own_code_under_a_known_name_with_other_weights(self, tiny_folder, tmp_path):
        """As jina-embeddings-v2 has, which says that it is BERT."""
        folder = self._changed(tiny_folder("nomic"), tmp_path, model_type="bert")
        with pytest.raises(ModelLoadError, match=r"code of its own, .*among the weights"):
            BertScorer(ScorerConfig(model=str(folder), num_layers=1, device="cpu"))

    @pytest.mark.parametrize(
        ("stated", "message"),
        [
            ({"n_layer": 24}, "num_hidden_layers 24 in config.json; expected 3"),
            ({"n_inner": 64}, "intermediate_size 64 in config.json; expected 48"),
            ({"rotary_emb_base": 1000}, "rope_theta 1000 in config.json; expected 10000"),
        ],
    )
    def test_sizes_that_would_be_passed_over(self, tiny_folder, tmp_path, stated, message):
        """As in Nomic's files, under the names of their own code."""
        folder = self._changed(tiny_folder("nomic"), tmp_path, **stated)
        with pytest.raises(ModelLoadError, match=message):
            settle(ScorerConfig(model=str(folder), num_layers=1))

    def test_sizes_that_agree_are_taken(self, tiny_folder, tmp_path):
        stated = {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_inner": 48, "rotary_emb_base": 1e4}
        folder = self._changed(tiny_folder("nomic"), tmp_path, **stated)
        assert settle(ScorerConfig(model=str(folder), num_layers=1)).num_layers == 1

    def _changed(self, folder, place, **changes):
        copy = shutil.copytree(folder, place / "model")
        config = json.loads((copy / "config.json").read_text())
        code = {"auto_map": {"AutoModel": "modeling.Model"}}
        (copy / "config.json").write_text(json.dumps(config | code | changes))
        return copy


def test_weights_are_read_under_the_names_of_the_models_own_code(tiny_folder, tmp_path):
    """GTE's published weights have other names than transformers', which renames them."""
    folder = shutil.copytree(tiny_folder("gte"), tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    published = {}
    for name, values in weights.items():
        name = name.replace("layers.", "encoder.layer.").replace("self_attn.", "attention.")
        name = name.replace("post_attention_layernorm", "attn_ln")
        published["new." + name.replace("post_mlp_layernorm", "mlp_ln")] = values
    for part, joined, pieces in (
        ("attention", "qkv_proj", ("q_proj", "k_proj", "v_proj")),
        ("mlp", "up_gate_proj", ("up_proj", "gate_proj")),
    ):
        ends = {name.rpartition(".")[2] for name in published if f".{part}.{pieces[0]}." in name}
        for layer in range(LAYERS):
            stem = f"new.encoder.layer.{layer}.{part}"
            for end in ends:
                values = [published.pop(f"{stem}.{piece}.{end}") for piece in pieces]
                published[f"{stem}.{joined}.{end}"] = np.concatenate(values)
    assert len(published) < len(weights)
    save_file(published, folder / "model.safetensors", metadata={"format": "pt"})
    config = {"num_layers": 2, "device": "cpu", "backend": "torch"}
    scores, expected = (
        BertScorer(ScorerConfig(model=str(one), **config)).score(CANDIDATES, REFERENCES)
        for one in (folder, tiny_folder("gte"))
    )
    np.testing.assert_array_equal(scores.f1, expected.f1)
