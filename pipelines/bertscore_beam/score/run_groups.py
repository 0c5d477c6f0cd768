"""The groups of a run on one machine: read from its parts, and written into its folder."""

from collections.abc import Iterable, Sequence
from typing import Any

from bertscore_beam.dump.census import OPTION
from bertscore_beam.dump.columns import has_column, no_column
from bertscore_beam.dump.groups import check_number
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.score.finished import FinishedRun, part_schema, read_columns
from bertscore_beam.score.group_table import (
    GROUPS_FILE,
    GroupRow,
    group_rows,
    in_order,
    summary_of_groups,
    table_of_groups,
    table_to_bytes,
)
from bertscore_beam.score.groups import (
    SCORE_COLUMNS,
    Merging,
    PartStatistics,
    statistics_of,
)
from bertscore_beam.score.part_record import PartRecord
from bertscore_beam.score.reused_rows import unpacked_rows


def check_columns(run: FinishedRun, by: Sequence[str], option: str) -> None:
    """Check that some part has each group column. Only the schemas of parts are read.

    Raises:
        InputError: None has it.
        OSError: A part cannot be reached.
    """
    left = set(by)
    schema = None
    for record in run.records:
        if not left:
            return
        schema = part_schema(run, record)
        left -= {name for name in left if has_column(schema, name)}
    if left and schema is not None:
        raise no_column(schema, min(left), "group", option)


def merge_groups(run: FinishedRun, by: Sequence[str], option: str) -> PartStatistics:
    """Read the groups of a run from its parts, one after the other.

    Args:
        run: The run. Its records say what is read; whether it is finished does not matter.
        by: The group columns.
        option: The option that names them, for messages.

    Raises:
        InputError: A part is damaged, a column cannot make groups, or there are too many groups.
        OSError: A part cannot be reached.
    """
    merging = Merging()
    for part in read_columns(run, [*by, *SCORE_COLUMNS]):
        record = part.record
        reused = unpacked_rows(record.reused_rows, record.num_rows, record.reused)
        merging.add(statistics_of(part.table, by, reused))
        check_number(merging.groups, by, option)
    return merging.result()


def read_groups(
    folder: OutputFolder, records: Iterable[PartRecord], by: Sequence[str]
) -> list[GroupRow]:
    """Return the groups of a run that is about to be finished; see `merge_groups`."""
    run = FinishedRun(folder=folder, run={}, summary={}, records=tuple(records))
    return group_rows(merge_groups(run, by, OPTION))


def write_groups(
    folder: OutputFolder, rows: Sequence[GroupRow], by: Sequence[str]
) -> dict[str, Any]:
    """Write the table of groups into the folder of their run, and return their summary.

    Args:
        folder: Folder of the run.
        rows: The groups and all rows together, in any order.
        by: The group columns.

    Raises:
        FolderLostError: Another run has taken the folder over.
        InputError: There are too many groups.
    """
    check_number([row.group for row in rows if row.group is not None], by, OPTION)
    ordered = in_order(rows)
    folder.write(GROUPS_FILE, table_to_bytes(table_of_groups(ordered, by)))
    return summary_of_groups(ordered, by)
