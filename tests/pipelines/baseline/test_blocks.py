"""Blocks of files: few objects, and every language and file in them can be read alone."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

from bertscore_beam.baseline import (
    SENTENCES_FOLDER,
    BlockRecord,
    BlockWriter,
    ReadFile,
    SentenceIndex,
    blocks as module,
    read_block,
    record_path,
)
from bertscore_beam.run import OutputFolder, hold

LANGUAGES = ("de", "en", "fr")


def texts_of(file, language, number):
    return [f"{language} {file} {row}" for row in range(number)]


def read_file(name, rows):
    return ReadFile(
        file=name,
        bytes=7,
        sha256="ab",
        retries=["attempt 1: 503"],
        counts={"pages": 3},
        languages={code: {"sentences_kept": number} for code, number in rows.items()},
        rows=rows,
    )


def write(folder, name, files):
    """Write a block of files; each is (name, {language: number of sentences})."""
    writer = BlockWriter(folder, name)
    for place, (file, rows) in enumerate(files):
        for code in sorted(rows):
            sentences = pa.table({"text": pa.array(texts_of(file, code, rows[code]), pa.string())})
            writer.add(code, place, sentences)
    writer.close([read_file(file, rows) for file, rows in files])


def read(folder, index, language, names):
    result = index.blocks(language, names)
    tables = [read_block(folder, block, ("text",)) for block in result]
    assert [len(table) for table in tables] == [block.rows for block in result]
    return [text for table in tables for text in table["text"].to_pylist()]


counts = st.dictionaries(st.sampled_from(LANGUAGES), st.integers(0, 5))


@settings(max_examples=25)
@given(st.lists(counts, min_size=1, max_size=5), st.integers(1, 7), st.sets(st.integers(0, 4)))
def test_any_files_of_a_language_are_read_back_whatever_the_parts(
    tmp_path_factory, rows, most, chosen
):
    root = str(tmp_path_factory.mktemp("run"))
    files = [(f"f{number}", of_file) for number, of_file in enumerate(rows)]
    names = [f"f{number}" for number in sorted(chosen)]
    with hold(root, say=print, lost=print) as lock, pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_PART_ROWS", most)
        folder = OutputFolder(root, lock)
        write(folder, "b", files)
        index = SentenceIndex(folder)
        index.refresh()
        for code in LANGUAGES:
            asked = {file: of_file[code] for file, of_file in files if code in of_file}
            expected = [
                text
                for file in names
                if file in asked
                for text in texts_of(file, code, asked[file])
            ]
            assert read(folder, index, code, names) == expected
            assert [file.file for file in index.files(code, names)] == [
                name for name in names if name in asked
            ]
        parts = [
            pq.ParquetFile(folder.path(p)) for p in map("_sentences/{}".format, parts_of(root))
        ]
        assert all(part.metadata.num_rows <= most for part in parts)


def parts_of(root):
    return [name for name in OutputFolder(root).files(SENTENCES_FOLDER) if ".pq" in name]


def test_each_language_is_a_row_group_and_one_without_sentences_takes_no_room(folder):
    write(folder, "b", [("x", {"en": 2, "de": 3, "fr": 0}), ("y", {"en": 4})])
    write(folder, "empty", [("z", {"en": 0})])
    files = folder.files(SENTENCES_FOLDER)
    assert list(files) == ["b.0.pq", "b.json", "empty.json"]
    part = pq.ParquetFile(folder.path("_sentences/b.0.pq"))
    assert part.num_row_groups == 2
    assert set(part.read_row_group(1)["text"].to_pylist()) == {
        *texts_of("x", "en", 2),
        *texts_of("y", "en", 4),
    }
    index = SentenceIndex(folder)
    index.refresh()
    assert index.has("fr", "x")
    assert index.has("en", "z")
    assert not index.has("fr", "y")
    assert index.blocks("fr", ["x"]) == index.blocks("en", ["z"]) == []


def test_record_is_read_as_it_was_written(folder):
    write(folder, "b", [("x", {"en": 2}), ("y", {"en": 1, "de": 1})])
    data = folder.read(record_path("b"))
    record = BlockRecord.from_json(data)
    assert record.to_json() == data
    assert record.files[1] == read_file("y", {"en": 1, "de": 1})
    assert record.files[0].counts_of("en") == {"pages": 3, "sentences_kept": 2}


def test_index_reads_a_record_once_and_forgets_what_is_gone(folder, monkeypatch):
    write(folder, "a", [("x", {"en": 1})])
    index = SentenceIndex(folder)
    index.refresh()
    asked = []
    real = OutputFolder.read_if_there

    def counted(self, *names):
        asked.extend(names)
        return real(self, *names)

    monkeypatch.setattr(OutputFolder, "read_if_there", counted)
    write(folder, "b", [("y", {"en": 1})])
    index.refresh()
    assert asked == [record_path("b")]
    folder.delete(record_path("a"))
    index.refresh()
    assert asked == [record_path("b")]
    assert not index.has("en", "x")
    assert index.has("en", "y")
    assert index.unrecorded() == ["_sentences/a.0.pq"]


def test_file_that_is_in_two_blocks_counts_once(folder):
    for name in ("b", "a"):
        write(folder, name, [("x", {"en": 3})])
    index = SentenceIndex(folder)
    index.refresh()
    assert [block.path for block in index.blocks("en", ["x"])] == ["_sentences/a.0.pq"]
    assert len(index.files("en", ["x"])) == 1
