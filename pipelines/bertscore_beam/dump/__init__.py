"""The dumps that jobs read: find input files, plan and read splits, read texts, write parts.

This room knows Parquet and Arrow. It knows neither Beam nor models nor how texts are scored.
"""
