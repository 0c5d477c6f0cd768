"""A scored run as data: records of parts, resume, rejects, groups, its index and look-ups."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
