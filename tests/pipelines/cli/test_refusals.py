"""What the command line refuses, with the words and the status of each refusal."""

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.run.alone import alone
from tests.support.dumps import write_dump
from tests.support.jobs import score_arguments as arguments

MODEL = "all-MiniLM-L6-v2"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--model", "bert-base-uncasd"], "Did you mean 'bert-base-uncased'?"),
        (["--model", "all-minilm"], "Did you mean 'all-MiniLM-L6-v2'?"),
        (["--num-layers", "99"], "num_layers 99 is out of range"),
        (["--num-layers", "x"], "argument -l/--num-layers: invalid int value: 'x'"),
        (["--lang", "english"], "no default model for language 'english'. Did you mean 'en'?"),
        (["--model", "no/such/model"], "neither a local folder"),
        (["--rescale"], "--rescale needs a baseline: got neither a language"),
        (["--rescale", "--baseline", "no.csv"], "baseline 'no.csv' cannot be read"),
        (["--rescale", "--baseline", "n" * 300], "File name too long"),
        (["--device", "cuda:77"], "device 'cuda:77' cannot be used"),
        (["--idf", "./no-table.npz"], "no-table.npz"),
        (["--candidate-column", "candidat"], "Did you mean 'candidate'?"),
        (["--", "--runner=DaskRunner"], "runner 'dask' cannot be used: it loses rows"),
        (["--max-length", "1000"], "more than all-MiniLM-L6-v2 has positions for"),
        (["--max-length", "unlimited"], "positions for 512 tokens and none beyond"),
    ],
)
def test_what_cannot_work_ends_with_status_2_before_anything_is_written(
    dump, tmp_path, ran, more, message
):
    assert message in ran(arguments(dump, tmp_path, *more), cli.UNUSABLE).err
    assert not (tmp_path / "out").exists()


SCORE = "score --output out"
PASTE = r"rows: (printf 'candidate\treference\n'; paste HYP.txt REF.txt) > dump.tsv; then give "
TABS = "separate them by commas in a .csv file, or by tabs in a .tsv file"


