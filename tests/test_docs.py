"""What README.md and docs/ say is so: examples run, commands parse, links and messages exist."""

import ast
import io
import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from decimal import Decimal
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

import pytest
from apache_beam.options.pipeline_options import PipelineOptions, _BeamArgumentParser

from bertscore_beam.cli import main as cli
from bertscore_beam.cli.show import named
from bertscore_beam.dump.columns import METRIC_COLUMNS, OUTPUT_COLUMNS
from bertscore_beam.dump.plan import FileReason
from bertscore_beam.dump.reasons import Reason
from bertscore_beam.options import flags, language_map
from bertscore_beam.options.declare import declared
from bertscore_beam.records.rejects import UNREADABLE_ROWS
from bertscore_core import Signature
from tests.benchmarks.__main__ import CASES

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in (README, *sorted((ROOT / "docs").glob("*.md")))
}
TROUBLES, SIGNATURE = PAGES["docs/troubleshooting-and-signature.md"].split("## Read a signature\n")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
STEP = re.compile(r"^```(sh|python)\n(.*?)^```$(?:\s*^```text\n(.*?)^```$)?", re.M | re.S)
EXAMPLE = re.compile(r"^```python\n(.*?)^```$(?:\s*^```text\n(.*?)^```$)?", re.M | re.S)
OUTPUT = "build/my-scores"
NEEDED = {verb: ["--input", "a"] for verb in ("score", "idf")}
NEEDED["tune"] = ["--judgements", "a", "--score-column", "c"]
"""What a config brings, beside the output."""

SOURCES = ("pipelines/bertscore_beam", ".")

# Flags of other programs that the pages name.
FOREIGN_FLAGS = {
    "--build", "--rm",  # docker compose
    "--worker_pool",  # the entry point of the image
    "--extra-index-url", "--no-deps",  # pip
    "--first-contact",  # tests.benchmarks.gpu
    "--try",  # tests.promises
}  # fmt: skip


def blocks(page: str, *run_options: str) -> list[str]:
    return [code for language, code in BLOCK.findall(PAGES[page]) if language in run_options]


def commands(page: str) -> Iterator[list[str]]:
    """Yield the arguments of every `bertscore-beam` of a page's shell blocks."""
    return chain.from_iterable(map(commands_in, blocks(page, "sh")))


def commands_in(code: str) -> Iterator[list[str]]:
    for line in code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if "bertscore-beam" in words:
            yield words[words.index("bertscore-beam") + 1 :]


EXAMPLES = {page: EXAMPLE.findall(text) for page, text in PAGES.items() if EXAMPLE.search(text)}
"""The Python blocks of a page, each with what it prints: a text block next to it, or ""."""

COMMANDS = [(page, command) for page in PAGES for command in commands(page)]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> tuple[Path, str]:
    """A folder in which the README's command has been run, and what that printed."""
    folder = tmp_path_factory.mktemp("checkout")
    (folder / "configs").symlink_to(ROOT / "configs")
    command = next(found for found in commands("README.md") if found[0] == "score")
    assert command[command.index("--output") + 1] == OUTPUT
    printed = io.StringIO()
    with chdir(folder), redirect_stdout(printed):
        assert cli.main(command) == 0
    return folder, printed.getvalue()


def test_the_readme_is_short():
    lines = PAGES["README.md"].splitlines()
    assert len(lines) <= 120
    assert [line for line in lines if len(line) > 120] == []


ROOMS = {
    str(init.parent.relative_to(ROOT / package)): init.parent
    for package in ("pipelines/bertscore_beam", "bertscore_core")
    for init in (ROOT / package).glob("*/**/__init__.py")
}
"""The folders of the packages."""


def test_the_architecture_names_functions_and_types_beside_the_files_that_define_them():
    rows = [line.split("|")[1:-1] for line in PAGES["docs/architecture.md"].splitlines()]
    places = [cells[2:] for cells in rows if len(cells) == 4] + [cells[1:2] for cells in rows]
    wrong, found = [], 0
    for place in places:
        quoted = re.findall(r"`([\w./]+)`", " ".join(place))
        files = [name for name in quoted if name.endswith(".py") and "/" in name]
        paths = [next(filter(Path.is_file, (ROOT / at / name for at in SOURCES))) for name in files]
        code = "\n".join(path.read_text(encoding="utf-8") for path in paths)
        names = [name.rpartition(".")[2] for name in quoted if "/" not in name and files]
        for name in (name for name in names if name != "py"):
            found += 1
            if not re.search(rf"^ *((async )?def|class) {name}\b|^{name}\b.* = ", code, re.M):
                wrong.append((name, files))
    assert found > 40
    assert wrong == []


