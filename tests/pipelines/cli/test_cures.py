"""Where a message names a command, or flags of one, that command is not refused in its turn."""

import ast
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

import bertscore_beam
import bertscore_core
from bertscore_beam.cli import main as cli
from bertscore_core.registry import EMBEDDED_MODEL, TunedLayer, format_layers
from tests.support.dumps import write_dump
from tests.support.judgements import write_judgements
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
    spoken = pa.table({**pairs, "language": ["en"] * ROWS})
    pq.write_table(spoken, folder / "spoken.parquet")
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
    ("score --input spoken.parquet -r REF.txt", "score", r"give (--input .+) NAME --output FOLDER",
     f"reference --output out {DRY}"),
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


@pytest.mark.process
@pytest.mark.parametrize("name", ["x.orc", "x.avro", "x.jsonl", "x.tsv"])
def test_a_file_of_another_format_is_converted_as_the_message_says(
    name, tmp_path, monkeypatch, ran
):
    rows = [{"candidate": "é", "reference": "e"}]
    fields = [{"name": key, "type": "string"} for key in rows[0]]
    pyarrow.orc.write_table(pa.Table.from_pylist(rows), tmp_path / "x.orc")
    with (tmp_path / "x.avro").open("wb") as sink:
        fastavro.writer(sink, {"type": "record", "name": "row", "fields": fields}, rows)
    (tmp_path / "x.jsonl").write_text(str(rows[0]), encoding="utf-8")
    (tmp_path / "x.tsv").write_text("candidate\treference\né\te\n", encoding="utf-16-be")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    score = ["score", "--output", "out", "--model", EMBEDDED_MODEL, "--dry-run", "--input"]
    said = ran([*score, name], cli.UNUSABLE).err
    convert = re.search("Convert it: (.+)", said)[1].replace("NEW_FILE", "new")
    convert = re.sub("new$", "new.tsv", convert)
    subprocess.run(["bash", "-c", re.sub(r"\bFILE\b", name, convert)], check=True)
    (made,) = (path.name for path in tmp_path.iterdir() if path.stem in ("new", "dump"))
    assert "files rejected: 0\n" in ran([*score, made]).out


# Where a message names a command, that command is run, and then the first one is right. What is
# wrong; a piece of the message; the command that it names; and, if that alone does not mend it, how
# the first one goes on: "" if the command only shows what there is.

IDF = "idf --input dump --output"
SPOKEN = f"score --input spoken.parquet --language-column language --model {EMBEDDED_MODEL}"
SCORE = f"score --input dump --output out {DRY}"
TUNE = "tune --judgements judged.parquet --score-column human --layers 6 --idf none --metrics none"
EXPLAIN = "explain -c cat -r dog --device cpu --idf"
BASELINE = "baseline --sentences en=many.txt --models all-MiniLM-L6-v2 --pairs 20 --output"
RESCALED = f"{SCORE} --language en --model all-MiniLM-L6-v2 --rescale --baseline"

NAMED = [
    (f"{EXPLAIN} corpus", "Count one with `bertscore-beam idf`", f"{IDF} a.npz",
     f"{EXPLAIN} a.npz"),
    (f"{SCORE} --idf no", "the path of a table saved by `bertscore-beam idf`", f"{IDF} no.npz",
     f"{SCORE} --idf no.npz"),
    (f"{SCORE} --idf ./b.npz --idf-key id", "give the key to `bertscore-beam idf`",
     f"{IDF} b.npz --idf-key id", f"{SCORE} --idf ./b.npz"),
    (f"{SCORE} --idf ./c.npz", "`bertscore-beam idf`. Make it, or let", f"{IDF} c.npz", None),
    (f"{SCORE} --idf bad.npz", "by `bertscore-beam idf`. Make it with that",
     f"{IDF} bad.npz --overwrite", None),
    (f"{SPOKEN} --output out --idf a.npz {DRY}", "Count them with `bertscore-beam idf` and",
     f"{SPOKEN.replace('score', 'idf')} --output d.npz",
     f"{SPOKEN} --output out --idf d.npz {DRY}"),
    (f"{SCORE} --idf a.npz --max-length 64", "Count it again with `bertscore-beam idf` and",
     f"{IDF} e.npz --max-length 64", f"{SCORE} --idf e.npz --max-length 64"),
    (f"{SCORE} --registry no.json", "what `bertscore-beam tune --registry ",
     f"{TUNE} --registry no.json --output tuned", None),
    (f"{SCORE} --registry bad.json", "what `bertscore-beam tune --registry FILE` writes. Check",
     f"{TUNE} --registry right.json --output tuned", f"{SCORE} --registry right.json"),
    (f"{SCORE} --registry other.json", "Run `bertscore-beam tune --registry` for it",
     f"{TUNE} --registry other.json --output tuned", None),
    (f"{RESCALED} empty", "make them with `bertscore-beam baseline`", f"{BASELINE} tables-a",
     f"{RESCALED} tables-a"),
    (f"{RESCALED} tables", "Make it with `bertscore-beam baseline`, or", f"{BASELINE} tables-b",
     f"{RESCALED} tables-b"),
    (f"{RESCALED} ones.tsv", "a new one with `bertscore-beam baseline`", f"{BASELINE} tables-c",
     f"{RESCALED} tables-c"),
    (f"{SCORE} --model no/model", "`bertscore-beam models` lists the registry", "models", ""),
    ("baseline compare published tables-a", "`bertscore-beam models` lists the published", "models",
     "baseline compare published tables-a/en/all-MiniLM-L6-v2.tsv --language en --model "
     "distilbert-base-uncased"),
    (f"{SCORE} --paired-bs", "`bertscore-beam compare` tests systems",
     "compare days/scores/today days/scores/before", ""),
    (f"{SCORE} --segments", "`bertscore-beam score --output -` prints the scores",
     "score --input dump --output - --device cpu", ""),
]  # fmt: skip

