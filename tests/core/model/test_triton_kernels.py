"""The encoder's own kernels equal torch's, on the GPU or else in Triton's interpreter."""

import json
import math
import shutil

import numpy as np
import pytest
import torch

pytest.importorskip("triton", reason="Triton is made for Linux only")

from bertscore_core.model import add_norm_triton, attention, packing, short_attention_triton
from bertscore_core.model.attention import PackedTexts, attend_by_lengths, attend_in_tiles
from bertscore_core.model.encoder import load_encoder
from bertscore_core.model.packing import PackedBatch
from bertscore_core.model.resolve import resolve_model
from bertscore_core.scorer_config import ScorerConfig
from tests.support.compiled import compile_for

pytestmark = pytest.mark.model

PACKED = [
    "albert", "bert", "distilbert", "electra", "eurobert", "e5_small", "gte", "jina_v3", "nomic",
    "roberta", "xlm_roberta",
]  # fmt: skip
FUSED = {"bert", "electra", "e5_small", "roberta", "xlm_roberta"}
EDGES = [200, 129, 128, 127, 65, 64, 63, 40, 33, 32, 31, 17, 16, 15, 2, 1]
"""Tokens of texts on both sides of every edge of a class."""

FORMATS = ["float16", "bfloat16"]


def in_format(values, dtype):
    """Return float32 with the bits that a format keeps: processes exchange no bfloat16."""
    return torch.from_numpy(values).to(getattr(torch, dtype))


def attend_here(rows, lengths, dtype, device, layout) -> np.ndarray:
    """Attend with the kernel in this process. Rows (3, T, heads, D); returns (T, heads, D)."""
    parts = in_format(rows, dtype).to(device)
    if layout == "rotated":  # contiguous by heads, as what rotates positions leaves it
        parts = parts.transpose(1, 2).contiguous().transpose(1, 2)
    elif layout == "in one":  # a third of each row
        parts = parts.transpose(0, 1).contiguous().transpose(0, 1)
    lengths = np.array(lengths)
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    texts = PackedTexts.of(torch.from_numpy(ends).to(device), lengths)

    def longer(rows, texts, scale):
        host = PackedTexts(texts.ends.cpu(), texts.ranges)
        return attend_by_lengths(tuple(part.cpu() for part in rows), host, scale).to(device)

    scale = rows.shape[-1] ** -0.5
    found = attend_in_tiles(tuple(part[None] for part in parts), texts, scale, longer=longer)
    return found[0].float().cpu().numpy()


def expected_of(rows, lengths):
    """Attend in float64, text by text."""
    query, key, value = torch.from_numpy(rows).double().transpose(1, 2)
    scale, begin, mixed = rows.shape[-1] ** -0.5, 0, []
    for length in lengths:
        one = slice(begin, begin + length)
        share = (query[:, one] @ key[:, one].transpose(1, 2) * scale).softmax(-1)
        mixed.append(share @ value[:, one])
        begin += length
    return torch.cat(mixed, dim=1).transpose(0, 1).numpy()


def make_rows(lengths, heads, size, dtype, filler=9):
    """Make queries, keys and values; what fills up the batch is NaN, which must not be read."""
    generator = torch.Generator().manual_seed(size)
    rows = torch.randn((3, sum(lengths) + filler, heads, size), generator=generator)
    rows = rows.to(getattr(torch, dtype)).float()
    rows[:, sum(lengths) :] = math.nan
    return rows.numpy()


@pytest.fixture
def attended(triton_process, triton_device):
    """Return a function that attends with the kernel."""

    def attend(rows, lengths, dtype, layout="plain"):
        task = triton_process.submit(attend_here, rows, lengths, dtype, triton_device, layout)
        return task.result()[: sum(lengths)]

    return attend


@pytest.fixture(params=FORMATS)
def dtype(request, triton_device):
    """Return a format that the kernels can be run in."""
    if request.param == "bfloat16" and triton_device == "cpu":
        pytest.skip("Triton's interpreter multiplies the bits of bfloat16 as if they were integers")
    return request.param


ROUNDING = {"float16": 2**-11, "bfloat16": 2**-8}


@pytest.mark.parametrize(
    ("heads", "size", "layout"),
    [(2, 32, "plain"), (3, 16, "rotated"), (2, 64, "in one"), (1, 128, "plain")],
)
def test_short_texts_attend_as_in_float64(attended, dtype, heads, size, layout):
    rows = make_rows(EDGES, heads, size, dtype)
    found, expected = attended(rows, EDGES, dtype, layout), expected_of(rows, EDGES)
    # Shares are rounded before they mix the values, and so is what comes out.
    apart = np.abs(found - expected) / np.abs(rows[2][: sum(EDGES)]).max()
    assert apart.max() <= 2 * ROUNDING[dtype]


