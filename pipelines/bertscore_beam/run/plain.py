"""Values as JSON knows them."""

import math
from collections.abc import Mapping
from typing import Any


def plain(value: Any) -> Any:
    """Return values with those that JSON does not know, NaN and infinities, as null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value
