from .parsers import (
    LINE_COLUMN as LINE_COLUMN,
    LINE_TYPE as LINE_TYPE,
    MAX_NESTING as MAX_NESTING,
    PARSER as PARSER,
    PARSER_KEY as PARSER_KEY,
    BadLine as BadLine,
    Lines as Lines,
    fewer_names as fewer_names,
    infer_schema as infer_schema,
    parse_line as parse_line,
    parse_refused as parse_refused,
    take_lines as take_lines,
)
from .text_records import read_records as read_records
from .text_source import open_text as open_text
from .to_parquet import read_columns as read_columns, to_table as to_table
