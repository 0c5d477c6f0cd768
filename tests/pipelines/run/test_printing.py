"""Names of files and columns cannot steer the terminal that they are shown on."""

import io
import json
import logging
import os
import pty
import re
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.run.output import EscapingFormatter, escape_json, escape_line, event
from bertscore_core.errors import escape_text
from tests.support.dumps import pair_rows

# A title, colours that nobody of ours uses, C1's own start of a sequence, an override of direction.
HOSTILE = "\x1b]0;title\x07\x1b[35;41m\x9b35;41m\u202egp\u2028x"
STEERING = re.compile("\x1b\\]0|\x1b\\[35;41m|\x07|[\x80-\x9f\u202a-\u202e\u2028\u2029]")
RUN = "import sys; from bertscore_beam.cli.main import main; sys.exit(main())"


def on_a_terminal(*arguments: object) -> tuple[int, str]:
    """Run the command line in a pseudo-terminal; return its status and all that was shown."""
    shown = []

    def read(descriptor: int) -> bytes:
        shown.append(os.read(descriptor, 65536))
        return shown[-1]

    command = ["env", "TERM=xterm-256color", "COLUMNS=200", sys.executable, "-c", RUN]
    status = pty.spawn([*command, *map(str, arguments)], read)
    return os.waitstatus_to_exitcode(status), b"".join(shown).decode("utf-8", "surrogateescape")


@pytest.fixture(scope="module")
def dump(tmp_path_factory) -> Path:
    """Return a folder with a good file, one that is no Parquet, and one without our columns."""
    folder = tmp_path_factory.mktemp("hostile") / "in"
    folder.mkdir()
    table = pa.table(pair_rows(3))
    pq.write_table(table, folder / f"good{HOSTILE}.parquet")
    pq.write_table(table.rename_columns([HOSTILE, "b", "c"]), folder / "columns.parquet")
    (folder / f"{HOSTILE}.parquet").write_bytes(b"PAR1")
    (folder / f"{HOSTILE}.txt").write_text("one\n")
    (folder.parent / f"{HOSTILE}.tsv").write_text("LAYER,P,R,F\n0,0.1,0.1,0.1\n1,0.2,0.2,0.2\n")
    return folder


MINI = ("--model", "all-MiniLM-L6-v2")
TINY = ("--model", "{model}", "--num-layers", "2", "--device", "cpu")
OUTPUT = f"{{out}}/out{HOSTILE}"
SCORE = ("score", "--input", "{dump}", "--output", OUTPUT, *TINY)
BASELINE = ("baseline", "--models", MINI[1], "--pairs", "2", "--dry-run", "--output", OUTPUT)
TABLE = f"{{dump}}/../{HOSTILE}.tsv"
SHOWN = "\\x1b]0;title\\x07\\x1b[35;41m\\x9b35;41m\\u202egp\\u2028x"


def bad(name: str) -> tuple[str, ...]:
    return ("score", "--input", f"{{dump}}/{name}", "--output", "{out}/out", *TINY)


def long(*case: object) -> object:
    return pytest.param(*case, marks=pytest.mark.long)


@pytest.mark.process
@pytest.mark.parametrize(
    ("status", "times", "words"),
    [
        long(3, 3, SCORE),
        (0, 3, (*SCORE, "--dry-run")),
        long(3, 3, (*SCORE, "--workers", "2")),
        long(2, 1, bad("columns.parquet")),
        long(2, 1, bad(f"{HOSTILE}.parquet")),
        long(2, 1, bad(f"{HOSTILE}*.parquet")),
        long(3, 3, ("idf", "--input", "{dump}", "--output", f"{{out}}/{HOSTILE}.npz", *MINI)),
        long(0, 1, (*BASELINE, "--sentences", f"en={{dump}}/{HOSTILE}.txt")),
        (2, 1, (*BASELINE, "--sentences", f"en={{dump}}/none{HOSTILE}.txt")),
        (0, 1, ("baseline", "compare", TABLE, TABLE)),
        (2, 1, ("baseline", "compare", TABLE, TABLE.replace(".tsv", ".no"))),
    ],
)  # fmt: skip
def test_hostile_names_are_shown_as_escapes(dump, tmp_path, tiny_folder, status, times, words):
    places = {"dump": dump, "out": tmp_path, "model": tiny_folder("bert")}
    ended, shown = on_a_terminal(*(word.format(**places) for word in words))
    assert ended == status, shown
    assert shown.count(SHOWN) >= times or (times == 1 and "\\x1b]0;title" in shown)
    assert STEERING.findall(shown) == []


def test_texts_and_names_of_all_scripts_stay_as_they_are():
    name = "Žluťoučký 猫 کتاب‌خانه 👩‍🚀 a\u00a0b [x] \\ %41"
    assert escape_line(name) == escape_text(name) == name
    assert escape_text("two\nlines\tand a tab") == "two\nlines\tand a tab"
    assert escape_line("two\nlines\tand a tab") == "two\\nlines\\tand a tab"


def test_what_steers_is_escaped_and_json_means_the_same():
    steering = [
        *map(chr, [*range(9), *range(11, 32), *range(127, 160)]),
        *"\u2028\u2066\ufeff\ufffe\uffff\udc80",
    ]
    text = "".join(steering) + "\U000e0041"
    assert escape_text(text).isascii()
    assert escape_text(text).isprintable()
    assert escape_json(json.dumps(text, ensure_ascii=False)).isascii()
    assert json.loads(escape_json(json.dumps(text, ensure_ascii=False))) == text
    assert json.loads(event("x", path=HOSTILE))["path"] == HOSTILE
    assert STEERING.findall(event("x", path=HOSTILE)) == []


def test_log_lines_and_tracebacks_are_escaped():
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(EscapingFormatter("%(message)s"))
    logger = logging.Logger("test")
    logger.addHandler(handler)
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        logger.exception("failed on %s", HOSTILE)
    assert "Traceback" in stream.getvalue()
    assert STEERING.findall(stream.getvalue()) == []
