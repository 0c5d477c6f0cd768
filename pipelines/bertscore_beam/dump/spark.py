"""Spark's own description of a file's columns: it hides whatever it does not name."""

import json
from collections.abc import Iterable, Mapping

import pyarrow as pa

SCHEMA_KEY = b"org.apache.spark.sql.parquet.row.metadata"

_TYPES = {
    pa.float32(): "float",
    pa.int32(): "integer",
    pa.bool_(): "boolean",
    pa.string(): "string",
}


def hide_columns(metadata: Mapping[bytes, bytes], names: Iterable[str]) -> Mapping[bytes, bytes]:
    """Return the metadata of a file without some columns: undo `describe_columns`.

    A description that `describe_columns` has left out does not come back.
    """
    if SCHEMA_KEY not in metadata:
        return metadata
    hidden = set(names)
    schema = json.loads(metadata[SCHEMA_KEY])
    schema["fields"] = [field for field in schema["fields"] if field["name"] not in hidden]
    return {**metadata, SCHEMA_KEY: json.dumps(schema, ensure_ascii=False).encode()}


def describe_columns(
    metadata: Mapping[bytes, bytes], fields: Iterable[pa.Field]
) -> Mapping[bytes, bytes]:
    """Return the metadata of a file with more columns, so that Spark sees these as well.

    A description that cannot be read is left out: Spark then goes by the columns themselves.

    Args:
        metadata: The metadata of the file; without Spark's key they stay as they are.
        fields: The columns that were added.
    """
    if SCHEMA_KEY not in metadata:
        return metadata
    added = [
        {"name": field.name, "type": _TYPES[field.type], "nullable": True, "metadata": {}}
        for field in fields
    ]
    rest = {key: value for key, value in metadata.items() if key != SCHEMA_KEY}
    try:
        schema = json.loads(metadata[SCHEMA_KEY])
        schema["fields"] = [*schema["fields"], *added]
    except (ValueError, TypeError, KeyError, RecursionError):
        return rest
    return {**rest, SCHEMA_KEY: json.dumps(schema, ensure_ascii=False).encode()}
