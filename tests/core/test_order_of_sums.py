"""Sums come in one order: MKL is told so before its first product."""

import os
import subprocess
import sys

import pytest

from bertscore_core.scorer_config import MKL_VALUE, MKL_VARIABLE

pytestmark = pytest.mark.model

SAY = f"; print(os.environ.get({MKL_VARIABLE!r}))"

IN_FORCE = """
import ctypes, pathlib, torch
from bertscore_core import BertScorer
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
    "use", ["from bertscore_core import ScorerConfig", "from bertscore_core import score"]
)
def test_the_library_sets_it_whatever_is_used(use):
    assert said(f"import os; {use}{SAY}") == MKL_VALUE


def test_a_value_of_the_users_own_stays():
    use = "import os; from bertscore_core import ScorerConfig"
    assert said(f"{use}{SAY}", **{MKL_VARIABLE: "COMPATIBLE"}) == "COMPATIBLE"


def test_a_program_that_only_reads_tables_is_left_alone():
    use = "import os, bertscore_core; bertscore_core.published_baselines()"
    assert said(f"{use}{SAY}") == "None"


def test_it_is_in_force_although_torch_was_imported_before():
    answer = said(f"import torch{IN_FORCE}")
    if answer == "unknown":
        pytest.skip("this torch multiplies without MKL, or does not tell")
    assert answer == "True"
