"""Structured log lines: an event as one JSON object, so that log viewers can filter by field."""

import json
from typing import Any

from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.run.printing import escape_json


def event(name: str, **fields: Any) -> str:
    """Return the log line of an event, with credentials masked. Never pass the texts scored."""
    shown = {
        key: value if isinstance(value, int | float) else mask_credentials(str(value))
        for key, value in fields.items()
    }
    return escape_json(json.dumps({"event": name, **shown}, ensure_ascii=False))
