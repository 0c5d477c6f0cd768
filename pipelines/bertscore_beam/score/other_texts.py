"""Refuse to replace the scores of other texts, such as those of another night.

The dumps of all nights have files of the same names. So with one wrong digit in `--output` a dump
would replace the scores of another night. From outside, the file of another night looks like a
newer version of the same file. So some rows are read, and looked up among the digests that are
stored beside the earlier parts.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bertscore_beam.dump.columns import TableFields, column_of
from bertscore_beam.dump.parquet import UNREADABLE
from bertscore_beam.dump.plan import Plan
from bertscore_beam.dump.read_split import read_split
from bertscore_beam.dump.splits import Split
from bertscore_beam.dump.text_digests import Digests, digest_texts
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.runs.row_scores import rows_file, rows_from_bytes
from bertscore_beam.score.part_record import PartRecord
from bertscore_core.errors import ConfigError, InputError

_Keys: TypeAlias = "npt.NDArray[np.uint64]"
"""The high halves of the digests of some rows, each once, ascending."""

_SAMPLE = 20
"""Most earlier parts that are compared."""

_NEAR = 8
"""Earlier parts of a file in which rows are looked up: they may be in a neighbouring part now, if
there are more or fewer rows before them."""


def check_same_texts(
    folder: OutputFolder,
    plan: Plan,
    finished: Iterable[PartRecord],
    fields: TableFields,
    previous_run: Mapping[str, Any] | None,
) -> None:
    """Check that the finished parts of a folder are mostly of texts that the input still has.

    Nothing is read unless most of these parts were made of another version of their file. Nothing
    is read either if the last run in the folder was begun with these very files: it was checked
    then, and some of the parts that it had to replace may still be there.

    Args:
        folder: The output folder.
        plan: The plan.
        finished: The records of its finished parts.
        fields: The columns of texts.
        previous_run: The result of `read_run`.

    Raises:
        ConfigError: The input has fewer than half of the rows of the parts compared, or the rows in
            the place of none of them can be read.
    """
    if plan.has_versions and (previous_run or {}).get("corpus") == plan.digest:
        return
    splits: dict[str, list[Split]] = defaultdict(list)
    for split in plan.splits:
        splits[split.input_name].append(split)
    parts: dict[str, list[PartRecord]] = defaultdict(list)
    for record in finished:
        if record.input_name in splits:
            parts[record.input_name].append(record)
    changed = sorted(
        (
            record
            for name, records in parts.items()
            for record in records
            if not record.is_of_version(splits[name][0])
        ),
        key=lambda record: record.part_name,
    )
    if 2 * len(changed) <= sum(map(len, parts.values())):
        return
    unknown = 0  # rows without digests, which cannot be found
    unread = ""
    wanted = found = np.zeros(0, dtype=np.uint64)
    for record in _spread(changed):
        name = record.input_name
        part = _Part.read(folder, record, parts[name])
        try:
            now = _rows_of(splits[name], part, fields)
        except UNREADABLE as error:  # the run reports it
            unread = mask_credentials(f"{type(error).__name__}: {error}")
            continue
        taken = part.found_in(now, wanted=wanted, found=found)
        unknown += 0 if len(part.own) else record.num_rows
        wanted, found = np.union1d(wanted, part.own), np.union1d(found, taken)
    rows = unknown + len(wanted)
    if unread and not rows:
        raise ConfigError(
            "the output folder may hold the scores of other texts: got no readable row where its "
            f"parts were compared with the input ({unread}); expected some. Repair the input, "
            "choose another --output, or use --overwrite to replace the scores."
        )
    if 2 * len(found) < rows:
        raise ConfigError(
            f"the output folder holds the scores of other texts: got an input without "
            f"{rows - len(found):,} of {rows:,} rows that were compared, of parts such as "
            f"{changed[0].part_name!r}; expected one that has at least half of them. Choose "
            "another --output, or use --overwrite to replace the scores."
        )


def _spread(records: Sequence[PartRecord]) -> list[PartRecord]:
    """Return at most `_SAMPLE` records, at equal distances."""
    count = min(_SAMPLE, len(records))
    return [records[number * len(records) // count] for number in range(count)]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Part:
    """An earlier part, as far as it is compared.

    Attributes:
        offset: Where it begins in its file.
        rows: Number of its rows.
        own: Keys of its rows; none if their digests are gone or damaged.
        near: Keys of the rows of the earlier parts next to it, and of its own.
    """

    offset: int
    rows: int
    own: _Keys
    near: _Keys

    @classmethod
    def read(cls, folder: OutputFolder, record: PartRecord, parts: Sequence[PartRecord]) -> "_Part":
        """Read the digests of a part, and of those of `parts` that are next to it."""
        nearest = sorted(parts, key=lambda one: abs(one.offset - record.offset))[:_NEAR]
        contents = folder.read_if_there(*(rows_file(one.part_name) for one in nearest))
        keys = [_keys_of_piece(data, one) for data, one in zip(contents, nearest, strict=True)]
        return cls(
            offset=record.offset,
            rows=record.num_rows,
            own=keys[0],
            near=np.unique(np.concatenate(keys)),
        )

    def found_in(self, now: _Keys, *, wanted: _Keys, found: _Keys) -> _Keys:
        """Return rows of the input that earlier parts have and that were not found before.

        They are at most as many as the rows that this part adds to `wanted`. So rows that are in
        many parts or files, and a few rows next to many parts, count once.

        Args:
            now: Keys of rows of the input.
            wanted: Keys of the rows of the parts compared before.
            found: Keys that were found for these parts.
        """
        matched = np.setdiff1d(np.intersect1d(now, self.near), found)
        own = np.isin(matched, self.own)
        added = np.setdiff1d(self.own, wanted)
        taken: _Keys = np.concatenate([matched[own], matched[~own]])[: len(added)]
        return taken


def _rows_of(splits: Sequence[Split], part: _Part, fields: TableFields) -> _Keys:
    """Return the keys of as many rows as a part has, or more, from its place in the file on.

    Raises:
        InputError: The file is damaged or has changed since it was planned.
        OSError: It cannot be reached.
    """
    distances = [abs(split.row_offset - part.offset) for split in splits]
    rows, now = 0, np.zeros(0, dtype=np.uint64)
    for split in splits[distances.index(min(distances)) :]:
        digests = _digests_of_split(split, fields)
        rows, now = rows + len(digests), np.union1d(now, _keys(digests))
        if rows >= part.rows:
            break
    return now


def _keys_of_piece(data: bytes | None, record: PartRecord) -> _Keys:
    """Return the keys of an earlier part's rows; none if the digests are gone or damaged."""
    with suppress(InputError):
        if data is not None:
            return _keys(rows_from_bytes(data, record.part_name).digests)
    return np.zeros(0, dtype=np.uint64)


def _digests_of_split(split: Split, fields: TableFields) -> Digests:
    names = (fields.candidate_column, fields.reference_column)
    table = read_split(split, names)
    return digest_texts(*(column_of(table, name) for name in names))


def _keys(digests: Digests) -> _Keys:
    keys: _Keys = np.unique(digests[:, 0])
    return keys
