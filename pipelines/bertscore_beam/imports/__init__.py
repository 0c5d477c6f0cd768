"""The import job: files of text become Parquet."""
