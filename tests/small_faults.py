"""Put small faults into the code, one at a time, and see which layer of tests finds each.

    python -m tests.small_faults RESULTS.jsonl                    all faults, by the quick tests
    python -m tests.small_faults RESULTS.jsonl --layers quick test --rooms core score

A fault is a line of code and what it becomes; small_faults.txt is their list. It is looked for by
its text and not by its file, so that moving code leaves the list as it is. Each is put into a copy
of the tree, whose tests run until one finds it: first those of its room, layer by layer, then all.
The results are appended to a file, a line each, and what is in it already is not tried again.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ("bertscore_core/**/*.py", "pipelines/**/*.py", "docs/*.md")
LAYERS = {
    "quick": "not (model or job or process or long)",
    "test": "(model or job or process) and not long",
    "engines": "long",
}
"""What each layer adds to the one before, as an expression of pytest marks."""


class Fault(NamedTuple):
    """A small fault, of the kind that a tired person makes.

    Attributes:
        room: The part of the project that it is in.
        right: A piece of code that occurs once.
        wrong: What it becomes.
    """

    room: str
    right: str
    wrong: str


def read_faults(path: Path) -> tuple[Fault, ...]:
    """Read the list: each fault is a room, and two lines of code behind `-` and `+`."""
    blocks = path.read_text(encoding="utf-8").rstrip("\n").split("\n\n")
    lines = [block.split("\n") for block in blocks if not block.startswith("#")]
    return tuple(
        Fault(room, right.removeprefix("- "), wrong.removeprefix("+ "))
        for room, right, wrong in lines
    )


FAULTS = read_faults(Path(__file__).with_suffix(".txt"))


def place_of(fault: Fault, root: Path) -> Path:
    """Return the only file that has the right piece of code.

    Raises:
        ValueError: None has it, or it occurs more than once.
    """
    counts = {
        path: found for path, text in _texts(root).items() if (found := text.count(fault.right))
    }
    if sum(counts.values()) != 1:
        raise ValueError(f"a fault cannot be placed: got {counts or 'no place'} of {fault.right!r}")
    return next(iter(counts))


@cache
def _texts(root: Path) -> dict[Path, str]:
    paths = (path for source in SOURCES for path in sorted(root.glob(source)))
    return {path: path.read_text(encoding="utf-8") for path in paths}


def copy_tree(target: Path) -> None:
    """Copy the files that git knows, and those of the environment that tests call by path."""
    names = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True).split("\0")
    copy = ["cp", "--parents", "-t", str(target)]
    subprocess.run([*copy, *filter(None, names)], cwd=ROOT, check=True)
    (target / ".venv").symlink_to(ROOT / ".venv")


@contextmanager
def broken_tree(fault: Fault) -> Iterator[Path]:
    """Make a copy of the tree with a fault in it."""
    place = place_of(fault, ROOT).relative_to(ROOT)
    with tempfile.TemporaryDirectory(prefix="fault-") as folder:
        tree = Path(folder)
        copy_tree(tree)
        (tree / place).write_text((tree / place).read_text().replace(fault.right, fault.wrong))
        yield tree


def run_tests(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run tests of a copy of the tree, on its own code, up to the first that fails."""
    own = os.pathsep.join(map(str, (tree, tree / "pipelines")))
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": own, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
    )


def finds(tree: Path, layers: list[str], room: str, arguments: list[str]) -> tuple[str, str]:
    """Return the first test that fails in a tree, and its layer; "" for both if none does.

    The tests of the fault's own room are tried first, since they find most and are few.
    """
    own = "tests/core" if room == "core" else f"tests/pipelines/{room}"
    for chosen in ([own, "-n", "0"], ["-n", "2", "--dist", "loadfile"]):
        for layer in layers:
            if test := _fails(tree, layer, [*chosen, *arguments]):
                return layer, test
    return "", ""


def _fails(tree: Path, layer: str, arguments: list[str]) -> str:
    # The list's own test fails with every fault: it looks for the right code.
    left_out = ("--ignore", "tests/test_small_faults.py")
    found = run_tests(tree, "-m", LAYERS[layer], *left_out, *arguments)
    lines = [line for line in found.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if found.returncode in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
        return ""
    return lines[0].split(" - ")[0] if lines else f"pytest ended with status {found.returncode}"


def main() -> None:
    """Try the faults that a file of results does not have yet, and count what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("--layers", nargs="+", default=["quick"], choices=LAYERS)
    parser.add_argument("--rooms", nargs="+", default=sorted({one.room for one in FAULTS}))
    parser.add_argument("--pytest", nargs=argparse.REMAINDER, default=[])
    given = parser.parse_args()
    lines = given.results.read_text().splitlines() if given.results.exists() else []
    known = {tuple(line["fault"]): line for line in map(json.loads, lines)}
    chosen = [fault for fault in FAULTS if fault.room in given.rooms]
    for fault in chosen:
        place_of(fault, ROOT)  # all of them can be placed, before any is tried
    for fault in chosen:
        tried = known.get(fault, {"tried": [], "test": ""})
        layers = [one for one in given.layers if one not in tried["tried"]]
        if tried["test"] or not layers:
            continue
        with broken_tree(fault) as tree:
            started = time.perf_counter()
            layer, test = finds(tree, layers, fault.room, given.pytest)
        done = [*tried["tried"], *layers]
        line = {"fault": fault, "tried": done, "layer": layer, "test": test}
        known[fault] = line
        with given.results.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(f"{time.perf_counter() - started:6.0f} s  {fault.room:9} {test or 'NOT FOUND'}")
    found = Counter(line["layer"] or "none" for line in known.values())
    print(dict(found))


if __name__ == "__main__":
    main()