def test_a_text_has_the_same_bits_in_any_company(attended):
    lengths = [64, 33, 20, 20, 5]
    rows = make_rows(lengths, 2, 32, "float16", filler=0)
    found = attended(rows, lengths, "float16")
    ends = np.cumsum(lengths)
    for begin, end in zip(ends - lengths, ends, strict=True):
        alone = attended(rows[:, begin:end], [end - begin], "float16")
        assert np.array_equal(alone, found[begin:end])
    order = [4, 2, 0, 3, 1]  # classes that are no neighbours
    places = np.concatenate([np.arange(ends[text] - lengths[text], ends[text]) for text in order])
    mixed = attended(rows[:, places], [lengths[text] for text in order], "float16")
    assert np.array_equal(mixed, found[places])


def test_ranges_hold_neighbours_of_one_class():
    lengths = np.array([200, 130, 128, 65, 30, 16, 1, 64])
    ranges = PackedTexts.of(torch.zeros(0), lengths).ranges
    found = [(each.first, each.count, each.begin, each.end, each.longest) for each in ranges]
    assert found == [
        (0, 2, 0, 330, 200),
        (2, 2, 330, 523, 128),
        (4, 1, 523, 553, 30),
        (5, 2, 553, 570, 16),
        (7, 1, 570, 634, 64),
    ]
    assert PackedTexts.of(torch.zeros(0), lengths).longest == 200


@pytest.mark.parametrize("size", [8, 24, 256])
def test_other_head_sizes_keep_torchs_kernel(size):
    given = []

    def longer(*arguments):
        given.append(arguments)

    texts = PackedTexts.of(torch.tensor([0, 3]), np.array([3]))
    attend_in_tiles((torch.empty(1, 3, 2, size),) * 3, texts, 1.0, longer=longer)
    assert len(given) == 1


def add_norm_here(left, right, weight, bias, dtype, device) -> np.ndarray:
    """Normalise a sum with the kernel in this process."""
    parts = (in_format(values, dtype).to(device) for values in (left, right, weight, bias))
    return add_norm_triton.add_norm(*parts, 1e-12).float().cpu().numpy()


@pytest.mark.parametrize("hidden", [16, 384, 1000])
def test_sum_and_norm_differ_from_float64_by_one_rounding(
    triton_process, triton_device, dtype, hidden
):
    generator = torch.Generator().manual_seed(hidden)

    def numbers(*shape):
        values = 3 * torch.randn(shape, generator=generator) + 1
        return values.to(getattr(torch, dtype)).float()

    left, right, weight, bias = numbers(5, 7, hidden), numbers(5, 7, hidden), *numbers(2, hidden)
    given = [values.numpy() for values in (left, right, weight, bias)]
    task = triton_process.submit(add_norm_here, *given, dtype, triton_device)
    total = left.double() + right.double()
    exact = torch.nn.functional.layer_norm(
        total, (hidden,), weight.double(), bias.double(), 1e-12
    ).numpy()
    assert (np.abs(task.result() - exact) <= ROUNDING[dtype] * np.abs(exact) + 1e-5).all()


SHARED = {75: 64 << 10, 80: 163 << 10, 89: 99 << 10, 90: 227 << 10, 100: 227 << 10}
"""Bytes of shared memory that a program can have, by compute capability (CUDA C++ guide)."""


