"""Parquet files that are damaged, hostile or merely strange."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe

NOT_UTF8 = (b"a cat", b"\xff\xfe", b"\xed\xa0\x80", "ü".encode())
"""A good text, bytes that are no text, a surrogate written as three bytes (CESU), a good text."""


def pairs(rows: int = 3) -> pa.Table:
    """Return good pairs."""
    return pa.table({"candidate": ["a cat sat"] * rows, "reference": ["the cat sat"] * rows})


def parquet_bytes(table: pa.Table) -> bytes:
    """Return a table as a Parquet file."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return bytes(sink.getvalue())


def _encrypted(path: Path) -> None:
    properties = pe.create_encryption_properties(footer_key=b"a key of 16 byte")
    pq.write_table(pairs(), path, encryption_properties=properties)


def _bytes(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    return lambda path: (path.write_bytes(change(parquet_bytes(pairs()))), None)[1]


def _changed(**changes: object) -> Callable[[Path], None]:
    """Write good columns, some of them replaced, added, or left out where it is None."""
    columns = {"candidate": _GOOD, "reference": _GOOD} | changes
    table = pa.table({name: values for name, values in columns.items() if values is not None})
    return lambda path: pq.write_table(table, path)


_GOOD = ["a cat"] * 2
_NULL_PAIRS = pa.array([["a", "b"], None], pa.list_(pa.string(), 2))
_DEEP = pa.array([[["a"]], [["b"]]])
_TWICE = pa.Table.from_arrays([pa.array(_GOOD)] * 3, names=["candidate", "candidate", "reference"])
_WHOLE = "expected a whole, undamaged Parquet file"

_NOT_PARQUET: dict[str, Callable[[Path], None]] = {
    "truncated": _bytes(lambda data: data[: len(data) // 2]),
    "last byte missing": _bytes(lambda data: data[:-1]),
    "first magic alone": _bytes(lambda data: data[:4]),
    "both magics alone": _bytes(lambda data: b"PAR1PAR1"),
    "empty": _bytes(lambda data: b""),
    "text": _bytes(lambda data: b"candidate,reference\n" * 99),
    "footer length beyond the file": _bytes(lambda data: data[:-8] + b"\xff\xff\xff\x7fPAR1"),
    "no footer length": _bytes(lambda data: data[:-8] + bytes(4) + b"PAR1"),
    "garbage footer": _bytes(lambda data: data[:-80] + b"\x5a" * 72 + data[-8:]),
}
_BAD_COLUMNS: dict[str, tuple[Callable[[Path], None], str]] = {
    "no reference": (_changed(reference=None), "no reference column 'reference'"),
    "near name": (_changed(reference=None, references=_GOOD), "Did you mean 'references'?"),
    "numbers": (_changed(candidate=[1, 2]), "got type int64"),
    "ids": (_changed(candidate=pa.array([b"a", b"b"], pa.binary(1))), "got type fixed_size_binary"),
    "lists of numbers": (_changed(candidate=[[1], [2]]), "'candidate' holds no texts"),
    "lists of lists": (_changed(reference=_DEEP), "expected a string type or a list of it"),
    "structs": (_changed(reference=[{"text": "a"}] * 2), "got type struct"),
    "null in lists of fixed size": (
        _changed(reference=_NULL_PAIRS),
        "lists of fixed size cannot be read where one of them is null",
    ),
    "null in another column's lists of fixed size": (
        _changed(other=_NULL_PAIRS),
        "got such a list in 'other'",
    ),
    "column twice": (
        lambda path: pq.write_table(_TWICE, path),
        "'candidate' is not unique: got 2 columns",
    ),
}
BAD_FILES: tuple[tuple[str, Callable[[Path], None], str, str], ...] = (
    *((name, make, "not_parquet", _WHOLE) for name, make in _NOT_PARQUET.items()),
    ("encrypted footer", _encrypted, "not_parquet", "got an encrypted file"),
    *((name, make, "bad_columns", words) for name, (make, words) in _BAD_COLUMNS.items()),
    (
        "our columns",
        _changed(bertscore_f1=[0.5, 0.5]),
        "column_collision",
        "already has score columns: got bertscore_f1",
    ),
)
"""By name how each is made, the reason, and a part of the message."""


def not_utf8(kind: str) -> pa.Array:
    """Return `NOT_UTF8` as a column of some kind of string, or of lists of one."""
    raw = pa.array(NOT_UTF8, pa.large_binary())
    large = raw.view(pa.large_string())
    small = pa.array(NOT_UTF8, pa.binary())
    string = pa.Array.from_buffers(pa.string(), len(small), small.buffers())
    dictionary = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), string)
    starts = [0, 1, 2, 3, 4]
    kinds = {
        "string": lambda: string,
        "large_string": lambda: large,
        "string_view": lambda: raw.cast(pa.binary_view()).view(pa.string_view()),
        "dictionary": lambda: dictionary,
        "binary": lambda: small,
        "large_binary": lambda: raw,
        "binary_view": lambda: raw.cast(pa.binary_view()),
        "list of binary": lambda: pa.ListArray.from_arrays(starts, small),
        "list_view": lambda: pa.ListViewArray.from_arrays(starts[:-1], [1] * 4, string),
        "list": lambda: pa.ListArray.from_arrays(starts, string),
        "large_list": lambda: pa.LargeListArray.from_arrays(starts, large),
        "fixed_size_list": lambda: pa.FixedSizeListArray.from_arrays(string, 1),
        "list of dictionary": lambda: pa.ListArray.from_arrays(starts, dictionary),
    }
    return kinds[kind]()


BYTES_KINDS = ("binary", "large_binary", "binary_view")
TEXT_KINDS = ("string", "large_string", "string_view", "dictionary", *BYTES_KINDS)
VIEW_KINDS = ("list of binary", "list_view")
LIST_KINDS = ("list", "large_list", "fixed_size_list", "list of dictionary", *VIEW_KINDS)