def test_the_architecture_lists_the_files_of_every_room():
    listed = {room: set[str]() for room in ROOMS}
    room = ""
    for line in PAGES["docs/architecture.md"].split("```")[1].splitlines():
        if begin := re.match(r"(?:[ \d]\d|  ) (\w+) ", line):
            room = begin[1]
        elif line.startswith(" " * 19):
            below, _, name = line.split()[0].rpartition("/")
            listed[f"{room}/{below}".rstrip("/")].add(name)
    for room, path in ROOMS.items():
        files = {file.stem for file in path.glob("*.py")} - {"__init__"}
        assert listed[room] == files, room


@pytest.mark.process
@pytest.mark.parametrize("status", [0, 4])
def test_the_mail_of_crontab_has_the_status_and_the_whole_verdict(status, tmp_path):
    line = re.search(r"^30 2 \* \* \*(.*)", PAGES["docs/nightly.md"], re.M)[1]
    night = f"echo worse: de\nseq 99\nexit {status}\n"
    for name, code in (("night.sh", night), ("mail", 'echo "$@" > sent; cat >> sent\n')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{code}")
        (tmp_path / name).chmod(0o755)
    command = line.replace("/data/nights", str(tmp_path)).replace(r"\%", "%")
    subprocess.run(["sh", "-c", f"PATH={tmp_path}:$PATH; {command}"], check=True)
    sent = tmp_path / "sent"
    lines = sent.read_text(encoding="utf-8").splitlines() if sent.exists() else []
    assert lines[:2] == (["-s night: status 4 team", "worse: de"] if status else [])


@pytest.mark.process
@pytest.mark.parametrize("words", [[], ["today"], ["../2026"]])
def test_a_night_that_no_date_names_is_told_so(words, tmp_path):
    night = ["sh", ROOT / "configs" / "nightly" / "night.sh", *words]
    done = subprocess.run(night, cwd=tmp_path, capture_output=True, text=True)
    assert "Name the day of the dump, such as: " in done.stderr
    assert (done.returncode, list(tmp_path.iterdir())) == (2, [])


def test_the_readme_leads_to_every_page():
    linked = set(re.findall(r"\]\((docs/[\w-]+\.md)\)", PAGES["README.md"]))
    assert linked == set(PAGES) - {"README.md"}


@pytest.mark.parametrize("page", [page for page in PAGES if page != "README.md"])
def test_a_page_opens_with_what_the_reader_gets(page):
    title, blank, first = PAGES[page].splitlines()[:3]
    assert title.startswith("# ")
    assert (blank, first) != ("", "")
    assert first[0] not in "|`#-"


@pytest.mark.parametrize("page", EXAMPLES)
@pytest.mark.model
def test_python_examples_run_and_print_what_is_shown(page, checkout, capfd):
    """The blocks of a page share their names, as they do for a reader who follows it."""
    names = {"__name__": "example"}
    with chdir(checkout[0]):
        for code, expected in EXAMPLES[page]:
            capfd.readouterr()
            exec(compile(code, page, "exec"), names)  # noqa: S102 - our own text
            printed = capfd.readouterr()
            if expected:
                shown, wanted = (
                    [line.rstrip() for line in text.rstrip().splitlines()]
                    for text in (printed.out, expected)
                )
                assert shown == wanted
            assert "Error" not in printed.err


def test_most_python_examples_show_what_they_print():
    shown = [printed for found in EXAMPLES.values() for _, printed in found]
    assert len(shown) >= 12
    assert shown.count("") <= 1


@pytest.mark.job
def test_the_command_of_the_readme_prints_what_is_shown(checkout):
    printed = checkout[1].splitlines()
    shown = blocks("README.md", "text")[0].splitlines()
    assert len(shown) >= 10
    for line, said in zip(shown, printed, strict=False):
        name, _, value = line.partition(": ")
        assert said.partition(": ")[0] == name
        if name in ("precision", "recall", "f1"):
            assert float(said.partition(": ")[2]) == pytest.approx(float(value), abs=2e-6)
        else:
            assert said == line


def is_shown(shown: str, printed: str) -> bool:
    """Tell whether a page shows what was printed.

    `...` stands for anything. Numbers with six decimals may be 2 off in the last: processors differ
    by up to 1e-6, and some numbers lie at a half.
    """

    def pattern(piece: str) -> str:
        if piece == "...":
            return ".*?"
        if not re.fullmatch(SIX_DECIMALS, piece):
            return re.escape(piece)
        near = (f"{Decimal(piece) + Decimal(steps).scaleb(-6):.6f}" for steps in range(-2, 3))
        return f"(?:{'|'.join(map(re.escape, near))})"

    pieces = re.split(rf"(\.\.\.|{SIX_DECIMALS})", shown)
    return re.fullmatch("".join(map(pattern, pieces)), printed, re.DOTALL) is not None


SIX_DECIMALS = r"(?<![\d.-])-?\d+\.\d{6}(?!\d)"


def test_a_page_shows_all_but_the_last_digit_of_scores():
    printed = "rows: 568\nf1: -0.901659 [1.000001, 0.5] p 0.0001\n"
    for shown in (
        printed,
        "rows: 568\nf1: -0.901661 [0.999999, 0.5] p 0.0001\n",
        "...f1: -0.901657 [...] p 0.0001\n",
    ):
        assert is_shown(shown, printed)
    for shown in (
        printed.replace("901659", "901662"),
        printed.replace("-", ""),
        printed.replace("0.5", "0.500000"),
        printed.replace("0.0001", "0.0002"),
        printed.replace("568", "569"),
        printed + "reused: 0\n",
        "...rows: 567...",
    ):
        assert not is_shown(shown, printed)


@pytest.mark.job
def test_the_tutorial_runs_as_it_stands(checkout, capsys):
    steps = STEP.findall(PAGES["docs/start.md"])
    assert len(steps) == 7
    statuses = []
    with chdir(checkout[0]):
        for language, code, expected in steps:
            if language == "python":
                exec(compile(code, "docs/start.md", "exec"), {})  # noqa: S102 - our own text
                continue
            (command,) = commands_in(code)
            capsys.readouterr()
            statuses.append(cli.main(command))
            printed = capsys.readouterr().out
            also = blocks("docs/compare.md", "text")[:1] if command[0] == "compare" else []
            for shown in (expected, *also):
                assert is_shown(shown, printed), printed
    assert statuses == [0, 0, 0, 4, 0, 0]


@pytest.mark.parametrize(
    ("page", "command"), COMMANDS, ids=[f"{page}-{command[0]}" for page, command in COMMANDS]
)
def test_commands_are_ones_the_parser_takes(page, command, monkeypatch):
    monkeypatch.setattr(flags, "load_yaml", lambda _: {})  # the config comes from the reader
    monkeypatch.setattr(language_map, "load_yaml", lambda *_, **__: {"en": {}})
    verb = " ".join(command[:2]) if " ".join(command[:2]) in cli.COMMANDS else command[0]
    arguments = command[verb.count(" ") + 1 :]
    if "--config" in arguments:
        arguments = [*NEEDED[verb], "--output", "b", *arguments]
    options = cli.COMMANDS[verb].read(verb, arguments)
    assert isinstance(options, named(cli.COMMANDS[verb].options))


def test_there_are_commands_of_every_verb():
    named = {command[0] for _, command in COMMANDS}
    wanted = {"score", "rescale", "idf", "baseline", "compare", "report", "tune", "check"}
    assert {*wanted, "explain"} <= named <= set(cli.COMMANDS)
    assert len(COMMANDS) >= 15


@pytest.mark.parametrize("page", PAGES)
def test_every_make_target_and_module_named_exists(page):
    rules = re.findall(r"^([a-z][a-z0-9 ]*):", (ROOT / "Makefile").read_text(), re.M)
    targets = set(" ".join(rules).split())
    code = " ; ".join(re.findall(r"`([^`\n]+)`", PAGES[page]) + blocks(page, "sh"))
    assert set(re.findall(r"\bmake ([a-z][a-z0-9]*)", code)) <= targets
    for module in re.findall(r"python -m ([\w.]+)", code):
        assert find_spec(module) is not None, module
    benchmarks = set(re.findall(r"python -m tests\.benchmarks ([a-z_]+)", PAGES[page]))
    assert benchmarks <= CASES.keys()


def known_flags() -> set[str]:
    found = {"--help", "--help-all", "--version", "--config", *FOREIGN_FLAGS}
    found |= {f"--{name}" for name in flags.COMMON_FLAGS}
    for command in cli.COMMANDS.values():
        for option in declared(named(command.options)):
            found |= (
                {option.word, f"--no-{option.word[2:]}"} if option.hint is bool else {option.word}
            )
    parser = _BeamArgumentParser(allow_abbrev=False)
    for kind in PipelineOptions.__subclasses__():
        kind._add_argparse_args(parser)
    return found | {name for action in parser._actions for name in action.option_strings}


@pytest.mark.parametrize("page", PAGES)
def test_every_flag_named_exists(page):
    text = PAGES[page]
    if page == "docs/coming-from.md":  # whose first columns have flags of other programs
        text = re.sub(r"^\|[^|]+", "", text, flags=re.M)
    code = " ".join(re.findall(r"`([^`\n]+)`", text) + blocks(page, "sh"))
    named = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", code))
    assert named - known_flags() == set()


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_option_is_in_the_docs(command):
    text = " ".join(PAGES.values())
    for option in declared(named(cli.COMMANDS[command].options)):
        names = [option.word, f"--no-{option.word[2:]}", option.flag.short or option.word]
        is_there = re.search(rf"(?:{'|'.join(names)})(?![\w-])", text)
        assert is_there or option.name in flags.FILE_ONLY, option.name


def links_in(text: str) -> list[str]:
    """Return the targets of a page's links, without those in blocks of code."""
    return re.findall(r"\]\(([^)\s]+)\)", BLOCK.sub("", text))


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES)
def test_every_relative_link_leads_somewhere(page):
    for link in links_in(PAGES[page]):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        assert target.is_file(), link
        if anchor:
            assert anchor in anchors(target), link


