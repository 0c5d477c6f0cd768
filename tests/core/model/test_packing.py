"""Texts laid end to end give what padded texts give."""

import copy
import shutil
import sys
from collections import Counter
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoConfig, BertConfig

from bertscore_core import ModelLoadError, ScorerConfig, settle
from bertscore_core.idf import TokenWeights
from bertscore_core.match import embedding
from bertscore_core.match.embedding import Engine, embed, plan_embedding
from bertscore_core.model import attention, packing
from bertscore_core.model.device import DeviceQueue
from bertscore_core.model.encoder import load_encoder
from bertscore_core.model.layers import LastLayer
from bertscore_core.model.memory import Budget
from bertscore_core.model.packing import POSITIONS, PackedBatch, Packing, can_pack, packed_forward
from bertscore_core.model.resolve import resolve_model
from bertscore_core.tokens import TokenizedTexts
from bertscore_core.windows import WindowShape
from bertscore_core.work import Work
from tests.support.encoders import shared_encoder
from tests.support.tiny_models import FAMILIES, LAYERS, MODERN
from tests.support.tolerances import INVARIANCE_ATOL

pytestmark = pytest.mark.model

TINY = [
    "albert", "bert", "distilbert", "electra", "eurobert", "e5_small", "gte", "jina_v3", "nomic",
    "roberta", "xlm_roberta",
]  # fmt: skip
LENGTHS = [40, 3, 17, 17, 1, 9, 40, 12, 17, 2]
CPU, GPU = torch.device("cpu"), torch.device("cuda")


@pytest.fixture(scope="module")
def folder(tiny_folder, tmp_path_factory):
    """Build the tiny model of a family; CamemBERT is a RoBERTa by another name."""
    camembert = shutil.copytree(tiny_folder("roberta"), tmp_path_factory.mktemp("x") / "camembert")
    config = (camembert / "config.json").read_text()
    (camembert / "config.json").write_text(config.replace('"roberta"', '"camembert"'))
    return lambda family: camembert if family == "camembert" else tiny_folder(family)


def encoder_of(folder, *, packs, **changes):
    config = ScorerConfig(**{"num_layers": LAYERS, "device": "cpu", **changes})
    return shared_encoder(resolve_model(str(folder)), config, packs=packs)


def some_texts(lengths=LENGTHS):
    """Make texts of random tokens, among them RoBERTa's padding token."""
    ids = np.random.default_rng(1).integers(0, 40, sum(lengths)).astype(np.int32)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    truncated = np.zeros(len(lengths), dtype=bool)
    return TokenizedTexts(ids=ids, offsets=offsets, truncated=truncated)


def vectors_of(encoder, *, budget=64, shape=None, work=None):
    """Embed all texts; return the vectors of each."""
    texts = some_texts()
    engine = Engine(
        encoder=encoder,
        queue=DeviceQueue.of(CPU),
        budget=Budget.for_device(CPU, budget),
        pad_id=0,
        shape=shape,
    )
    plan = plan_embedding(engine, texts, np.arange(len(texts)), [TokenWeights.uniform(())])
    embedded = embed(engine, plan, Work() if work is None else work)
    places = zip(embedded.starts, embedded.lengths, strict=True)
    return torch.cat([embedded.vectors[:, start : start + size] for start, size in places], dim=1)


def test_every_family_of_the_table_is_tested():
    aliases = {"e5_small": "bert", "jina_v3": "jina_embeddings_v3", "nomic": "nomic_bert"}
    names = {"camembert"} | {aliases.get(family, family).replace("xlm_", "xlm-") for family in TINY}
    assert names == set(POSITIONS)


@pytest.mark.parametrize("family", [*TINY, "camembert"])
def test_packed_vectors_are_those_of_padded_texts(folder, family):
    padded, packed = (encoder_of(folder(family), packs=packs) for packs in (False, True))
    assert packed.packing is not None
    assert padded.packing is None
    expected = vectors_of(padded)
    for budget in (1, 96):  # each text alone, and several together
        actual = vectors_of(packed, budget=budget)
        torch.testing.assert_close(actual, expected, atol=INVARIANCE_ATOL, rtol=0)


