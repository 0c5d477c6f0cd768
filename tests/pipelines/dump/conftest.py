"""Fixtures of the tests of dumps."""

from collections.abc import Iterator

import pytest

from tests.support.spark import RunSpark, spark_process


@pytest.fixture(scope="session")
def run_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunSpark]:
    with spark_process(tmp_path_factory.mktemp("spark")) as run:
        yield run
