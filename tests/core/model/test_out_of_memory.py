"""When memory does not suffice: smaller batches, the same scores, and a clear end."""

import json
import shutil
import subprocess
import sys
import weakref

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel

from bertscore_core import BertScorer, ConfigError, ScorerConfig
from bertscore_core.match import embedding, kernel
from bertscore_core.model.memory import Budget, attempt, is_out_of_memory
from bertscore_core.work import Work
from tests.support.tolerances import INVARIANCE_ATOL

# Texts are much longer than those on which OpenVINO is compared with torch when it is loaded: it
# keeps the memory of those, and a text of their length fits without any more.
ROWS, WORDS_PER_TEXT = 8, 1_000

# What both scripts begin with: one encoder, and a limit on what the process may take from here on.
BEGINNING = """
import gc, json, resource, sys
from pathlib import Path
import numpy as np
import torch
from bertscore_core import BertScorer, BertScoreError, ScorerConfig
from bertscore_core.model.encoder import Encoder

folder, rows, words, backend, room = *sys.argv[1:2], *map(int, sys.argv[2:4]), *sys.argv[4:]
candidates = [" ".join("abcdefgh"[(i * k) % 8] for k in range(words)) for i in range(rows)]
references = candidates[1:] + candidates[:1]

def scorer_of(budget):
    return BertScorer(ScorerConfig(
        model=folder, num_layers=1, max_batch_tokens=budget, device="cpu", backend=backend
    ))

def allow(megabytes):
    gc.collect()  # what a failed step has left must not be freed later, and make room then
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + megabytes * 2**20, resource.RLIM_INFINITY))

torch.set_num_threads(1)
"""

# Scores with a small budget, then with one that takes everything at once in a process that may not
# grow by more than a part of that.
SQUEEZED = """
sizes = []
start = Encoder.start
def counted(self, ids, lengths):
    sizes.append(ids.numel())
    return start(self, ids, lengths)
Encoder.start = counted

def score(budget):
    scorer = scorer_of(budget)
    def run():
        sizes.clear()
        scores = scorer.score(candidates, references)
        return [scores.precision.tolist(), scores.recall.tolist(), scores.f1.tolist()]
    return run

small = score(2048)
large, fresh = score(1 << 20), score(1 << 20)
expected = small()
undisturbed = large()
undisturbed_sizes = list(sizes)
allow(int(room))
squeezed = fresh()
print(json.dumps(dict(expected=expected, undisturbed=undisturbed, squeezed=squeezed,
    undisturbed_sizes=undisturbed_sizes, squeezed_sizes=sizes)))
"""

# Scores one short pair, then long ones in a process that may hardly grow. It is a process of its
# own, because a backend keeps the memory of longer texts that it had before.
TIGHT = """
scorer = scorer_of(1 << 20)
scorer.score(["a b"], ["b a"])
allow(int(room))
try:
    scorer.score(candidates, references)
except BertScoreError as error:
    print(json.dumps(str(error)))
else:
    print(json.dumps(None))
"""


ROOM = {"torch": 150, "openvino": 125}
"""Megabytes that do for a part of the texts at once. OpenVINO needs less, and keeps what it has."""


@pytest.fixture(scope="module")
def wide_folder(tmp_path_factory, tiny_folder):
    """An encoder with a wide inner layer, which is what takes the memory."""
    folder = shutil.copytree(tiny_folder("bert"), tmp_path_factory.mktemp("wide") / "bert")
    config = BertConfig.from_pretrained(
        folder, intermediate_size=10_000, num_hidden_layers=1, max_position_embeddings=1_100
    )
    torch.manual_seed(0)
    BertModel(config).save_pretrained(folder)
    tokenizer = folder / "tokenizer_config.json"
    tokenizer.write_text(json.dumps(json.loads(tokenizer.read_text()) | {"model_max_length": 1100}))
    return folder


def printed(script, folder, backend, room):
    arguments = (str(folder), str(ROWS), str(WORDS_PER_TEXT), backend, str(room))
    done = subprocess.run(
        [sys.executable, "-c", BEGINNING + script, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("backend", ["torch", pytest.param("openvino", marks=pytest.mark.long)])
def test_a_batch_too_large_for_the_host_is_halved_and_scores_stay(backend, wide_folder):
    outcome = printed(SQUEEZED, wide_folder, backend, ROOM[backend])
    whole = outcome["undisturbed_sizes"]
    assert len(whole) == 1
    assert outcome["squeezed_sizes"][0] == whole[0]
    assert sum(outcome["squeezed_sizes"]) > whole[0]
    for name in ("undisturbed", "squeezed"):
        difference = np.abs(np.subtract(outcome[name], outcome["expected"]))
        assert difference.max() <= INVARIANCE_ATOL, name
    assert np.ptp(outcome["expected"][2]) > 1e-3
    # Sizes fall by halves until one fits, and stay there.
    sizes = outcome["squeezed_sizes"]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes.count(sizes[0]) == 1
    assert sizes[-1] < sizes[0]


@pytest.mark.parametrize("backend", ["openvino", pytest.param("torch", marks=pytest.mark.long)])
def test_a_text_that_does_not_fit_alone_is_a_clear_error(backend, wide_folder):
    message = printed(TIGHT, wide_folder, backend, 4)
    assert message is not None, "the long texts fitted"
    assert message.startswith("the memory of cpu does not suffice: got no room for a forward pass")
    assert "the longest has 1002" in message
    assert "Lower max_batch_tokens (--max-batch-tokens) or max_length (--max-length)" in message


def allocation_error(call):
    with pytest.raises((RuntimeError, MemoryError)) as caught:
        call()
    return caught.value


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (allocation_error(lambda: torch.empty(1 << 60)), True),
        (allocation_error(lambda: np.empty(1 << 58)), True),
        (allocation_error(lambda: bytearray(1 << 60)), True),
        (allocation_error(lambda: torch.ones(2) @ torch.ones(3)), False),
        (ValueError("out of memory"), False),
    ],
)
def test_only_a_lack_of_memory_counts_as_one(error, expected):
    assert is_out_of_memory(error) is expected


