"""What can be compared: a baseline table, a folder of them, or those that bert-score publishes."""

import json
import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from bertscore_core.baseline import (
    description_path,
    find_baseline,
    parse_baseline,
    published_baselines,
)
from bertscore_core.errors import ConfigError
from bertscore_core.registry import canonical_name
from pipelines.io.files import absolute, is_file, join, list_files, mask_credentials, read_bytes

PUBLISHED = "published"
"""Word for the tables that bert-score publishes, in the place of a path."""
MEASURES = ("precision", "recall", "f1")

_LISTED = 12

Key = tuple[str, str]
"""Language and model of a table."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """A baseline table, and what is known of its errors.

    Attributes:
        name: Where it comes from, to be shown.
        rows: Precision, recall, F1 by layer. Shape (L + 1, 3).
        errors: Their standard errors, NaN where not known. Shape (L + 1, 3).
        pairs: Pairs it was made from, if a description beside it says so.
        key: Language and model that the description names, if there is one.
    """

    name: str
    rows: npt.NDArray[np.float64]
    errors: npt.NDArray[np.float64]
    pairs: int | None = None
    key: Key | None = None

    @property
    def is_described(self) -> bool:
        """Tell whether its errors would be known if they could be, as of one pair they cannot."""
        return self.pairs is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two things that are compared.

    Attributes:
        name: The word or path it was given as, without credentials.
        one: Its only table, if it is a file.
        tables: What reads each table, by language and model. A lone file without a description
            goes by every name that its path allows.
    """

    name: str
    one: Table | None
    tables: Mapping[Key, Callable[[], Table]]


def open_side(given: str, language: str | None = None, model: str | None = None) -> Side:
    """Find out which tables a word or path stands for; of a folder none is read yet.

    Args:
        given: `published`, the path of a table, or a folder with <language>/<model>.tsv in it.
        language: Only this one. Of a lone table: what it is taken for.
        model: Only this one; likewise.

    Raises:
        ConfigError: there is no table, or it is damaged.
    """
    if given == PUBLISHED:
        found: Mapping[Key, Callable[[], Table]] = {
            _key(*key): partial(_read_published, *key) for key in published_baselines()
        }
    elif is_file(given):
        table = read_table(given)
        named = [table.key] if table.key else _keys_of_path(absolute(given))
        keys = {_key(language or code, model or name) for code, name in named or [("", "")]}
        return Side(
            name=table.name, one=table, tables={key: lambda: table for key in keys if all(key)}
        )
    else:
        found = {
            _key(*name.removesuffix(".tsv").split("/", 1)): partial(read_table, join(given, name))
            for name in list_files(given, suffix=".tsv")
            if "/" in name and not name.startswith(("_", "."))
        }
    name = mask_credentials(given)
    if not found:
        raise ConfigError(
            f"no baseline tables at {name!r}: expected a table, a folder with "
            f"<language>/<model>.tsv in it, or the word {PUBLISHED!r}. Check the path."
        )
    wanted = _key(language or "", model or "")
    kept = {
        key: read
        for key, read in found.items()
        if all(not want or want == own for want, own in zip(wanted, key, strict=True))
    }
    if not kept:
        raise ConfigError(
            f"{name!r} has no table for {' and '.join(filter(None, (language, model)))}: it has "
            f"{listed(map('/'.join, found))}. Change --language or --model."
        )
    return Side(name=name, one=None, tables=kept)


def read_table(path: str) -> Table:
    """Read a table, and the errors from the description beside it if there is one.

    Raises:
        ConfigError: the table or its description is damaged, or they do not belong together.
        FileNotFoundError: it is not there.
    """
    name = mask_credentials(path)
    try:
        text = read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{name} is not a baseline table: got bytes that are not UTF-8 ({error.reason} at "
            f"byte {error.start}); expected LAYER,P,R,F and numbers. Check the path."
        ) from error
    rows = parse_baseline(text, name).rows
    beside = description_path(path)
    if not is_file(beside):
        return Table(name=name, rows=rows, errors=np.full(rows.shape, np.nan))
    source = mask_credentials(beside)
    try:
        described = json.loads(read_bytes(beside))
        layers = [[layer[measure] for measure in MEASURES] for layer in described["layers"]]
        means = _values(layers, "mean")
        errors = _values(layers, "standard_error")
        pairs, key = int(described["pairs"]), _key(described["language"], described["model"])
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ConfigError(
            f"{source} does not describe a baseline table ({type(error).__name__}); expected what "
            "the baseline job writes beside one. Remove it to compare without standard errors."
        ) from error
    # The table has seven decimals. Beside another table errors and pairs would mislead.
    if means.shape != rows.shape or not np.allclose(means, rows, rtol=0, atol=1e-6):
        raise ConfigError(
            f"{source} describes another table than {name}: got other values; expected the same to "
            "six decimals. Copy both from one run, or remove the description."
        )
    return Table(name=name, rows=rows, errors=errors, pairs=pairs, key=key)


def _values(layers: Sequence[Sequence[Mapping[str, Any]]], name: str) -> npt.NDArray[np.float64]:
    """Return one number of each layer and measure; NaN where there is none."""
    return np.array([[measure[name] for measure in layer] for layer in layers], dtype=np.float64)


def _read_published(language: str, model: str) -> Table:
    rows = find_baseline(language, model).rows
    name = f"{PUBLISHED} {language}/{model}"
    return Table(name=name, rows=rows, errors=np.full(rows.shape, np.nan))


def _key(language: str, model: str) -> Key:
    return language.lower(), canonical_name(model)


def _keys_of_path(path: str) -> list[Key]:
    """Return the names a table's place allows: en/model, or en/organisation/model."""
    parts = posixpath.splitext(path)[0].split("/")
    return [
        (parts[-depth - 1], "/".join(parts[-depth:])) for depth in (1, 2) if len(parts) > depth + 1
    ]


def listed(names: Iterable[str]) -> str:
    """Return names for a message, only the first of them if there are many."""
    names = sorted(names)
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more or "none"
