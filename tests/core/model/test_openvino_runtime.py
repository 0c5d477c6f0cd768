"""The encoder on OpenVINO: chosen where it can, equal to torch, silent towards the world."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from bertscore_core import BertScorer, ConfigError, ModelLoadError, ScorerConfig, settle
from bertscore_core.model.layers import LastLayer
from bertscore_core.model.openvino_runtime import CompileOptions, compile_encoder, computes_in
from tests.golden import texts

pytestmark = pytest.mark.model

SHAPE = CompileOptions(dtype="float32", layers=1, width=4, longest=30)


class Table(nn.Module):
    """Looks embeddings up, and does something with them."""

    def __init__(self, change=lambda hidden: hidden):
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(20, 4)
        self.change = change

    def forward(self, ids, attention_mask):
        return (self.change(self.table(ids)),)


def test_batches_side_by_side_are_those_computed_alone():
    """More are started than it was asked to compute at once, and waited for in another order."""
    torch.set_num_threads(2)
    encoder = compile_encoder(LastLayer(Table(torch.tanh)), SHAPE, vocabulary=20, key=None)
    assert encoder.in_flight == 3
    batches = [torch.randint(0, 20, (1 + number % 3, 2 + number)) for number in range(7)]
    alone = [encoder(ids, torch.ones_like(ids)) for ids in batches]
    running = [encoder.start(ids, torch.ones_like(ids)) for ids in batches]
    actual = [running[number]() for number in (6, 0, 3, 1, 5, 2, 4)]
    for number, hidden in zip((6, 0, 3, 1, 5, 2, 4), actual, strict=True):
        assert torch.equal(hidden, alone[number])


MANY_SHAPES = """
import random, sys, torch
from bertscore_core import BertScorer, ScorerConfig
config = ScorerConfig(model=sys.argv[1], num_layers=3, device="cpu", backend="openvino")
encoder = BertScorer(config).encoder
shapes = [(n, m) for m in range(3, 48) for n in range(1, 121) if n * m <= 2000]
random.Random(1).shuffle(shapes)
for number, (texts, tokens) in enumerate(shapes[:3401]):
    encoder.encode(torch.full((texts, tokens), 7), torch.full((texts,), tokens))
    if number in (0, 2700, 3400):
        pages = int(open("/proc/self/statm").read().split()[1])
        print(pages * 4096 / 1e6)
