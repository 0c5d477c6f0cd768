"""The fused kernel equals the specification, on the GPU or else in Triton's interpreter.

Triton decides at its import whether it interprets, so a process of its own does that: the other
tests of this process are left alone.
"""

import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
import torch

pytest.importorskip("triton", reason="Triton is made for Linux only")

from bertscore_core import BertScorer, ScorerConfig, specification
from bertscore_core.match import kernel, matching_triton
from bertscore_core.model import triton_jit
from tests.support.compiled import compile_for
from tests.support.specified import Specified
from tests.support.tolerances import INVARIANCE_ATOL, PARITY_ATOL

pytestmark = pytest.mark.model

LENGTHS = [1, 2, 3, 16, 31, 32, 33, 64, 65, 70]
"""On both sides of every edge of a tile, which is 32 tokens wide."""


class Text(NamedTuple):
    """Embeddings (tokens, H) and weights (tokens,)."""

    vectors: torch.Tensor
    weights: torch.Tensor


Pair = tuple[Text, Text]
Ragged = Callable[..., torch.Tensor]


def unit(rows) -> torch.Tensor:
    vectors = torch.as_tensor(rows, dtype=torch.float32)
    return vectors / vectors.norm(dim=-1, keepdim=True)


def make_text(tokens, hidden, generator) -> Text:
    """Make vectors around a common direction, as a model's are: F1 is far from its pole."""
    vectors = unit(torch.randn(tokens, hidden, generator=generator) + 0.7)
    weights = torch.rand(tokens, generator=generator)
    weights[torch.rand(tokens, generator=generator) < 0.2] = 0.0
    weights[-1] = 1.0
    return Text(vectors, weights)


def make_pairs(count, hidden, seed=0) -> list[Pair]:
    generator = torch.Generator().manual_seed(seed)
    picks = torch.randint(len(LENGTHS), (count, 2), generator=generator).tolist()
    return [
        (make_text(LENGTHS[left], hidden, generator), make_text(LENGTHS[right], hidden, generator))
        for left, right in picks
    ]


def run_ragged(vectors, weights, indices, dtype, device, programs) -> np.ndarray:
    """Run the kernel in this process. Returns (P, 3)."""
    assert triton_jit.is_available(torch.device(device))
    matching_triton._MOST_PROGRAMS = programs
    scores = matching_triton.greedy_match_ragged(
        torch.from_numpy(vectors).to(device, getattr(torch, dtype)),
        torch.from_numpy(weights).to(device),
        *(torch.from_numpy(index).to(device) for index in indices),
        longest=int(np.minimum(indices[1], indices[3]).max()),
    )
    return torch.stack(scores, dim=1).cpu().numpy()


def lay_out(pairs, lead=0):
    """Lay the distinct texts end to end behind `lead` rows that belong to none."""
    texts = {id(text): text for pair in pairs for text in pair}
    hidden = pairs[0][0].vectors.shape[1]
    starts, filled = {}, lead
    for key, text in texts.items():
        starts[key] = filled
        filled += len(text.vectors)
    # What lies between the texts must never be read: NaN would show.
    vectors = torch.cat(
        [torch.full((lead, hidden), math.nan), *(t.vectors for t in texts.values())]
    )
    weights = torch.cat([torch.full((lead,), math.nan), *(t.weights for t in texts.values())])
    indices = [
        np.array(values, dtype=np.int64)
        for side in (0, 1)
        for values in (
            [starts[id(pair[side])] for pair in pairs],
            [len(pair[side].vectors) for pair in pairs],
        )
    ]
    return vectors.numpy(), weights.numpy(), indices


@pytest.fixture(scope="module")
def ragged(triton_process, triton_device) -> Ragged:
    """Return a function that scores pairs with the kernel."""

    def match(pairs, dtype="float32", lead=0, programs=4096) -> torch.Tensor:
        task = triton_process.submit(
            run_ragged, *lay_out(pairs, lead), dtype, triton_device, programs
        )
        return torch.from_numpy(task.result())

    return match


def expected_of(pairs: list[Pair]) -> torch.Tensor:
    scores = [
        specification.match(
            *(text.vectors.numpy() for text in pair), *(text.weights.numpy() for text in pair)
        )
        for pair in pairs
    ]
    return torch.from_numpy(np.array(scores)).float()


def assert_equal_scores(actual, expected, atol=INVARIANCE_ATOL):
    torch.testing.assert_close(actual, expected, atol=atol, rtol=0, equal_nan=True)


