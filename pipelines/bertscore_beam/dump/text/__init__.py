"""Text files become Parquet: JSON lines, CSV and TSV, plain or compressed, by one parser.

`to_parquet.write_rows` finds the columns of a file in its first megabyte, and writes all its rows,
streamed once from start to end.
"""