@pytest.mark.parametrize(
    ("capability", "dtype", "tile", "size"),
    [
        (75, "fp16", 16, 32),
        (80, "bf16", 32, 64),
        (80, "fp16", 128, 128),
        (89, "fp16", 128, 128),
        (90, "bf16", 64, 64),
        (90, "fp16", 128, 128),
        (100, "fp16", 128, 128),
    ],
)
def test_attention_compiles_for_gpus_and_fits_them(
    capability, dtype, tile, size, tmp_path, monkeypatch
):
    """Below 8.0 there is no product of the tensor cores, so that these GPUs keep torch's kernel."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    types = {name: f"*{dtype}" for name in ("query", "key", "value", "out")}
    types |= {"ends": "*i32", "first": "i32", "scale": "fp32"}
    types |= {f"{name}_{of}": "i32" for name in list(types)[:4] for of in ("row", "head")}
    kernel, warps = short_attention_triton.kernel, short_attention_triton._WARPS[tile]
    compiled = compile_for(capability, kernel, types, {"size": size, "tile": tile}, warps=warps)
    assert compiled.metadata.shared <= SHARED[capability]
    assert ("mma" in compiled.asm["ptx"]) == (capability >= 80)


@pytest.mark.parametrize("capability", [75, 90])
def test_sum_and_norm_compile_for_gpus(capability, tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    types = dict.fromkeys(("left", "right", "weight", "bias", "result"), "*fp16")
    types |= {"rows": "i32", "eps": "fp32"}
    constants = {"hidden": 384, "width": 512, "block": add_norm_triton._ROWS}
    kernel, warps = add_norm_triton.kernel, add_norm_triton._WARPS
    compiled = compile_for(capability, kernel, types, constants, warps=warps)
    assert compiled.metadata.shared <= SHARED[capability]


def with_wide_heads(folder, target):
    """Copy a tiny model with half as many heads, twice as wide: 16 numbers."""
    shutil.copytree(folder, target)
    stated = json.loads((target / "config.json").read_text())
    for name in ("num_attention_heads", "n_heads", "num_key_value_heads"):
        if name in stated:
            stated[name] //= 2
    if "head_dim" in stated:
        stated["head_dim"] *= 2
    (target / "config.json").write_text(json.dumps(stated))
    return target


def encode_here(folder, device) -> tuple[np.ndarray, np.ndarray, int, int]:
    """Encode texts padded by torch, and packed by the kernels, in this process.

    Returns the vectors of both, (T, H), how many texts the kernel attended in, and how many halves
    of layers are fused.
    """
    attended, ways = [], attention.ways_of
    attend_one_class = short_attention_triton.attend_one_class

    def counted(rows, ends, first, count, **options):
        attended.append(count)
        attend_one_class(rows, ends, first, count, **options)

    short_attention_triton.attend_one_class = counted
    if device == "cpu":
        own = attention.Way(
            "own", lambda *given: attend_in_tiles(*given, longer=attend_by_lengths), fuses=True
        )
        packing.ways_of = lambda *_: (own,)
    else:
        packing.ways_of = lambda *given: ways(*given)[:1]
    try:
        files = resolve_model(folder)
        options = {"num_layers": 2, "dtype": "float16", "device": device}
        padded, packed = (
            load_encoder(files, ScorerConfig(**options), packs=packs) for packs in (False, True)
        )
    finally:
        packing.ways_of = ways
    attended.clear()  # those of the comparison at the load
    lengths = np.array([40, 33, 32, 17, 16, 3, 1])
    ids = np.random.default_rng(2).integers(5, 40, lengths.sum())
    inside = np.arange(40)[None, :] < lengths[:, None]
    rows = np.full(inside.shape, 1, dtype=np.int64)
    rows[inside] = ids
    on_device = torch.from_numpy(rows).to(device), torch.from_numpy(lengths).to(device)
    expected = padded.encode(*on_device)[0][torch.from_numpy(inside).to(device)]
    laid_out, ends = packed.packing.lay_out(ids, lengths, filler=1)
    arrays = (torch.from_numpy(array).to(device) for array in (laid_out, ends))
    batch = PackedBatch.of(*arrays, lengths)
    found = packed.start_packed(batch)()[0, 0, : lengths.sum()]
    unit = torch.nn.functional.normalize
    fused = [each for each in packed.model.modules() if type(each) is add_norm_triton._DenseAddNorm]
    vectors = (unit(each, dim=-1).cpu().numpy() for each in (found, expected))
    return *vectors, sum(attended), len(fused)


ALIKE = {"e5_small", "xlm_roberta"}
"""Families whose layers are those of another here, by another name."""


@pytest.mark.parametrize(
    "family", [pytest.param(name, marks=[pytest.mark.long] * (name in ALIKE)) for name in PACKED]
)
def test_every_packed_family_encodes_as_torch_does(
    triton_process, triton_device, tiny_folder, tmp_path, family
):
    folder = with_wide_heads(tiny_folder(family), tmp_path / family)
    task = triton_process.submit(encode_here, str(folder), triton_device)
    found, expected, attended, fused = task.result()
    assert np.abs(found - expected).max() <= 4e-3
    assert attended == 2 * 7  # in each of two layers
    assert fused == (4 if family in FUSED else 0)
