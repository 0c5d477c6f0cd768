"""`score --candidates --references`: text files as they are, with and without an output."""

import json
import os
import signal
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.options.score_options import ScoreOptions
from tests.support.dumps import pair_rows, read_output
from tests.support.text_files import write_text
from tests.support.waiting import wait_until

LINES = 7
FLAGS = ["--device", "cpu", "--quiet"]


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The folder of temporary folders, empty before the test."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@pytest.fixture
def texts(tmp_path):
    """Write two systems and two references; return their columns."""
    rows = pair_rows(LINES)
    columns = {"a": rows["candidate"], "b": rows["reference"][::-1], "r1": rows["reference"]}
    columns |= {"r2": rows["candidate"][::-1]}
    columns["a"][3] = ""
    for name, lines in columns.items():
        data = "".join(f"{line}\n" for line in lines).encode()
        write_text(tmp_path / f"{name}{'.txt.gz' if name == 'r1' else '.txt'}", data)
    return columns


@pytest.fixture
def score(tmp_path, ran):
    """Return a function that runs `score` with names of files in the folder of the test."""

    def run(*words, status=cli.DONE):
        flags = [str(tmp_path / word) if "." in word else word for word in words]
        return ran(["score", *FLAGS, *flags], status)

    return run


@pytest.mark.job
def test_scores_are_those_of_the_same_rows_as_parquet(tmp_path, texts, temporary, score):
    out = ["--output", str(tmp_path / "out")]
    score("-c", "a.txt", "b.txt", "-r", "r1.txt.gz", "r2.txt", *out)
    assert list(temporary.iterdir()) == []
    references = [list(pair) for pair in zip(texts["r1"], texts["r2"], strict=True)]
    for name in "ab":
        columns = {"candidate": texts[name], "reference": references}
        columns |= {"line": range(1, LINES + 1), "system": [name] * LINES}
        (tmp_path / "dump").mkdir(exist_ok=True)
        pq.write_table(pa.table(columns), tmp_path / "dump" / f"{name}.parquet")
    words = ["--input", str(tmp_path / "dump"), "--output", str(tmp_path / "same")]
    assert cli.main(["score", *words, *FLAGS]) == cli.DONE
    found, expected = read_output(tmp_path / "out"), read_output(tmp_path / "same")
    assert len(found) == 2 * LINES
    assert found.to_pylist() == expected.to_pylist()
    assert cli.main(["compare", str(tmp_path / "out"), "--systems", "--key", "line"]) == cli.DONE


@pytest.mark.job
def test_a_run_with_an_output_goes_on_where_it_was(tmp_path, texts, temporary, score):
    words = ["--cand", "a.txt", "--ref", "r2.txt", "-m", "all-MiniLM-L6-v2"]
    words += ["--output", str(tmp_path / "out"), "--empty", "null", "--max-reject-fraction", "1"]
    score(*words)
    assert "reused: 6 rows of an earlier run" in score(*words).out
    run = json.loads((tmp_path / "out" / "_run.json").read_text())
    assert run["options"]["candidates"] == [str(tmp_path / "a.txt")]
    assert run["options"]["input"] == []
    assert str(temporary) not in json.dumps(run)
    (rejects,) = (tmp_path / "out" / "_rejects" / "rows").rglob("*.pq")
    (row,) = pq.read_table(rejects).to_pylist()
    byte = sum(len(text.encode()) + 1 for text in texts["a"][:3])
    place = (str(tmp_path / "a.txt"), 3, 4, byte)
    assert (row["file"], row["row"], row["line"], row["byte"]) == place
    write_text(tmp_path / "a.txt", "".join(f"{text} new\n" for text in texts["a"]).encode())
    assert "scores of other texts" in score(*words, status=cli.UNUSABLE).err


