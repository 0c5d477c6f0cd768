"""What users may say: frozen option classes, read from a YAML file with flags on top, and checked.

This room does not act on an option. It looks at no input, output or model, and it does not know
Beam, whose own options it passes on as text.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
