"""The house stays one that a person can hold: few files a room, one name a file, light faces."""

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {"bertscore_core": ROOT, "bertscore_beam": ROOT / "pipelines"}
FILES = {
    ".".join(path.relative_to(above).with_suffix("").parts): path
    for package, above in PACKAGES.items()
    for path in sorted((above / package).rglob("*.py"))
}
MODULES = {name.removesuffix(".__init__"): path for name, path in FILES.items()}
ROOMS = sorted(name for name, path in MODULES.items() if path.name == "__init__.py")
FACED = {room for room in ROOMS if MODULES[room].with_suffix(".pyi").exists()} - {*PACKAGES}
TESTS = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts): path
    for path in sorted((ROOT / "tests").rglob("*.py"))
}

NAMESPACES = {
    "bertscore_beam.dump.columns",
    "bertscore_beam.run.at_work",
    "bertscore_beam.run.counters",
    "bertscore_beam.run.pool",
}
"""Modules whose names say little without the module's: `columns.F1`, `pool.ask`."""

MOST_FILES, MOST_ROOMS, FEWEST_LINES = 14, 20, 40


def room_of(module: str) -> str:
    """Return the room of a module; the rows of text files belong to the room of dumps."""
    room = module if module in ROOMS else module.rpartition(".")[0]
    return "bertscore_beam.dump" if room == "bertscore_beam.dump.text" else room


def imports_of(path: Path) -> list[ast.ImportFrom]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]


def lines_of_code(path: Path) -> int:
    text = path.read_text(encoding="utf-8")
    strings = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Expr))
    docs = [node for node in strings if isinstance(node.value, ast.Constant)]
    told = {line for node in docs for line in range(node.lineno, (node.end_lineno or 0) + 1)}
    lines = enumerate(text.splitlines(), 1)
    return sum(
        bool(text.strip()) and text.strip()[0] != "#" for at, text in lines if at not in told
    )


def test_rooms_are_few_and_have_few_files():
    files = Counter(path.parent for path in FILES.values())
    assert max(files.values()) <= MOST_FILES
    assert files[ROOT / "bertscore_core"] <= 12
    first = (ROOT / "pipelines/bertscore_beam").glob("*.py")
    assert {path.name for path in first} == {"__init__.py", "__main__.py"}
    assert sum(room.startswith("bertscore_beam.") for room in ROOMS) <= MOST_ROOMS


def test_no_file_name_stands_in_two_rooms():
    names = Counter(path.name for path in FILES.values())
    assert {name for name, times in names.items() if times > 1} == {"__init__.py", "job.py"}


def test_no_file_is_a_splinter():
    whole = {
        name: path for name, path in FILES.items() if path.stem not in ("__init__", "__main__")
    }
    small = {name for name, path in whole.items() if lines_of_code(path) < FEWEST_LINES}
    assert not small


def test_names_of_other_rooms_are_imported_from_their_faces():
    wrong = []
    for module, path in MODULES.items():
        for node in imports_of(path):
            own = room_of(module)
            if node.module in FACED and room_of(node.module) == own:
                wrong += [
                    f"{module} takes {alias.name} from the face of its own room"
                    for alias in node.names
                    if f"{node.module}.{alias.name}" not in MODULES
                ]
            elif room_of(node.module) in FACED and room_of(node.module) != own:
                wrong += [
                    f"{module} looks into {node.module} for {alias.name}"
                    for alias in node.names
                    if node.module not in FACED
                    or f"{node.module}.{alias.name}" in MODULES.keys() - NAMESPACES
                ]
    assert not wrong


def test_tests_take_public_names_from_faces():
    wrong = [
        f"{module} looks into {node.module} for {alias.name}"
        for module, path in TESTS.items()
        for node in imports_of(path)
        if node.module in MODULES and node.module not in ROOMS and room_of(node.module) in FACED
        for alias in node.names
        if not alias.name.startswith("_")
    ]
    assert not wrong


PURE = """baseline idf registry signature tokens match.matching stats.agreement stats.estimates
stats.intervals stats.moments stats.paired stats.scores stats.sums"""
STEPS = """baseline.extract baseline.layer_moments idf.counting run.at_work run.child run.counters
run.pool run.text_import score.plan_settings score.steps tune.layer_scores"""
LAUNCHER = ["bertscore_beam.cli.jobs", "bertscore_beam.score.job", "bertscore_core.scorer_config"]


@pytest.mark.process
@pytest.mark.parametrize(
    ("modules", "forbidden"),
    [
        (ROOMS, {"apache_beam", "torch", "transformers"}),
        ([f"bertscore_core.{name}" for name in PURE.split()], {"apache_beam", "transformers"}),
        ([f"bertscore_beam.{name}" for name in STEPS.split()], {"apache_beam"}),
        (LAUNCHER, {"torch", "transformers", "tokenizers"}),
    ],
    ids=["faces", "mathematics", "steps", "launcher"],
)
def test_importing_them_loads_nothing_that_takes_seconds(modules, forbidden):
    code = f"import sys, {', '.join(modules)}; print(*sys.modules.keys() & {forbidden!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


EXTRAS = "langcodes pandas pycld2 rouge_score sacrebleu scipy vl_convert"
NEED_NONE = """cli.answers cli.explain cli.jobs cli.tables idf.job imports.job
pairs.batches pairs.transform score.job score.rescale"""


@pytest.mark.process
def test_what_needs_no_extra_loads_without_one():
    """Matplotlib and jinja2 are left in: transformers looks for them by itself."""
    modules = ", ".join(f"bertscore_beam.{name}" for name in NEED_NONE.split())
    code = f"import sys; sys.modules.update(dict.fromkeys({EXTRAS!r}.split())); import {modules}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