@pytest.mark.parametrize(
    ("name", "content", "words", "message"),
    [
        ("hyp.txt", "a cat\n\n", f"{SCORE} --input hyp.txt", PASTE),
        ("x.parquet", "no Parquet", f"{SCORE} --input x.parquet", "cannot be read as Parquet"),
        ("hyp.txt", "a\n", "score --hyp hyp.txt --refs ref.txt", PASTE),
        ("hyp.txt", "a\n", "score --cand hyp.txt --ref ref.txt --lang en", "'ref.txt' does not"),
        ("x.json", '[{"candidate": "a"}]', f"{SCORE} --input x.json", "x.json > rows.jsonl"),
        ("x.json", '{\n"candidate": "a"\n}', f"{SCORE} --input x.json", "Convert it: jq -c . /"),
        ("x.csv", "candidate;reference\na;b\n", f"{SCORE} --input x.csv", f"by ';': {TABS}"),
        ("x.tsv", "candidate,reference\na,b\n", f"{SCORE} --input x.tsv", f"by ',': {TABS}"),
        ("x.csv", "Hi,Hello\nno,yes\n", f"{SCORE} --input x.csv", "first line of the file names"),
        ("x.csv", "a,b\n1,2\n", f"{SCORE} --input x.csv --model ./no", "that the hub allows. Give"),
        ("x", None, f"{SCORE} --input nothing", "no input: 'nothing' does not exist"),
        ("x", None, f"{SCORE} --input a\0b", "got a NUL character in it; expected none"),
        (
            "x.csv",
            "a,b\n",
            f"{SCORE} --input x.csv -o a\0b",
            "got a NUL character in it; expected none",
        ),
        (
            "x.yaml",
            "batch_tokens: 64\n",
            "score --config x.yaml --input x.csv -o a\0b",
            "got a NUL character in it; expected none",
        ),
        ("x", None, f"{SCORE} --config a\0b", "got a NUL character in it; expected none"),
        ("f", "", "score --input f --output f/out", "written: got no permission, or a file"),
        ("x", None, "score", "got neither --input nor --candidates; expected one of them"),
        ("x", None, "score --input h.txt.zst", "takes files with one text per line"),
        ("x", None, "score h.txt r.txt", "go after their flags: -c h.txt -r r.txt."),
        ("x", None, "score h.txt.gz", "flags: -c h.txt.gz -r REFERENCES.txt."),
        (
            "dump",
            None,
            "score dump",
            "What to read goes after the flag: --input dump --output FOLDER.",
        ),
        ("dump", None, "tune dump", "goes after the flag: --judgements dump."),
        ("a", None, "score -c a b", "expected files of both. Give both: -c a -r b; or a dump"),
        ("x.csv", "a,b\r1,2\r", f"{SCORE} --input x.csv", "tr '\\r' '\\n' < FILE > NEW_FILE"),
        ("x.jsonl", '{"a": 1},\n{"a": 2},\n', f"{SCORE} --input x.jsonl", "sed 's/,$//' FILE > "),
        ("x.csv", "BZh91AY&SY", f"{SCORE} --input x.csv", "Unpack it first: bzcat FILE"),
        ("x.xls", "\udcd0\udccf\x11\udce0", f"{SCORE} --input x.xls", "got an old Excel workbook;"),
        ("x.xlsx", "PK\3\4", f"{SCORE} --input x.xlsx", "can save a sheet as CSV in UTF-8."),
        (
            "x.csv",
            "PAR1",
            f"{SCORE} --input x.csv",
            "expected csv in UTF-8. Let its name end in .p",
        ),
        ("x", '{"a": 1}\n', f"{SCORE} --input x", "or give --input-format jsonl."),
        (
            "x.orc",
            "ORC\n\x07\x12",
            f"{SCORE} --input x.orc",
            'python -c "from pyarrow import orc, ',
        ),
        ("x.avro", "Obj\1", f"{SCORE} --input x.avro", "python -m fastavro FILE > NEW_FILE.jsonl"),
        ("x.csv", "ORCID,b\n1,2\n", f"{SCORE} --input x.csv", "the columns ['ORCID', 'b']"),
        ("x.jsonl", "{'candidate': 'a'}\n", f"{SCORE} --input x.jsonl", "[print(json.dumps(ast."),
        ("x.tsv", "c\0a\0n\0d\0", f"{SCORE} --input x.tsv", "iconv -f UTF-16LE -t UTF-8 FILE"),
        ("x.tsv", "\0c\0a\0n\0d", f"{SCORE} --input x.tsv", "iconv -f UTF-16BE -t UTF-8 FILE"),
        ("x.tsv", "candidate   reference\na   b\n", f"{SCORE} --input x.tsv", f"by '   ': {TABS}"),
        ("x.txt", "a\rb\r", "score -c x.txt -r x.txt", "tr '\\r' '\\n' < FILE > NEW_FILE"),
        (
            "x.csv",
            "a,b\n",
            f"{SCORE} --input x.csv --max-reject-fraction 5%",
            "percent write 0.05.",
        ),
        (
            "x.csv",
            "a,b\n",
            "idf --input x.csv -o -",
            "got '-'; expected a place that can be written",
        ),
        (
            "x",
            None,
            "rescale r --baseline none -o -",
            "Only `score` prints its result. Give a name",
        ),
        ("x", None, "score help", "one of this command's flags. `bertscore-beam score --help-all`"),
        ("x", None, "help", "`bertscore-beam --help` explains them."),
        ("x", None, "explain r f.parquet:3", "Rows of a run go after the flag --row; texts go"),
        ("f", "", "groups r -o f/x.csv", "got a folder that takes no new file; expected one that"),
        ("f", "", "report r -o f/x.html", "got a folder that takes no new file; expected one that"),
        ("f", "", "explain -c a -r b -o f/x.html", "got a folder that takes no new file; expected"),
        ("x", None, f"{SCORE} --input hf://x", "expected hf://datasets/OWNER/NAME/FILE. Write"),
        ("x", None, f"{SCORE} --input hf://datasets/x", "expected hf://datasets/OWNER/NAME/FILE."),
        ("x.feather", "ARROW1\0\0", f"{SCORE} --input x.feather", "pandas.read_feather(FILE)"),
        (
            "x.db",
            "SQLite format 3\0",
            f"{SCORE} --input x.db",
            "Write its table as CSV or Parquet.",
        ),
        ("x.tsv", "a", "score -c x.tsv -r x.tsv", "of a file of rows; expected a file with one"),
        ("x.CSV", "a", "score -c x.CSV -r x.CSV", "of a file of rows; expected a file with one"),
        ("x.csv.gz", "a", f"{SCORE} --input x.csv.gz", "Leave the last suffix of its name out."),
        (
            "x.jsonl",
            '{"a": 1}\n',
            f"{SCORE} --input x.jsonl --input-format parquet",
            "Give the right --input-format, or none.",
        ),
        ("x.txt", "a", "score -c x.txt -r .", "'.' is a folder; expected a file with one text"),
        ("x", None, "score -c A text. -r no", "Texts go to `explain -c TEXT -r TEXT`."),
        ("x", None, "score r.txt -i h.txt -m bleu", "go after their flags: -r r.txt."),
        ("x", None, "score -s s.txt -c h.txt -r r.txt", "unknown argument 's.txt'"),
        ("x", None, "score -c h.txt -r r.txt --rescale en", "`bertscore-beam score --help-all`"),
        ("x", None, "score -i h.txt -r r.txt -m bleu", "Write --metrics for other metrics than"),
        ("x", None, "score -c h.txt -r r.txt --idf", "`corpus` to count over all references first"),
        ("x", None, "score -c h.txt -r r.txt --idf True", "Write a file of this folder as ./n"),
        ("x", None, "score -c h.txt -r r.txt --to_json x", "Did you mean --output?"),
        ("x", None, "tune --input x --output out", "Did you mean --judgements?"),
        ("x", None, "tune --data x --output out", "Did you mean --judgements?"),
        ("x", None, "score --file x --output out", "Did you mean --input?"),
        ("r", None, "compare r --baseline r2", "Did you mean --against?"),
        ("r", None, "compare r r2 --metric bleu", "Did you mean --measure?"),
        ("r", None, "report r --html x.html", "Did you mean --output?"),
        ("x", None, f"{SCORE} --input x --metric bleu", "Did you mean --metrics?"),
        ("x", None, f"{SCORE} --input x --key id", "`bertscore-beam compare` tests systems and"),
        ("x", None, "score -i x.csv -c h.txt", "candidates of rows are a column of theirs: --can"),
        ("x.csv", "a", "score -c x.csv -r x.csv", "columns: give --input x.csv --reference-column"),
        ("x.txt", "a", "explain -c x.txt -r x.txt", "Files go to: bertscore-beam score -c HYP.txt"),
        ("r", None, "compare", "As in: bertscore-beam compare scores/today scores/before"),
        ("r", None, "compare r r2 -o x", "goes to standard output: write > FILE"),
        ("r", None, "rescale r --baseline b -o x.csv", "or write x.csv/ if that is to be the name"),
        ("r", None, "baseline -o tables.tsv", "expected a folder. Choose another name, or write"),
        ("r", None, "explain r --worst 1 --idf none", "Leave it out: the run's own is used."),
        ("r", None, "explain r --worst 1 --empty zero", "settings of its run: got --empty;"),
        ("r", None, "groups --by x no", "As in: bertscore-beam groups scores --by system"),
        ("r", None, "report r r2", "Another run goes after the flag: --against r2."),
        ("r", None, "report r x.html", "What is written goes after the flag: --output x.html."),
        ("r", None, "explain r x.html", "What is written goes after the flag: --output x.html."),
        ("r", None, "groups r system", "Columns of groups go after the flag: --by system."),
        ("r", None, "groups r a b", "Columns of groups go after the flag: --by a b."),
        ("r", None, "rescale r en.tsv", "The table goes after the flag: --baseline en.tsv."),
        ("r", None, "rescale r x --baseline en.tsv", "rescale --help-all` lists the flags."),
        ("r", None, "score x.html", "What to read goes after the flag: --input x.html"),
        ("r", None, "groups r x.png", "Columns of groups go after the flag: --by x.png."),
        ("r", None, "baseline compare a b en", "A language goes after the flag: --language en."),
        ("r", None, "baseline compare a b c.html", "baseline compare --help-all` lists the flags."),
        ("r", None, "groups r", "is not a scoring run: it does not exist; expected"),
        ("r", None, "models xlnet", "to search it: bertscore-beam models | grep xlnet"),
        ("x.csv", "a,b\n1,2\n", f"{SCORE} --input x.csv --by candidate", "many rows share"),
        ("r", None, "baseline --sentences en=no.txt --output out", "'no.txt' does not exist"),
    ],
)
def test_a_mistake_is_told_its_cure(name, content, words, message, tmp_path, monkeypatch, ran):
    monkeypatch.chdir(tmp_path)
    if content is not None:
        (tmp_path / name).write_bytes(content.encode(errors="surrogateescape"))
    assert message in ran(words.split(), cli.UNUSABLE).err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["score", "--input", "BAD/x.parquet", "--output", "out"],
        ["score", "--input", "dump", "BAD", "--output", "out"],
        ["score", "--input", "dump", "--output", "BAD/out"],
        ["score", "--input", "dump", "--output", "out", "--idf", "BAD/idf.npz"],
        ["score", "--input", "dump", "--output", "out", "--reuse", "BAD/scores"],
        ["idf", "--input", "BAD", "--output", "idf.npz"],
        ["idf", "--input", "dump", "--output", "BAD/idf.npz"],
        ["baseline", "--sentences", "en=BAD/x.txt", "--output", "out", "--models", MODEL],
        ["rescale", "BAD", "--output", "out", "--baseline", "x.tsv"],
        ["groups", "BAD", "--by", "x"],
        ["compare", "BAD", "BAD"],
        ["explain", "BAD", "--worst", "1"],
        ["report", "BAD"],
        ["check", "BAD"],
    ],
)
@pytest.mark.parametrize("is_current", [False, True])
def test_a_folder_whose_name_is_not_utf8_is_refused_in_every_command(
    words, is_current, tmp_path, ran, monkeypatch
):
    bad = tmp_path / os.fsdecode(b"plain\xff")
    bad.mkdir()
    write_dump(tmp_path / "dump", [5])
    (tmp_path / "dump" / "shard-000.parquet").rename(bad / "x.parquet")
    write_dump(tmp_path / "dump", [5])
    if is_current:
        words = [word.replace("BAD/", "").replace("BAD", ".") for word in words]
        words = [word if word != "dump" else "../dump" for word in words]
    monkeypatch.chdir(bad if is_current else tmp_path)
    before = sorted(tmp_path.rglob("*"))
    said = ran([word.replace("BAD", bad.name) for word in words], cli.UNUSABLE).err
    assert r"plain\udcff" in said
    assert "cannot be used: it is not valid UTF-8" in said
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "words",
    ["score --verbose", "score --json", "score --overwrit", "compare", "baseline --overwrte"],
)
def test_very_different_and_destructive_options_are_not_suggested(words, dump, tmp_path, ran):
    assert cli.main(words.split()) == cli.UNUSABLE
    (tmp_path / "config.yaml").write_text(f"{words.partition('--')[2] or 'verbose'}: true\n")
    said = ran(arguments(dump, tmp_path, "--config", tmp_path / "config.yaml"), cli.UNUSABLE).err
    assert "unknown option in" in said
    assert "Did you mean" not in said


