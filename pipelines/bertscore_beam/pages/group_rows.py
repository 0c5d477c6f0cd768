"""The groups of a finished run: the same numbers as `score --by` writes, from its parts."""

import io
import json
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv

from bertscore_beam.dump.census import Group
from bertscore_beam.dump.languages import language_name
from bertscore_beam.dump.parquet import write_part
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.paths import absolute
from bertscore_beam.files.write import write_atomically
from bertscore_beam.options.answer_options import GroupsOptions
from bertscore_beam.options.values import check_ending
from bertscore_beam.pages.one_pass import Findings, gather
from bertscore_beam.records.finished import FinishedRun, open_finished
from bertscore_beam.records.groups import (
    PartStatistics,
    caveat_messages_of,
    described,
    group_row,
    group_rows,
    language_order,
    table_of_groups,
)
from bertscore_beam.records.show_groups import show_groups
from bertscore_beam.run.output import Outcome
from bertscore_core.errors import ConfigError
from bertscore_core.stats.score_statistics import ScoreStatistics


def outcome_of_groups(options: GroupsOptions) -> Outcome:
    """Read the groups of a run, and write them to a file if one is named.

    Raises:
        ConfigError: The folder holds no finished scoring run, or the file cannot be written there.
        InputError: A part is damaged, a column cannot make groups or is in no part, or there are
            too many groups.
        OSError: The folder cannot be reached, or the file not be written.
    """
    output, by = options.output, options.by
    ending = ""
    if output is not None:
        ending = check_ending(output, "parquet", "pq", "csv")
        check_outside(output, options.run)
    run = open_finished(options.run)
    findings = gather(run, by, 0)
    merged = PartStatistics(total=findings.total, groups=findings.groups)
    groups = group_rows(merged, options.confidence)
    if output is not None:
        table = table_of_groups(groups, by)
        data = _csv(table) if ending == "csv" else write_part(table)
        write_atomically(absolute(output), data)
    rows = [described(row, by) for row in groups]
    of_languages, own_by = _by_language(run, by, findings)
    own = [group_row(*one, options.confidence) for one in of_languages.items()]
    languages = [described(row, own_by) for row in own]
    given: dict[str, Any] = {"confidence": options.confidence, "summary": run.summary.content}
    tables = [show_groups(rows, by, len(rows) - 1, num_languages=len(run.languages), **given)]
    if languages:  # a mean over languages says little
        tables.insert(0, show_groups(languages, own_by, len(languages), **given))
    about = {"run": run.folder.shown, "by": list(by), "confidence": options.confidence}
    return Outcome(
        shown=tuple(tables),
        document={**about, **({"languages": languages} if languages else {}), "groups": rows},
        notices=tuple(caveat_messages_of(groups, own).values()),
        is_answer=True,
    )


def _by_language(
    run: FinishedRun, by: Sequence[str], findings: Findings
) -> tuple[dict[Group, ScoreStatistics], tuple[str, ...]]:
    """Return the groups by language as well, in order, and their columns; none if not needed.

    They are by language alone if those of `by` are too many.
    """
    language = run.notes.fields.language
    if language is None or language in by or len(run.languages) < 2:
        return {}, ()
    if findings.language_groups:
        found, columns = dict(findings.language_groups), (language, *by)
    else:
        alone = findings.languages.items()
        found, columns = {(language_name(name),): own for name, own in alone}, (language,)
    return {name: found[name] for name in sorted(found, key=language_order)}, columns


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
