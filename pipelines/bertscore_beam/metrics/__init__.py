"""Metrics of other libraries beside BERTScore: of rows, and of all rows as one corpus."""
