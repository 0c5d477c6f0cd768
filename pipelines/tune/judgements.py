"""Judgements of people: texts with a score or a label, read and checked before any model runs."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bertscore_core.errors import InputError
from pipelines.dump.columns import column_of
from pipelines.dump.inputs import expand_inputs
from pipelines.dump.plan import Plan, check_all_reached
from pipelines.dump.plan_files import plan_inputs
from pipelines.dump.read_split import read_split
from pipelines.dump.splits import MOST_SPLIT_ROWS
from pipelines.dump.texts import only_strings, reference_texts, texts_from_column
from pipelines.idf.row_keys import values_as_text
from pipelines.options.base import DEFAULT_SPLIT_BYTES
from pipelines.options.tune import TuneOptions
from pipelines.score.rows import PairTexts

Doubles = npt.NDArray[np.float64]

WHOLE = ""
"""The group of all rows, where there is no column of groups."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judgements:
    """N usable rows, in the order of the input.

    Attributes:
        candidates: One text each.
        references: One or several texts each.
        people: Scores of people, higher for better texts; None without a column of them.
        labels: 1.0 for a paraphrase, 0.0 for none; None without a column of them.
        names: Names of the groups, sorted.
        groups: Position of each row's group in `names`. Shape (N,).
        systems: The system of each row; None without a column of them.
        items: The item of each row; None without a column of them.
        rows: Where each row was in the input, counted over all files. Shape (N,).
        left_out: Rows of the input that cannot be used, by reason.
    """

    candidates: Sequence[str]
    references: Sequence[Sequence[str]]
    people: Doubles | None
    labels: Doubles | None
    names: tuple[str, ...]
    groups: npt.NDArray[np.int64]
    systems: npt.NDArray[np.str_] | None
    items: npt.NDArray[np.str_] | None
    rows: npt.NDArray[np.int64]
    left_out: Mapping[str, int]

    def __len__(self) -> int:
        """Return the number of rows, N."""
        return len(self.candidates)

    def of_group(self, group: int) -> npt.NDArray[np.int64]:
        """Return the positions of the rows of a group."""
        return np.flatnonzero(self.groups == group)

    @property
    def texts_digest(self) -> str:
        """Digest of the texts and groups, on which the scores depend. 16 hexadecimal digits."""
        digest = hashlib.sha256()
        for candidate, references, group in zip(
            self.candidates, self.references, self.groups.tolist(), strict=True
        ):
            line = repr((candidate, tuple(references), self.names[group]))
            digest.update(line.encode("utf-8", "surrogatepass"))
        return digest.hexdigest()[:16]


def no_judgements() -> Judgements:
    """Return what a job is sketched with."""
    none = np.zeros(0, dtype=np.int64)
    return Judgements(
        candidates=(),
        references=(),
        people=None,
        labels=None,
        names=(WHOLE,),
        groups=none,
        systems=None,
        items=None,
        rows=none,
        left_out={},
    )


def read_judgements(options: TuneOptions, output: str) -> Judgements:
    """Read and check judgements.

    Args:
        options: The files and columns.
        output: The output folder, which is never read.

    Raises:
        InputError: A file cannot be read, a column is missing or does not hold what it should, or
            too few rows can be used.
        OSError: A file cannot be reached.
    """
    plan = _plan(options, output)
    columns = _columns(options)
    wanted = [options.candidate_column, options.reference_column, *columns]
    table = pa.concat_tables(
        [_plain(read_split(split, wanted), wanted) for split in plan.splits],
        promote_options="permissive",
    )
    return _judgements(table, options)


def _plan(options: TuneOptions, output: str) -> Plan:
    files = expand_inputs(options.judgements, exclude=output, input_format=options.input_format)
    plan = plan_inputs(
        files,
        candidate_column=options.candidate_column,
        reference_column=options.reference_column,
        target_rows=MOST_SPLIT_ROWS,
        target_bytes=DEFAULT_SPLIT_BYTES,
        choosing=_columns(options),
    )
    check_all_reached(plan)
    if plan.rejected_files:
        first = plan.rejected_files[0]
        raise InputError(
            f"{len(plan.rejected_files)} of the files with judgements cannot be read: got "
            f"{first.path}: {first.message} Leave it out, or mend it: agreement is computed over "
            "all judgements."
        )
    return plan


def _columns(options: TuneOptions) -> dict[str, str]:
    """Return the option that names each column beside the texts."""
    named = {
        "--score-column": options.score_column,
        "--label-column": options.label_column,
        "--by": options.by,
        "--system-column": options.system_column,
        "--item-column": options.item_column,
    }
    return {column: option for option, column in named.items() if column is not None}


