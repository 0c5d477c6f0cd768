"""Tokenizers: text to token ids, exactly as bert-score 0.3.13 makes them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