"""


@pytest.mark.long
@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_memory_ends_to_grow_however_many_shapes_batches_have(tiny_folder):
    code = [sys.executable, "-c", MANY_SHAPES, str(tiny_folder("bert"))]
    done = subprocess.run(code, capture_output=True, text=True, timeout=900, check=True)
    start, late, end = map(float, done.stdout.split())
    assert late - start > 100  # it keeps some
    assert end - late < 20  # 0 or 1; without a bound 60


@pytest.fixture
def side_by_side(tiny_scorer):
    """Make a scorer that has several small batches computed at once."""
    return lambda batch_tokens: tiny_scorer(
        backend="openvino", num_threads=2, max_batch_tokens=batch_tokens
    )


def test_memory_that_runs_out_beside_other_batches_moves_nothing(side_by_side, monkeypatch):
    """The largest batch is refused once, while others are being computed."""
    texts = [" ".join("abcdefgh"[: 1 + number % 8]) for number in range(60)]
    expected = side_by_side(64).score(texts, texts[1:] + texts[:1]).f1
    scorer = side_by_side(64)
    assert scorer.encoder.in_flight == 3
    start, refused = type(scorer.encoder).start, []

    def short(encoder, ids, lengths):
        running = start(encoder, ids, lengths)
        if len(refused) < 2:
            refused.append(len(ids))

            def fail():
                running()
                raise MemoryError

            return fail
        return running

    monkeypatch.setattr(type(scorer.encoder), "start", short)
    actual = scorer.score(texts, texts[1:] + texts[:1]).f1
    assert len(refused) == 2
    np.testing.assert_allclose(actual, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        # Python sees the length once, when the model is traced.
        (
            lambda hidden: hidden.flip(-1) if hidden.shape[1] < 20 else hidden,
            r"something else on OpenVINO: got unit vectors .* torch",
        ),
        (lambda hidden: hidden / (hidden - hidden), "differ from torch's by nan"),
        (
            lambda hidden: torch.linalg.eigvals(hidden[..., None] * hidden[..., None, :]).abs(),
            r"(?s)Table cannot be converted .*--backend torch",
        ),
    ],
    ids=["lost branch", "not a number", "not converted"],
)
def test_a_model_that_computes_something_else_is_refused(change, message):
    with pytest.raises(ModelLoadError, match=message):
        compile_encoder(LastLayer(Table(change)), SHAPE, vocabulary=20, key=None)


def backend(folder, **changes):
    config = {"model": str(folder), "num_layers": 1, "max_length": "reference"}
    return settle(ScorerConfig(**config | changes)).backend


@pytest.mark.parametrize(
    ("family", "changes", "chosen"),
    [
        ("bert", {}, "openvino"),
        ("bert", {"dtype": "float16"}, "torch"),
        ("longformer", {}, "torch"),
        ("bert", {"backend": "torch"}, "torch"),
        ("bert", {"trust_remote_code": True}, "openvino"),
        ("t5", {"max_length": 1024}, "openvino"),
        ("t5", {"max_length": 1025}, "torch"),  # longer than what is compared
    ],
)
def test_openvino_is_chosen_on_a_cpu_for_what_it_can_run(tiny_folder, family, changes, chosen):
    assert backend(tiny_folder(family), device="cpu", **changes) == chosen


@pytest.mark.parametrize("has_it", [True, False])
def test_bfloat16_runs_on_openvino_only_where_the_processor_has_it(
    has_it, monkeypatch, tiny_folder
):
    monkeypatch.setattr(
        "bertscore_core.model.openvino_runtime.computes_in",
        lambda dtype: has_it or dtype == "float32",
    )
    folder = tiny_folder("bert")
    assert backend(folder, device="cpu") == "openvino"
    assert backend(folder, device="cpu", dtype="bfloat16") == ("openvino" if has_it else "torch")
    if not has_it:
        with pytest.raises(ConfigError, match="this processor does not compute in bfloat16"):
            backend(folder, device="cpu", dtype="bfloat16", backend="openvino")


LIMITED = """
from bertscore_core import settle, ScorerConfig
from bertscore_core.model.openvino_runtime import computes_in
import sys
config = ScorerConfig(model=sys.argv[1], num_layers=1, dtype="bfloat16", device="cpu")
print(computes_in("float32"), computes_in("bfloat16"), settle(config).backend)
"""


@pytest.mark.process
def test_a_limit_of_the_instructions_is_a_processor_without_the_format(tiny_folder):
    """OpenVINO lists bfloat16 all the same, and fails when a model is compiled."""
    environment = os.environ | {"ONEDNN_MAX_CPU_ISA": "AVX2"}
    code = [sys.executable, "-c", LIMITED, str(tiny_folder("bert"))]
    done = subprocess.run(code, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False", "torch"]


def test_threads_may_share_a_scorer(scorer):
    """The compiled model has one place for its results."""
    words = ["cat", "dog", "rain", "sun", "tree", "house"]
    jobs = [([f"a {x} {y}" for y in words], [f"the {x}"] * 6) for x in words]
    expected = [scorer.score(*job).f1 for job in jobs]
    with ThreadPoolExecutor(3) as pool:
        actual = list(pool.map(lambda job: scorer.score(*job).f1, jobs * 5))
    for position, scores in enumerate(actual):
        np.testing.assert_array_equal(scores, expected[position % len(jobs)])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"device": "cpu", "dtype": "float16"}, "cannot compute in float16 on cpu"),
        ({"device": "meta"}, "cannot compute in float32 on meta"),
    ],
)
def test_what_openvino_cannot_do_is_said_before_the_model_is_loaded(changes, message, tiny_folder):
    with pytest.raises(ConfigError, match=message):
        backend(tiny_folder("bert"), backend="openvino", **changes)


def score(**changes):
    scorer = BertScorer(ScorerConfig(device="cpu", **changes))
    return scorer.score(*texts.columns(texts.PAIRS[::2]))


@pytest.mark.parametrize("backend", ["torch", "openvino"])
def test_bfloat16_drifts_a_little_and_to_no_side(backend):
    if backend == "openvino" and not computes_in("bfloat16"):
        with pytest.raises(ConfigError, match="this processor does not compute in bfloat16"):
            score(dtype="bfloat16", backend=backend)
        return
    exact, fast = score(), score(dtype="bfloat16", backend=backend)
    drift = (fast.precision - exact.precision).astype(np.float64)
    assert 1e-6 < np.abs(drift).max() < 1e-2
    assert abs(drift.mean()) < 2e-4


SCRIPT = """
import os, socket, sys
from types import SimpleNamespace

def refuse(*args, **kwargs):
    print("the network was used:", args)
    os._exit(9)

socket.getaddrinfo = socket.socket.connect = refuse
import torch
from bertscore_core import BertScorer, ScorerConfig

config = ScorerConfig(model=sys.argv[1], num_layers=1, device="cpu", backend="openvino")
scorer = BertScorer(config)
scorer.score(["a cat sat"] * 3, ["the cat sat"] * 3)
print(sorted(os.listdir(os.environ["HOME"])))
print("openvino_telemetry" in sys.modules)
statuses = [open(f"/proc/self/task/{task}/status").read() for task in os.listdir("/proc/self/task")]
allowed = {next(x for x in s.splitlines() if x.startswith("Cpus_allowed:")) for s in statuses}
print(len(allowed))
"""


@pytest.fixture(scope="module")
def alone(tmp_path_factory, tiny_folder):
    """Run a scorer in a process without a network and with an empty home."""
    home = tmp_path_factory.mktemp("home")
    environment = {"HOME": str(home), "HF_HUB_OFFLINE": "1", "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-c", SCRIPT, str(tiny_folder("bert"))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    home_files, telemetry, masks = done.stdout.splitlines()[-3:]
    return SimpleNamespace(home=home_files, telemetry=telemetry, masks=masks)


def test_nothing_is_reported_to_anyone(alone):
    """OpenVINO's own import asks a server of its maker's; see `_without_telemetry`."""
    assert alone.telemetry == "False"
    assert "intel" not in alone.home


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_threads_are_not_pinned_to_cores(alone):
    """Else all worker processes would compute on the first core."""
    assert alone.masks == "1"
