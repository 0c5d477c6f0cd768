"""The rows of a scored run as text: CSV, TSV or JSON lines, and the scores alone, row by row."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from bertscore_beam.dump.columns import ERROR, KEY, SCORES
from bertscore_beam.dump.formats import Format
from bertscore_beam.dump.types import without_views
from bertscore_beam.records.finished import in_order, open_part
from bertscore_beam.records.record import PartRecord, record_of
from bertscore_beam.records.records import published_entries
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
        listed = published_entries(folder, readable_head(folder)).values()
        records = in_order(filter(None, (record_of(entry.note) for entry in listed if entry.note)))
        if inputs:
            records = tuple(sorted(records, key=lambda record: inputs.index(record.input_name)))
        return cls(folder, records)

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows part by part, without the column that only later runs need.

        Raises:
            InputError: A part is damaged.
        """
        for record in self.records:
            with open_part(self.folder, record, whole=True) as file:
                yield without_views(file.read(_names_in(file)))

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
                names |= dict.fromkeys(_names_in(file))
        plain = pa_csv.WriteOptions(include_header=False, delimiter=kind.delimiter)
        headed = pa_csv.WriteOptions(delimiter=kind.delimiter)
        pa_csv.write_csv(pa.table(dict.fromkeys(names, pa.nulls(0))), sink, headed)
        for table in self.tables():
            missing = pa.nulls(table.num_rows)
            own = {n: _cells(table[n]) if n in table.column_names else missing for n in names}
            pa_csv.write_csv(pa.table(own), sink, plain)


def _names_in(file: pq.ParquetFile) -> list[str]:
    return [name for name in file.schema_arrow.names if name != KEY]


def _write_json(sink: BinaryIO, table: pa.Table) -> None:
    columns = [_values(column) for column in table.columns]
    for row in zip(*columns, strict=True):
        sink.write(f"{_as_json(dict(zip(table.column_names, row, strict=True)))}\n".encode())


def _cells(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """Return a column as CSV can hold it: nested values as JSON, and others as one value each."""
    column = column.cast(_plain(column.type))
    kind = column.type
    if pa.types.is_nested(kind):
        texts = (None if value is None else _as_json(value) for value in _values(column))
        return pa.array(texts, pa.string())
    if _is_binary(kind):
        return pa.array(map(_as_text, column.to_pylist()), pa.string())
    return column


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column as JSON can hold them."""
    column = column.cast(_plain(column.type))
    if pa.types.is_float32(column.type) or pa.types.is_float16(column.type):
        # The fewest digits that lead back to the number; those of a float64 would be noise.
        return [text and float(text) for text in column.cast(pa.string()).to_pylist()]
    return column.to_pylist()  # type: ignore[no-any-return]


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return the type to which values are cast: what JSON does not know becomes text.

    Views of lists are left: pyarrow 25 loses values when it casts them.
    """
    types, plain = pa.types, kind
    if isinstance(kind, pa.BaseExtensionType):
        plain = _plain(kind.storage_type)
    elif types.is_dictionary(kind):
        plain = _plain(kind.value_type)
    elif types.is_struct(kind):
        plain = pa.struct([(field.name, _plain(field.type)) for field in kind])
    elif types.is_map(kind):
        plain = pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    elif types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        plain = pa.large_list(_plain(kind.value_type))
    elif types.is_temporal(kind) or types.is_decimal(kind):
        plain = pa.string()
    return plain


def _is_binary(kind: pa.DataType) -> bool:
    types = pa.types
    return any(
        (types.is_binary(kind), types.is_large_binary(kind), types.is_fixed_size_binary(kind))
    )


def _as_text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "backslashreplace")


def _as_json(value: Any) -> str:
    return json.dumps(nan_to_null(value), ensure_ascii=False, allow_nan=False, default=_as_text)
