"""The scoring job: score the rows of a dump, split by split, and write them with their scores.

This room knows plans, parts, records and the way to resume a run. The metric itself is in
`bertscore_core`, and how any job runs is in `bertscore_beam.run`.
"""