def test_all_layers_and_windows_are_packed_too(folder):
    shape = WindowShape(length=12, leading=1, trailing=1)
    padded, packed = (
        encoder_of(folder("roberta"), packs=packs, all_layers=True) for packs in (False, True)
    )
    expected, actual = (vectors_of(encoder, shape=shape) for encoder in (padded, packed))
    assert len(actual) == LAYERS + 1
    torch.testing.assert_close(actual, expected, atol=INVARIANCE_ATOL, rtol=0)


def test_work_counts_what_fills_a_batch(folder):
    work = Work()
    vectors_of(encoder_of(folder("bert"), packs=True), budget=128, work=work)
    assert work.tokens == sum(LENGTHS)
    # 40 + 40 + 17 + 17 tokens in 128, and the rest in 64.
    assert (work.batches, work.padded_tokens) == (2, 128 + 64)


class Operators(TorchDispatchMode):
    """Counts operators, and notes the formats that attention is given."""

    def __init__(self):
        super().__init__()
        self.counts = Counter()
        self.formats = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.name().partition("::")[2].partition(".")[0]
        self.counts[name] += 1
        if name in ATTENTION:
            self.formats.update(tensor.dtype for tensor in args[:3])
        return func(*args, **(kwargs or {}))


EFFICIENT, FLASH = ATTENTION = ("_efficient_attention_forward", "_varlen_attn")

# In inference mode operators are seen before they are taken apart: `item`, not what it consists of.
WAITS = {"_local_scalar_dense", "item", "nonzero", "is_nonzero", "equal", "unique", "masked_select"}
MASKS = {"all", "where", "masked_fill", "bitwise_and", "logical_and", "le", "lt", "ge", "gt", "eq",
         "ne", "scalar_tensor"}  # fmt: skip
FREE = {"view", "transpose", "reshape", "slice", "unsqueeze", "select", "dropout", "device"}
"""Operators that run no kernel: views, a question, and dropout in evaluation mode."""

# Operators of a layer that run kernels: products, sums, norms, activation, attention. Those with
# rotary positions or RMS norms have more, since transformers writes these in small steps.
KERNELS = {
    "albert": 19, "bert": 12, "camembert": 12, "distilbert": 12, "e5_small": 12, "electra": 12,
    "eurobert": 40, "gte": 24, "jina_v3": 22, "nomic": 24, "roberta": 12, "xlm_roberta": 12,
}  # fmt: skip

CARDS = {"T4": (7, 5), "A100": (8, 0), "L4": (8, 9), "H100": (9, 0)}


TORCH = tuple(map(int, torch.__version__.split(".")[:2]))
CUDA_BUILD = pytest.mark.skipif(
    torch.version.cuda is None or TORCH < (2, 11),
    reason="needs torch 2.11 built for CUDA; older ones ask the driver of pretended tensors, too",
)
HAS_FLASH = attention._flash() is not None


@torch.inference_mode()
def operators_of(forward, packing, device):
    """Count the operators of a pass on packed texts without numbers, none of which can be read."""
    texts = some_texts()
    arrays = packing.lay_out(texts.ids, texts.lengths, filler=0)
    rows, ends = (torch.empty_like(torch.from_numpy(array), device=device) for array in arrays)
    batch = PackedBatch.of(rows, ends, texts.lengths)
    with Operators() as operators:
        forward(batch)
    return operators


@pytest.mark.parametrize("device", ["meta", pytest.param("cuda", marks=CUDA_BUILD)])
@pytest.mark.parametrize(
    "dtype", ["float32", "bfloat16", pytest.param("float16", marks=pytest.mark.long)]
)
@pytest.mark.parametrize("family", KERNELS)
def test_work_of_a_layer_on_each_card(folder, family, dtype, device, monkeypatch):
    """Attention takes no mixed formats, and a layer of BERT has no operator that casts.

    The second device is that of a torch built for CUDA, without a GPU: tensors without numbers say
    that they are there, so that torch chooses operators and refuses mixed devices as on a GPU.
    """
    pretended = nullcontext() if device == "meta" else FakeTensorMode(allow_non_fake_inputs=True)
    modules = []
    for layers in (LAYERS - 1, LAYERS):
        encoder = encoder_of(folder(family), packs=True, dtype=dtype, num_layers=layers)
        network = copy.deepcopy(encoder.model).to("meta")
        with pretended:
            modules.append(LastLayer(network.to_empty(device=device)))
    for card, capability in CARDS.items():
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _, c=capability: c)
        ways = [way for way in attention.ways_of(GPU, getattr(torch, dtype)) if not way.fuses]
        with pretended:
            shorter, whole = (
                operators_of(packed_forward(module, ways[0].attention), encoder.packing, device)
                for module in modules
            )
        kernels = {
            name: n for name, n in (whole.counts - shorter.counts).items() if name not in FREE
        }
        has_flash = HAS_FLASH and card != "T4" and dtype != "float32"
        assert kernels.keys() & ATTENTION == {FLASH if has_flash else EFFICIENT}
        assert sum(kernels.values()) == KERNELS[family], kernels
        assert whole.formats == {getattr(torch, dtype)}
        assert not (WAITS | MASKS) & whole.counts.keys()