def test_memory_of_a_failed_step_is_free_before_the_cache_is_emptied(monkeypatch):
    held, alive = [], []

    def step():
        tensor = torch.ones(3)
        held.append(weakref.ref(tensor))
        raise MemoryError

    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: alive.append(held[0]() is not None))
    assert attempt(step) is None
    assert alive == [False]


def test_blocks_shrink_to_what_fits_and_no_further(monkeypatch, tiny_scorer):
    """A hundred pairs where twenty fit: the next call starts with blocks of that size."""
    scorer = tiny_scorer()
    texts = [f"{a} {b}" for a in "abcdefgh" for b in "abcdefgh"]
    candidates, references = texts[:32] * 3, texts[32:] * 3
    expected = scorer.score(candidates, references).f1
    sizes = []

    def narrow(embedded, left, right, *rest, match=kernel._match):
        sizes.append(len(left))
        if len(left) > 20:
            raise MemoryError
        return match(embedded, left, right, *rest)

    monkeypatch.setattr(kernel, "_match", narrow)
    for _ in range(2):
        sizes.clear()
        actual = scorer.score(candidates, references).f1
        np.testing.assert_allclose(actual, expected, atol=INVARIANCE_ATOL)
    assert len(sizes) < 20
    assert scorer._engine.budget.block_bytes > 0


def test_batches_under_a_lowered_budget_are_counted_in_later_calls_too(monkeypatch, tiny_scorer):
    scorer = tiny_scorer()
    pairs = scorer.tokenize(["a b c d"] * 3, ["a b", "c d e", "f g h i"])
    weights = scorer.token_weights(None)

    def work_of_call():
        work = Work()
        scorer.score_tokenized(pairs, weights, work)
        return work

    assert (work_of_call().retries, work_of_call().lowered_batches) == (0, 0)
    start = type(scorer.encoder).start

    def narrow(self, ids, lengths):
        if len(ids) > 2:
            raise MemoryError
        return start(self, ids, lengths)

    monkeypatch.setattr(type(scorer.encoder), "start", narrow)
    first, second = work_of_call(), work_of_call()
    assert first.retries > 0
    assert first.lowered_batches == first.batches > 1
    assert second.retries == 0
    assert second.lowered_batches == second.batches > 1


def test_failed_block_is_let_go_of_before_the_next(monkeypatch, tiny_scorer):
    """What failed for lack of memory must not take the memory that the next try needs."""
    scorer = tiny_scorer()
    failed, alive = [], []

    def fail_once(embedded, left, right, *rest, match=kernel._match):
        if not failed:
            failed.append(weakref.ref(embedded.vectors))
            raise MemoryError
        return match(embedded, left, right, *rest)

    def watched(*args, embed=embedding.embed, **options):
        alive.extend(vectors() is not None for vectors in failed)
        return embed(*args, **options)

    monkeypatch.setattr(kernel, "_match", fail_once)
    monkeypatch.setattr(embedding, "embed", watched)
    scorer.score(["a b", "c d"], ["a", "c"])
    assert alive == [False, False]


def test_failed_forward_pass_is_let_go_of_before_the_next(monkeypatch, tiny_scorer):
    """Its hidden states, and what a layer was about to compute, are free when pieces are tried."""
    scorer = tiny_scorer(backend="torch")
    start, failed, alive = type(scorer.encoder).start, [], []

    def narrow(self, ids, lengths):
        alive.extend(hidden() is not None for hidden in failed)
        wait = start(self, ids, lengths)

        def compute():
            hidden = wait()
            if len(ids) > 2:
                failed.append(weakref.ref(hidden))
                raise torch.OutOfMemoryError("CUDA out of memory.")
            return hidden

        return compute

    monkeypatch.setattr(type(scorer.encoder), "start", narrow)
    scorer.score(["a b", "c d", "e f"], ["a", "c", "g"])
    assert failed
    assert alive
    assert not any(alive)


def test_numbers_that_overflow_are_an_error_and_no_score(changed_model):
    def widened(weights):
        return {name: w * 1e6 if "intermediate" in name else w for name, w in weights.items()}

    folder = changed_model("bert", weights=widened)

    def score(dtype):
        config = ScorerConfig(model=str(folder), num_layers=1, dtype=dtype, device="cpu")
        return BertScorer(config).score(["a b"], ["c d"]).f1

    assert np.isfinite(score("float32")).all()
    with pytest.raises(ConfigError, match=r"not finite in float16: got .* for pair 0 from model;"):
        score("float16")


@pytest.mark.parametrize(
    ("device", "width", "given", "label"),
    [
        ("cpu", 384, None, "1024/4"),
        ("cpu", 384, 1024, "1024"),
        ("cuda", 384, None, "65536"),
        ("cuda", 768, None, "32768"),
        ("cuda", 64, None, "131072"),
        ("cuda:3", 1024, None, "32768"),
        ("cuda", 1536, None, "16384"),
        ("cuda", 4096, None, "8192"),
        ("cuda", 1024, 700, "700"),
    ],
)
def test_budget_asked_for_does_not_depend_on_the_machine(device, width, given, label):
    """Neither the device nor its memory is looked at: there may be none."""
    budget = Budget.for_device(torch.device(device), given, hidden_size=width)
    assert budget.label == label
    assert budget == Budget.for_device(torch.device(device), given, hidden_size=width)