NOT_TRIED = {
    "Write bertscore-beam explain RUN": "by the next test",
    "`bertscore-beam tune --judgements FILE": "a model without a layer is not here: test_layers",
    "Run `bertscore-beam tune` with these": "as for the other files of layers",
    "Make a table with `bertscore-beam baseline` from": "as for the other tables",
    "`bertscore-beam baseline{}`": "a notice: the scores are made",
    "with `bertscore-beam baseline` without": "as for the other tables",
    "`bertscore-beam baseline`. Delete it and run": "a damaged file of a run",
    "Count a table once with `bertscore-beam idf`": "a warning: the scores are made",
    "Make a table with `bertscore-beam idf` and give": "for Python",
    "Make one with `bertscore-beam idf`": "for Python",
    "holds no idf table for this language": "for Python",
    "an idf table of this project": "as for other files that are no table",
    "for any other model give num_layers": "for Python",
}


def messages_naming_commands():
    """Yield texts of the packages that name a command, but docstrings, help and examples."""
    for package in (bertscore_beam, bertscore_core):
        for path in Path(package.__file__).parent.rglob("*.py"):
            yield from filter(COMMAND.search, texts_below(ast.parse(path.read_text("utf-8"))))


def texts_below(node):
    is_help = isinstance(node, ast.Subscript) and getattr(node.value, "id", "") == "Annotated"
    is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    text = text_of(node)
    if text:
        yield text
    elif not (is_help or is_docstring):
        for below in ast.iter_child_nodes(node):
            yield from texts_below(below)


COMMAND = re.compile(r"(`|Write )bertscore-beam [a-z]")


def text_of(node):
    """Return a text of the source, with {} for what is filled in; "" for anything else."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    if not all(isinstance(part, ast.FormattedValue | ast.Constant) for part in parts):
        return ""
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts)


def test_each_message_that_names_a_command_is_tried():
    found = {*messages_naming_commands()}
    known = [*(says for _, says, *_ in NAMED), *NOT_TRIED]
    assert len(found) > 25
    assert [text for text in found if not any(says in text for says in known)] == []
    assert [says for says in known if not any(says in text for text in found)] == []


@pytest.mark.job
@pytest.mark.long
def test_the_command_that_a_message_names_mends_it(place, monkeypatch, ran):
    monkeypatch.chdir(place)
    (place / "bad.npz").write_bytes(b"no table")
    (place / "bad.json").write_text("{}", encoding="utf-8")
    layers = format_layers([TunedLayer(model="mine", weights="bb", num_layers=3)])
    (place / "other.json").write_bytes(layers)
    write_judgements(place / "judged.parquet")
    (place / "empty").mkdir()
    (place / "ones.tsv").write_text("LAYER,P,R,F\n" + "".join(f"{n},1,1,1\n" for n in range(7)))
    sentences = (f"sentence {number} of a text about cats" for number in range(40))
    (place / "many.txt").write_text("\n".join(sentences), encoding="utf-8")
    for wrong, says, named, again in NAMED:
        assert says in re.sub(r"\s+", " ", ran(shlex.split(wrong), cli.UNUSABLE).err), wrong
        ran(shlex.split(named))
        if again != "":
            ran(shlex.split(again or wrong))


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
