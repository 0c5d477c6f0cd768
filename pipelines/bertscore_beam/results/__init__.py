"""What people read of scored runs: groups, comparisons, reports, explanations.

Nothing here writes to a run, or knows Beam.
"""