def ones(vectors: torch.Tensor) -> Text:
    return Text(vectors, torch.ones(len(vectors)))


@pytest.mark.parametrize("hidden", [40, 384])
def test_ragged_pairs_equal_the_specification(ragged, hidden):
    pairs = make_pairs(25, hidden, seed=hidden)
    scores = ragged(pairs, lead=3)
    assert scores.isfinite().all()
    assert_equal_scores(scores, expected_of(pairs))


@pytest.mark.parametrize("hidden", [384, pytest.param(2048, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", ["all positive", "one large number", "nearly equal", "many sizes"])
def test_hostile_embeddings_score_as_in_float64(ragged, kind, hidden):
    """Sums that only grow, that one product decides, that cancel, and numbers of many sizes."""
    generator = torch.Generator().manual_seed(hidden)
    common = torch.randn(hidden, generator=generator)

    def text(tokens):
        rows = torch.randn(tokens, hidden, generator=generator)
        if kind == "all positive":
            rows = rows.abs()
        elif kind == "one large number":
            rows[:, 7] = 100.0
        elif kind == "nearly equal":
            rows = common + 1e-3 * rows
        else:
            rows = rows * 10.0 ** torch.randint(-6, 1, (hidden,), generator=generator)
        return ones(unit(rows))

    pairs = [(text(left), text(right)) for left, right in [(28, 31), (5, 33), (70, 64)]]
    assert_equal_scores(ragged(pairs), expected_of(pairs))


def test_negative_best_cosines_are_kept(ragged):
    """Zeros beyond the end of a text would otherwise be the best match."""
    candidate = ones(unit([[1.0, 0.0]] * 3))
    reference = ones(unit([[-1.0, 0.0], [-0.6, 0.8], [-0.8, 0.6], [-0.6, -0.8]]))
    scores = ragged([(candidate, reference), (reference, candidate)])
    assert_equal_scores(scores[:, :2], torch.tensor([[-0.6, -0.75], [-0.75, -0.6]]))


def test_equal_empty_and_weightless_texts_score_as_specified(ragged):
    generator = torch.Generator().manual_seed(1)
    text, long, empty = (make_text(tokens, 40, generator) for tokens in (7, 45, 2))
    nothing, weightless = (Text(part.vectors, 0 * part.weights) for part in (empty, long))
    pairs = [(text, text), (long, long), (empty, text), (text, empty), (nothing, text)]
    pairs += [(weightless, text), (text, weightless)]
    scores = ragged(pairs)
    assert_equal_scores(scores[:5], expected_of(pairs[:5]))
    assert_equal_scores(scores[:2], torch.ones(2, 3))
    assert (scores[2:4, 2] > 0.1).all()
    assert scores[5:].isnan().tolist() == [[True, False, False], [False, True, False]]
    assert (scores[4:, 2] == 0).all()


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_token_that_is_nan_counts_where_it_has_weight_or_is_matched(ragged, weight):
    generator = torch.Generator().manual_seed(3)
    candidate, reference, other = (make_text(tokens, 16, generator) for tokens in (40, 35, 9))
    candidate.vectors[4] = math.nan
    candidate.weights[4] = weight
    pairs = [(candidate, reference), (reference, candidate), (other, reference)]
    scores = ragged(pairs)
    assert scores[0, :2].isnan().tolist() == [weight > 0, True]
    assert scores[1, :2].isnan().tolist() == [True, weight > 0]
    assert_equal_scores(scores[2:], expected_of(pairs[2:]))
    if weight == 0:  # as if its text were without it
        without = Text(*(torch.cat([part[:4], part[5:]]) for part in candidate))
        assert_equal_scores(scores[0, 0], expected_of([(without, reference)])[0, 0])


def test_scores_have_the_same_bits_in_any_company_and_place(ragged):
    pairs = make_pairs(12, 40, seed=9)
    scores = ragged(pairs)
    order = torch.randperm(len(pairs), generator=torch.Generator().manual_seed(4)).tolist()
    assert order != sorted(order)
    assert torch.equal(ragged([pairs[place] for place in order], lead=5), scores[order])
    assert torch.equal(ragged(pairs[3:4], lead=1), scores[3:4])


def test_a_program_that_takes_several_pairs_gives_each_the_same_bits(ragged):
    """Maxima of the pair before, which wait in the same memory, must not be seen."""
    pairs = make_pairs(30, 16, seed=7)
    assert torch.equal(ragged(pairs, programs=4), ragged(pairs))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_loses_nothing_after_the_embeddings(triton_device, ragged, dtype):
    if dtype == "bfloat16" and triton_device == "cpu":
        pytest.skip("Triton's interpreter multiplies the bits of bfloat16 as if they were integers")
    pairs = make_pairs(10, 40, seed=11)
    scores = ragged(pairs, dtype=dtype)
    rounded = [
        tuple(Text(text.vectors.to(getattr(torch, dtype)).float(), text.weights) for text in pair)
        for pair in pairs
    ]
    # Not the specification, which would make them unit vectors again.
    assert_equal_scores(scores, ragged(rounded))


def tiny_scorer(folder, device="cpu") -> BertScorer:
    config = {"model": str(folder), "num_layers": 2, "max_length": 48, "backend": "torch"}
    return BertScorer(ScorerConfig(**config, device=device))


def score_with_kernel(folder, candidates, references, device) -> np.ndarray:
    """Score texts with a model in this process, matched by the kernel."""
    kernel._fused_matching = lambda device: matching_triton
    scores = tiny_scorer(folder, device).score(candidates, references)
    return np.stack([scores.precision, scores.recall, scores.f1], axis=1)


def test_scorer_that_matches_with_the_kernel_gives_the_specified_scores(
    triton_process, triton_device, tiny_folder
):
    """The way through the library that only a GPU takes otherwise."""
    folder = tiny_folder("bert")
    texts = [" ".join("abcdefgh"[k * i % 8] for k in range(i)) for i in (1, 5, 29, 31, 44, 60)]
    candidates, references = map(list, zip(*itertools.product(texts, texts[::2]), strict=True))
    actual = triton_process.submit(
        score_with_kernel, folder, candidates, references, triton_device
    ).result()
    expected, _ = Specified(folder, "bert").scores(
        tiny_scorer(folder), candidates, [[text] for text in references]
    )
    np.testing.assert_allclose(actual, expected, rtol=0, atol=PARITY_ATOL)
    assert np.ptp(actual[:, 2]) > 0.1


@pytest.mark.parametrize(
    ("capability", "dtype", "product"),
    [
        (75, "fp32", "fma.rn.f32"),
        (80, "fp32", "f32.tf32.tf32.f32"),
        pytest.param(89, "fp32", "f32.tf32.tf32.f32", marks=pytest.mark.long),
        pytest.param(90, "fp32", "f32.tf32.tf32.f32", marks=pytest.mark.long),
        (100, "fp32", "f32.tf32.tf32.f32"),
        (80, "bf16", "f32.bf16.bf16.f32"),
        (90, "fp16", "f32.f16.f16.f32"),
    ],
)
def test_kernel_compiles_for_gpus_in_full_precision_and_fits_them(
    capability, dtype, product, tmp_path, monkeypatch
):
    """No GPU is needed for that, and the interpreter accepts what the compiler does not.

    TF32 keeps 11 bits of a number, so a product of float32 takes three of them.
    """
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: divmod(capability, 10))
    precision = matching_triton._precision_on(torch.device("cuda"))
    compiled = compile_kernel(capability, dtype, precision)
    code = compiled.asm["ptx"]
    assert product in code
    if dtype == "fp32" and capability >= 80:
        once = compile_kernel(capability, dtype, "tf32").asm["ptx"]
        assert code.count(product) == 3 * once.count(product)
    else:
        assert "tf32" not in code
    assert compiled.metadata.shared <= 48 << 10  # what every GPU gives a program


def compile_kernel(capability, dtype, precision):
    types = {"vectors": f"*{dtype}", "weights": "*fp32", "starts": "*i64", "lengths": "*i64"}
    types |= {"averages": "*fp32", "maxima": "*fp32", "pairs": "i32", "longest": "i32"}
    sizes = {"hidden": 1024, "precision": precision, **matching_triton._TILE}
    warps = matching_triton._WARPS
    return compile_for(capability, matching_triton.kernel, types, sizes, warps=warps)


def test_cpu_has_no_kernel_unless_interpreted():
    assert not triton_jit.is_available(torch.device("cpu"))
    assert not triton_jit.is_available(torch.device("mps"))


def test_gpu_without_a_c_compiler_has_no_kernel(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    assert not triton_jit.is_available(torch.device("cuda"))
