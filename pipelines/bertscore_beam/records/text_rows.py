"""The rows of a scored run as text: CSV, TSV or JSON lines, and the scores alone, row by row."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, repeat
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from bertscore_beam.dump.columns import ERROR, KEY, SCORES
from bertscore_beam.dump.formats import Format
from bertscore_beam.dump.types import without_views
from bertscore_beam.records.finished import in_order, open_part
from bertscore_beam.records.record import PartRecord
from bertscore_beam.records.records import published_files
from bertscore_beam.run.folder import OutputFolder, nan_to_null
from bertscore_beam.run.publication import readable_head


@dataclass(frozen=True, slots=True)
class PublishedRows:
    """The rows that a folder has published, whether or not its run has passed its gates.

    Attributes:
        folder: The output of a run.
        records: Those of its parts, in the order of the input.
    """

    folder: OutputFolder
    records: Sequence[PartRecord]

    @classmethod
    def of(cls, root: str, inputs: Sequence[str] = ()) -> "PublishedRows":
        """Find the rows in a folder.

        Args:
            root: The folder.
            inputs: Names of the input files, if they have another order than that of their names.
        """
        folder = OutputFolder(root)
        listed = published_files(folder, readable_head(folder))
        records = in_order(filter(None, (record for _, record in listed)))
        if inputs:
            place = {name: number for number, name in enumerate(inputs)}
            last = len(place)  # a file that has come since
            records = tuple(sorted(records, key=lambda one: place.get(one.input_name, last)))
        return cls(folder, records)

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows part by part, without the column that only later runs need.

        Raises:
            InputError: A part is damaged.
        """
        for record in self.records:
            with open_part(self.folder, record, whole=True) as file:
                table = without_views(file.read())
                own = [place for place, name in enumerate(table.column_names) if name != KEY]
                table = table.select(own)
                yield table.rename_columns(_told_apart(table.column_names))

    def lines(self) -> Iterator[str]:
        r"""Yield precision, recall, F1 and the reason of each row, separated by tabs.

        Scores have six decimals, as bert-score prints them with `-s`; missing ones are `nan`, which
        readers of numbers take. A row without a reason ends in a tab: there are always four fields.
        """
        for table in self.tables():
            scores = (pc.fill_null(table[name], math.nan).to_pylist() for name in SCORES.values())
            for *numbers, reason in zip(*scores, table[ERROR].to_pylist(), strict=True):
                yield "\t".join([*map("{:.6f}".format, numbers), reason or ""])

    def write(self, sink: BinaryIO, kind: Format) -> None:
        """Write the rows as CSV, TSV or JSON lines, in UTF-8.

        CSV and TSV have the columns of all parts; where a part lacks one, its fields are empty.
        """
        if kind is Format.JSONL:
            for table in self.tables():
                _write_json(sink, table)
            return
        names: dict[str, None] = {}
        for record in self.records:
            with open_part(self.folder, record) as file:
                names |= dict.fromkeys(_told_apart(_names_in(file)))
        plain = pa_csv.WriteOptions(include_header=False, delimiter=kind.delimiter)
        headed = pa_csv.WriteOptions(delimiter=kind.delimiter)
        pa_csv.write_csv(pa.table(dict.fromkeys(names, pa.nulls(0))), sink, headed)
        for table in self.tables():
            missing = pa.nulls(table.num_rows)
            own = {n: _cells(table[n]) if n in table.column_names else missing for n in names}
            pa_csv.write_csv(pa.table(own), sink, plain)


def _names_in(file: pq.ParquetFile) -> list[str]:
    return [name for name in file.schema_arrow.names if name != KEY]


def _told_apart(names: Sequence[str]) -> list[str]:
    """Return names of which no two are equal: a second `x` becomes `x.2`."""
    told: list[str] = []
    for name in names:
        number, new = 1, name
        while new in told or (new != name and new in names):
            number += 1
            new = f"{name}.{number}"
        told.append(new)
    return told


def _write_json(sink: BinaryIO, table: pa.Table) -> None:
    columns = [_values_of(column) for column in table.columns]
    for row in zip(*columns, strict=True):
        sink.write(f"{_as_json(dict(zip(table.column_names, row, strict=True)))}\n".encode())


def _cells(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """Return a column as CSV can hold it: nested values as JSON, and others as one value each."""
    types, kind = pa.types, column.type
    plain = (types.is_integer, types.is_float32, types.is_float64, types.is_boolean, types.is_null)
    if any(is_plain(kind) for is_plain in plain):
        return column
    values = _values_of(column)
    return pa.array([_as_json(one) if isinstance(one, dict | list) else one for one in values])


def _values_of(column: pa.ChunkedArray) -> list[Any]:
    return [value for chunk in column.chunks for value in _values(chunk)]


def _values(array: pa.Array) -> list[Any]:
    """Return values as JSON can hold them, of any type: what JSON does not know becomes text."""
    types, kind = pa.types, array.type
    if isinstance(kind, pa.BaseExtensionType):
        is_uuid = kind.extension_name == "arrow.uuid"
        return (
            [one and str(one) for one in array.to_pylist()] if is_uuid else _values(array.storage)
        )
    if types.is_dictionary(kind):
        return _values(array.dictionary_decode())
    if types.is_nested(kind):
        return _nested_values(array)
    if types.is_float32(kind) or types.is_float16(kind):
        # The fewest digits that lead back to the number; those of a float64 would be noise.
        return [text and float(text) for text in array.cast(pa.string()).to_pylist()]
    if types.is_string(kind) or types.is_large_string(kind):
        array = array.cast(pa.large_binary())  # Parquet can hold strings that are not UTF-8
    if types.is_temporal(kind) or types.is_decimal(kind):
        array = _as_texts(array)
    return [_as_text(one) if isinstance(one, bytes) else one for one in array.to_pylist()]


def _nested_values(array: pa.Array) -> list[Any]:
    kind = array.type
    if pa.types.is_map(kind):
        pairs = pa.list_(pa.struct([kind.key_field, kind.item_field]))
        maps = _values(array.cast(pairs))
        return [one and [[*pair.values()] for pair in one] for one in maps]
    if pa.types.is_struct(kind):
        names = _told_apart([field.name for field in kind])
        columns = [_values(child) for child in array.flatten()]
        rows = zip(*columns, strict=True) if columns else repeat(())
        there = array.is_valid().to_pylist()
        return [
            dict(zip(names, row, strict=True)) if is_there else None
            for is_there, row in zip(there, rows, strict=bool(columns))
        ]
    values = iter(_values(array.flatten()))
    lengths = pc.list_value_length(array).to_pylist()
    return [None if length is None else [*islice(values, length)] for length in lengths]


def _as_texts(array: pa.Array) -> pa.Array:
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:  # a time zone that this machine does not know
        return array.cast(pa.timestamp(array.type.unit, "UTC")).cast(pa.string())


def _as_text(value: bytes) -> str:
    return value.decode("utf-8", "backslashreplace")


def _as_json(value: Any) -> str:
    return json.dumps(nan_to_null(value), ensure_ascii=False, allow_nan=False)
