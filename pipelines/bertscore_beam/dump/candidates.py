"""Rows with several candidates: checked before any is read, and multiplied out within a split.

    id  samples        id  samples  bertscore_candidate_from
    1   ["a", "b"] ->  1   a        0
    2   []             1   b        1
                       2   null     null

Several columns become one, `bertscore_candidate`, and their names take the place of the numbers.
Candidates within another column, by a path, are put there as well; that column stays.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bertscore_beam.dump import columns
from bertscore_beam.dump.paths import column_of, is_list, is_text, list_lengths
from bertscore_beam.dump.texts import Rows
from bertscore_core.errors import InputError
from bertscore_core.tokens import IntArray, places_within

_AT_ONCE = 100
"""Input rows that are multiplied out together: their texts must fit into one Arrow array."""
_FIRST = "0"
"""The number of the first candidate of a list."""


def check_candidates(schema: pa.Schema, names: Sequence[str], *, among: bool = False) -> bool:
    """Check a file's columns of candidates; tell whether its rows have several candidates each.

    A single column may hold texts, or lists of them. If candidates are compared `among` each
    other, it must hold lists.

    Raises:
        InputError: If a column is missing, there twice or of another type; or if rows have several
            candidates, and a column has a name that is ours.
    """
    accepts = columns.is_text_or_list if len(names) == 1 else is_text
    kinds = {name: columns.check_text(schema, name, "candidate", accepts) for name in names}
    several = len(names) > 1 or any(map(is_list, kinds.values()))
    if among and not several:
        raise InputError(
            f"the column {names[0]!r} holds no samples: got type {kinds[names[0]]}; expected a "
            "list of texts in each row, or several columns. Name them with --candidate-column."
        )
    taken = [
        name
        for name in (columns.CANDIDATE, columns.CANDIDATE_FROM)
        if several and name in schema.names
    ]
    if taken:
        raise InputError(
            f"the input already has columns that are written for several candidates a row: got "
            f"{', '.join(taken)}; expected neither. Rename them."
        )
    return several


def explode_candidates(rows: Rows) -> Rows:
    """Return a row for each candidate, with the other columns of its row.

    A row without any candidate becomes one row without. Rows with one each stay as they are.

    Raises:
        InputError: Values of a column cannot be repeated.
    """
    several, table = rows.fields.several, rows.table
    if not several and not is_list(rows.candidates.type):
        return rows
    name = str(rows.fields.candidate_column)
    if not several and name not in table.column_names:  # within another column, which stays
        name = columns.CANDIDATE
        table = table.append_column(name, rows.candidates)
    taken = several or (name,)
    kind = pa.string() if several else table.schema.field(name).type.value_type
    # By number, since two of the others may have one name.
    others = [n for n, column in enumerate(table.column_names) if column not in taken]
    added = [pa.field(name, kind), pa.field(columns.CANDIDATE_FROM, pa.string())]
    schema = pa.schema([*map(table.schema.field, others), *added])
    numbers, pieces, start = [np.zeros(0, dtype=np.int64)], [], 0
    for batch in table.to_batches(max_chunksize=_AT_ONCE):
        own, *texts = (
            _explode_columns(batch, several) if several else _explode_lists(batch.column(name))
        )
        repeated = [_repeated(batch.column(other), own) for other in others]
        pieces.append(pa.record_batch([*repeated, *texts], schema=schema))
        numbers.append(own + start)
        start += len(batch)
    metadata = columns.describe_columns(table.schema.metadata or {}, added, without=taken)
    whole = pa.Table.from_batches(pieces, schema)
    whole = whole.replace_schema_metadata(metadata or None)
    fields = rows.fields
    if fields.compares_samples:
        fields = replace(fields, reference_column=str(fields.candidate_column))
    return replace(rows, table=whole, fields=fields, numbers=np.concatenate(numbers))


def _explode_columns(
    batch: pa.RecordBatch, names: Sequence[str]
) -> tuple[IntArray, pa.Array, pa.Array]:
    rows, many = len(batch), len(names)
    table = pa.Table.from_batches([batch])
    texts = pa.concat_arrays([_as_strings(column_of(table, name).chunk(0)) for name in names])
    by_row = np.arange(rows * many).reshape(many, rows).T.ravel()
    origins = pa.array(list(names) * rows, pa.string())
    return np.repeat(np.arange(rows), many), texts.take(pa.array(by_row)), origins


def _explode_lists(lists: pa.Array) -> tuple[IntArray, pa.Array, pa.Array]:
    lengths = list_lengths(lists)
    counts = np.maximum(lengths, 1)
    numbers = np.repeat(np.arange(len(lengths)), counts)
    places = places_within(counts)
    without = (lengths == 0)[numbers]
    values = pa.array(np.repeat(np.cumsum(lengths) - lengths, counts) + places, mask=without)
    # flatten() skips the values under null lists and respects slices.
    origins = pa.array(places, mask=without).cast(pa.string())
    return numbers, _repeated(lists.flatten(), values), origins


def _as_strings(array: pa.Array) -> pa.Array:
    kind = array.type
    return array.cast(kind.value_type if pa.types.is_dictionary(kind) else kind).cast(pa.string())


def _repeated(array: pa.Array, places: IntArray | pa.Array) -> pa.Array:
    kind = array.type
    if pa.types.is_string_view(kind):  # Arrow cannot take from it
        return _repeated(array.cast(pa.large_string()), places).cast(kind)
    try:
        return array.take(pa.array(places))
    except pa.ArrowException as error:
        raise InputError(
            f"values cannot be repeated for several candidates: got type {kind}; expected one "
            "that Arrow can repeat. Cast the column, or leave it out."
        ) from error


def input_rows(origins: pa.ChunkedArray) -> IntArray:
    """Return the position of each row's input row among those of the part, from 0.

    Args:
        origins: The column `CANDIDATE_FROM` of a whole part.
    """
    first = pc.coalesce(origins.slice(0, 1), _FIRST)  # of the first candidate of every row
    starts = pc.fill_null(pc.equal(origins, first[0] if len(first) else _FIRST), fill_value=True)
    return np.asarray(np.cumsum(starts.to_numpy()) - 1, dtype=np.int64)
