"""What a scorer does on a device whose memory others have taken."""

from contextlib import suppress

import numpy as np
import torch
from torch import Tensor

from bertscore_core import DeviceMemoryError
from bertscore_core.work import Work
from tests.benchmarks.first_contact.given import Given
from tests.benchmarks.harness import Recorder
from tests.benchmarks.texts import mixed
from tests.support.tolerances import PARITY_ATOL

LEFT_FREE = 1 << 30
"""Bytes that are free when memory is too small: less than a batch of the large model takes."""

_PIECE = 64 << 20


def memory(recorder: Recorder, given: Given) -> None:
    """Score on a device that is nearly full, then where hardly a byte is free, then as before."""
    if not given.on_gpu:
        recorder.skip("a lack of memory")
        return
    expected = None
    for left in (None, LEFT_FREE, 0, None):
        what, work = "all is free" if left is None else f"{left >> 20} MiB are free", Work()
        with recorder.guarded(what):
            # A new one each time, since a scorer keeps to the batches that fitted.
            scorer = given.scorer(given.large(), "float32")
            tokens = scorer.tokenize(*mixed(200 if given.quick else 2_000, mean_tokens=30))
            weights = scorer.token_weights(None)
            taken = [] if left is None else take_all_but(left, given.device)
            try:
                found = scorer.score_tokenized(tokens, weights, work).f1
                expected = found if expected is None else expected
                apart = float(np.abs(found - expected).max())
                passed = apart <= PARITY_ATOL and (work.retries > 0) == (left is not None)
                why = f"F1 differs by {apart:.2g}; expected at most {PARITY_ATOL:g}"
            except DeviceMemoryError as error:  # to be said where nothing fits
                passed, why = left == 0, str(error)[:100]
            finally:
                taken.clear()
                torch.cuda.empty_cache()
            recorder.check(what, passed, why, retries=work.retries, batches=work.batches)
            del scorer


def take_all_but(left: int, device: str) -> list[Tensor]:
    """Take memory piece by piece until no more than so many bytes are free."""
    taken: list[Tensor] = []
    torch.cuda.empty_cache()
    with suppress(torch.OutOfMemoryError):
        while torch.cuda.mem_get_info(device)[0] > left:
            taken.append(torch.empty(_PIECE, dtype=torch.uint8, device=device))
    return taken