def test_every_reason_is_explained():
    page = PAGES["docs/output.md"]
    reasons = [*Reason, *FileReason, UNREADABLE_ROWS]
    assert [
        reason for reason in reasons if not re.search(rf"^\|.*`{reason}`.*\|", page, re.M)
    ] == []


def test_every_column_of_the_job_is_explained():
    page = PAGES["docs/output.md"]
    assert [name for name in (*OUTPUT_COLUMNS, *METRIC_COLUMNS) if f"`{name}`" not in page] == []


def test_figures_of_a_gpu_are_those_that_were_measured():
    results = (ROOT / "tests/benchmarks/RESULTS.md").read_text(encoding="utf-8")
    measured = results.partition("\n## gpu: ")[2].partition("\n## ")[0]
    assert re.search(r"\*\*Measured\*\* on \d{4}-\d\d-\d\d: NVIDIA H200 ", measured)
    page = PAGES["docs/machines-and-speed.md"]
    lines = page.partition("\n### GPUs\n")[2].partition("\n## ")[0].splitlines()
    shown = [row for line in lines if (row := re.findall(r"(?<=\| )\d[\d,]*(?= \|)", line))]
    assert len(shown) >= 4
    assert set(chain(*shown)) <= set(re.findall(r"\d[\d,]*", measured))
    reference, own, half = (float(figure.replace(",", "")) for figure in shown[0])
    readme = " ".join(PAGES["README.md"].split())
    assert f"One H200 GPU scores {own:,.0f} in float32" in readme
    floats, halves = own / reference, half / reference
    times = f"{floats:.1f} and {halves:.0f} times as many as bert-score in float32"
    assert f"and {half:,.0f} in float16, {times}" in readme


