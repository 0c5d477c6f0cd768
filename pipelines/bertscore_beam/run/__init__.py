"""The machinery that all jobs share: output folder and lock, runner, workers, progress.

`job.py` is the one way through a run. This room does not know what a job computes: no texts, no
scores, no models.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
