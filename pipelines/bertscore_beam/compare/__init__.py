"""Comparisons of finished runs and of systems, row by row, with a gate."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
