"""Two baseline tables compared layer by layer."""

import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.listing import list_files
from bertscore_beam.files.paths import absolute, join
from bertscore_beam.files.read import is_file, read_bytes
from bertscore_beam.run.folder import nan_to_null
from bertscore_core.baseline import (
    Baseline,
    description_path,
    find_baseline,
    parse_baseline,
    published_baselines,
)
from bertscore_core.errors import ConfigError, listed, load_json
from bertscore_core.registry import canonical_name
from bertscore_core.stats.score_statistics import MEASURES

# The sides of a comparison: a baseline table, a folder of tables, or the published tables.

_PUBLISHED = "published"
"""Word, instead of a path, for the tables that bert-score publishes."""

Key = tuple[str, str]
"""Language and model of a table."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """A baseline table and its standard errors, as far as they are known. Shape (L + 1, 3) both.

    `pairs` and `key` (language and model) are those of a description beside it, None without one.
    Even with one, errors may be undefined (one pair). Errors of given sentences, and of tables by
    older versions, do not allow for sentences that share a host.
    """

    name: str
    rows: npt.NDArray[np.float64]
    errors: npt.NDArray[np.float64]
    pairs: int | None = None
    key: Key | None = None
    knows_hosts: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two sides of a comparison: its only table, or functions that read each table.

    A single file without a description is listed under every name that its path allows.
    """

    name: str
    tables: Mapping[Key, Callable[[], Table]]
    single: Table | None = None


def open_side(place: str, language: str | None = None, model: str | None = None) -> Side:
    """Find the tables that a word or path stands for. Those of a folder are not read yet.

    Language and model choose tables of a folder; a single table is taken to have them.

    Raises:
        ConfigError: There is no table, or it is damaged.
    """
    if is_file(place):
        table = read_table(place)
        names = [table.key] if table.key else _keys_of_path(absolute(place)) or [("", "")]
        keys = {_key(language or code, model or name) for code, name in names}
        return Side(
            name=table.name, tables={key: lambda: table for key in keys if all(key)}, single=table
        )
    readers: dict[Key, Callable[[], Table]]
    if place == _PUBLISHED:
        readers = {
            _key(*key): partial(_undescribed, f"{_PUBLISHED} {'/'.join(key)}", find_baseline(*key))
            for key in published_baselines()
        }
    else:
        readers = {
            _key(*name.removesuffix(".tsv").split("/", 1)): partial(read_table, join(place, name))
            for name in list_files(place, suffix=".tsv")
            if "/" in name and not name.startswith(("_", "."))
        }
    name = mask_credentials(place)
    if not readers:
        raise ConfigError(
            f"no baseline tables at {name!r}: expected a table, a folder with "
            f"<language>/<model>.tsv in it, or the word {_PUBLISHED!r}. Check the path."
        )
    asked = _key(language or "", model or "")
    chosen = {
        key: reader
        for key, reader in readers.items()
        if all(word in ("", name) for word, name in zip(asked, key, strict=True))
    }
    if not chosen:
        raise ConfigError(
            f"{name!r} has no table for {' and '.join(filter(None, (language, model)))}: it has "
            f"{listed(sorted(map('/'.join, readers)))}. Change --language or --model."
        )
    return Side(name=name, tables=chosen)


def read_table(path: str) -> Table:
    """Read a table, with the errors from the description beside it if there is one.

    Raises:
        ConfigError: the table or its description is damaged, or they do not belong together.
        FileNotFoundError: it is not there.
    """
    name = mask_credentials(path)
    # A table has neither header nor numbers with characters that stand for other bytes.
    baseline = parse_baseline(read_bytes(path).decode(errors="replace"), name)
    rows = baseline.rows
    beside = description_path(path)
    if not is_file(beside):
        return _undescribed(name, baseline)
    source = mask_credentials(beside)
    try:
        described = load_json(read_bytes(beside))
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
    return Table(name=name, rows=rows, errors=errors, pairs=pairs, key=key, knows_hosts=knows_hosts)


def _values(layers: Sequence[Sequence[Mapping[str, Any]]], name: str) -> npt.NDArray[np.float64]:
    return np.array([[measure[name] for measure in layer] for layer in layers], dtype=np.float64)


def _undescribed(name: str, baseline: Baseline) -> Table:
    return Table(name=name, rows=baseline.rows, errors=np.full(baseline.rows.shape, np.nan))


def _key(language: str, model: str) -> Key:
    return language.lower(), canonical_name(model)


def _keys_of_path(path: str) -> list[Key]:
    parts = posixpath.splitext(path)[0].split("/")
    return [
        (parts[-depth - 1], "/".join(parts[-depth:])) for depth in (1, 2) if len(parts) > depth + 1
    ]


# The difference of two baseline tables, layer by layer, in their standard errors.

_LARGE_DIFFERENCE = 0.03
"""Tables from other web text of one language seldom differ by more; two languages often do."""

