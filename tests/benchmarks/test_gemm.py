import pytest

from tests.benchmarks import gemm


@pytest.mark.model
def test_every_path_of_a_cpu_is_timed_and_the_limit_is_the_fastest():
    shape = (8, 16, 32)
    assert gemm._chain_rate(shape, "float32", 0.001) > 0
    assert gemm._chain_rate(shape, "float16", 0.001) == 0  # OpenVINO has it on no CPU
    assert gemm.Peak(matmul=3.0, packed=0.0, chain=2.0).best == 3.0
    assert gemm.Peak(matmul=3.0, packed=4.0, chain=5.0).best == 5.0
