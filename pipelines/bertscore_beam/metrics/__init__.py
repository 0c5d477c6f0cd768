"""Metrics of other libraries beside BERTScore: of rows, and of all rows as one corpus."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
