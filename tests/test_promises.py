"""The list of promises is true of the pages, the tests and the code."""

import ast

import pytest

from tests.promises import PAGE, ROOT, page, read_promises
from tests.small_faults import Fault, place_of

_, PROMISES = read_promises()
UNTESTED = {"bench", "gpu", "dataflow"}  # figures, and what never ran


def test_the_page_is_what_the_list_makes():
    assert PAGE.read_text(encoding="utf-8") == page()


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.text[:50])
def test_a_promise_is_on_its_page_has_tests_and_can_be_broken(promise):
    shown = " ".join((ROOT / promise.page).read_text(encoding="utf-8").split())
    assert " ".join(promise.text.split()) in shown
    for test in promise.tests:
        file, _, name = test.partition("::")
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        found = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert name.rpartition("::")[2] in found
    assert promise.tests or promise.layer in UNTESTED
    if promise.tests:
        assert promise.wrong != promise.right
        place = place_of(Fault("", promise.right, promise.wrong), ROOT)
        if place.suffix == ".py":
            ast.parse(place.read_text().replace(promise.right, promise.wrong))


def test_the_list_covers_the_readme():
    assert sum(promise.page == "README.md" for promise in PROMISES) >= 14
    assert len(PROMISES) >= 56
