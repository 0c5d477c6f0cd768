"""Any bytes under the name of a file: rows that no cut changes, or an error that says why not."""

import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings, strategies as st

from bertscore_beam.dump.parquet import UNREADABLE, write_part
from bertscore_beam.dump.read_rows import read_split
from bertscore_beam.dump.texts import reference_texts, texts_from_column
from bertscore_core import InputError
from tests.support.hostile import not_utf8
from tests.support.tables import plan_pairs
from tests.support.text_files import plan_text, read_plan


def seed_files():
    """Return small Parquet files of many kinds, to be damaged."""
    texts = [None if i % 7 == 3 else f"text {i % 5} ü" for i in range(40)]
    lists = [None if i % 5 == 4 else texts[: i % 4] for i in range(40)]
    strings = {"candidate": texts, "reference": texts[::-1]}
    plain = pa.table(strings)
    several = pa.table(
        {
            "candidate": pa.array(texts).dictionary_encode(),
            "reference": pa.array(lists, pa.list_(pa.string())),
            "pair": pa.array([["x", None]] * 40, pa.list_(pa.string(), 2)),
            "meta": pa.array([{"k": 1, "t": ["x"]}, None] * 20),
            "number": pa.array(range(40)),
        }
    )
    broken = pa.table({"candidate": not_utf8("string"), "reference": not_utf8("large_list")})
    deltas = dict.fromkeys(strings, "DELTA_BYTE_ARRAY")
    seeds = []
    for table, options in (
        (plain, {"compression": "none", "row_group_size": 10}),
        (plain, {"compression": "zstd", "data_page_version": "2.0", "use_dictionary": False}),
        (plain.slice(0, 0), {}),
        (several, {"compression": "snappy", "row_group_size": 16}),
        (several, {"store_schema": False, "compression": "gzip", "write_page_checksum": True}),
        (broken, {"compression": "none"}),
        (plain, {"use_dictionary": False, "column_encoding": deltas}),
    ):
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, **options)
        seeds.append(bytes(sink.getvalue()))
    return seeds


def read_everything(data):
    """Plan and read a file with this content; return what became of it in a word.

    Raises:
        Exception: Anything but the errors for bad files, which is a bug.
        AssertionError: If rows are missing or an error says nothing.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.parquet"
        path.write_bytes(data)
        try:
            plan = plan_pairs(path, rows=16, target_bytes=1 << 20)
        except InputError as error:
            check_message(str(error), "expected at least one good one")
            return "rejected"
        outcome = "read"
        for split in plan.splits:
            try:
                table = read_split(split)
            except UNREADABLE as error:
                check_message(str(error), "x.parquet")
                outcome = "damaged"
                continue
            assert table.num_rows == split.num_rows
            assert len(texts_from_column(table["candidate"])) == split.num_rows
            assert len(reference_texts(table["reference"])) == split.num_rows
            write_part(table)
        return outcome


def check_message(message, wanted):
    """Check that a message says what it must and does not go on for pages."""
    assert wanted in message
    assert len(message) < 2000


FILES = seed_files()
OUTCOMES = {"read", "damaged", "rejected"}


@pytest.mark.parametrize("seed", range(len(FILES)))
def test_a_good_file_is_read(seed):
    assert read_everything(FILES[seed]) == "read"


@settings(max_examples=settings.default.max_examples // 2)
@given(st.binary(max_size=300))
@example(b"PAR1")
@example(b"PAR1PAR1")
@example(b"PAR1\0\0\0\0PAR1")
@example(b"PAR1\xff\xff\xff\xffPAR1")
def test_any_bytes_are_rejected(data):
    assert read_everything(data) == "rejected"


@st.composite
def damaged_file(draw: st.DrawFn) -> bytes:
    """Draw a whole file and overwrite, insert, drop, flip or cut a few, often in the footer."""
    data = bytearray(draw(st.sampled_from(FILES)))
    footer = int.from_bytes(data[-8:-4], "little") + 8
    for _ in range(draw(st.integers(1, 3))):
        last = len(data) - 1
        start = draw(st.integers(0, last) | st.integers(max(0, len(data) - footer), last))
        bit = bytes([data[start] ^ 1 << draw(st.integers(0, 7))])
        piece = draw(st.binary(max_size=4) | st.just(bit))
        stop = draw(st.sampled_from([start, start + max(len(piece), 1), len(data)]))
        data[start:stop] = piece
        if not data:
            break
    return bytes(data)


@given(damaged_file())
def test_damaged_file_is_read_or_refused(data):
    assert read_everything(data) in OUTCOMES


def test_damage_reaches_every_outcome():
    """Each way out is taken by some damage, so that the test above sees all of them."""
    found = set()
    for data in FILES:
        for start in range(4, len(data), 41):
            damaged = data[:start] + bytes([data[start] ^ 0x55]) + data[start + 1 :]
            found.add(read_everything(damaged))
    assert found == OUTCOMES


# --- Text ----------------------------------------------------------------------------------------

JSON_LINES = b'{"candidate": "a", "reference": ["b", "c"], "n": 1.5, "o": {"x": [{}]}}\n'
CSV = b'candidate,reference\r\n"a ""b"", c\n",d\r\ne,"f"\r\n'
TEXTS = [
    JSON_LINES * 3,
    CSV,
    CSV.replace(b",", b"\t"),
    b"\xef\xbb\xbf" + JSON_LINES + b"\n" + JSON_LINES[:-1],
]


def read_any_text(data, size=20):
    """Plan and read a text file with this content in every format; return a word for each.

    Raises:
        Exception: Anything but the errors for bad files, which is a bug.
        AssertionError: If rows depend on the cut, or places are wrong.
    """
    outcomes = []
    with tempfile.TemporaryDirectory() as folder:
        for name in ("x.jsonl", "x.csv", "x.tsv"):
            path, out = Path(folder) / name, Path(folder) / "out"
            path.write_bytes(data)
            try:
                whole, cut = plan_text(path, out), plan_text(path, out, 3, size)
            except InputError as error:
                check_message(str(error), "expected at least one good one")
                outcomes.append("rejected")
                continue
            (table, lines), (pieces, again) = read_plan(whole), read_plan(cut)
            assert repr(table.to_pylist()) == repr(pieces.to_pylist())
            assert lines == again
            assert len(lines) == table.num_rows
            outcomes.append("bad lines" if any(reason for _, reason in lines) else "read")
    return " ".join(outcomes)


@pytest.mark.parametrize(("seed", "kind"), [(0, 0), (1, 1), (2, 2), (3, 0)])
def test_a_good_text_is_read(seed, kind):
    assert read_any_text(TEXTS[seed]).split(" ")[kind] == "read"


@st.composite
def damaged_text(draw: st.DrawFn) -> bytes:
    """Draw a seed and overwrite, insert or cut a few bytes that matter to a format."""
    data = bytearray(draw(st.sampled_from(TEXTS)))
    pieces = st.binary(min_size=1, max_size=3) | st.sampled_from(
        [b'"', b"\n", b"\r", b",", b"{", b"[", b"}", b"\\ud800", b"\xff", b"NaN", b":"]
    )
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        stop = start + draw(st.integers(0, 3))
        data[start:stop] = draw(pieces)
    return bytes(data)


@settings(max_examples=50)
@given(damaged_text(), st.integers(1, 100))
@example(b'\n"open\n', 1)  # no header, and the bad line is another one
def test_damaged_text_gives_the_same_rows_in_any_cut(data, size):
    assert read_any_text(data, size)
