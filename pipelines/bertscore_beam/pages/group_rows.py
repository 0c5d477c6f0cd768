"""The groups of a finished run: the same numbers as `score --by` writes, from its parts."""

import io
import json
from collections.abc import Sequence
from pathlib import PurePosixPath

import pyarrow as pa
import pyarrow.csv as pa_csv

from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.paths import absolute
from bertscore_beam.files.reach import before_work, reaching
from bertscore_beam.files.write import write_atomically
from bertscore_beam.options.answer_options import GroupsOptions
from bertscore_beam.options.values import check_ending, check_group_columns
from bertscore_beam.records.finished import FinishedRun, open_finished
from bertscore_beam.records.groups import (
    CONFIDENCE,
    GroupRow,
    caveat_messages_of,
    check_columns,
    described,
    group_row,
    group_rows,
    merge_groups,
    merge_languages,
    table_of_groups,
    table_to_bytes,
)
from bertscore_beam.records.show_groups import show_groups
from bertscore_beam.records.summary import error_metrics
from bertscore_beam.run.output import Outcome
from bertscore_core.errors import ConfigError
from bertscore_core.stats.intervals import check_confidence


def outcome_of_groups(options: GroupsOptions) -> Outcome:
    """Read the groups of a run, and write them to a file if one is named.

    Raises:
        OSError: The folder cannot be reached, or the file not be written.
    """
    output, by = options.output, options.by
    ending = ""
    if output is not None:
        ending = check_ending(output, "parquet", "pq", "csv")
        check_outside(output, options.run)
    with before_work():
        run, groups = groups_of_run(options.run, by, options.confidence)
        with reaching("run", options.run):
            by_language = merge_languages(run, by)
        if output is not None:
            table = table_of_groups(groups, by)
            data = _csv(table) if ending == "csv" else table_to_bytes(table)
            with reaching("output", output):
                write_atomically(absolute(output), data)
    rows = [described(row, by) for row in groups]
    of_languages, own_by = by_language or ({}, ())
    own = [group_row(*one, options.confidence) for one in of_languages.items()]
    languages = [described(row, own_by) for row in own]
    confidence, errors = options.confidence, error_metrics(run.summary.content)
    tables = [show_groups(rows, by, len(rows) - 1, confidence, len(run.languages), errors)]
    if languages:  # a mean over languages says little
        tables.insert(0, show_groups(languages, own_by, len(languages), confidence, errors=errors))
    about = {"run": run.folder.shown, "by": list(by), "confidence": options.confidence}
    return Outcome(
        shown=tuple(tables),
        document={**about, **({"languages": languages} if languages else {}), "groups": rows},
        warnings=caveat_messages_of(groups, own),
        is_answer=True,
    )


def groups_of_run(
    folder: str, by: Sequence[str], confidence: float = CONFIDENCE
) -> tuple[FinishedRun, list[GroupRow]]:
    """Return a finished run and its groups: all rows together first, then each group.

    A few parts are in memory at a time. `by` holds names or dotted paths of columns; none for all
    rows together alone.

    Raises:
        ConfigError: The folder holds no finished scoring run, or a column is named twice.
        InputError: A part is damaged, a column cannot make groups or is in no part, or there are
            too many groups.
        OSError: The folder cannot be reached.
    """
    check_group_columns("by", by)
    check_confidence(confidence)
    run = open_finished(folder)
    with reaching("run", folder):
        check_columns(run, by)
        merged = merge_groups(run, by)
    return run, group_rows(merged, confidence)


def check_outside(output: str, run: str) -> None:
    """Check that a file is not inside the folder of a run, or of one that a pattern matches.

    Raises:
        ConfigError: It is.
    """
    folder = absolute(run).rstrip("/")
    file = absolute(output)
    if file.startswith(f"{folder}/") or any(
        parent.match(folder) for parent in PurePosixPath(file).parents
    ):
        raise ConfigError(
            f"--output is inside the run: got {mask_credentials(output)!r}; expected a file "
            "elsewhere. A run is never changed by reading it."
        )


def _csv(table: pa.Table) -> bytes:
    for place, field in enumerate(table.schema):
        if pa.types.is_map(field.type):
            texts = [json.dumps(dict(counts)) for counts in table[place].to_pylist()]
        elif pa.types.is_list(field.type):
            texts = [" ".join(kinds) for kinds in table[place].to_pylist()]
        else:
            continue
        table = table.set_column(place, field.name, pa.array(texts, pa.string()))
    sink = io.BytesIO()
    pa_csv.write_csv(table, sink)
    return sink.getvalue()
