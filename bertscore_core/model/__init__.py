"""Encoders: which files a model is, how it is loaded, and what runs its layers."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
