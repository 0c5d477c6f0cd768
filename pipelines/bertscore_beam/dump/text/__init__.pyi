from .parsers import (
    MAX_NESTING as MAX_NESTING,
    parse_line as parse_line,
    parse_refused as parse_refused,
)
from .schema import infer_schema as infer_schema
from .text_records import read_records as read_records
from .text_source import open_text as open_text
from .to_parquet import read_columns as read_columns, to_table as to_table
