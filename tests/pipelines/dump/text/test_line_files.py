"""Files with one text per line become Parquet, with one row per line."""

import os
import stat
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from bertscore_beam.dump.lines import LINE_COLUMN
from bertscore_beam.dump.text import text_records, text_source
from bertscore_beam.dump.text.to_parquet import write_line_files
from bertscore_beam.files.reach import NoFileError, is_refused
from bertscore_beam.run.temporary import temporary_folder
from bertscore_core.errors import ConfigError, InputError
from tests.support.text_files import write_text


@pytest.fixture
def rows(tmp_path):
    """Return what writes files, by name, and reads the Parquet files that are made of them."""

    def of(candidates, references):
        for name, data in (candidates | references).items():
            write_text(tmp_path / name, data)
        places = ([str(tmp_path / name) for name in names] for names in (candidates, references))
        tables = map(pq.read_table, write_line_files(*places, str(tmp_path)))
        return [table.drop_columns(LINE_COLUMN).to_pylist() for table in tables]

    return of


@pytest.mark.parametrize(
    "data",
    [b"a\n\n c \n", b"a\n\n c ", b"a\r\n\r\n c \r\n", b"a\r\n\n c \r", b"\xef\xbb\xbfa\n\n c \n"],
)
@pytest.mark.parametrize("ending", [".txt", ".txt.gz", "", ".de.zst"])
def test_line_ends_do_not_matter_and_an_empty_line_is_an_empty_text(rows, data, ending):
    (found,) = rows({f"h{ending}": data}, {f"r{ending}": b"x\ny\nz\n"})
    expected = zip(["a", "", " c "], "xyz", [1, 2, 3], strict=True)
    assert [tuple(row[name] for name in ("candidate", "reference", "line")) for row in found] == [
        *expected
    ]


def test_a_byte_order_mark_is_no_text_but_the_line_that_it_begins_is_there(tmp_path, rows):
    (found,) = rows({"h": b"\xef\xbb\xbf"}, {"r": b"\xef\xbb\xbfx\n"})
    assert [(row["candidate"], row["reference"]) for row in found] == [("", "x")]
    rows({"h": b"\xef\xbb\xbfa\nb"}, {"r": b"x\ny"})
    lines = pq.read_table(tmp_path / "h.parquet")[LINE_COLUMN].to_pylist()
    assert [line["byte"] for line in lines] == [0, 5]


def test_other_line_separators_are_characters(rows):
    ((row,),) = rows({"h": "a\u2028b\x0bc\x85d\re\n".encode()}, {"r": b"x"})
    assert row["candidate"] == "a\u2028b\x0bc\x85d\re"


def test_systems_have_the_names_of_their_files_and_share_the_references(rows):
    found = rows({"online.A.txt": b"a\n", "b.txt.gz": b"b\n"}, {"r1": b"x\n", "r2": b"y\n"})
    assert found == [
        [{"candidate": "a", "reference": ["x", "y"], "line": 1, "system": "online.A"}],
        [{"candidate": "b", "reference": ["x", "y"], "line": 1, "system": "b"}],
    ]


def test_long_files_are_written_piece_by_piece(rows):
    ((*some, last),) = rows({"h": b"a\n" * 50_000}, {"r": b"x\n" * 49_999 + b"y"})
    assert (len(some), last) == (49_999, {"candidate": "a", "reference": "y", "line": 50_000})


@pytest.mark.parametrize("lines", [1, 3, 20_002])
def test_unequal_numbers_of_lines_are_named(rows, lines):
    told = rf"got these numbers of lines: 2 in '.*/h', {lines:,} in '.*/r'; expected"
    with pytest.raises(InputError, match=told):
        rows({"h": b"a\n\n"}, {"r": b"x\n" * lines})


@pytest.mark.parametrize(
    ("candidates", "message"),
    [
        ({"h": b"a\n\xe9t\xe9\n"}, "h' is not UTF-8: got other bytes in line 2; expected UTF-8"),
        ({"h": "a\n".encode("utf-16")}, "got a file in UTF-16; expected lines in UTF-8"),
        ({"a/h.txt": b"a\n", "b/h.gz": b"a\n"}, "got h more than once"),
        ({os.fsdecode(b"\xff.txt"): b"a\n"}, "it is not valid UTF-8"),
    ],
)
def test_what_cannot_be_read_is_refused_without_its_text(rows, candidates, message):
    with pytest.raises((ConfigError, InputError), match=message) as raised:
        rows(candidates, {"r": b"x\nx\n"})
    assert "\xe9" not in str(raised.value)


def test_a_temporary_folder_is_for_this_user_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with temporary_folder() as folder:
        assert stat.S_IMODE((tmp_path / folder).stat().st_mode) == 0o700
        write_text(tmp_path / folder / "a" / "b", b"x")
    assert list(tmp_path.iterdir()) == []


def test_a_line_has_the_limit_of_all_lines_of_text(rows, monkeypatch):
    monkeypatch.setattr(text_records, "MAX_RECORD_BYTES", 1000)
    monkeypatch.setattr(text_source, "BLOCK_BYTES", 64)
    ((first, *_),) = rows({"h": b"a" * 999 + b"\nb\n"}, {"r": b"x\ny\n"})
    assert first["candidate"] == "a" * 999
    with pytest.raises(InputError, match=r"got more in line 2; expected at most 1000 bytes"):
        rows({"h": b"b\n" + b"a" * 1001}, {"r": b"x\ny\n"})


@pytest.mark.parametrize("letters", [247, 248, 255])
def test_a_file_of_text_may_have_any_name_that_a_disk_takes(tmp_path, letters):
    for name in ("h" * letters, "r"):
        (tmp_path / name).write_bytes(b"a\n")
    (tmp_path / "out").mkdir()
    places = ([str(tmp_path / name)] for name in ("h" * letters, "r"))
    (made,) = write_line_files(*places, str(tmp_path / "out"))
    assert pq.read_table(made).num_rows == 1


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_an_empty_file_of_compressed_text_is_no_file_without_lines(tmp_path, ending):
    (tmp_path / f"h{ending}").touch()
    with pytest.raises(InputError, match="is empty: got 0 bytes"):
        write_line_files([str(tmp_path / f"h{ending}")], [str(tmp_path / "h")], str(tmp_path))


MAKE = {"folder": Path.mkdir, "link": lambda path: path.symlink_to(path), "FIFO": os.mkfifo}
ERRORS = {"folder": IsADirectoryError, "link": OSError, "FIFO": NoFileError}


@pytest.mark.parametrize("kind", MAKE)
def test_what_is_no_file_is_told_with_a_cure_and_not_to_be_tried_again(tmp_path, kind):
    path = tmp_path / "x"
    MAKE[kind](path)
    with pytest.raises(ERRORS[kind], match="expected a file") as raised:
        write_line_files([str(path)], [str(path)], str(tmp_path))
    assert repr(str(path)) in str(raised.value)
    assert is_refused(raised.value)
