"""Why a pair scores what it scores: token by token, as data, page and picture."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
