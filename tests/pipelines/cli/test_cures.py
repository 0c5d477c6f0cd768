"""Where a message names a command, or flags of one, that command is not refused in its turn."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from bertscore_beam.cli import main as cli
from bertscore_core.registry import EMBEDDED_MODEL
from tests.support.dumps import write_dump
from tests.support.made_runs import made_run, scored

ROWS = 40


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with all that messages name as an example."""
    folder = tmp_path_factory.mktemp("place")
    for name in ("HYP.txt", "REF.txt", "REFERENCES.txt"):
        (folder / name).write_text("the cat\na dog\n", encoding="utf-8")
    write_dump(folder / "dump", [ROWS])
    write_dump(folder / "PATH", [ROWS])
    write_dump(folder / "new" / "dump", [ROWS])
    texts = [f"text {number}" for number in range(ROWS)]
    pairs = {"candidate": texts, "reference": texts}
    judged = {**pairs, "human": range(ROWS), "lp": ["en-de"] * ROWS}
    pyarrow.csv.write_csv(pa.table(judged), folder / "wmt.csv")
    pq.write_table(pa.table({"samples": [texts[:3]] * ROWS}), folder / "samples.parquet")
    given = {"id": texts, "system": ["a", "b"] * (ROWS // 2), "language": ["en"] * ROWS}
    rows = scored(np.linspace(0.2, 0.9, ROWS), **given)
    for name in ("scores", "days/scores/today", "days/scores/before"):
        made_run(folder / name, {"a.parquet": rows})
    for name, layers in (("tables/en.tsv", 7), ("build/baselines/en/roberta-large.tsv", 25)):
        lines = [f"{layer},0.1,0.1,0.1" for layer in range(layers)]
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text("\n".join(["LAYER,P,R,F", *lines]))
    return folder


AS_IN = r"As in: bertscore-beam (.+)"
FILES = r"per line: (--candidates \S+ --references \S+)\."
DRY = "--dry-run --device cpu"

# What is wrong, what stays of it, where the message names the rest, and what it is tried with.
CASES = [
    ("score", "score", r"Give (--input PATH --output FOLDER)", DRY),
    ("score", "score", r"files of texts: (.+)\.", DRY),
    ("score HYP.txt REF.txt", "score", r"after their flags: (.+?)\. ", DRY),
    ("score HYP.txt", "score", r"after their flags: (.+?)\. ", DRY),
    ("score dump", "score", r"after the flag: (.+?)\. ", DRY),
    ("score --input HYP.txt", "score", FILES, DRY),
    ("score --input HYP.txt --output out", "score", FILES, DRY),
    ("score --hyp HYP.txt --refs REF.txt", "score", FILES, DRY),
    ("score -c HYP.txt -r REF.txt --num-layer 5", "score -c HYP.txt -r REF.txt",
     r"Did you mean (\S+)\?", f"5 {DRY}"),
    ("score -c HYP.txt -r REF.txt --idf corpu", "score -c HYP.txt -r REF.txt --idf",
     r"Did you mean '(\S+)'\?", DRY),
    ("idf", "", AS_IN, f"--model {EMBEDDED_MODEL} --dry-run"),
    ("tune", "", AS_IN, DRY),
    ("tune --judgements wmt.csv --output tuned", "tune --judgements wmt.csv --output tuned",
     r"Give (--score-column) NAME", f"human {DRY}"),
    ("select", "", AS_IN, DRY),
    ("rescale", "", AS_IN, "--dry-run"),
    ("groups", "", AS_IN, ""),
    ("check", "", AS_IN.replace("(.+)", "(.+?) &&"), ""),
    ("baseline compare", "", AS_IN, ""),
    ("baseline compar published published", "baseline", r"Did you mean (\S+)\?",
     "published published --language en --model roberta-large"),
    ("scor", "", r"Did you mean (\S+)\?", f"-c HYP.txt -r REF.txt {DRY}"),
]  # fmt: skip

OF_DAYS = [
    ("compare", "", AS_IN, ""),
    ("report", "", AS_IN, ""),
    ("compare --run scores/today scores/before", "compare scores/today", r"flag: (.+)\.", ""),
    ("report scores/today scores/before", "report scores/today", r"flag: (.+)\.", ""),
]


IN_A_NEW_FOLDER = [("score --output out", "", AS_IN, f"--model {EMBEDDED_MODEL} --dry-run")]


@pytest.mark.parametrize(
    ("below", "wrong", "kept", "cure", "more"),
    [
        *((".", *case) for case in CASES),
        *(("days", *case) for case in OF_DAYS),
        *(("new", *case) for case in IN_A_NEW_FOLDER),
    ],
)
def test_what_a_message_advises_is_not_refused(
    below, wrong, kept, cure, more, place, monkeypatch, ran
):
    monkeypatch.chdir(place / below)
    said = ran(shlex.split(wrong), cli.UNUSABLE).err
    advised = re.search(cure, said, re.M)
    assert advised is not None, said
    ran(shlex.split(f"{kept} {advised[1]} {more}"))


@pytest.mark.process
def test_what_a_shell_is_to_do_makes_rows_and_finds_models(place, monkeypatch, ran):
    monkeypatch.chdir(place)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    idf = ["idf", "--output", "idf.npz", "--dry-run"]
    said = ran([*idf, "--input", "HYP.txt"], cli.UNUSABLE).err
    make, given = re.search(r"make a file of rows: (.+?); then give (.+?)\. ", said).groups()
    subprocess.run(["bash", "-c", make], check=True)
    assert "input files: 1\n" in ran([*idf, *given.split()]).out
    said = ran(["models", "xlnet"], cli.UNUSABLE).err
    search = re.search(r"to search it: (.+)", said)[1]
    assert b"xlnet-base" in subprocess.run(["bash", "-c", search], capture_output=True).stdout


@pytest.mark.job
@pytest.mark.long
def test_what_is_advised_about_a_run_explains_it(place, monkeypatch, ran):
    monkeypatch.chdir(place)
    ran(shlex.split("score -c HYP.txt -r REF.txt -o run --device cpu"))
    said = ran(["explain", "run"], cli.UNUSABLE).err
    for rows in re.search(r"Add (.+), (.+) or --row", said).groups():
        assert "F1" in ran(["explain", "run", *rows.split()]).out
    said = ran(["explain", "--worst", "2", "-c", "a cat", "-r", "the cat"], cli.UNUSABLE).err
    again = re.search(r"Write bertscore-beam (.+)\.$", said, re.M)[1]
    again = again.replace("RUN", "run").replace("FILE:N", "HYP.parquet:0")
    assert "F1" in ran(shlex.split(again)).out
