"""Baselines from sentences that somebody has."""

import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.baseline import extract
from bertscore_beam.cli.main import main
from bertscore_beam.crawl.warc import Page
from bertscore_beam.run.output import DONE, TOO_MANY_REJECTS, UNUSABLE
from tests.support.crawl_texts import page_text, sentences
from tests.support.crawls import description, run_given
from tests.support.text_files import to_jsonl, write_text
from tests.support.wet import wet_bytes


def test_documents_give_the_table_of_the_same_pages_of_a_crawl(tmp_path, model, monkeypatch):
    monkeypatch.setattr(extract, "_PAGES", 7)
    hosts = [f"https://www.host{page % 13}.example/{page}" for page in range(60)]
    texts = [page_text("de" if page % 9 == 0 else "en", 10, page) for page in range(60)]
    pages = [Page(url=url, text=text, languages=()) for url, text in zip(hosts, texts, strict=True)]
    rows = [{"url": page.url, "text": page.text} for page in pages]
    (tmp_path / "a.wet.gz").write_bytes(wet_bytes(pages))
    write_text(tmp_path / "en" / "a.jsonl.zst", to_jsonl(rows[:40] + rows[:10]))
    pq.write_table(pa.Table.from_pylist(rows[40:]), tmp_path / "en" / "b.parquet")
    (tmp_path / "en" / "README.md").write_text("no document")
    made = []
    documents = f"--documents en={tmp_path}/en"
    for source in (f"--languages en --wet {tmp_path}/a.wet.gz", documents):
        output = tmp_path / source.split()[0]
        words = f"baseline {source} --output {output} --models {model} --pairs 40 --device cpu"
        assert main([*words.split(), "--sentences-per-host", "6"]) == DONE
        made.append((output / "en" / "bert.tsv").read_bytes())
        said = description(output)
        assert said["sample"]["hosts_known"]
    assert made[0] == made[1]
    assert said["source"]["records"] == 70


GOOD = b"One.\nTwo.\n"


@pytest.fixture
def refused(tmp_path, model, capsys):
    """Return what runs on files, and gives its status and what it said."""

    def run(*files, **changes):
        status = run_given(model, tmp_path / "out", *files, **changes)
        return status, capsys.readouterr().err

    return run


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no sentence"),
        (b"\xff\xfe\x00bad", "cannot be read"),
        (b"\x1f\x8bxx", "cannot be read"),
    ],
)
def test_bad_files_of_sentences_end_the_run_by_name(tmp_path, refused, content, words):
    (tmp_path / "bad.txt").write_bytes(content)
    status, said = refused(tmp_path / "bad.txt")
    assert status == UNUSABLE
    assert re.search(rf"bad\.txt: .*{words}", said)
    assert "Trying again will not help" in said


def test_as_many_files_may_fail_as_the_share_says_and_a_table_of_one_pair_is_made(
    tmp_path, refused
):
    for number in range(22):
        (tmp_path / f"{number}.txt").write_bytes(b"" if number < 15 else GOOD)
    share = 15 / 22  # times 22 it is a little less than 15
    assert share * 22 < 15
    status, said = refused(tmp_path, pairs=1, max_reject_fraction=share)
    assert status == DONE
    assert "files could not be read: en 15" in said
    assert "got en/bert.tsv one that is not known with 1 pairs (3 checks were not made)" in said
    assert [check["passed"] for check in description(tmp_path / "out")["checks"]] == [None] * 3


def test_parquet_without_a_column_of_texts_is_refused_at_once(tmp_path, refused):
    pq.write_table(pa.table({"text": [["One."]]}), tmp_path / "wrong.parquet")
    status, said = refused(tmp_path / "wrong.parquet")
    assert status == UNUSABLE
    assert re.search(r"wrong\.parquet.* holds no texts: got list", said)
    assert not (tmp_path / "out").exists()


def test_link_that_leads_nowhere_is_named(tmp_path, refused):
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_bytes(GOOD)
    (tmp_path / "texts" / "gone.txt").symlink_to(tmp_path / "nowhere.txt")
    status, said = refused(tmp_path / "texts")
    assert status == UNUSABLE
    assert "gone.txt" in said
    assert "Repair the link, or remove it" in said


def test_other_sentences_are_refused_or_overwrite(tmp_path, model, capsys):
    file, table = tmp_path / "a.txt", tmp_path / "out" / "en" / "bert.tsv"
    file.write_text("\n".join(sentences("en", 700, 1)))
    assert run_given(model, tmp_path / "out", file) == DONE
    before = table.read_bytes()
    file.write_text("\n".join(sentences("en", 700, 2)))
    assert run_given(model, tmp_path / "out", file) == UNUSABLE
    assert "other files" in capsys.readouterr().err
    assert table.read_bytes() == before
    assert run_given(model, tmp_path / "out", file, overwrite=True) == DONE
    assert table.read_bytes() != before


def test_sentences_of_one_language_come_together_and_of_two_stay_apart(tmp_path, model, capsys):
    folder = tmp_path / "texts"
    for number in (1, 2):
        (folder / str(number)).mkdir(parents=True)
        texts = [*sentences("en", 200, number), "[SEP]", "[CLS]"]
        (folder / str(number) / "s.txt").write_text("\n".join(texts))
    words = f"baseline --output {tmp_path}/out --models {model} --pairs 1000 --device cpu"
    words += f" --sentences EN={folder}/1/s.txt en={folder}/2 de={folder}/1/s.txt"
    assert main(words.split()) == DONE
    result = [description(tmp_path / "out", f"{code}/bert.json") for code in ("en", "de")]
    assert [said["sample"]["sentences"] for said in result] == [402, 202]
    assert result[0]["pairs_without_tokens"] == 201 - result[0]["pairs"] in (1, 2)
    said = capsys.readouterr().err
    assert "another crawl" not in said
    assert said.count("the sample was too small") == 1
    assert "en 402 in 2 files, de 202 in 1 files; expected 2,000 of each language" in said


def test_limits_of_words_hold_for_given_sentences_and_tell_runs_apart(tmp_path, model, capsys):
    file = tmp_path / "a.txt"
    long = " ".join(["word"] * 9)
    file.write_text("\n".join([f"{word} Number {n}." for n in range(99) for word in ("So", long)]))
    output = tmp_path / "out"
    assert run_given(model, output, file, pairs=20, max_words=4, min_words=2) == DONE
    said = description(output)
    assert (said["sample"]["min_words"], said["sample"]["max_words"]) == (2, 4)
    assert said["source"]["files"][0]["rows"] == 99
    capsys.readouterr()
    assert run_given(model, output, file, pairs=20, max_words=5, min_words=2) == UNUSABLE
    assert "filters" in capsys.readouterr().err
    assert run_given(model, tmp_path / "none", file, pairs=20, min_words=20) == UNUSABLE
    assert "sentences that do not have at least 20 words" in capsys.readouterr().err


@pytest.mark.job
def test_sentences_without_tokens_give_no_table_and_a_warning(tmp_path, capsys):
    file = tmp_path / "nothing.txt"
    file.write_text("\n".join("\u0301" * number for number in range(1, 9)))  # accents alone
    output = tmp_path / "out"
    assert run_given("all-MiniLM-L6-v2", output, file) == TOO_MANY_REJECTS
    assert "no table en/all-MiniLM-L6-v2.tsv" in capsys.readouterr().err
    assert not (output / "_SUCCESS").exists()
    assert not (output / "en").exists()
