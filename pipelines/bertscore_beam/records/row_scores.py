"""The scores of rows under the digests of their texts: what later runs can take over.

Every part has them. Its column `bertscore_key` holds the digest of the texts of each row, its other
score columns what is known of the row, and its footer which settings its rows were scored with. So
a part can be judged without the rest of its folder.
"""

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bertscore_beam.dump import columns
from bertscore_beam.dump.digests import digests_in
from bertscore_beam.dump.parquet import SETTINGS_KEY, fetch_columns, open_parquet
from bertscore_beam.files.buckets import in_order
from bertscore_beam.files.listing import Stored
from bertscore_beam.records.record import RECORD_KEY, record_from_json, told_version
from bertscore_core.errors import InputError, load_json
from bertscore_core.signature import Signature

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
"""What is known of a scored row, by its names in `Scores`. NaN as its raw precision says that it
has no score."""

KEPT = tuple(name for name in VALUES.names or () if name != "reason")

NO_REASON = 255
NO_SETTING = 65535
"""Code of a row that cannot be scored."""

_COLUMNS = frozenset((columns.KEY, *columns.OUTPUT_COLUMNS)) - {columns.SIGNATURE}


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

    def note(self) -> str:
        """Return the settings as JSON; with a single one all rows that have scores have it."""
        about: dict[str, object] = {"signatures": self.signatures}
        if len(self.signatures) > 1:
            packed = pa.compress(self.codes.astype("<u2").tobytes(), "zstd", asbytes=True)
            about["codes"] = base64.b64encode(packed).decode()
        return json.dumps(about)

    @classmethod
    def of_note(cls, note: bytes | str, rows: int) -> "SignedRows":
        """Read such a note of so many rows.

        Raises:
            ValueError: It is damaged.
        """
        about = load_json(note)
        signatures = tuple(map(str, about["signatures"]))
        codes = np.zeros(rows, dtype=np.uint16)
        if len(signatures) > 1:
            packed = base64.b64decode(about["codes"])
            try:
                data = pa.decompress(packed, 2 * rows, "zstd", asbytes=True)
            except OSError as error:
                raise ValueError(str(error)) from error
            codes = np.frombuffer(data, dtype="<u2").astype(np.uint16)
        if len(codes) != rows or (codes[codes != NO_SETTING] >= max(len(signatures), 1)).any():
            raise ValueError("other settings than rows")
        return cls(codes=codes, signatures=signatures)


ENTRY = np.dtype(
    [("low", "<u8")] + [(name, VALUES[name]) for name in VALUES.names or ()] + [("setting", "<u2")]
)
"""What is known of a row beside the first half of its digest: the other half, its scores, and codes
of its reason and settings."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScoreTable:
    """Rows with their scores before rescaling: those of a part, or `distinct` ones of several.

    Attributes:
        highs: First halves of their digests; close together they are found much faster. Shape (N,).
        entries: Of the type `ENTRY`. Shape (N,).
        signatures: What `setting` in an entry stands for.
        reasons: What `reason` in an entry stands for.
    """

    highs: npt.NDArray[np.uint64]
    entries: npt.NDArray[np.void]
    signatures: tuple[str, ...]
    reasons: tuple[str, ...]


def distinct(
    highs: npt.NDArray[np.uint64], entries: npt.NDArray[np.void]
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.void]]:
    """Return what has scores, sorted by digest; of equal texts and settings the first.

    Takes and returns `highs` and `entries` of a `ScoreTable`. Shape (N,) each.
    """
    has_scores = ~np.isnan(entries["raw_precision"]) & (entries["setting"] != NO_SETTING)
    highs, entries = highs[has_scores], entries[has_scores]
    order, first = in_order(highs, entries["low"], entries["setting"])
    return highs[order[first]], entries[order[first]]


def reasons_of(codes: npt.NDArray[np.uint8], reasons: Sequence[str]) -> npt.NDArray[np.object_]:
    """Return the reasons that codes stand for, None for `NO_REASON`."""
    words = np.full(NO_REASON + 1, None, dtype=object)
    words[: len(reasons)] = reasons
    of_rows: npt.NDArray[np.object_] = words[codes]
    return of_rows


def values_in(scores: Mapping[str, pa.Array]) -> tuple[npt.NDArray[np.void], list[str]]:
    """Return what score columns say of N rows, of the type `VALUES`, and the words of reasons."""
    errors = scores[columns.ERROR].dictionary_encode()
    words = [str(word) for word in errors.dictionary.to_pylist()]
    values = np.zeros(len(errors), dtype=VALUES)
    values["reason"] = errors.indices.fill_null(NO_REASON).to_numpy(zero_copy_only=False)
    raw = {f"raw_{name}": scores[column] for name, column in columns.SCORES.items()}
    for name in KEPT:
        column = scores.get(f"bertscore_{name}", raw.get(name))
        if column is not None:  # some are only in parts whose rows may differ in them
            nothing = pa.scalar(np.nan if name in raw else 0).cast(column.type)
            values[name] = column.fill_null(nothing).to_numpy(zero_copy_only=False)
    if columns.UNKNOWN in scores:
        counted = columns.counted_tokens(*(scores[name] for name in columns.UNKNOWN_COLUMNS))
        values["text_tokens"], values["unknown_tokens"] = counted
    return values, words


def read_row_scores(path: str, stored: Stored, *, least: int = 0) -> ScoreTable | None:
    """Read the scores of a part: its footer is sealed, and its pages have checksums.

    None if it was made of fewer rows of the input than `least`.

    Raises:
        InputError: It is damaged, or no part.
        OSError: It cannot be reached.
    """
    try:
        version = told_version(stored)
        with open_parquet(path, size=stored.size, version=version, seal="") as (file, source):
            notes = file.metadata.metadata
            record = record_from_json(notes.get(RECORD_KEY, b""))
            if record is None:
                raise ValueError("a footer without a record")
            if record.rows_read < least:
                return None
            names = [name for name in file.schema_arrow.names if name in _COLUMNS]
            fetch_columns(file, source, names)
            # In this thread: handing small columns over to others takes longer than to read them.
            table = file.read(names, use_threads=False)
        values, reasons = values_in({name: table[name].combine_chunks() for name in names})
        if len(values) != record.num_rows:
            raise ValueError(f"{len(values)} rows for {record.num_rows}")
        signed = SignedRows.of_note(notes[SETTINGS_KEY.encode()], len(values))
        entries = np.empty(len(values), dtype=ENTRY)
        digests = digests_in(table[columns.KEY])
        entries["low"] = digests[:, 1]
        entries["setting"] = signed.codes
        for name in VALUES.names or ():
            entries[name] = values[name]
        return ScoreTable(
            highs=digests[:, 0].copy(),
            entries=entries,
            signatures=signed.signatures,
            reasons=tuple(reasons),
        )
    except (InputError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise InputError(
            f"{path!r} does not hold the scores of rows: got {error}; expected a part as "
            "bertscore-beam wrote it. Its rows are scored again."
        ) from error
