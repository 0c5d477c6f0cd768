"""Sums come in one order: MKL is told so before its first product."""

import os
import subprocess
import sys

import pytest
import torch

from bertscore_core.scorer_config import MKL_VALUE, MKL_VARIABLE

pytestmark = pytest.mark.model

SAY = f"; print(os.environ.get({MKL_VARIABLE!r}))"

IN_FORCE = """
import ctypes, pathlib, torch
torch.ones(64, 64) @ torch.ones(64, 64)
mkl = ctypes.CDLL(str(pathlib.Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
ask = getattr(mkl, "mkl_serv_cbwr_get", None)
print("unknown" if ask is None else bool(ask(-1) & 0x10000))  # of all settings, the one for STRICT
"""


def said(code: str, **environment: str) -> str:
    """Run Python in a process of its own, without the variable, and return what it prints."""
    own = {name: value for name, value in os.environ.items() if name != MKL_VARIABLE}
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, env=own | environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("use", "stated", "expected"),
    [
        ("from bertscore_core import BertScorer", {MKL_VARIABLE: "COMPATIBLE"}, "COMPATIBLE"),
        ("import bertscore_core; bertscore_core.published_baselines()", {}, "None"),
    ],
)
def test_the_library_sets_nothing_without_torch_and_keeps_a_value_of_the_user(
    use, stated, expected
):
    assert said(f"import os; {use}{SAY}", **stated) == expected


@pytest.mark.parametrize("first", ["bertscore_core.scorer_config", "torch"])
def test_it_is_set_and_in_force_although_torch_was_imported_before(first):
    if first == "torch" and torch.__version__.startswith("2.8."):
        pytest.skip("torch 2.8 looks when it is imported")
    value, answer = said(
        f"import os, {first}; from bertscore_core import score{SAY}{IN_FORCE}"
    ).split()
    assert value == MKL_VALUE
    if answer == "unknown":
        pytest.skip("this torch multiplies without MKL, or does not tell")
    assert answer == "True"