@pytest.mark.parametrize("fails", [RuntimeError("num_splits requires FA3"), TypeError("scale")])
def test_a_kernel_that_fails_gives_way_to_the_next(folder, fails, monkeypatch, caplog):
    def fail(*_):
        raise fails

    broken, works = (
        attention.Way("the first", fail),
        attention.Way("the last", attention.attend_by_lengths),
    )
    monkeypatch.setattr(packing, "ways_of", lambda *_: (broken, broken, works))
    config = ScorerConfig(num_layers=1, device="cpu")
    files = resolve_model(str(folder("bert")))
    assert load_encoder(files, config, packs=True).packing is not None
    assert caplog.text.count("the first fails here") == 2
    assert "the last takes its place, which is slower" in caplog.text
    # The last one fails, too: that is an error.
    monkeypatch.setattr(packing, "ways_of", lambda *_: (works, broken)[1:])
    with pytest.raises(ModelLoadError, match="cannot encode texts laid end to end"):
        load_encoder(files, config, packs=True)


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory."), MemoryError()])
def test_too_little_memory_for_the_check_is_no_error_of_the_model(folder, monkeypatch, error):
    def fail(*_):
        raise error

    ways = attention.Way("the first", fail), attention.Way("the last", attention.attend_by_lengths)
    monkeypatch.setattr(packing, "ways_of", lambda *_: ways)
    config = ScorerConfig(num_layers=1, device="cpu")
    with pytest.raises(type(error)):
        load_encoder(resolve_model(str(folder("bert"))), config, packs=True)


def test_positions_that_are_wrong_are_found_when_the_model_is_loaded(folder, monkeypatch):
    monkeypatch.setitem(POSITIONS, "roberta", POSITIONS["bert"])
    config = ScorerConfig(num_layers=2, device="cpu")
    with pytest.raises(ModelLoadError, match="computes something else on texts laid end to end"):
        load_encoder(resolve_model(str(folder("roberta"))), config, packs=True)


def test_families_without_the_interface_are_refused_when_packed(folder):
    config = ScorerConfig(num_layers=2, device="cpu")
    with pytest.raises((ModelLoadError, KeyError)):
        shared_encoder(resolve_model(str(folder("mpnet"))), config, packs=True)


@pytest.mark.parametrize("family", sorted({*FAMILIES, *MODERN} - {"xlm"}))
def test_families_of_the_table_alone_can_be_packed(folder, family):
    architecture = AutoConfig.from_pretrained(folder(family))
    assert can_pack(architecture) == (family in {*TINY, "labse"})
    assert not can_pack(architecture, own_code=True)


def test_decoders_are_not_packed():
    """A configuration may say that a BERT reads from left to right."""
    assert can_pack(BertConfig())
    assert not can_pack(BertConfig(is_decoder=True))


@pytest.mark.parametrize(
    ("changes", "batches"),
    [
        ({}, "packed-131072"),
        ({"max_batch_tokens": 500}, "packed-500"),
        ({"device": "cpu"}, "1024/4"),
        ({"device": "mps"}, "131072"),
        ({"attention": "sdpa"}, "131072"),
        ({"dtype": "float32"}, "any"),
    ],
)
def test_a_plan_packs_on_a_gpu_alone_and_its_signature_says_so(folder, changes, batches):
    gpu = {"dtype": "float16", "device": "cuda", "backend": "torch", "num_layers": 1}
    settings = settle(ScorerConfig(model=str(folder("bert")), **{**gpu, **changes}))
    assert settings.packs == (not changes.keys() & {"device", "attention"})
    assert settings.signature().batch_tokens == batches


