"""What a program sets in torch moves no float32 score, and stays as it was set."""

import os
import threading
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest
import torch

from bertscore_core import BERTScorer, BertScorer, ScorerConfig, explain
from bertscore_core.model.encoder import load_encoder
from bertscore_core.model.switches import exact_products

pytestmark = pytest.mark.model

CANDIDATES = [f"the {word} cat sat on {number} mats" for number, word in enumerate("abcd")]
REFERENCES = [[f"{number} cats sat", "a mat"] for number in range(4)]
BACKENDS = ("torch", "openvino")
HAS_NAMES = hasattr(torch.backends, "fp32_precision")  # from torch 2.9 on
PRECISIONS = [
    (backend, work)
    for backend in ("generic", "cuda", "mkldnn")
    for work in ("all", "matmul", "conv", "rnn")
    if (backend, work) not in (("generic", "matmul"), ("generic", "conv"), ("generic", "rnn"))
]


@contextmanager
def attribute(owner, name, value, after):
    """Set an attribute, and what it is by default afterwards."""
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, after)


@contextmanager
def called(function, value, after):
    function(value)
    try:
        yield
    finally:
        function(after)


def precision(path, value, after="none"):
    owner = torch.backends
    for name in path.split(".") if path else ():
        owner = getattr(owner, name)
    return attribute(owner, "fp32_precision", value, after)


def default_device(value):
    torch.set_default_device(value)
    if value is None:  # else torch 2.8 could not tell its default in this thread again
        del torch._GLOBAL_DEVICE_CONTEXT.device_context


def all_of_a_cpu(value):
    torch.backends.mkldnn.set_flags(_fp32_precision=value)  # its attribute sets that of all devices


matmul = torch.set_float32_matmul_precision
dtype = torch.set_default_dtype
cuda, cudnn = torch.backends.cuda, torch.backends.cudnn
OLD = {
    "autocast": partial(torch.autocast, "cpu", torch.bfloat16),
    "autocast of a GPU": partial(torch.autocast, "cuda", torch.float16, enabled=False),
    "inference mode": torch.inference_mode,
    "no gradients": torch.no_grad,
    "medium": lambda: called(matmul, "medium", "highest"),
    "high": lambda: called(matmul, "high", "highest"),
    "TF32 in products": lambda: attribute(cuda.matmul, "allow_tf32", True, False),
    "no TF32 in convolutions": lambda: attribute(cudnn, "allow_tf32", False, True),
    "bfloat16 by default": lambda: called(dtype, torch.bfloat16, torch.float32),
    "float64 by default": lambda: called(dtype, torch.float64, torch.float32),
    "another device by default": lambda: called(default_device, "meta", None),
    "another device here": partial(torch.device, "meta"),
}
NEW = {
    "bfloat16 everywhere": lambda: precision("", "bf16"),
    "TF32 everywhere": lambda: precision("", "tf32"),
    "bfloat16 on a CPU": lambda: called(all_of_a_cpu, "bf16", "none"),
    "bfloat16 in products": lambda: precision("mkldnn.matmul", "bf16"),
    "bfloat16 in convolutions": lambda: precision("mkldnn.conv", "bf16"),
    "bfloat16 in recurrences": lambda: precision("mkldnn.rnn", "bf16"),
    "TF32 in products of a GPU": lambda: precision("cuda.matmul", "tf32"),
    "TF32 in convolutions of a GPU": lambda: precision("cudnn.conv", "tf32", "tf32"),
}
SWITCHES = OLD | (NEW if HAS_NAMES else {})


@contextmanager
def old_and_new():
    """Set precisions by both interfaces, after which the old ones raise when they are read."""
    with SWITCHES["medium"](), SWITCHES["TF32 in products of a GPU"]():
        torch.backends.mkldnn.matmul.fp32_precision = "tf32"
        with pytest.raises(RuntimeError, match="mix of the legacy and new"):
            torch.get_float32_matmul_precision()
        yield


if HAS_NAMES:
    SWITCHES["old and new mixed"] = old_and_new


