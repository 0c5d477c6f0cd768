"""What README.md and the pages promise: the tests of each promise, and that they can fail.

    python -m tests.promises                    write docs/promises.md from promises.toml
    python -m tests.promises --try RESULTS      break what each promise says, and run its tests
    python -m tests.promises --try RESULTS text ...   only promises that hold one of these texts

A promise is a sentence of a page, the tests that fail if it breaks, and a small fault that breaks
it. `--try` puts the fault into a copy of the tree and runs the tests there: all must fail. The
results are appended to a file, a line each.
"""

import argparse
import json
import os
import re
import tomllib
from pathlib import Path
from typing import NamedTuple

from tests.small_faults import ROOT, Fault, broken_tree, run_tests

LIST = Path(__file__).with_suffix(".toml")
PAGE = ROOT / "docs" / "promises.md"
NEVER = "never run"


class Promise(NamedTuple):
    """A promise and its proof.

    Attributes:
        text: A piece of the page, as it stands there.
        page: Path of the page.
        layer: Key of the table `seen`: where its tests run.
        tests: Names of tests, as pytest has them, without parameters.
        right: A piece of code, or of a page, that occurs once; "" where nothing was broken.
        wrong: What it becomes, so that the promise is broken.
    """

    text: str
    page: str
    layer: str
    tests: tuple[str, ...] = ()
    right: str = ""
    wrong: str = ""


def read_promises() -> tuple[dict[str, dict[str, str]], tuple[Promise, ...]]:
    """Return where each layer was last seen to pass, and all promises."""
    data = tomllib.loads(LIST.read_text(encoding="utf-8"))
    made = (Promise(**{**row, "tests": tuple(row.get("tests", ()))}) for row in data["promise"])
    return data["seen"], tuple(made)


def page() -> str:
    """Return the text of docs/promises.md."""
    seen, promises = read_promises()
    lines = [
        "# Promises, and how they are proven",
        "",
        "What README.md and the other pages promise, and the tests that fail if it breaks: each",
        "was seen to fail when code, or a figure of a page, was broken on purpose. They are in",
        "`make test`, unless a layer of the table is named.",
        "`python -m tests.promises` makes this page from `tests/promises.toml`; `--try` breaks the",
        "code again.",
        "",
        "| where | last seen to pass | on |",
        "| --- | --- | --- |",
    ]
    for layer in seen.values():
        on = f"{layer['machine']}, {layer['date']}" if "date" in layer else NEVER
        lines.append(f"| {layer['what']} | {layer.get('commit', NEVER)} | {on} |")
    for name in dict.fromkeys(promise.page for promise in promises):
        link = os.path.relpath(ROOT / name, PAGE.parent)
        lines += ["", f"## [{name}]({link})", ""]
        for promise in promises:
            if promise.page == name:
                tests = [f"`{test.removeprefix('tests/')}`" for test in promise.tests]
                if promise.layer != "test":
                    tests.append(seen[promise.layer]["what"])
                text = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", " ".join(promise.text.split()))
                lines.append(f"- {text}<br>{'<br>'.join(tests)}")
    return "\n".join(lines) + "\n"


def broken(promise: Promise) -> dict[str, bool]:
    """Break what a promise says, in a copy of the tree, and return which of its tests fail."""
    with broken_tree(Fault("", promise.right, promise.wrong)) as tree:
        return {test: _fails(tree, test) for test in promise.tests}


def _fails(tree: Path, test: str) -> bool:
    done = run_tests(tree, "-n", "0", test)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"pytest cannot run {test}: got status {done.returncode}: {done.stdout}")
    return done.returncode == 1


def main() -> None:
    """Write the page, or break the code for each promise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--try", dest="results", type=Path, help="a file for results")
    parser.add_argument("texts", nargs="*", help="only promises that hold one of these texts")
    given = parser.parse_args()
    if given.results is None:
        PAGE.write_text(page(), encoding="utf-8")
        return
    for promise in read_promises()[1]:
        named = not given.texts or any(text in promise.text for text in given.texts)
        if named and promise.right:
            fail = broken(promise)
            result = {"text": promise.text, "page": promise.page, "fails": fail}
            with given.results.open("a") as file:
                file.write(json.dumps(result) + "\n")
            print(f"{sum(fail.values())} of {len(fail)} fail: {promise.text}", flush=True)


if __name__ == "__main__":
    main()
