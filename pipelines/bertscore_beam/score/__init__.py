"""The scoring job: score the rows of a dump, split by split, and write them with their scores.

This room knows plans, parts, records and the way to resume a run. The metric itself is in
`bertscore_core`, and how any job runs is in `bertscore_beam.run`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
