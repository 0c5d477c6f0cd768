"""The sums of the groups of a part, as a note in its footer.

    groups of a part --note_of--> note --noted_groups--> the same, if they are those wanted

So a run that ends need not read the rows of its parts again. A part without a note, or with one of
other columns, is read.
"""

import gzip
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from bertscore_beam.dump.census import Group
from bertscore_beam.files.checked import to_line, typed, unpacked
from bertscore_core.errors import load_json
from bertscore_core.stats.score_statistics import ScoreStatistics

GROUPS_KEY = b"bertscore.groups"
"""Key of the note in the metadata of a part."""

_FORMAT = 1
"""Of other code that adds up in another way no note is taken."""
MOST_NOTED = 200
"""Most groups in a note."""
_MOST_BYTES = 40 * 1024
"""A longer note would not come with the rest of a footer in one request. There is room for about
ten groups of 2,000 rows, or a hundred of 20."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedBy:
    """How rows are grouped: by which columns, and which metrics are added up.

    Attributes:
        by: The group columns; without any all rows are one group.
        language: The column of languages; None without one.
        metrics: Names of metrics.
    """

    by: tuple[str, ...] = ()
    language: str | None = None
    metrics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Noted:
    group: tuple[str | None, ...]
    sums: ScoreStatistics


@dataclass(frozen=True, slots=True, kw_only=True)
class _Note:
    format: int
    how: GroupedBy
    groups: tuple[_Noted, ...]


def note_of(groups: Mapping[Group, ScoreStatistics], how: GroupedBy) -> dict[bytes, bytes]:
    """Return the metadata with the note; none if the groups are so many that it would be long."""
    noted = tuple(_Noted(group=group, sums=groups[group]) for group in groups)
    # Text, since some readers of Parquet take no other metadata.
    content = asdict(_Note(format=_FORMAT, how=how, groups=noted))
    note = b64encode(gzip.compress(to_line(content), mtime=0))
    return {GROUPS_KEY: note} if len(note) <= _MOST_BYTES else {}


def noted_groups(
    metadata: Mapping[bytes, bytes], how: GroupedBy
) -> dict[Group, ScoreStatistics] | None:
    """Return the groups in the metadata of a part; None if it has none that are grouped so."""
    try:
        note = typed(_Note, load_json(unpacked(b64decode(metadata[GROUPS_KEY]))))
    except (AttributeError, KeyError, ValueError):
        return None
    is_wanted = note.format == _FORMAT and note.how == how
    return {own.group: own.sums for own in note.groups} if is_wanted else None
