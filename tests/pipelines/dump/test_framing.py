"""Where records begin and end, whatever stands in them and however much is looked at."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertscore_beam.dump import framing
from bertscore_beam.dump.formats import Format
from bertscore_beam.dump.framing import find_frames
from bertscore_beam.dump.text_cuts import scanned_pieces
from tests.support.text_files import to_csv


def records(data: bytes, kind: Format = Format.CSV) -> list[bytes]:
    frames = find_frames(data, kind, final=True)
    return [data[a:b] for a, b in zip(frames.starts.tolist(), frames.stops.tolist(), strict=True)]


FIELDS = st.text(st.sampled_from('a",\n\r\t é'), max_size=6)


@given(st.lists(st.lists(FIELDS, min_size=2, max_size=3), max_size=8), st.sampled_from(",\t"))
def test_records_of_the_csv_module_are_found_whole(rows, delimiter):
    kind = Format.CSV if delimiter == "," else Format.TSV
    found = records(to_csv(rows, delimiter), kind)
    assert len(found) == len(rows)
    for record, row in zip(found, rows, strict=True):
        text = io.StringIO(record.decode(), newline="")
        assert list(csv.reader(text, delimiter=delimiter, strict=True)) == [row]


@given(st.text(st.sampled_from('a",\n'), max_size=40), st.integers(1, 12), st.integers(1, 5))
def test_pieces_begin_where_records_begin_however_the_file_arrives(text, block, rows):
    data = text.encode()
    blocks = [data[start : start + block] for start in range(0, len(data), block)]
    pieces = scanned_pieces(blocks, Format.CSV, target_rows=rows, target_bytes=10)
    assert [piece.start for piece in pieces] == [0, *(piece.stop for piece in pieces[:-1])]
    assert pieces[-1].stop == len(data)
    whole = records(data)
    pieced = [one for piece in pieces for one in records(data[piece.start : piece.stop])]
    assert pieced == whole
    assert all(piece.rows <= rows for piece in pieces)


@pytest.mark.parametrize(
    ("data", "broken"),
    [
        (b'a,b\n"x" y,z\nc,d\n', [1]),
        (b'a,b\n"x,z\nc,d\n', [1]),
        (b'a,b\n"x,z\nc,"d"\n"e",f\n', [1]),
        (b'a,b\n5" disk,z\nc,d\n', []),
    ],
)
def test_stray_quote_costs_its_own_line_alone(data, broken):
    frames = find_frames(data, Format.CSV, final=True)
    assert sorted(frames.broken) == broken
    assert len(frames.stops) == data.count(b"\n")


def test_record_that_is_too_long_is_a_piece_of_its_own(monkeypatch):
    monkeypatch.setattr(framing, "MAX_RECORD_BYTES", 16)
    monkeypatch.setattr("bertscore_beam.dump.text_cuts.MAX_RECORD_BYTES", 16)
    data = b"a\n" + b"x" * 50 + b"\nb\n"
    blocks = [data[start : start + 8] for start in range(0, len(data), 8)]
    pieces = scanned_pieces(blocks, Format.JSONL, target_rows=10, target_bytes=100)
    assert [(piece.start, piece.stop) for piece in pieces] == [(0, 2), (2, 53), (53, 55)]