_FEW_ERRORS = 4.0
"""Largest difference of two tables, in standard errors, that sampling alone may cause."""
_ROUNDING = 1.5e-7
"""Tables have seven decimals, the last of which may be one off; some published ones have more."""
_DIGITS = 12
"""Decimals of a difference: those behind them are noise of subtracting, and would break ties."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerDifference:
    """Two tables at a layer: precision, recall and F1 of each number; None if it is not known.

    Attributes:
        errors: Standard errors of the differences.
        differences: B - A.
        in_errors: The differences in their standard errors.
    """

    layer: int
    first: Sequence[float]
    second: Sequence[float]
    errors: Sequence[float | None]
    differences: Sequence[float]
    in_errors: Sequence[float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LargestDifference:
    """The largest difference of two tables; of equal ones the first."""

    layer: int
    measure: str
    difference: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDifference:
    """How two tables, A and B, differ.

    Attributes:
        title: Language and model of both tables, or `two tables`.
        names: Of A and of B.
        pairs: Of A and of B; None without a description.
        spearman: Rank correlation of F1 over the layers; None where it is not defined.
        is_large: Whether the largest difference is more than different web text would explain.
        verdict: What the differences mean.
    """

    title: str
    names: tuple[str, str]
    pairs: tuple[int | None, int | None]
    layers: tuple[LayerDifference, ...]
    largest_difference: LargestDifference
    spearman: float | None
    is_large: bool
    verdict: str


def compare_tables(first: Table, second: Table, title: str) -> TableDifference:
    """Compare two tables, A and B, layer by layer.

    The errors of the two tables are treated as independent; tables from the same pairs differ by
    less.

    Raises:
        ConfigError: they have different numbers of layers.
    """
    if len(first.rows) != len(second.rows):
        raise ConfigError(
            f"tables of different depth cannot be compared: {first.name} has layers 0 to "
            f"{len(first.rows) - 1}, {second.name} 0 to {len(second.rows) - 1}; expected the same "
            "model. Compare tables of one model."
        )
    from bertscore_core.stats.agreement import spearman  # here, since scipy takes half a second

    differences = np.round(second.rows - first.rows, _DIGITS)
    errors = _errors_of_difference(first, second)
    in_errors = differences / np.where(errors, errors, np.nan)
    layer, index = divmod(int(np.abs(differences).argmax()), len(MEASURES))
    largest = float(differences[layer, index])
    columns = {
        "first": first.rows,
        "second": second.rows,
        "errors": errors,
        "differences": differences,
        "in_errors": in_errors,
    }
    return TableDifference(
        title=title,
        names=(first.name, second.name),
        pairs=(first.pairs, second.pairs),
        layers=tuple(
            LayerDifference(
                layer=number,
                **{name: nan_to_null(rows[number].tolist()) for name, rows in columns.items()},
            )
            for number in range(len(differences))
        ),
        largest_difference=LargestDifference(
            layer=layer, measure=MEASURES[index], difference=largest
        ),
        spearman=nan_to_null(float(spearman(first.rows[:, 2], second.rows[:, 2]).values[0])),
        is_large=abs(largest) > _LARGE_DIFFERENCE,
        verdict=_verdict((first, second), abs(largest), np.abs(in_errors)),
    )


def _errors_of_difference(*tables: Table) -> npt.NDArray[np.float64]:
    """Return the errors of the differences; NaN where they are not known.

    A table without a description counts as exact. If a description has no error, as for a single
    pair, the error of the difference is not known either.
    """
    squares = [
        np.nan_to_num(table.errors**2) if table.pairs is None else table.errors**2
        for table in tables
    ]
    unknown = np.isnan([table.errors for table in tables]).all(axis=0)
    return np.where(unknown, np.nan, np.sqrt(sum(squares)))


def _verdict(tables: tuple[Table, Table], largest: float, away: npt.NDArray[np.float64]) -> str:
    if largest <= _ROUNDING:
        return "the same numbers"
    is_known = not np.isnan(away).all()
    if not is_known:
        words = "no standard errors are known to compare the differences with"
    elif np.nanmax(away) <= _FEW_ERRORS:
        words = "agree within error"
    else:
        words = (
            "differ by more than the sampling error: other text (crawl, filters, years) or another "
            "way of scoring"
        )
    if largest > _LARGE_DIFFERENCE:
        words += (
            f"; by more than {_LARGE_DIFFERENCE}, which other web text seldom explains: check "
            "the language, the model and the settings"
        )
    naive = [
        side
        for side, table in zip("AB", tables, strict=True)
        if table.pairs is not None and not table.knows_hosts
    ]
    if is_known and naive:
        words += f"; the errors of {' and '.join(naive)} do not allow for sentences of one host"
    return words


def _names(side: Side) -> str:
    return listed(sorted(map("/".join, side.tables))) or "none"


def compare_sides(first: Side, second: Side) -> list[TableDifference]:
    """Compare two tables, or all tables that two sides both have.

    Raises:
        ConfigError: they have nothing in common, or tables have different numbers of layers.
    """
    common = sorted(first.tables.keys() & second.tables.keys())
    if first.single is not None and second.single is not None:
        # Two single tables are compared whatever their languages and models.
        title = "/".join(common[0]) if common else "two tables"
        return [compare_tables(first.single, second.single, title)]
    if not common:
        raise ConfigError(
            f"{first.name!r} and {second.name!r} have no language and model in common: the first "
            f"has {_names(first)}; the second "
            f"{_names(second)}. Name those of a single table with "
            "--language and --model; `bertscore-beam models` lists the published tables."
        )
    return [
        compare_tables(first.tables[key](), second.tables[key](), "/".join(key)) for key in common
    ]