@pytest.mark.job
def test_without_an_output_the_result_is_printed_and_nothing_stays(
    tmp_path, texts, temporary, score
):
    words = ["-c", "a.txt", "b.txt", "-r", "r2.txt"]
    before = sorted(tmp_path.iterdir())
    printed = score(*words)
    lines = dict(line.split(": ", 1) for line in printed.out.splitlines() if ": " in line)
    assert (lines["rows"], lines["scored"], lines["  empty_candidate"]) == ("14", "14", "1")
    assert lines["signature"].startswith("bertscore|")
    assert "output" not in lines
    assert "\na\t7\t" in printed.out
    assert printed.err == ""
    document = json.loads(score(*words, "--json").out)
    assert document.keys() == {"status", "warnings", "notices", "summary"}
    assert document["notices"][0].startswith("2 of 2 groups have too few rows, such as a: ")
    assert f"{document['summary']['f1']:.6f}" == lines["f1"]
    assert "rows to score: 14\n" in score(*words, "--dry-run").out
    printed = score(*words, "--empty", "null", status=cli.TOO_MANY_REJECTS)
    assert "Nothing is kept without a folder as --output." in printed.err
    assert str(temporary) not in printed.out + printed.err
    assert list(temporary.iterdir()) == []
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.job
def test_an_error_on_the_way_leaves_nothing_and_promises_nothing(
    tmp_path, texts, temporary, score, monkeypatch
):
    def fails(*_, **__):
        raise RuntimeError("no memory")

    monkeypatch.setattr("bertscore_beam.run.job.run_job", fails)
    error = score("-c", "a.txt", "-r", "r2.txt", status=cli.BROKEN).err
    assert "the job stopped: no memory\nNothing is kept without a folder as --output." in error
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-c", "a.txt"], "--references (-r) is missing: got --candidates (-c) alone, ["),
        (["-r", "r2.txt"], "--candidates (-c) is missing: got --references (-r) alone, ["),
        (["-c", "a.txt", "-r", "r2.txt", "--input", "x.tsv"], "expected none beside --candidates"),
        (["-c", "a.txt", "-r", "no.txt"], "no.txt' does not exist"),
        (["-c", "no.txt", "-r", "r2.txt"], "no.txt' does not exist"),
        (
            ["-c", "no*.txt", "-r", "r2.txt"],
            "no*.txt' does not exist; expected a file with one text",
        ),
        (["-c", "a.txt", "-r", "short.txt"], "got these numbers of lines: 7 in "),
        (["-i", "no.parquet"], "--output is missing"),
        (["-c", "a.txt", "-r", "r2.txt", "--", "--runner=x"], "only: got Beam's '--runner=x'"),
        (["-i", "a.txt", "r2.txt"], "takes files with one text per line: --candidates HYP.txt"),
    ],
)
def test_what_cannot_be_scored_is_refused(tmp_path, texts, temporary, score, words, message):
    write_text(tmp_path / "short.txt", b"x\n")
    assert message in score(*words, status=cli.UNUSABLE).err
    assert list(temporary.iterdir()) == []


def test_files_of_references_make_the_input_one_of_candidates():
    given = {"input": ["a.txt", "b.txt"], "references": ["r"]}
    options = ScoreOptions.from_mapping(given, "the test")
    assert (options.candidates, options.input) == (("a.txt", "b.txt"), ())
    assert (options.group_by, options.output) == (("system",), None)
    options = ScoreOptions.from_mapping({**given, "by": ["x"], "output": "out"}, "the test")
    assert (options.group_by, options.output) == (("x",), "out")


@pytest.mark.process
def test_a_signal_leaves_nothing_behind(tmp_path):
    text = "".join(f"{text}\n" for text in pair_rows(600)["candidate"]).encode()
    hyp, temporary = write_text(tmp_path / "hyp.txt", text), tmp_path / "temporary"
    temporary.mkdir()
    words = ["score", "-c", hyp, "-r", hyp, "--split-rows", "5", "--device", "cpu"]
    with subprocess.Popen(
        [sys.executable, "-m", "bertscore_beam", *map(str, words)],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    ) as process:
        wait_until(lambda: list(temporary.rglob("_work/*/[0-9]*.pq")), process=process)
        os.killpg(process.pid, signal.SIGTERM)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGTERM
    assert "interrupted (SIGTERM). Nothing is kept without a folder as --output." in errors
    assert list(temporary.iterdir()) == []
