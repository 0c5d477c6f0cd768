"""What the tests of the library share."""

from collections.abc import Iterator

import pytest

from tests.support.encoders import shared_encoder

LOADING = {"scorer", "tiny_folder"}
"""Fixtures that load or build a model."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test that asks for a model, directly or through another fixture."""
    for item in items:
        if LOADING & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.model)


@pytest.fixture(autouse=True, scope="module")
def encoders_are_shared() -> Iterator[None]:
    """Let the scorers of all tests share their encoders."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bertscore_core.scorer.load_encoder", shared_encoder)
        yield