def test_the_signature_shown_parses():
    line = next(line for line in SIGNATURE.splitlines() if line.startswith("bertscore|"))
    assert Signature.parse(line).model == "all-MiniLM-L6-v2"
    fields = {field.partition(":")[0] for field in line.split("|")[1:]}
    table = set(re.findall(r"`(\w+)`", SIGNATURE))
    assert fields <= table


@pytest.fixture(scope="module")
def sources() -> list[str]:
    """Return every text in the sources, with `...` for what is put into it."""
    found = []
    for package in ("bertscore_core", "pipelines"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.JoinedStr):
                    parts = [getattr(part, "value", None) for part in node.values]
                    found.append("".join(p if isinstance(p, str) else "\0" for p in parts))
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.append(node.value)
    return found


_CELLS = re.findall(r"^\| (`.+?) \| .+ \|$", TROUBLES, re.M)
MESSAGES = [message for cell in _CELLS for message in re.findall(r"`([^`]+)`", cell)]


@pytest.mark.parametrize("message", MESSAGES)
def test_every_message_quoted_is_in_the_sources(message, sources):
    pieces = [re.escape(piece.strip()) for piece in message.split("...") if piece.strip()]
    pattern = re.compile(".*?".join(pieces), re.S)
    assert any(pattern.search(text) for text in sources)


def test_every_row_of_troubleshooting_quotes_a_message():
    rows = re.findall(r"^\| (.+?) \|", TROUBLES, re.M)
    assert len(MESSAGES) >= 20
    assert {row for row in rows if not row.startswith("`")} == {"message", "---"}
