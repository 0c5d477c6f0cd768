"""Statistics of scores: sums that merge, errors, intervals, comparisons, agreement with people."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
