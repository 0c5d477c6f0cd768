"""Thin Beam transforms: each labels, counts and carries; the work is a plain function elsewhere."""