LOADED_UNDER = [
    "autocast", "inference mode", "medium", "bfloat16 by default", "another device by default",
    *(("old and new mixed",) if HAS_NAMES else ()),
]  # fmt: skip


def process_state():
    """Return what of torch's switches belongs to the process, without what may raise."""
    read = getattr(torch._C, "_get_fp32_precision_getter", None)
    if read is None:
        switches = cuda.matmul.allow_tf32, cudnn.allow_tf32, torch.get_float32_matmul_precision()
    else:
        switches = tuple(read(*name) for name in PRECISIONS)
    return switches, torch.get_default_dtype()


@pytest.fixture
def loads_anew(monkeypatch):
    monkeypatch.setattr("bertscore_core.scorer.load_encoder", load_encoder)


def arrays(scores):
    return [np.asarray(values) for values in (scores.precision, scores.recall, scores.f1)]


@pytest.fixture(scope="module")
def scorers():
    of_library = [BertScorer(ScorerConfig(device="cpu", backend=backend)) for backend in BACKENDS]
    of_peer = BERTScorer("all-MiniLM-L6-v2", device="cpu")
    return [
        *(
            lambda scorer=scorer: arrays(scorer.score(CANDIDATES, REFERENCES))
            for scorer in of_library
        ),
        lambda: [values.numpy() for values in of_peer.score(CANDIDATES, REFERENCES)],
    ]


@pytest.fixture(scope="module")
def expected(scorers):
    return [score() for score in scorers]


@pytest.mark.parametrize("name", SWITCHES)
def test_no_switch_moves_a_score_and_each_stays_as_it_was(name, scorers, expected):
    with SWITCHES[name]():
        before = process_state()
        found = [score() for score in scorers]
        assert process_state() == before
    for ours, plain in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, plain)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", LOADED_UNDER)
def test_a_model_that_is_loaded_under_a_switch_scores_the_same(
    name, backend, tiny_scorer, loads_anew, monkeypatch
):
    monkeypatch.setenv("BERTSCORE_CACHE", "")  # OpenVINO's is converted anew
    family = "deberta_v2" if backend == "torch" else "bert"
    make = partial(tiny_scorer, family, backend=backend)
    plain = arrays(make().score(CANDIDATES, REFERENCES))
    with SWITCHES[name]():
        before = process_state()
        scorer = make()
        assert process_state() == before
    np.testing.assert_array_equal(arrays(scorer.score(CANDIDATES, REFERENCES)), plain)


@pytest.mark.parametrize("name", ["autocast", "medium", "bfloat16 by default"])
def test_the_norm_of_all_layers_is_found_under_a_switch(name, tiny_scorer, loads_anew):
    make = partial(tiny_scorer, "t5", all_layers=True, layer_semantics="cut", backend="torch")
    plain = arrays(make().score(CANDIDATES, REFERENCES))
    with SWITCHES[name]():
        found = arrays(make().score(CANDIDATES, REFERENCES))
    np.testing.assert_array_equal(found, plain)


def test_buckets_of_distances_are_computed_in_float32(changed_model):
    """DeBERTa divides whole numbers, which gives torch's default format."""

    def with_more_buckets(weights):
        (name,) = (name for name in weights if name.endswith("rel_embeddings.weight"))
        random = np.random.default_rng(0).normal(size=(512, weights[name].shape[1]))
        return weights | {name: random.astype(np.float32)}

    folder = changed_model("deberta_v2", weights=with_more_buckets, position_buckets=256)
    config = ScorerConfig(
        model=str(folder), num_layers=2, max_length=400, device="cpu", backend="torch"
    )
    scorer, long = BertScorer(config), ["a b c d e f g h " * 40, "h g f a " * 90]
    plain = scorer.score(long, long[::-1]).f1
    with SWITCHES["bfloat16 by default"]():
        np.testing.assert_array_equal(scorer.score(long, long[::-1]).f1, plain)


