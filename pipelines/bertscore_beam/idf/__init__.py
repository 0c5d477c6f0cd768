"""The idf job: count document frequencies over the references of a dump, and save one table.

This room does not score. The scoring job uses its counting steps for `--idf corpus`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
