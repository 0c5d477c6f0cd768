"""BERTScore for large corpora: correct, batched, with a signature on every number.

Public names are listed in `__init__.pyi`, by file. Each is loaded when it is first asked for, since
torch and transformers take seconds to import.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
