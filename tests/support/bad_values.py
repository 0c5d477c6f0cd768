"""Values that are no texts, as they come from files, frames and lists that lack something."""

import datetime

import numpy as np

FRONTS = ("e", "é")
"""Texts that may stand before one: what holds of the first must hold of the second."""

BAD_VALUES = {
    "none": None,
    "nan": float("nan"),
    "numpy nan": np.float32("nan"),
    "bytes": b"abc",
    "integer": 3,
    "float": 2.5,
    "bool": True,
    "date": datetime.date(2026, 11, 27),
    "lone surrogate": "a\ud800",
    "lone surrogate after others": "é\udfff",
    "list in a list": [["a"]],
    "dict": {"a": 1},
    "set": {"a"},
    "object": object(),
}
