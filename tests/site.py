"""Collect the pages of the site below build/site, as `make docs` does: `python -m tests.site`.

Pages keep their paths, so that links between them hold: README.md, and all that it leads to. The
reference of the public names and the report of the tutorial are made here, the definition gets its
program, and the tour is run.
"""

import ast
import difflib
import shutil
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from urllib.parse import urlsplit

import nbformat
from nbclient import NotebookClient
from traitlets.config import Config

from tests.pictures import ROOT, follow_tutorial
from tests.test_docs import links_in

SITE = ROOT / "build" / "site"
PACKAGES = {
    "bertscore_core": "The metric, as a library.",
    "bertscore_beam": "Scores in pipelines of your own, and runs compared.",
}
TOUR = Path("docs/tour.ipynb")
REPORT = """# A report

The last command of [the tutorial](start.md) makes this page. [Open it alone](example-report.html).

<iframe src="../example-report.html" title="The report of the tutorial"
    style="width: 100%; height: 80vh; border: 0"></iframe>
"""


def main() -> None:
    """Make the folder anew.

    Raises:
        SystemExit: A page leads to a file that is not there, or the tour prints something else.
    """
    shutil.rmtree(SITE, ignore_errors=True)
    for path in linked_files():
        if not (ROOT / path).is_file():
            raise SystemExit(f"a page links to {path}, which is not a file")
        (SITE / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, SITE / path)
    for package, purpose in PACKAGES.items():
        reference = (SITE / "docs" / "reference" / package).with_suffix(".md")
        reference.parent.mkdir(exist_ok=True)
        names = public_names(package)
        links = ", ".join(f"[{name}](#{package}.{name})" for name in sorted(names, key=str.lower))
        entries = (f"::: {package}.{name}\n" for name in names)
        reference.write_text(f"# {package}\n\n{purpose}\n\n{links}\n\n" + "\n".join(entries))
    program = (ROOT / "bertscore_core" / "specification.py").read_text(encoding="utf-8")
    with (SITE / "docs" / "specification.md").open("a", encoding="utf-8") as definition:
        definition.write(f"\n```py\n{program}```\n")
    (SITE / "docs" / "example-report.md").write_text(REPORT)
    said = StringIO()
    try:
        with redirect_stdout(said), redirect_stderr(said), follow_tutorial() as folder:
            shutil.copy(folder / "build" / "report.html", SITE / "docs" / "example-report.html")
    except Exception:
        print(said.getvalue())
        raise
    check_tour()


def linked_files() -> list[Path]:
    """Return the paths of README.md, the tour and all that their pages link to, from the root."""
    found = [Path("README.md"), TOUR]
    for page in found:
        if page.suffix == ".md":
            text = (ROOT / page).read_text(encoding="utf-8")
            found += [path for path in _links(page, text) if path not in found]
    return found


def _links(page: Path, text: str) -> Iterator[Path]:
    for target in dict.fromkeys(links_in(text)):
        address = urlsplit(target)
        if address.path and not address.scheme:
            yield (ROOT / page.parent / address.path).resolve().relative_to(ROOT)


def public_names(package: str) -> list[str]:
    """Return the names that a package exports, in the order of its `__init__.pyi`."""
    folder = ROOT if package == "bertscore_core" else ROOT / "pipelines"
    face = ast.parse((folder / package / "__init__.pyi").read_text(encoding="utf-8"))
    imports = [node for node in face.body if isinstance(node, ast.ImportFrom)]
    return [alias.name for node in imports for alias in node.names]


def check_tour() -> None:
    """Run the cells of the tour in order, without a network, and compare what they print.

    Raises:
        SystemExit: A cell prints something else than the notebook holds.
    """
    shown = nbformat.read(ROOT / TOUR, as_version=4)
    # Through files, not through ports of this machine.
    private = {"ConnectionFileMixin": {"transport": "ipc"}}
    client = NotebookClient(nbformat.from_dict(shown), timeout=300, config=Config(private))
    run = client.execute(cwd=str(ROOT))
    differences = list(difflib.unified_diff(_printed(shown), _printed(run), "shown", "printed now"))
    if differences:
        raise SystemExit("\n".join(["the tour prints something else:", *differences]))


def _printed(notebook: nbformat.NotebookNode) -> list[str]:
    """Return the lines of text that the cells have printed or shown, without warnings."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    texts = [
        output["text"] if output.output_type == "stream" else output["data"]["text/plain"]
        for output in outputs
        if output.get("name") != "stderr"
    ]
    return "\n".join(texts).splitlines()


if __name__ == "__main__":
    main()
