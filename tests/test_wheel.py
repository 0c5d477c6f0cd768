"""The package as a user has it: built and installed, without the checkout, beside foreign modules.

Many repositories have folders called `pipelines`, `tests` and `configs`. No process of a command
may take modules from there: the modules of this folder leave a note, and raise.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest
from packaging.metadata import Metadata

from tests.small_faults import copy_tree

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("pipelines", "tests", "configs")
SHADOWS = ("multiprocessing/__init__.py", "signal.py", "random.py")
"""Modules of Python's own library that every command needs."""

FOREIGN = """
from pathlib import Path
(Path({folder!r}) / "imported").open("a").write(__name__ + "\\n")
raise ImportError(f"{{__name__}} was taken from the current folder")
"""

pytestmark = [pytest.mark.process, pytest.mark.long]


@pytest.fixture(scope="module")
def sdist(tmp_path_factory) -> Path:
    """Build the source archive from a copy of the checkout: a build leaves files beside it."""
    sources = tmp_path_factory.mktemp("sources")
    copy_tree(sources)
    code = "from setuptools import build_meta; print(build_meta.build_sdist('dist'))"
    run([sys.executable, "-c", code], cwd=sources)
    (made,) = (sources / "dist").iterdir()
    return made


@pytest.fixture(scope="module")
def wheel(sdist, tmp_path_factory) -> Path:
    """Build the wheel from the source archive, as pip does where there is no wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, sdist)
    (made,) = folder.iterdir()
    return made


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """Install the wheel into an environment that finds all other packages in this one."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=False)
    pip("--python", folder, "install", "--no-deps", "--no-index", wheel)
    (packages,) = folder.glob("lib/python*/site-packages")
    # An editable installation of the checkout is no package here, and is not found.
    others = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    (packages / "others.pth").write_text("\n".join(others) + "\n")
    return folder / "bin"


def run(command: list[str], **how: Any) -> subprocess.CompletedProcess[str]:
    """Run a command; if it fails, the error has its output."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, **how)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def pip(*words: object) -> None:
    run([sys.executable, "-m", "pip", "--disable-pip-version-check", *map(str, words)])


def make_foreign(folder: Path, *shadows: str) -> Path:
    """Fill a folder with foreign packages, and the sample where README's commands look for it."""
    for path in (*(f"{name}/__init__.py" for name in FOLDERS), *shadows):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(FOREIGN.format(folder=str(folder)))
    shutil.copytree(ROOT / "configs" / "demo", folder / "configs" / "demo")
    return folder


@pytest.fixture(scope="module")
def foreign(tmp_path_factory) -> Path:
    """Return a folder in which every module that could be taken is a foreign one."""
    return make_foreign(tmp_path_factory.mktemp("foreign"), *SHADOWS)


def run_in(folder: Path, *command: object) -> str:
    """Run a command in a folder, and return what it printed; see `run_alone`."""
    return run_alone(folder, *command).stdout


def run_alone(folder: Path, *command: object) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, and check that none of its processes took modules from there."""
    environment = {name: value for name, value in os.environ.items() if "PYTHON" not in name}
    done = run([*map(str, command)], cwd=folder, env=environment)
    assert not (folder / "imported").exists()
    return done


def readme_commands() -> list[list[str]]:
    """Return the words of the README's commands on the sample, and of `make demo`."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", (ROOT / "README.md").read_text(), re.M | re.S)
    text = "\n".join([*blocks, (ROOT / "Makefile").read_text()])
    lines = re.findall(r"^\s*(?:\$\(BIN\)/)?bertscore-beam (.+configs/demo.+)$", text, re.M)
    assert len(lines) >= 2
    return [[word.strip("'") for word in line.split()] for line in lines]


def test_the_source_archive_says_what_it_is_and_holds_no_tests(sdist):
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
        (about,) = (name for name in archive.getnames() if name.count("/") == 1 and "PKG-" in name)
        metadata = Metadata.from_email(archive.extractfile(about).read(), validate=True)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert str(metadata.version) == project["version"]
    assert metadata.description == (ROOT / "README.md").read_text()
    assert {"CHANGELOG.md", "LICENSE", "README.md", "pyproject.toml"} <= names
    assert not [name for name in names if name.startswith(("tests", "configs", "docs", "build"))]


def test_wheel_holds_both_packages_whole_and_nothing_else(wheel):
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    sources = {
        str(path.relative_to(root))
        for root, package in ((ROOT, "bertscore_core"), (ROOT / "pipelines", "bertscore_beam"))
        for path in (root / package).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert names == sources
    kinds = ".py .pyi .csv .css .jinja .toml .typed"
    assert {Path(name).suffix for name in names} == set(kinds.split())


@pytest.mark.parametrize("words", readme_commands(), ids=" ".join)
def test_commands_of_the_readme_take_no_foreign_modules(installed, foreign, words):
    output = foreign / "build" / f"{words[0]}-{len(words)}"
    command = [installed / "bertscore-beam", *words, "--output", output, "--workers", "2"]
    done = run_alone(foreign, *command, "--restarts", "1")
    assert "f1: " in done.stdout
    assert (output / "_SUCCESS").exists()
    if "--config" in words:  # `make demo`: a first run gives no warning
        assert "bertscore-beam: " not in done.stderr
        rows = re.search(r"^rows: (.+)$", done.stdout, re.M)[1]
        assert f" {rows} pairs in 8 languages " in (ROOT / "README.md").read_text()


def test_other_commands_take_no_foreign_modules(installed, foreign):
    command = installed / "bertscore-beam"
    sample = "configs/demo/sample/news-*.parquet"
    model = ["--model", "all-MiniLM-L6-v2"]
    run_in(foreign, command, "idf", "--input", sample, "--output", "i.idf", *model, "--workers", 2)
    for output in ("one", "two"):
        words = ["--input", sample, "--output", output, *model, "--idf", "i.idf"]
        run_in(foreign, command, "score", *words, "--group-by", "language")
    assert "en" in run_in(foreign, command, "groups", "one", "--by", "language")
    assert "f1" in run_in(foreign, command, "compare", "one", "two")
    run_in(foreign, command, "report", "one", "-o", "page.html")
    assert (foreign / "page.html").stat().st_size > 0
    assert "f1" in run_in(foreign, command, "explain", "one", "--row", "news-world.parquet:0")
    assert "roberta-large" in run_in(foreign, command, "models")


@pytest.mark.parametrize("flags", [["-P"], []], ids=["safe path", "plain"])
def test_public_names_are_imported_beside_foreign_folders(installed, tmp_path, flags):
    folder = make_foreign(tmp_path, *(SHADOWS if flags else ()))
    code = "from bertscore_beam import ScorePairs, ScoreBatches; print(ScorePairs.__module__)"
    printed = run_in(folder, installed / "python", *flags, "-c", code)
    assert printed == "bertscore_beam.pairs.transform\n"
