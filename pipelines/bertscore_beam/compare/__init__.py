"""Comparisons of finished runs and of systems, row by row, with a gate."""
