"""What people read of a run: the report, explanations, groups."""