def _plain(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return the columns by the names that the options give them, without dictionaries."""
    columns = []
    for name in dict.fromkeys(names):
        column = column_of(table, name)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        columns.append(column)
    return pa.table(columns, names=list(dict.fromkeys(names)))


def _judgements(table: pa.Table, options: TuneOptions) -> Judgements:
    """Take the usable rows of a table, and check that they can be judged by."""
    people = None if options.score_column is None else _scores(table, options)
    labels = None if options.label_column is None else _labels(table, options.label_column)
    keys = {
        name: None if column is None else values_as_text(table[column])
        for name, column in (
            ("group", options.by),
            ("system", options.system_column),
            ("item", options.item_column),
        )
    }
    texts = PairTexts.of(
        texts_from_column(table[options.candidate_column]),
        reference_texts(table[options.reference_column]),
    )
    reasons = list(texts.reasons)
    for row in range(len(reasons)):
        reasons[row] = reasons[row] or next(_missing(row, people, labels, keys), None)
    rows = np.array([row for row, reason in enumerate(reasons) if reason is None], dtype=np.int64)
    groups = [WHOLE] * len(rows) if keys["group"] is None else _take(keys["group"], rows)
    names, numbers = np.unique(np.array(groups, dtype=str), return_inverse=True)
    found = Judgements(
        candidates=[str(texts.candidates[row]) for row in rows],
        references=[only_strings(texts.references[row]) for row in rows],
        people=None if people is None else people[rows],
        labels=None if labels is None else labels[rows],
        names=tuple(str(name) for name in names),
        groups=numbers.astype(np.int64),
        systems=_as_array(keys["system"], rows),
        items=_as_array(keys["item"], rows),
        rows=rows,
        left_out=dict(sorted(Counter(reason for reason in reasons if reason).items())),
    )
    _check(found, options)
    return found


def _missing(
    row: int,
    people: Doubles | None,
    labels: Doubles | None,
    keys: Mapping[str, Sequence[str | None] | None],
) -> Iterator[str]:
    """Yield what a row lacks beside its texts."""
    if people is not None and not np.isfinite(people[row]):
        yield "no_score_of_people"
    if labels is not None and not np.isfinite(labels[row]):
        yield "no_label"
    for name, values in keys.items():
        if values is not None and values[row] is None:
            yield f"no_{name}"


def _take(values: Sequence[str | None], rows: npt.NDArray[np.int64]) -> list[str]:
    return [value for row in rows if (value := values[row]) is not None]


def _as_array(
    values: Sequence[str | None] | None, rows: npt.NDArray[np.int64]
) -> npt.NDArray[np.str_] | None:
    return None if values is None else np.array(_take(values, rows), dtype=str)


def _scores(table: pa.Table, options: TuneOptions) -> Doubles:
    """Return the scores of people, NaN for null. Shape (rows,)."""
    values = _numbers(table, str(options.score_column), "--score-column")
    return -values if options.lower_is_better else values


def _numbers(table: pa.Table, name: str, option: str) -> Doubles:
    column = table[name]
    kind = column.type
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    if not numeric and not pa.types.is_null(kind):
        column = _parsed(column, name, option)
    values = pc.cast(column, pa.float64()).to_numpy()
    return np.array(values, dtype=np.float64)


def _parsed(column: pa.ChunkedArray, name: str, option: str) -> pa.ChunkedArray:
    """Read numbers that are written as texts, as in files of text."""
    try:
        return pc.cast(column, pa.float64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(
            f"the column {name!r} holds no numbers: got type {column.type}; expected a number in "
            f"each row, or null. Convert it, or name another one with {option}."
        ) from error


def _labels(table: pa.Table, name: str) -> Doubles:
    """Return labels as 0.0 or 1.0, NaN for null. Shape (rows,)."""
    values = _numbers(table, name, "--label-column")
    wrong = np.isfinite(values) & ~np.isin(values, (0.0, 1.0))
    if wrong.any():
        raise InputError(
            f"the column {name!r} holds no labels: got {values[wrong][0]:g} in {wrong.sum()} rows; "
            "expected 0 or 1, or false or true. Convert it, or name another one with "
            "--label-column."
        )
    return values


def _check(judgements: Judgements, options: TuneOptions) -> None:
    """Check that every group has enough rows, and judgements that differ.

    Raises:
        InputError: One has not.
    """
    left_out = "".join(f", {many:,} {why}" for why, many in judgements.left_out.items())
    if not len(judgements):
        raise InputError(
            f"no judgement can be used: got 0 usable rows{left_out}; expected at least "
            f"{options.min_rows}. Check the columns."
        )
    for group, name in enumerate(judgements.names):
        own = judgements.of_group(group)
        where = "" if name == WHOLE else f" in the group {name!r}"
        if len(own) < options.min_rows:
            raise InputError(
                f"too few judgements{where}: got {len(own)} usable rows{left_out}; expected at "
                f"least {options.min_rows}. Add rows, or lower --min-rows."
            )
        for option, values in (
            ("--score-column", judgements.people),
            ("--label-column", judgements.labels),
        ):
            if values is not None and np.ptp(values[own]) == 0:
                raise InputError(
                    f"the judgements{where} are all the same: got {values[own][0]:g} in "
                    f"{len(own)} rows; expected different ones, since nothing agrees or disagrees "
                    f"with a constant. Check {option}."
                )