def test_16_bits_leave_the_switches_of_the_process_alone(tiny_scorer):
    seen = []
    for dtype in ("bfloat16", "float32"):
        scorer = tiny_scorer("bert", dtype=dtype, backend="torch")
        look = lambda *_: seen.append(torch.get_float32_matmul_precision())  # noqa: E731
        hook = scorer.encoder.model.register_forward_hook(look)
        with hook, SWITCHES["high"]():
            scorer.score(["a b"], ["b a"])
    assert seen == ["high", "highest"]


def test_what_is_returned_in_inference_mode_can_be_changed_and_used_with_gradients(scorer):
    peer = BERTScorer("all-MiniLM-L6-v2", device="cpu", lang="en", rescale_with_baseline=False)
    with torch.inference_mode():
        scores, tensors = scorer.score(["a"], ["b"]), peer.score(["a"], ["b"])
    for tensor in tensors:
        weight = torch.ones(1, requires_grad=True)
        (tensor * weight).sum().backward()
        assert weight.grad == tensor
        tensor += 1
    scores.f1[0] = 2
    assert scores.f1[0] == 2


def test_scorers_and_a_training_loop_in_threads_do_not_disturb_each_other(tiny_scorer):
    made = [tiny_scorer(backend=backend) for backend in BACKENDS]
    plain = [arrays(scorer.score(CANDIDATES, REFERENCES)) for scorer in made]
    done, errors, steps = threading.Event(), [], []

    def train():
        try:
            weight = torch.nn.Linear(64, 64)
            while not done.is_set():
                with torch.autocast("cpu", torch.bfloat16):
                    loss = weight(torch.ones(8, 64)).sum()
                loss.backward()
                # Read each time, as torch.compile does.
                steps.append((torch.get_float32_matmul_precision(), cuda.matmul.allow_tf32))
        except BaseException as error:
            errors.append(error)

    def score(scorer, expected):
        try:
            for _ in range(20):
                found = arrays(scorer.score(CANDIDATES, REFERENCES))
                np.testing.assert_array_equal(found, expected)
        except BaseException as error:
            errors.append(error)

    with SWITCHES["medium"]():
        before = process_state()
        training = threading.Thread(target=train)
        scoring = [
            threading.Thread(target=score, args=pair) for pair in zip(made, plain, strict=True)
        ]
        for thread in (training, *scoring):
            thread.start()
        for thread in scoring:
            thread.join()
        done.set()
        training.join()
        assert process_state() == before
        assert torch.get_float32_matmul_precision() == "medium"
    assert not errors
    assert len(steps) > 3


@pytest.mark.parametrize("name", ["autocast", "medium"])
def test_an_explanation_shows_the_same_cosines(name, tiny_scorer):
    scorer = tiny_scorer(backend="torch")
    plain = explain(scorer, CANDIDATES[0], REFERENCES[0])
    with SWITCHES[name]():
        found = explain(scorer, CANDIDATES[0], REFERENCES[0])
    assert found.scores == plain.scores
    for ours, theirs in zip(found.pairs, plain.pairs, strict=True):
        np.testing.assert_array_equal(ours.similarities, theirs.similarities)


def test_tf32_is_forbidden_in_the_convolutions_of_a_forward_pass_alone():
    """Torch takes TF32 for convolutions of float32 by default: DeBERTa-v2-xlarge has one."""

    def allowed():
        if HAS_NAMES:
            return torch.backends.cudnn.conv.fp32_precision == "tf32"
        return cudnn.allow_tf32

    assert allowed()
    with exact_products(convolves=True):
        assert not allowed()
    assert allowed()
    assert cudnn.allow_tf32


@pytest.mark.process
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_fork_waits_for_the_switches_of_another_thread():
    held, leave = threading.Event(), threading.Event()

    def hold():
        with exact_products():
            held.set()
            leave.wait(0.3)

    with SWITCHES["medium"]():
        before, thread = process_state(), threading.Thread(target=hold)
        thread.start()
        held.wait()
        child = os.fork()
        if not child:
            with exact_products():
                pass
            os._exit(process_state() != before)
        assert os.waitpid(child, 0)[1] == 0
        thread.join()
