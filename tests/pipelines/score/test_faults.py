"""A store that errs now and then costs a run nothing but time."""

import fsspec
import numpy as np
import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.files.paths import TEMPORARY_PREFIX
from bertscore_beam.run.folder import SUCCESS_FILE
from tests.support.dumps import read_output, write_dump
from tests.support.faults import FaultRule, Faults
from tests.support.s3 import s3_bucket
from tests.support.tolerances import INVARIANCE_ATOL

ROWS = 120

pytestmark = [pytest.mark.model, pytest.mark.job, pytest.mark.process]


def test_store_that_errs_now_and_then_costs_nothing_but_time(tmp_path, tiny_folder):
    dump = write_dump(tmp_path / "dump", [ROWS // 2] * 2, row_group_size=5)
    score = ["score", "--input", dump, "--model", tiny_folder("bert"), "--num-layers", 2]
    score += ["--idf", "corpus", "--split-rows", 5, "--device", "cpu", "--output"]
    undisturbed, disturbed = tmp_path / "undisturbed", tmp_path / "disturbed"
    assert cli.main([*map(str, score), str(undisturbed)]) == cli.DONE
    servers: list[Faults] = []
    with s3_bucket(servers) as url:
        (faults,) = servers
        faults.set(FaultRule(rate=0.05, kinds=("500", "503", "429", "lost", "cut")))
        assert cli.main([*map(str, score), f"{url}/out"]) == cli.DONE
        faults.set(FaultRule())
        assert faults.happened.total() >= 3
        store = fsspec.filesystem("s3")
        store.invalidate_cache()
        store.get(f"{url}/out", str(disturbed), recursive=True)
    found, expected = read_output(disturbed), read_output(undisturbed)
    assert found.column_names == expected.column_names
    assert found["id"].to_pylist() == list(range(ROWS))
    for name in ("bertscore_precision", "bertscore_recall", "bertscore_f1"):
        here, there = found[name].to_numpy(), expected[name].to_numpy()
        np.testing.assert_allclose(here, there, atol=INVARIANCE_ATOL, rtol=0)
    assert (disturbed / SUCCESS_FILE).exists()
    assert not list(disturbed.rglob(f"{TEMPORARY_PREFIX}*"))
