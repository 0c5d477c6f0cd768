"""The scores of rows under digests of their texts: what later runs can take over.

    OUT/_manifest/rows/<digest>/part-000000020000.pq    the rows of one part, in its order

Such a piece is written beside every part. It holds no text. It names the signatures that its scores
were made with, so it can be judged without the rest of the folder. It ends with a digest of itself.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.dump.digests import Digests
from bertscore_beam.dump.splits import note_name
from bertscore_beam.files.checked import with_digest, without_digest
from bertscore_core.errors import InputError, load_json
from bertscore_core.signature import Signature

ROWS_FOLDER = "_manifest/rows"
ROWS_SUFFIX = ".pq"

VALUES = np.dtype(
    [
        ("raw_precision", "<f4"),
        ("raw_recall", "<f4"),
        ("raw_f1", "<f4"),
        ("best_reference", "<i4"),
        ("candidate_tokens", "<i4"),
        ("reference_tokens", "<i4"),
        ("windows", "<i4"),
        ("text_tokens", "<i4"),
        ("unknown_tokens", "<i4"),
        ("truncated", "?"),
        # Position in `reasons`; NO_REASON without one.
        ("reason", "u1"),
    ]
)
"""What is known of a scored row. NaN as its raw precision says that it has no score."""

NO_REASON = 255
NO_SETTING = 65535
"""Code of a row that cannot be scored."""

_FORMAT = 2
_KEY = b"bertscore.rows"
_HALVES = ("high", "low")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SignedRows:
    """How each of N rows is scored.

    Attributes:
        codes: Position in `signatures`, or `NO_SETTING`. Shape (N,), uint16.
        signatures: Signatures of raw scores: without a baseline, with fingerprints of idf tables.
    """

    codes: npt.NDArray[np.uint16]
    signatures: tuple[str, ...]

    @classmethod
    def of(
        cls, rows: int, subsets: Iterable[tuple[npt.NDArray[np.int64], Signature]]
    ) -> "SignedRows":
        """Number the settings of rows.

        Args:
            rows: Number of rows, N.
            subsets: Rows that are scored alike, with their signature; other rows are not scored.
        """
        codes = np.full(rows, NO_SETTING, dtype=np.uint16)
        numbers: dict[str, int] = {}
        for subset, signature in subsets:
            raw = replace(signature, baseline="none").format()  # raw scores do not depend on it
            codes[subset] = numbers.setdefault(raw, len(numbers))
        return cls(codes=codes, signatures=tuple(numbers))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowScores:
    """Rows with their scores before rescaling.

    Attributes:
        digests: Digests of their texts. Shape (N, 2).
        values: What is known of each. Shape (N,), of the type `VALUES`.
        reasons: The words that `values["reason"]` stands for.
    """

    digests: Digests
    values: npt.NDArray[np.void]
    signed: SignedRows
    reasons: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.values)

    @property
    def scored(self) -> npt.NDArray[np.bool_]:
        """Rows with scores. Shape (N,)."""
        scored: npt.NDArray[np.bool_] = ~np.isnan(self.values["raw_precision"])
        return scored


def reasons_of(codes: npt.NDArray[np.uint8], reasons: Sequence[str]) -> npt.NDArray[np.object_]:
    """Return the reasons that codes stand for, None for `NO_REASON`."""
    words = np.full(NO_REASON + 1, None, dtype=object)
    words[: len(reasons)] = reasons
    of_rows: npt.NDArray[np.object_] = words[codes]
    return of_rows


def encode_reasons(reasons: Sequence[str | None]) -> tuple[npt.NDArray[np.uint8], tuple[str, ...]]:
    """Return the reasons as codes, and the words that the codes stand for."""
    words = tuple(sorted({reason for reason in reasons if reason is not None}))
    codes: dict[str | None, int] = {word: code for code, word in enumerate(words)}
    codes[None] = NO_REASON
    return np.array([codes[reason] for reason in reasons], dtype=np.uint8), words


def rows_file(part_name: str) -> str:
    """Return the path of the piece of a part, below the output folder."""
    return f"{ROWS_FOLDER}/{note_name(part_name)}{ROWS_SUFFIX}"


def rows_to_bytes(rows: RowScores) -> bytes:
    """Return rows as a Parquet file and its SHA-256. Equal rows give equal bytes."""
    columns = dict(zip(_HALVES, rows.digests.T, strict=True))
    columns |= {name: rows.values[name] for name in VALUES.names or ()}
    about = {"format": _FORMAT, "signatures": rows.signed.signatures, "reasons": rows.reasons}
    table = pa.table(
        {name: pa.array(np.ascontiguousarray(values)) for name, values in columns.items()}
        | {"setting": pa.array(rows.signed.codes)}
    ).replace_schema_metadata({_KEY: json.dumps(about).encode()})
    sink = pa.BufferOutputStream()
    # Digests are random: a dictionary of them would only cost time.
    pq.write_table(table, sink, compression="zstd", use_dictionary=False, write_statistics=False)
    return with_digest(bytes(sink.getvalue()))


def rows_from_bytes(data: bytes, source: str) -> RowScores:
    """Read rows.

    Raises:
        InputError: It is damaged, or has another format.
    """
    try:
        file = without_digest(data)
        # In this thread: handing a few kilobytes over to others takes longer than to read them.
        table = pq.ParquetFile(pa.BufferReader(file)).read(use_threads=False)
        about = load_json(table.schema.metadata[_KEY])
        if about["format"] != _FORMAT:
            raise ValueError(f"format {about['format']}")
        if len(about["signatures"]) > NO_SETTING or len(about["reasons"]) > NO_REASON:
            raise ValueError("too many codes")
        values = np.empty(len(table), dtype=VALUES)
        for name in VALUES.names or ():
            values[name] = table[name].to_numpy()
        halves = [table[name].to_numpy().astype(np.uint64) for name in _HALVES]
        return RowScores(
            digests=np.stack(halves, axis=1),
            values=values,
            signed=SignedRows(
                codes=table["setting"].to_numpy().astype(np.uint16),
                signatures=tuple(map(str, about["signatures"])),
            ),
            reasons=tuple(map(str, about["reasons"])),
        )
    except Exception as error:  # a damaged file may lead to any
        raise InputError(
            f"{source!r} does not hold the scores of rows: got {type(error).__name__}; expected "
            "what bertscore-beam wrote. Its rows are scored again."
        ) from error
