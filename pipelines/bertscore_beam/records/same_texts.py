"""Refuse to replace the scores of other texts, such as those of another night.

The dumps of all nights have files of the same names. So with one wrong digit in `--output` a dump
would replace the scores of another night. From outside, the file of another night looks like a
newer version of the same file. So some rows are read, and looked up among the keys of the earlier
parts.
"""

import heapq
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bertscore_beam.dump.candidates import explode_candidates
from bertscore_beam.dump.columns import KEY, TableFields
from bertscore_beam.dump.digests import Digests, digest_texts, digests_in
from bertscore_beam.dump.parquet import UNREADABLE
from bertscore_beam.dump.plan import Plan
from bertscore_beam.dump.read_rows import read_split
from bertscore_beam.dump.splits import Split
from bertscore_beam.dump.texts import Rows
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.read import in_parallel
from bertscore_beam.records.finished import read_part_columns
from bertscore_beam.records.record import PartRecord
from bertscore_beam.run.folder import OutputFolder
from bertscore_core.errors import ConfigError, InputError

_Keys: TypeAlias = "npt.NDArray[np.uint64]"
"""The high halves of the digests of some rows, each once, ascending."""

_NONE: _Keys = np.zeros(0, dtype=np.uint64)

_SAMPLE = 20
"""Most earlier parts that are compared."""

_NEAR = 8
"""Earlier parts of a file in which rows are looked up: they may be in a neighbouring part now, if
there are more or fewer rows before them."""


def check_same_texts(
    folder: OutputFolder,
    plan: Plan,
    finished: Sequence[PartRecord],
    fields: TableFields,
    previous_run: Mapping[str, Any] | None,
) -> None:
    """Check that the finished parts of a folder are mostly of texts that the input still has.

    Nothing is read unless most of these parts were made of another version of their file. Nothing
    is read either if the last run in the folder was begun with these very files: it was checked
    then, and some of the parts that it had to replace may still be there.

    Raises:
        ConfigError: The input has fewer than half of the rows of the parts compared, or the rows in
            the place of none of them can be read.
    """
    if plan.has_versions and (previous_run or {}).get("corpus") == plan.digest:
        return
    versions = {split.input_name: (split.file_size, split.file_version) for split in plan.splits}
    changed, number = [], 0
    for record in finished:
        now = versions.get(record.input_name)
        number += now is not None
        if now is not None and ("" in now or now != (record.file_size, record.file_version)):
            changed.append(record)
    if 2 * len(changed) <= number:
        return
    compared = _take_sample(sorted(changed, key=attrgetter("part_name")))
    unknown = 0  # rows of parts that cannot be read, which cannot be found
    unread = ""
    wanted = matched = _NONE  # rows of these parts, and those that the input still has
    for record in compared:
        near = _nearest(record, finished)
        own, *others = in_parallel(partial(_keys_of_part, folder), near)
        try:
            of_file = [split for split in plan.splits if split.input_name == record.input_name]
            there = _rows_of(of_file, record, fields)
        except UNREADABLE as error:  # the run reports it
            unread = mask_credentials(f"{type(error).__name__}: {error}")
            continue
        unknown += 0 if len(own) else record.num_rows
        # Rows may have moved to parts nearby, but a part has no more of them than it adds itself.
        found = np.setdiff1d(np.intersect1d(there, np.concatenate([own, *others])), matched)
        is_own = np.isin(found, own)
        added = len(np.setdiff1d(own, wanted))
        taken = np.concatenate([found[is_own], found[~is_own]])[:added]
        wanted, matched = np.union1d(wanted, own), np.union1d(matched, taken)
    rows = unknown + len(wanted)
    if unread and not rows:
        raise ConfigError(
            "the output folder may hold the scores of other texts: got no readable row where its "
            f"parts were compared with the input ({unread}); expected some. Repair the input, "
            "choose another --output, or use --overwrite to replace the scores."
        )
    if 2 * len(matched) < rows:
        raise ConfigError(
            f"the output folder holds the scores of other texts: got an input without "
            f"{rows - len(matched):,} of {rows:,} rows that were compared, of parts such as "
            f"{compared[0].part_name!r}; expected one that has at least half of them. Choose "
            "another --output, or use --overwrite to replace the scores."
        )


def _take_sample(records: Sequence[PartRecord]) -> list[PartRecord]:
    count = min(_SAMPLE, len(records))
    return [records[number * len(records) // count] for number in range(count)]


def _nearest(record: PartRecord, finished: Sequence[PartRecord]) -> list[PartRecord]:
    """Return the parts that are nearest to one in its file, itself first."""
    of_file = (one for one in finished if one.input_name == record.input_name)
    return heapq.nsmallest(_NEAR, of_file, key=lambda one: abs(one.offset - record.offset))


def _rows_of(splits: Sequence[Split], record: PartRecord, fields: TableFields) -> _Keys:
    """Read as many rows of the input as a part has, from its place in the file on."""
    distances = [abs(split.row_offset - record.offset) for split in splits]
    names = (*fields.candidates, fields.reference_column)
    rows, now = 0, _NONE
    for split in splits[distances.index(min(distances)) :]:
        texts = explode_candidates(Rows(read_split(split, names), fields))
        digests = digest_texts(texts.candidates, texts.references)
        rows, now = rows + len(digests), np.union1d(now, _keys(digests))
        if rows >= record.num_rows:
            break
    return now


def _keys_of_part(folder: OutputFolder, record: PartRecord) -> _Keys:
    with suppress(InputError, FileNotFoundError, ValueError, KeyError):
        return _keys(digests_in(read_part_columns(folder, record, [KEY])[KEY]))
    return _NONE


def _keys(digests: Digests) -> _Keys:
    keys: _Keys = np.unique(digests[:, 0])
    return keys
