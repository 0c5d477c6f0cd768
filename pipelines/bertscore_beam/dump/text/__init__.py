"""Text files become Parquet: JSON lines, CSV and TSV, plain or compressed, by one parser.

`to_parquet.write_rows` finds the columns of a file in its first megabyte, and writes all its rows,
streamed once from start to end.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