def test_positions_are_those_of_the_families():
    texts = some_texts([3, 4])
    ids = np.array([5, 1, 7, 8, 9, 1, 1], dtype=np.int32)
    zero, after = Packing(pad_id=None), Packing(pad_id=1)
    rows, ends = zero.lay_out(ids, texts.lengths, filler=6)
    assert rows.tolist() == [[5, 1, 7, 8, 9, 1, 1, *[6] * 57], [0, 1, 2, 0, 1, 2, 3, *[0] * 57]]
    assert (ends.tolist(), ends.dtype) == ([0, 3, 7], np.int32)
    rows, _ = after.lay_out(ids, texts.lengths, filler=6)
    assert rows[1, :7].tolist() == [2, 1, 3, 2, 3, 1, 1]


def test_flash_attention_is_given_no_number_of_splits(monkeypatch):
    """Torch 2.12 has this argument, but refuses every value of it without another kernel."""
    varlen = pytest.importorskip("torch.nn.attention.varlen", reason="torch before 2.10")
    real = varlen.varlen_attn

    def of_torch_2_12(*tensors: object, scale: float, num_splits: int | None = None):
        if num_splits is not None:
            raise RuntimeError("num_splits requires FA3. Register FA3 with ...")
        return real(*tensors, scale=scale)

    monkeypatch.setattr(varlen, "varlen_attn", of_torch_2_12)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    flash = attention._flash()
    query = torch.empty((1, 24, 4, 8), dtype=torch.float16, device="meta")
    ends = torch.empty(4, dtype=torch.int32, device="meta")
    texts = attention.PackedTexts.of(ends, np.array([9, 8, 7]))
    assert flash((query,) * 3, texts, 0.5).shape == query.shape


@pytest.mark.parametrize("varlen", [None, SimpleNamespace(varlen_attn=lambda query: query)])
def test_torch_without_flash_attention_that_scales_takes_the_other_kernel(varlen, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.nn.attention.varlen", varlen)
    assert attention._flash() is None
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    *_, last = attention.ways_of(GPU, torch.float16)
    assert last.attention is attention.attend_efficiently


@pytest.mark.parametrize(
    ("capability", "dtype", "has_compiler", "number"),
    [
        ((9, 0), torch.float16, True, 3),
        ((8, 0), torch.bfloat16, True, 3),
        ((8, 9), torch.float16, False, 2),
        ((9, 0), torch.float32, True, 1),
        ((7, 5), torch.float16, True, 1),
    ],
)
def test_ways_by_device_and_format(capability, dtype, has_compiler, number, monkeypatch):
    pytest.importorskip("triton", reason="Triton is made for Linux only")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    if not has_compiler:
        monkeypatch.setenv("PATH", "")
        monkeypatch.delenv("CC", raising=False)
    ways = attention.ways_of(GPU, dtype)
    assert len(ways) == number - (number > 1 and not HAS_FLASH)
    assert [way.fuses for way in ways] == [number == 3, *[False] * (len(ways) - 1)]
    assert ways[-1].attention is attention.attend_efficiently


class OnGpu(torch.Tensor):
    """Numbers that say that they are on a GPU."""

    device = GPU


@pytest.mark.parametrize("positions", [slice(1, 4), torch.tensor([0, 3, 4])])
def test_a_gpu_makes_the_unit_vectors_of_a_cpu(positions):
    hidden = torch.randn((2, 6, 8), generator=torch.Generator().manual_seed(0))
    on_cpu, on_gpu = torch.empty(2, 2, 3, 8)
    embedding._normalize(hidden, positions, out=on_cpu)
    embedding._normalize(hidden.as_subclass(OnGpu), positions, out=on_gpu)
    torch.testing.assert_close(on_gpu, on_cpu, atol=1e-6, rtol=0)
    torch.testing.assert_close(on_gpu.norm(dim=-1), torch.ones(2, 3))


def test_attention_without_the_ends_of_texts_is_an_error():
    query = torch.zeros((1, 2, 5, 4))
    with pytest.raises(RuntimeError, match="where packed texts end"):
        attention.attend(torch.nn.Identity(), query, query, query, None)