def test_equal_messages_of_many_files_are_one_line(tmp_path, ran):
    dump = write_dump(tmp_path / "dump", [5] * 4)
    wrong = ["--candidate-column", "candidat"]
    said = ran(arguments(dump, tmp_path, *wrong), cli.UNUSABLE).err
    assert said.count("Did you mean 'candidate'?") == 1
    assert "shard-000.parquet and 3 more: " in said
    good = pa.table({"candidat": ["a cat"], "reference": ["the cat"]})
    pq.write_table(good, dump / "shard-009.parquet")
    shown = ran(arguments(dump, tmp_path, *wrong, "--dry-run")).out
    assert shown.count("file rejected: ") == 1
    assert "shard-000.parquet and 3 more: " in shown


@pytest.mark.job
def test_too_many_rejects_end_with_status_3(tmp_path, ran):
    folder = tmp_path / "dump"
    folder.mkdir()
    table = pa.table({"candidate": ["a cat", None], "reference": ["the cat", "a dog"]})
    pq.write_table(table, folder / "half.parquet")
    shown = ran(arguments(folder, tmp_path), cli.TOO_MANY_REJECTS)
    assert "50.00% of the rows or files have no score" in shown.err
    assert "null_candidate" in shown.out
    assert not (tmp_path / "out" / "_SUCCESS").exists()


def test_unknown_command_lists_the_known(ran):
    printed = ran(["scor"], cli.UNUSABLE).err
    assert f"expected one of {', '.join(cli.COMMANDS)}." in printed
    assert "Did you mean score?" in printed
    assert cli.main(["--help"]) == cli.DONE
    assert cli.main([]) == cli.UNUSABLE


@pytest.mark.job
def test_second_run_on_a_folder_is_refused_while_the_first_is_at_work(dump, tmp_path, ran):
    with alone(str(tmp_path / "out")):
        said = ran(arguments(dump, tmp_path), cli.UNUSABLE).err
        assert "another run is at work on output" in said
        assert cli.main(arguments(dump, tmp_path, "--dry-run")) == cli.DONE
    assert not (tmp_path / "out").exists()
    assert cli.main(arguments(dump, tmp_path)) == cli.DONE
