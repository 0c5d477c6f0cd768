"""Names that users import from where an earlier version had them."""

import warnings
from collections.abc import Mapping
from importlib import import_module
from typing import Any


def moved_name(package: str, name: str, modules: Mapping[str, str]) -> Any:
    """Return what a name of version 0.2 means, with a warning; 0.4 will not have it any more.

    Args:
        package: The package that had the name.
        name: The name.
        modules: The module of the package that has each of them now.

    Raises:
        AttributeError: The package never had such a name.
    """
    if name not in modules:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    message = f"{package}.{name} is deprecated: import {name} from bertscore_core"
    warnings.warn(message, DeprecationWarning, stacklevel=3)
    return getattr(import_module(f"{package}.{modules[name]}"), name)
