"""The layers of the suite: what a test needs decides in which it is, and quick tests stay quick.

A plugin of pytest, which tests/conftest.py registers.
"""

import sys
from collections.abc import Callable
from functools import wraps
from importlib.util import find_spec
from typing import Any

import pytest

HEAVY = ("model", "job", "process", "long")
"""Markers of tests that `make quick` leaves out; pyproject.toml says what each means."""

NEEDS = {"scorer": "model", "tiny_folder": "model", "checkout": "job"}
"""Fixtures of `tests/` by the marker that they ask for."""

LONGEST = (
    "test_every_write.py", "test_dataflow.py", "test_prism.py", "test_restarts.py",
    "test_simulation.py", "test_publication.py",
    "test_first_contact.py", "test_container.py", "test_docs.py", "test_out_of_memory.py",
    "test_readers.py", "test_lock.py", "test_files_fuzz.py", "test_page.py", "test_collect.py",
    "test_reach.py", "test_read_split.py",
)  # fmt: skip
"""Files whose few tests take long: begun last, they would leave the other process without work."""

_PROCESS_EVENTS = {"subprocess.Popen", "os.system", "os.posix_spawn", "os.exec", "os.fork"}

_running: list[pytest.Item] = []
_offences: list[str] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that use a heavy fixture, and put the longest files first.

    The order of all others is left as it is.
    """
    for item in items:
        for name in getattr(item, "fixturenames", ()):
            if name in NEEDS:
                item.add_marker(NEEDS[name])
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))


def pytest_collection() -> None:
    """Note heavy work from now on, in whatever thread it is done, in each process of tests."""
    from transformers import PreTrainedModel

    sys.addaudithook(_note_process)
    _watch(PreTrainedModel, "__init__", "makes an encoder", "model")
    if find_spec("apache_beam") is not None:  # tests of the core run where Beam is not installed
        import apache_beam

        _watch(apache_beam.Pipeline, "run", "runs a Beam pipeline", "job")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note which test runs now, before its fixtures are made."""
    _running[:] = [item]
    _offences.clear()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Let the test fail if it has done heavy work and is not marked for it."""
    _running.clear()
    if _offences:
        pytest.fail("; ".join(dict.fromkeys(_offences)))


def _note(what: str, marker: str) -> None:
    if _running and not any(_running[0].get_closest_marker(heavy) for heavy in HEAVY):
        _offences.append(f"a quick test {what}: mark it with pytest.mark.{marker}")


def _note_process(event: str, given: tuple[Any, ...]) -> None:
    if not _running:  # nor where Python ends, and has taken this module apart
        return
    is_server = event == "socket.bind" and isinstance(given[1], tuple)  # not a socket in a folder
    if is_server or event in _PROCESS_EVENTS:
        _note("starts a process or a server", "process")


def _watch(owner: type, name: str, what: str, marker: str) -> None:
    original: Callable[..., Any] = getattr(owner, name)

    @wraps(original)
    def watched(*args: Any, **kwargs: Any) -> Any:
        _note(what, marker)
        return original(*args, **kwargs)

    setattr(owner, name, watched)
