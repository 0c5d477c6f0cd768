"""What only a GPU can show: its attention kernels, copies, formats, and its lack of memory.

The same code is tested on the CPU elsewhere, where other kernels run. Models are tiny and random.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch

from bertscore_core import BertScorer, ScorerConfig
from bertscore_core.match import kernel
from bertscore_core.model import attention
from bertscore_core.model.device import DeviceQueue
from bertscore_core.work import Work
from tests.support.tiny_models import FAMILIES
from tests.support.tolerances import INVARIANCE_ATOL, PARITY_ATOL

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.model,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

DEVICE = "cuda:0"
PACKED = (
    *("bert", "roberta", "xlm_roberta", "albert", "distilbert", "electra"),
    *("eurobert", "gte", "jina_v3", "nomic"),  # these rotate queries and keys
)
HALF = {"float32": PARITY_ATOL, "bfloat16": 1e-2, "float16": 1e-3}
"""What numbers of 16 bits may move F1 of a tiny random model; bfloat16 moved it by 5.9e-3."""
OLD = torch.cuda.is_available() and torch.cuda.get_device_capability() < (8, 0)
BFLOAT16 = pytest.param("bfloat16", marks=pytest.mark.skipif(OLD, reason="the GPU lacks it"))
CANDIDATES = [" ".join("abcdefgh"[(i * k) % 8] for k in range(1 + i % 31)) for i in range(90)]
REFERENCES = CANDIDATES[7:] + CANDIDATES[:7]


def make_scorer(folder, device=DEVICE, **options) -> BertScorer:
    config = {"num_layers": 2, "max_length": 40, "backend": "torch", **options}
    return BertScorer(ScorerConfig(model=str(folder), device=device, **config))


def f1(folder, device=DEVICE, **options) -> np.ndarray:
    return make_scorer(folder, device, **options).score(CANDIDATES, REFERENCES).f1


@pytest.mark.parametrize("dtype", ["float32", BFLOAT16, "float16"])
@pytest.mark.parametrize("family", PACKED)
def test_packed_attention_scores_as_padded_attention_on_a_cpu(tiny_folder, family, dtype):
    """Flash attention in half precision, memory-efficient attention in float32."""
    folder = tiny_folder(family)
    expected = f1(folder, "cpu", attention="sdpa")
    assert expected.std() > 0.01
    assert np.abs(f1(folder, dtype=dtype) - expected).max() <= HALF[dtype]
    assert np.abs(f1(folder, dtype=dtype, attention="sdpa") - expected).max() <= HALF[dtype]


@pytest.mark.parametrize("dtype", ["float32", BFLOAT16, "float16"])
@pytest.mark.parametrize("family", sorted({*FAMILIES} - {*PACKED}))
def test_other_families_score_as_on_a_cpu(tiny_folder, family, dtype):
    expected, found = f1(tiny_folder(family), "cpu"), f1(tiny_folder(family), dtype=dtype)
    assert np.nanstd(expected) > 0.01
    np.testing.assert_allclose(found, expected, atol=HALF[dtype], rtol=0)


@pytest.mark.parametrize("dtype", [BFLOAT16, "float16", "float32"])
@pytest.mark.parametrize(("lengths", "width"), [([40, 1, 36], 32), ([512, 511, 28, 1], 64)])
def test_every_way_for_packed_texts_attends_as_a_host(lengths, width, dtype):
    """A T4 has the last alone. Most models have heads of 64 numbers, and take 512 tokens."""
    rows = torch.randn((3, 1, sum(lengths), 4, width), device=DEVICE, generator=seeded())
    rows = rows.to(getattr(torch, dtype))
    ends = torch.tensor([0, *np.cumsum(lengths)], dtype=torch.int32)
    texts = attention.PackedTexts.of(ends, np.array(lengths))
    scale = width**-0.5
    on_host = attention.attend_by_lengths(tuple(rows.float().cpu()), texts, scale)
    on_device = replace(texts, ends=ends.to(DEVICE))
    ways = attention.ways_of(rows.device, rows.dtype)
    assert len(ways) == (1 if dtype == "float32" or OLD else 3)
    for way in ways:
        actual = way.attention(tuple(rows), on_device, scale).float().cpu()
        torch.testing.assert_close(
            actual, on_host, atol=1e-5 if dtype == "float32" else 2e-2, rtol=0
        )


@pytest.mark.skipif(OLD, reason="the GPU has one way alone")
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("family", PACKED)
def test_no_kernel_gives_way_to_another(tiny_folder, family, dtype, caplog):
    make_scorer(tiny_folder(family), dtype=dtype)
    assert "fails here" not in caplog.text


def test_two_threads_on_one_gpu_score_as_one(tiny_folder):
    scorer = make_scorer(tiny_folder("bert"), max_batch_tokens=256)
    expected = scorer.score(CANDIDATES, REFERENCES).f1
    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(lambda _: scorer.score(CANDIDATES, REFERENCES).f1, range(8)))
    assert all(np.array_equal(actual, expected) for actual in found)


def seeded() -> torch.Generator:
    return torch.Generator(DEVICE).manual_seed(0)


def test_many_copies_in_flight_do_not_overwrite_each_other():
    """Pinned memory is reused; not before its copy has ended."""
    queue = DeviceQueue.of(torch.device(DEVICE))
    busy = torch.randn(2048, 2048, device=DEVICE)
    for _ in range(20):
        busy = busy @ busy / busy.norm()
    sent = [queue.send(np.full(10_000, number, dtype=np.int64)) for number in range(50)]
    assert [int(values.min()) for values in sent] == list(range(50))
    assert [int(values.max()) for values in sent] == list(range(50))


def test_fused_kernel_is_used_and_scores_as_the_padded_one(tiny_folder, monkeypatch, caplog):
    folder = tiny_folder("bert")
    kernel._fused_matching.cache_clear()
    assert kernel._fused_matching(torch.device(DEVICE)) is not None, caplog.text
    fused = f1(folder)
    assert np.array_equal(f1(folder), fused)
    monkeypatch.setattr(kernel, "_fused_matching", lambda device: None)
    assert np.abs(f1(folder) - fused).max() <= INVARIANCE_ATOL


def test_float32_is_multiplied_exactly_and_switches_stay_as_they_were(tiny_folder):
    """A convolution of DeBERTa would use TF32."""
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    assert np.abs(f1(tiny_folder("deberta_v2")) - f1(tiny_folder("deberta_v2"), "cpu")).max() <= (
        PARITY_ATOL
    )
    assert (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32) == before


def test_too_little_memory_is_retried_with_smaller_batches(tiny_folder):
    tried = make_scorer(tiny_folder("bert"), max_batch_tokens=1 << 20)
    candidates, references = CANDIDATES * 300, REFERENCES * 300
    pairs = tried.tokenize(
        [f"{text} {number % 997}" for number, text in enumerate(candidates)],
        [f"{text} {number % 991}" for number, text in enumerate(references)],
    )
    weights = tried.token_weights(None)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    expected = tried.score_tokenized(pairs, weights, Work()).f1
    peak = torch.cuda.max_memory_reserved()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.empty_cache()
    work = Work()
    torch.cuda.set_per_process_memory_fraction(peak / 2 / total)
    try:
        actual = tried.score_tokenized(pairs, weights, work).f1
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert work.retries > 0
    assert np.abs(actual - expected).max() <= PARITY_ATOL
