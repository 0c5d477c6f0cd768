"""A GPU that has failed is told from one that is full, and from a call that was refused."""

import pytest
import torch

from bertscore_core import DeviceLostError
from bertscore_core.match import kernel, matching_triton
from bertscore_core.model import triton_jit
from bertscore_core.model.encoder import Encoder
from bertscore_core.model.lost_device import is_device_lost, noticing_a_lost_device
from bertscore_core.model.memory import is_out_of_memory

ILLEGAL = "CUDA error: an illegal memory access was encountered"
ADVICE = "CUDA kernel errors might be asynchronously reported at some other API call"


FULL, LOST, NEITHER = (True, False), (False, True), (False, False)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        *(
            (torch.AcceleratorError(f"CUDA error: {words}"), LOST)
            for words in (
                f"an illegal memory access was encountered\n{ADVICE}",
                "uncorrectable ECC error encountered",
                "unspecified launch failure",
                "an error of a later version",
            )
        ),
        (RuntimeError(ILLEGAL), LOST),
        (RuntimeError("Triton Error [CUDA]: an illegal memory access was encountered"), LOST),
        (RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `x`"), LOST),
        (RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"), LOST),
        (torch.AcceleratorError("CUDA error: out of memory"), FULL),
        (torch.OutOfMemoryError("CUDA out of memory."), FULL),
        (RuntimeError("MPS backend out of memory (MPS allocated: 18.00 GB)"), FULL),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `x`"), FULL),
        (RuntimeError("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `x`"), FULL),
        (RuntimeError("Check 'ptr' failed: Failed to allocate 321280000 bytes of memory"), FULL),
        (torch.AcceleratorError("CUDA error: invalid device ordinal"), NEITHER),
        (torch.AcceleratorError("CUDA error: no kernel image is available"), NEITHER),
        (RuntimeError("CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling `x`"), NEITHER),
        (RuntimeError("Triton Error [CUDA]: device kernel image is invalid"), NEITHER),
        (RuntimeError("Triton Error [CUDA]: unsupported toolchain"), NEITHER),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), NEITHER),
        (ValueError(ILLEGAL), NEITHER),
    ],
)
def test_a_full_device_a_lost_one_and_a_refused_call_are_told_apart(error, expected):
    assert (is_out_of_memory(error), is_device_lost(error)) == expected


def test_other_errors_pass_as_they_are():
    with pytest.raises(ValueError, match="another"), noticing_a_lost_device():
        raise ValueError("another")


@pytest.mark.model
def test_scorer_says_that_the_process_must_end_and_tries_nothing_smaller(monkeypatch, tiny_scorer):
    scorer = tiny_scorer()
    calls = []

    def fail(self, ids, lengths):
        calls.append(len(ids))
        raise torch.AcceleratorError(f"{ILLEGAL}\n{ADVICE}")

    monkeypatch.setattr(Encoder, "start", fail)
    with pytest.raises(DeviceLostError) as caught:
        scorer.score(["a b", "c d", "e"], ["a", "c", "f g"])
    assert str(caught.value) == (
        f"the GPU has failed: got {ILLEGAL!r}; expected scores. No later call of this process to "
        "the GPU can succeed: end the process and start a new one."
    )
    assert isinstance(caught.value.__cause__, torch.AcceleratorError)
    assert len(calls) == 1
    pairs = scorer.tokenize(["a b"], ["c"])
    with pytest.raises(DeviceLostError):
        scorer.embed(pairs.texts, pairs.candidates, scorer.token_weights(None))


@pytest.fixture
def trial(monkeypatch):
    """Try the fused kernel on a GPU that is not here, where it fails with an error."""

    def run(words, *, available=True):
        def fail(*_, **__):
            raise RuntimeError(f"Triton Error [CUDA]: {words}")

        monkeypatch.setattr(triton_jit, "is_available", lambda device: available)
        monkeypatch.setattr(matching_triton, "greedy_match_ragged", fail)
        return kernel._fused_matching(torch.device("cuda"))

    ones = torch.ones
    monkeypatch.setattr(torch, "ones", lambda *size, device, **how: ones(*size, **how))
    kernel._fused_matching.cache_clear()
    yield run
    kernel._fused_matching.cache_clear()


def test_trial_of_the_fused_kernel_hides_no_lost_device(trial):
    """Without it, pairs would be matched in another way, on a GPU that fails every call."""
    with pytest.raises(RuntimeError, match="Triton Error"):
        trial("an illegal memory access was encountered")


def test_pairs_are_matched_without_a_kernel_that_the_driver_refuses(trial, caplog):
    assert trial("device kernel image is invalid") is None
    assert "without the fused kernel: Triton Error" in caplog.text


def test_a_kernel_that_is_not_available_is_not_tried(trial):
    assert trial("an illegal memory access was encountered", available=False) is None
