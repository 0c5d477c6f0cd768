"""Files and Parquet over fsspec, and the names of the columns in one place."""
