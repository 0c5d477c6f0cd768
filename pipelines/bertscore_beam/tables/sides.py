"""The sides of a comparison: a baseline table, a folder of tables, or the published tables."""

import json
import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.listing import list_files
from bertscore_beam.files.paths import absolute, join
from bertscore_beam.files.read import is_file, read_bytes
from bertscore_core.baseline import (
    description_path,
    find_baseline,
    parse_baseline,
    published_baselines,
)
from bertscore_core.errors import ConfigError
from bertscore_core.registry import canonical_name

PUBLISHED = "published"
"""Word, instead of a path, for the tables that bert-score publishes."""
MEASURES = ("precision", "recall", "f1")

_LISTED = 12

Key = tuple[str, str]
"""Language and model of a table."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """A baseline table and its standard errors, as far as they are known.

    Attributes:
        name: Where it comes from, for messages.
        rows: Precision, recall, F1 by layer. Shape (L + 1, 3).
        errors: Their standard errors, NaN if not known. Shape (L + 1, 3).
        pairs: Number of pairs it was made from, if a description beside it says so.
        key: Language and model that the description names, if there is one.
        knows_hosts: Whether its errors allow for sentences that share a host. Those of given
            sentences, and of tables by older versions, do not.
    """

    name: str
    rows: npt.NDArray[np.float64]
    errors: npt.NDArray[np.float64]
    pairs: int | None = None
    key: Key | None = None
    knows_hosts: bool = False

    @property
    def is_described(self) -> bool:
        """Whether the table has a description; its errors may still be undefined (one pair)."""
        return self.pairs is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two sides of a comparison.

    Attributes:
        name: The word or path it was given as, without credentials.
        one: Its only table, if it is a file.
        tables: Functions that read each table, by language and model. A single file without a
            description is listed under every name that its path allows.
    """

    name: str
    one: Table | None
    tables: Mapping[Key, Callable[[], Table]]


def open_side(given: str, language: str | None = None, model: str | None = None) -> Side:
    """Find the tables that a word or path stands for. Those of a folder are not read yet.

    Args:
        given: `published`, the path of a table, or a folder with <language>/<model>.tsv in it.
        language: Take only tables of this language. A single table is taken to have it.
        model: Take only tables of this model; likewise.

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
    """Read a table, with the errors from the description beside it if there is one.

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
        knows_hosts = described.get("sample", {}).get("hosts_known") is True
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ConfigError(
            f"{source} does not describe a baseline table ({type(error).__name__}); expected what "
            "the baseline job writes beside one. Remove it to compare without standard errors."
        ) from error
    # The table has seven decimals. Errors and pairs of another table would mislead.
    if means.shape != rows.shape or not np.allclose(means, rows, rtol=0, atol=1e-6):
        raise ConfigError(
            f"{source} describes another table than {name}: got other values; expected the same to "
            "six decimals. Copy both from one run, or remove the description."
        )
    return Table(
        name=name,
        rows=rows,
        errors=errors,
        pairs=pairs,
        key=key,
        knows_hosts=knows_hosts,
    )


def _values(layers: Sequence[Sequence[Mapping[str, Any]]], name: str) -> npt.NDArray[np.float64]:
    """Return one number of each layer and measure; NaN if there is none."""
    return np.array([[measure[name] for measure in layer] for layer in layers], dtype=np.float64)


def _read_published(language: str, model: str) -> Table:
    rows = find_baseline(language, model).rows
    name = f"{PUBLISHED} {language}/{model}"
    return Table(name=name, rows=rows, errors=np.full(rows.shape, np.nan))


def _key(language: str, model: str) -> Key:
    return language.lower(), canonical_name(model)


def _keys_of_path(path: str) -> list[Key]:
    """Return the names that a table's path allows: en/model, or en/organisation/model."""
    parts = posixpath.splitext(path)[0].split("/")
    return [
        (parts[-depth - 1], "/".join(parts[-depth:])) for depth in (1, 2) if len(parts) > depth + 1
    ]


def listed(names: Iterable[str]) -> str:
    """Return names for a message, only the first if there are many."""
    names = sorted(names)
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more or "none"
