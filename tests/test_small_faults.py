"""The list of small faults fits the code, so that it can be tried at any time."""

import ast
from collections import Counter

import pytest

from tests.small_faults import FAULTS, ROOT, place_of


def test_there_are_sixty_and_three_of_each_room():
    rooms = Counter(fault.room for fault in FAULTS)
    folders = (ROOT / "pipelines/bertscore_beam").iterdir()
    own = {path.name for path in folders if (path / "__init__.py").exists()}
    assert rooms.keys() == own | {"core"}
    assert min(rooms.values()) >= 3
    assert rooms.total() >= 60


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.room}-{fault.wrong[:40]}")
def test_a_fault_has_one_place_in_its_room_and_is_python(fault):
    path = place_of(fault, ROOT)
    root = "bertscore_core" if fault.room == "core" else f"pipelines/bertscore_beam/{fault.room}"
    assert path.is_relative_to(ROOT / root)
    assert fault.wrong != fault.right
    ast.parse(path.read_text().replace(fault.right, fault.wrong))
