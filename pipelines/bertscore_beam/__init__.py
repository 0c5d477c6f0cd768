"""The jobs: Beam pipelines, Parquet, plans, records and the command line; no mathematics.

What other pipelines may use is public here: a model handler for
RunInference, a transform, and a function on Arrow tables for other engines.
`docs/architecture.md` shows the rooms.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
