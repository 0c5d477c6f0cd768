"""A pointer of Git LFS in the place of a file is recognised wherever a file is read."""

import shutil
from pathlib import Path

import pytest

from bertscore_beam.cli import main as cli
from bertscore_core import BertScorer, InputError, ModelLoadError, ScorerConfig
from tests.support.dumps import write_dump
from tests.support.web import web_server

POINTER = (
    b"version https://git-lfs.github.com/spec/v1\n"
    b"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
    b"size 12345\n"
)
CURE = "Fetch it: run `git lfs pull` in its repository."


def pointer(path: Path) -> str:
    path.write_bytes(POINTER)
    return str(path)


def ends_with_the_cure(capsys, *words: str) -> None:
    assert cli.main(list(words)) == cli.UNUSABLE
    said = capsys.readouterr()
    assert CURE in said.err
    assert "0.9" not in said.out  # no score


NAMES = [
    f"rows.{name}"
    for name in (
        "parquet", "jsonl", "ndjson", "json", "csv", "tsv", "jsonl.gz", "csv.zst", "tsv.gz", "txt"
    )
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("command", ["score", "idf", "select"])
def test_an_input_of_any_format(tmp_path, capsys, name, command):
    pointer(tmp_path / name)
    output = tmp_path / ("out.npz" if command == "idf" else "out")
    ends_with_the_cure(capsys, command, "-i", str(tmp_path / name), "-o", str(output))


@pytest.mark.job
def test_a_file_of_texts(tmp_path, capsys):
    words = ["score", "-i", pointer(tmp_path / "rows.jsonl"), "-o", str(tmp_path / "out")]
    assert cli.main(words) != cli.DONE
    assert CURE in capsys.readouterr().err


def test_one_pointer_among_whole_files_is_a_rejected_file(tmp_path, capsys):
    dump = write_dump(tmp_path / "dump", [5])
    pointer(dump / "other.parquet")
    words = ["score", "-i", str(dump), "-o", str(tmp_path / "out"), "--max-reject-fraction", "1"]
    assert cli.main([*words, "--dry-run"]) == cli.DONE
    said = capsys.readouterr()
    assert CURE in said.out + said.err


@pytest.mark.parametrize("which", ["--candidates", "--references"])
def test_files_with_a_text_a_line(tmp_path, capsys, which):
    (tmp_path / "good.txt").write_text("one\ntwo\nthree\n")
    paths = dict.fromkeys(("--candidates", "--references"), str(tmp_path / "good.txt"))
    paths[which] = pointer(tmp_path / "pointer.txt")
    words = [word for pair in paths.items() for word in pair]
    ends_with_the_cure(capsys, "score", *words, "-o", str(tmp_path / "out"))


def test_a_text_of_a_line_may_speak_of_git_lfs(tmp_path):
    """A pointer has fewer than 1,024 bytes."""
    path = tmp_path / "rows.tsv"
    path.write_bytes(POINTER.splitlines()[0] + b"\tcandidate\treference\n" + b"a\tb\tc\n" * 500)
    words = ["score", "-i", str(path), "-o", str(tmp_path / "out"), "--dry-run"]
    assert cli.main(words) == cli.DONE


@pytest.mark.parametrize(
    "option", ["--idf", "--baseline", "--registry", "--config", "--languages", "--reference-file"]
)
def test_files_beside_the_input(tmp_path, capsys, option):
    dump = write_dump(tmp_path / "dump", [5])
    words = ["score", "-i", str(dump), "-o", str(tmp_path / "out"), "--device", "cpu"]
    more = {
        "--baseline": ["--rescale"],
        "--languages": ["--language-column", "lang"],
        "--reference-file": ["--join", "id", "--reference-column", "gold"],
    }
    path = pointer(tmp_path / "file.parquet")
    ends_with_the_cure(capsys, *words, option, path, *more.get(option, []))


def test_the_library_reads_none_either(tmp_path, tiny_folder):
    folder = Path(shutil.copytree(tiny_folder("bert"), tmp_path / "model"))
    table = pointer(tmp_path / "table.csv")
    with pytest.raises(InputError, match="git lfs pull"):
        BertScorer(ScorerConfig(model=str(folder), num_layers=1, rescale=True, baseline=table))
    for path in list(folder.iterdir()):
        whole = path.read_bytes()
        pointer(path)
        with pytest.raises(ModelLoadError, match="git lfs pull"):
            BertScorer(ScorerConfig(model=str(folder), num_layers=1))
        path.write_bytes(whole)


def test_judgements_and_sentences(tmp_path, capsys, tiny_folder):
    model = str(tiny_folder("bert"))
    path = pointer(tmp_path / "judged.csv")
    words = ["--judgements", path, "--models", model, "--score-column", "human"]
    ends_with_the_cure(capsys, "tune", *words, "-o", str(tmp_path / "tuned"))
    words = ["--models", model, "--pairs", "10", "-o", str(tmp_path / "tables")]
    ends_with_the_cure(capsys, "baseline", "--sentences", f"en={path}", *words)


@pytest.mark.process
@pytest.mark.parametrize("name", ["/rows.jsonl", "/rows.parquet", "/rows.csv"])
def test_a_file_of_a_web_server(tmp_path, capsys, name):
    for faults in ({}, {} if name.endswith(".parquet") else {name: ["no length"] * 9}):
        with web_server({name: POINTER}, faults) as web:
            words = ["score", "-i", web.url + name, "-o", str(tmp_path / "out")]
            ends_with_the_cure(capsys, *words)
