"""Baselines: the mean scores of random pairs, and the rescaling that maps them to 0.

A table belongs to one language and one model. It has a row for every layer, from 0 (the embeddings)
to the last, with values for precision, recall and F1.
"""

import csv
import hashlib
import io
import posixpath
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bertscore_core import errors
from bertscore_core.registry import canonical_name, read_table
from bertscore_core.signature import Signature
from bertscore_core.tokens import FloatArray

_HEADER = ["LAYER", "P", "R", "F"]
CUSTOM = "custom"
"""Name of a baseline from the user, and first part of names such as `custom/en/roberta-large`."""

TABLE_SUFFIX = ".tsv"
"""bert-score's ending of tables, although their columns are separated by commas."""
_IDF_SUFFIX = ".idf"
"""What the name of a table of scores with idf weights has before its ending."""
DESCRIPTION_SUFFIX = ".json"
"""Ending of the file next to a table that says how the table was made."""

# Both become parts of paths: nothing may lead out of a folder or mean something else on Windows.
_LANGUAGE = re.compile(r"[a-z0-9]+([_-][a-z0-9]+)*")
_UNSAFE = re.compile(r"[\\:\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Baseline:
    """The baseline of one language and one model.

    Attributes:
        name: Its source: `language/model` if published, `custom/language/model` if it comes from a
            folder of tables, else `custom`.
        rows: Baseline of precision, recall, F1 by layer. Shape (L + 1, 3), float64.
        made_with: Signature of the scores it is the mean of; None if unknown.
    """

    name: str
    rows: npt.NDArray[np.float64]
    made_with: Signature | None = None

    @property
    def fingerprint(self) -> str:
        """Digest of the numbers. 12 hexadecimal digits."""
        # Little-endian, so that it is the same on every platform.
        return hashlib.sha256(self.rows.astype("<f8").tobytes()).hexdigest()[:12]

    def row(self, layer: int) -> FloatArray:
        """Return the baseline of one layer. Shape (3,), float32.

        Raises:
            BaselineNotFoundError: the table has no row for that layer.
        """
        if not 0 <= layer < len(self.rows):
            raise errors.BaselineNotFoundError(
                f"baseline {self.name} has no row for layer {layer}; it has 0 to "
                f"{len(self.rows) - 1}. Compute one for the layer, or score without rescaling."
            )
        row: FloatArray = self.rows[layer].astype(np.float32)
        return row

    def check_values(self) -> None:
        """Check that scores can be rescaled with the numbers, in float32 as they are used.

        Raises:
            ConfigError: a number is not finite or not below 1.
        """
        with np.errstate(over="ignore"):  # what overflows is infinite, and rejected below
            used = self.rows.astype(np.float32)
        if not self.rows.ndim == 2 or self.rows.shape[1] != 3:
            raise errors.ConfigError(
                f"baseline {self.name} cannot be used: got an array of shape {self.rows.shape}; "
                "expected a row of precision, recall and F1 for each layer."
            )
        for layer in np.flatnonzero(~(np.isfinite(used) & (used < 1)).all(axis=1)):
            raise errors.ConfigError(
                f"baseline {self.name} cannot be used: got {self.rows[layer].tolist()} for layer "
                f"{layer}; expected finite numbers below 1 in float32, where 0.99999999 is 1. "
                "Correct the table, or make a new one with `bertscore-beam baseline`."
            )

    def check_model(self, weights: str) -> None:
        """Check that the table was made with the model that scores, if its description says so.

        Only the weights are compared: the fingerprint of the same tokenizer may change with the
        version of transformers.

        Raises:
            ConfigError: It was made with another model, so random pairs would not rescale to 0.
        """
        made = self.made_with
        if made is None or made.weights == weights:
            return
        raise errors.ConfigError(
            f"baseline {self.name} was made with another model than the one that scores: got "
            f"{made.model} with weights {made.weights} in the description beside it; expected "
            f"weights {weights}. Make a table with `bertscore-beam baseline` from this model, or "
            "choose another baseline."
        )


def idf_mismatch(baseline: Baseline, *, idf: bool) -> str | None:
    """Say that scores and the table to rescale them with differ in idf weights; None if not.

    Random pairs then do not score 0, but a little more or less. A table without a description, such
    as a published one, counts as one without idf, as all of bert-score's are.
    """
    weighted = baseline.made_with is not None and baseline.made_with.idf != "none"
    if weighted == idf:
        return None
    words = ("with", "without") if idf else ("without", "with")
    return (
        f"scores {words[0]} idf weights are rescaled with baseline {baseline.name}, which was made "
        f"{words[1]} them: random pairs will not score exactly 0. Make a table "
        f"{words[0]} them: `bertscore-beam baseline{' --idf' if idf else ''}`."
    )


def rescale(scores: FloatArray, baseline: FloatArray) -> FloatArray:
    """Map the baseline to 0 and 1 to 1: (x - b) / (1 - b), in float32.

    Args:
        scores: Raw scores, of any shape that `baseline` broadcasts to.
        baseline: Baseline values below 1.

    Examples:
        >>> rescale(np.float32([0.8, 1.0]), np.float32(0.8)).tolist()
        [0.0, 1.0]
    """
    one = np.float32(1.0)  # float32 throughout, as bert-score computes
    return ((scores - baseline) / (one - baseline)).astype(np.float32)


@cache
def _published() -> dict[tuple[str, str], npt.NDArray[np.float64]]:
    tables: dict[tuple[str, str], list[list[float]]] = {}
    for row in read_table("baselines.csv"):
        table = tables.setdefault((row["language"], row["model"]), [])
        if int(row["layer"]) != len(table):
            raise errors.ConfigError(f"baselines.csv: layers out of order at {row}")
        table.append([float(row[name]) for name in ("precision", "recall", "f1")])
    return {key: np.array(table) for key, table in tables.items()}


def published_baselines() -> tuple[tuple[str, str], ...]:
    """Return (language, model) of every published baseline that comes with the package."""
    return tuple(_published())


def find_baseline(language: str, model: str) -> Baseline:
    """Return the published baseline of a language and a model.

    Raises:
        BaselineNotFoundError: none was published; the message lists those of the language and of
            the model.
    """
    key = (language.lower(), canonical_name(model))
    try:
        return Baseline(name="/".join(key), rows=_published()[key])
    except KeyError:
        raise errors.BaselineNotFoundError(
            f"no published baseline for language {language!r} and model {model!r}. "
            f"{_list_tables(published_baselines(), *key)} Give a LAYER,P,R,F table as baseline, "
            "or score without rescaling."
        ) from None


def _list_tables(tables: Iterable[tuple[str, str]], language: str, model: str) -> str:
    listed = list(tables)
    languages = sorted(name for name, known in listed if known == model)
    models = sorted(known for name, known in listed if name == language)
    return (
        f"Languages with one for this model: {', '.join(languages) or 'none'}; models with one "
        f"for this language: {', '.join(models) or 'none'}."
    )


def baseline_path(language: str, model: str, *, idf: bool = False) -> str:
    """Return the path of a table below a folder of tables, in the layout of bert-score's own.

    Args:
        language: Language code, upper or lower case.
        model: Registry name or hub id; for a model in a folder, the folder's name, as in
            `ModelFiles.name`. Models in folders with the same name share a table.
        idf: Whether the table is of scores with idf weights.

    Raises:
        ConfigError: the path would be outside the folder, or not the same on every system.

    Examples:
        >>> baseline_path("en", "microsoft/deberta-xlarge-mnli")
        'en/microsoft/deberta-xlarge-mnli.tsv'
        >>> baseline_path("EN", "FacebookAI/roberta-large")
        'en/roberta-large.tsv'
        >>> baseline_path("en", "roberta-large", idf=True)
        'en/roberta-large.idf.tsv'
    """
    # "microsoft/deberta" is a folder and a file in it, as in bert-score.
    code, name = language.lower(), canonical_name(model)
    if not _LANGUAGE.fullmatch(code):
        raise errors.ConfigError(
            f"no table can be kept for language {language!r}; expected a code of letters and "
            "digits, such as en or zh-cn."
        )
    if any(part in ("", ".", "..") for part in name.split("/")) or _UNSAFE.search(name):
        raise errors.ConfigError(
            f"no table can be kept for model {model!r}; expected a name or hub id, without '..', "
            "':' or '\\\\' and not beginning with '/'. For a model in a folder give the folder's "
            "name alone."
        )
    return f"{code}/{name}{_IDF_SUFFIX if idf else ''}{TABLE_SUFFIX}"


def choose_table(names: Iterable[str], language: str, model: str, *, idf: bool = False) -> str:
    """Choose the table of a language and a model among the files of a folder.

    Paths are below the folder, with "/" as separator; other files than tables are skipped. With idf
    the table of idf-weighted scores is chosen, and the other one only if there is none.

    Raises:
        BaselineNotFoundError: It is not there; the message lists those of the language and of the
            model.
        ConfigError: No table can have such a language or model.
    """
    # Only tables in the folder of a language; a folder may hold other files.
    own = {name for name in names if name.endswith(TABLE_SUFFIX) and "/" in name}
    path, weighted = (baseline_path(language, model, idf=each) for each in (False, True))
    if idf and weighted in own:
        return weighted
    if path in own:
        return path
    if weighted in own:
        raise errors.BaselineNotFoundError(
            f"the folder of baselines has no {path}: got {weighted}, a table for scores with idf "
            "weights; expected one for scores without. Add idf (--idf corpus or --idf TABLE), or "
            "make the other table with `bertscore-beam baseline` without --idf."
        )
    tables = [(code, rest) for code, _, rest in (_stem(name).partition("/") for name in own)]
    code, _, name = _stem(path).partition("/")
    raise errors.BaselineNotFoundError(
        f"the folder of baselines has no {path}: got {len(own)} tables, none for language "
        f"{language!r} and model {model!r}. {_list_tables(tables, code, name)} Make it with "
        "`bertscore-beam baseline`, or score without rescaling."
    )


def table_name(path: str) -> str:
    """Return the name of the baseline at a path below a folder of tables.

    Examples:
        >>> table_name("en/roberta-large.tsv")
        'custom/en/roberta-large'
    """
    return f"{CUSTOM}/{_stem(path)}"


def _stem(path: str) -> str:
    return path.removesuffix(TABLE_SUFFIX)


def format_baseline(baseline: Baseline) -> str:
    """Write a `LAYER,P,R,F` table, the format bert-score reads; see `parse_baseline`.

    bert-score and torchmetrics read rows by position, and all columns but the first. So there are
    exactly four columns, and one row for each layer from 0 on. Seven decimals are finer than
    the standard error of a million pairs, and about the precision of float32 near 1.

    Raises:
        InputError: a value is not below 1 or not finite, so scores could not be rescaled.

    Examples:
        >>> print(format_baseline(Baseline(name="custom", rows=np.array([[0.25, 0.5, 0.3]]))))
        LAYER,P,R,F
        0,0.2500000,0.5000000,0.3000000
        <BLANKLINE>
    """
    rounded = baseline.rows.round(7)  # 0.99999999 is written as 1
    for layer in np.flatnonzero(~((rounded < 1) & np.isfinite(rounded)).all(axis=1)):
        raise errors.InputError(
            f"baseline {baseline.name} cannot be used: got {rounded[layer].tolist()} for layer "
            f"{layer}; expected numbers below 1. Were the pairs random ones?"
        )
    lines = [f"{layer},{p:.7f},{r:.7f},{f:.7f}" for layer, (p, r, f) in enumerate(baseline.rows)]
    return "\n".join([",".join(_HEADER), *lines, ""])


def description_path(path: str) -> str:
    """Return the path that the description of a table has, whether or not there is one.

    Examples:
        >>> description_path("en/bge-base-en-v1.5.tsv")
        'en/bge-base-en-v1.5.json'
    """
    return posixpath.splitext(path)[0] + DESCRIPTION_SUFFIX


def read_made_with(description: str | bytes) -> Signature | None:
    """Return the signature in a table's description; None if there is none that can be read."""
    try:
        return Signature.parse(errors.load_json(description)["signature"])
    except (ValueError, KeyError, TypeError, AttributeError, errors.SignatureError):
        return None


def parse_baseline(
    text: str, source: str, *, name: str = CUSTOM, description: str | bytes | None = None
) -> Baseline:
    """Read a `LAYER,P,R,F` table, the format bert-score reads.

    Args:
        text: The file's content, comma-separated, one row for each layer from 0 on. Blanks around
            cells and a byte order mark are ignored.
        source: Its path, for error messages.
        name: Name of the baseline; see `table_name`.
        description: Content of the file that `description_path` names, if there is one.

    Raises:
        ConfigError: header, row order or values are not those of a baseline, which has three
            finite numbers below 1 in float32 for each layer.
    """
    try:
        lines = csv.reader(io.StringIO(text.removeprefix("\ufeff").strip(), newline=None))
        # bert-score reads tables with pandas, which accepts both.
        rows = [[cell.strip() for cell in line] for line in lines]
        if rows[0] != _HEADER:
            raise _NoTableError("another first line")
        if [int(row[0]) for row in rows[1:]] != list(range(len(rows) - 1)):
            raise _NoTableError("layers that are not 0, 1, 2, ...")
        values = np.array([[float(cell) for cell in row[1:]] for row in rows[1:]])
        if values.ndim != 2 or values.shape[1] != 3:
            raise _NoTableError("rows without three numbers")
    except (IndexError, ValueError, csv.Error) as error:
        # Python's own messages quote the cell, and the file may be any file, even one of texts.
        problem = str(error) if isinstance(error, _NoTableError) else "no rows of numbers"
        raise errors.ConfigError(
            f"{source} is not a baseline table: got {problem}; expected the header LAYER,P,R,F and "
            "one row a layer from 0 on, each value below 1. See docs/baselines.md."
        ) from None
    Baseline(name=source, rows=values).check_values()
    made_with = None if description is None else read_made_with(description)
    return Baseline(name=name, rows=values, made_with=made_with)


class _NoTableError(ValueError):
    """Why a text is not a table, in a message that quotes nothing of it."""


# Read a baseline from a file, or from a folder of tables.


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFiles:
    """How files of tables are found and read.

    Attributes:
        names: Lists the tables below a folder, with "/" as separator; none for a file.
        read: Returns the content of a file; raises OSError.
        shown: Returns a path as a message may show it.
    """

    names: Callable[[str], list[str]]
    read: Callable[[str], bytes]
    shown: Callable[[str], str]


def _below(path: str) -> list[str]:
    root = Path(path)
    return [file.relative_to(root).as_posix() for file in root.rglob(f"*{TABLE_SUFFIX}")]


def _read(path: str) -> bytes:
    data = Path(path).read_bytes()
    errors.check_no_pointer(path, data)
    return data


LOCAL = TableFiles(names=_below, read=_read, shown=str)
"""Files of this machine."""


def read_baseline(
    path: str,
    language: str | None,
    model: Callable[[], str],
    *,
    idf: bool,
    files: TableFiles = LOCAL,
) -> Baseline:
    """Read a table, or choose and read the one for a language and a model in a folder of tables.

    Args:
        path: The table, or the folder.
        language: Language of the texts, needed for a folder.
        model: Returns the name of the model, as in a signature; called for a folder only.
        idf: Whether the scores are weighted by idf.
        files: Where the path is.

    Raises:
        BaselineNotFoundError: The folder has no such table.
        ConfigError: It is not there, or is not a baseline table.
        OSError: It cannot be read now, or one may not.
    """
    shown, name = files.shown(path), CUSTOM
    if "\0" in path:  # Python's own error names neither the path nor what is wrong with it
        raise errors.ConfigError(
            f"baseline {shown!r} cannot be read: got a NUL in its path; expected none. Check it."
        )
    if names := files.names(path):
        if language is None:
            raise errors.BaselineNotFoundError(
                f"{shown} is a folder of baselines, and no language was given; expected one to "
                "choose a table by. Give the language, such as en (in a command: --language en), "
                "or the path of a table."
            )
        below = choose_table(names, language, model(), idf=idf)
        path, name = f"{path.rstrip('/')}/{below}", table_name(below)
    try:
        text = files.read(path).decode()
    except IsADirectoryError as error:
        raise errors.ConfigError(
            f"the folder of baselines {shown!r} holds no tables: got no file that ends in "
            f"{TABLE_SUFFIX}; expected LANGUAGE/MODEL{TABLE_SUFFIX}. Check the path, or make them "
            "with `bertscore-beam baseline`."
        ) from error
    except (FileNotFoundError, NotADirectoryError, UnicodeDecodeError) as error:
        raise errors.ConfigError(
            f"baseline {files.shown(path)!r} cannot be read ({type(error).__name__}); expected a "
            f"LAYER,P,R,F table, or a folder of them as LANGUAGE/MODEL{TABLE_SUFFIX}. Check the "
            "path."
        ) from error
    try:
        description = files.read(description_path(path))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError):
        description = None  # a store that may not be listed refuses what is not there
    return parse_baseline(text, files.shown(path), name=name, description=description)
