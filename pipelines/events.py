"""Structured log lines: what happened as one JSON object, which log viewers can filter by field."""

import json
from typing import Any

from pipelines.io.files import mask_credentials
from pipelines.printing import escape_json


def event(name: str, **fields: Any) -> str:
    """Return the log line of an event; paths in it bear no credentials, and texts have no place."""
    shown = {
        key: value if isinstance(value, int | float) else mask_credentials(str(value))
        for key, value in fields.items()
    }
    return escape_json(json.dumps({"event": name, **shown}, ensure_ascii=False))
