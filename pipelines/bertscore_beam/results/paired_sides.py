"""Read the sides of a comparison, pair their rows, and add them up."""

import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bertscore_beam.dump.groups import MOST_GROUPS
from bertscore_beam.results.compare_options import CompareOptions
from bertscore_beam.results.comparison import WHOLE, Group
from bertscore_beam.results.keyed_rows import LeftOut, Numbers, read_entries
from bertscore_beam.results.paired_groups import PairedGroups
from bertscore_beam.results.pairing import Spill
from bertscore_beam.results.ranking import CommonRows
from bertscore_beam.results.sides import MOST_SYSTEMS, Sides, of_pair, pairs_of
from bertscore_core.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Paired:
    """What reading and pairing gave.

    Attributes:
        names: The sides.
        pairs: The pairs of sides that are compared.
        sums: The sums of each pair.
        common: Sums over the rows that all sides have scored.
        groups: The number of each group.
        files: Names of the input files by number.
        left_out: Rows that could not be paired.
    """

    names: tuple[str, ...]
    pairs: tuple[tuple[int, int], ...]
    sums: tuple[PairedGroups, ...]
    common: CommonRows
    groups: dict[Group, int]
    files: tuple[str, ...]
    left_out: LeftOut


def pair_sides(options: CompareOptions, sides: Sides, noises: Sequence[float]) -> Paired:
    """Read all rows, and add them up by pair of sides.

    Args:
        options: What to compare.
        sides: The sides.
        noises: How far a score before rescaling may move without a reason, in the comparison with
            each AGAINST; one number for all systems.

    Raises:
        ConfigError: A key is there twice, a system is missing, or there is too much to compare.
        InputError: A part is damaged.
        OSError: A run cannot be reached.
    """
    with (
        tempfile.TemporaryDirectory(prefix="bertscore-compare-") as folder,
        closing(Spill(Path(folder), sides.rows)) as spill,
    ):
        return _pair(options, sides, noises, spill)


def _pair(options: CompareOptions, sides: Sides, noises: Sequence[float], spill: Spill) -> Paired:
    left_out = LeftOut()
    numbers = Numbers(systems={name: code for code, name in enumerate(options.systems or ())})
    rows = _read(sides, numbers, left_out, spill)
    names = _names(options, sides, numbers, rows)
    pairs = pairs_of(len(names), is_all=options.is_ranking)
    groups = numbers.groups or {WHOLE: 0}
    if len(pairs) * len(groups) > MOST_GROUPS:
        raise ConfigError(
            f"there is too much to compare: got {len(pairs):,} comparisons of {len(groups):,} "
            f"groups; expected at most {MOST_GROUPS:,} together. Name fewer columns with --by, or "
            "fewer systems."
        )
    sums = tuple(
        PairedGroups(
            len(groups),
            of_pair(noises, number),
            by_cluster=options.cluster is not None,
            moved_rows=options.moved_rows,
        )
        for number in range(len(pairs))
    )
    common = CommonRows(len(groups), len(names))
    repeated = np.zeros((2, len(names)), dtype=np.int64)
    for bucket in spill.paired(len(names)):
        repeated += (bucket.repeated_keys, bucket.repeated)
        for (one, other), added in zip(pairs, sums, strict=True):
            added.add(bucket.entries, bucket.places[:, one], bucket.places[:, other])
        if options.is_ranking:
            common.add(bucket)
    _check_unique(repeated, names, options)
    return Paired(
        names=names,
        pairs=tuple(pairs),
        sums=sums,
        common=common,
        groups=groups,
        files=tuple(numbers.files),
        left_out=left_out,
    )


def _read(sides: Sides, numbers: Numbers, left_out: LeftOut, spill: Spill) -> npt.NDArray[np.int64]:
    """Put all rows on the disk; return the number of rows of each side."""
    rows = np.zeros(MOST_GROUPS + 1, dtype=np.int64)
    wanted = len(sides.systems or ())
    for side, run in enumerate(sides.runs):
        for entries in read_entries(
            run, sides.columns, numbers, left_out, side=side, references=sides.references
        ):
            kept = entries[entries["side"] < wanted] if wanted else entries
            rows += np.bincount(kept["side"], minlength=len(rows))
            spill.add(kept)
    return rows


def _names(
    options: CompareOptions, sides: Sides, numbers: Numbers, rows: npt.NDArray[np.int64]
) -> tuple[str, ...]:
    """Return the names of the sides.

    Raises:
        ConfigError: A system has no row, or there are too few or too many.
    """
    if options.systems is None:
        return tuple(run.folder.shown for run in sides.runs)
    names = options.systems or tuple(numbers.systems)
    there = [name for name, code in numbers.systems.items() if code >= len(names) or rows[code]]
    gone = [name for name in names if name not in there]
    if gone or not 2 <= len(names) <= MOST_SYSTEMS:
        raise ConfigError(
            f"systems cannot be compared: got {', '.join(map(repr, gone or names)) or 'none'}"
            f"{' without a row that has a key' if gone else ''}; expected from 2 to {MOST_SYSTEMS} "
            f"of those in the column {options.system_column!r}: "
            f"{', '.join(map(repr, there[:20])) or 'it has none'}. Correct --systems."
        )
    return names


def _check_unique(
    repeated: npt.NDArray[np.int64], names: Sequence[str], options: CompareOptions
) -> None:
    """Check that no side has a key twice.

    Raises:
        ConfigError: One has.
    """
    if repeated.any():
        counts = [
            f"{keys:,} keys that are there more than once in {name!r}, in {rows:,} rows"
            for name, (keys, rows) in zip(names, repeated.T.tolist(), strict=True)
            if keys
        ]
        raise ConfigError(
            f"--key {' '.join(options.key)} does not identify a row: got {'; '.join(counts)}; "
            f"expected each key once. Name more columns, such as that of the "
            f"{'system' if options.systems is None else 'test set'}."
        )
