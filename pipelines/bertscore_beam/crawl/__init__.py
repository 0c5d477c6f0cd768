"""Sentences of Common Crawl: list the WET files, fetch one, read its pages, sample and pair.

A file is the unit of work and of failure: it is read to its end or it fails, and it never gives
fewer pages without saying so. This room knows neither Beam nor models.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
