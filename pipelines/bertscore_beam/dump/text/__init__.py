"""Text files become Parquet: JSON lines, CSV and TSV, plain or compressed, by one parser.

`columns.read_columns` finds the columns of a file in its first megabyte, and
`to_parquet.text_to_parquet` writes all its rows, streamed once from start to end.
"""
