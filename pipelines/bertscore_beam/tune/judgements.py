"""Judgements of people: texts with a score or a label, read and checked before any model runs."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bertscore_beam.dump.inputs import expand_inputs
from bertscore_beam.dump.plan import Plan, check_all_reached
from bertscore_beam.dump.plan_files import plan_inputs
from bertscore_beam.dump.read_split import SplitReader, SplitRows, read_text
from bertscore_beam.dump.splits import MOST_SPLIT_ROWS
from bertscore_beam.dump.texts import only_strings
from bertscore_beam.options.base import DEFAULT_SPLIT_BYTES
from bertscore_beam.options.tune import TuneOptions
from bertscore_beam.score.rows import PairTexts
from bertscore_beam.tune.read import JudgedRows
from bertscore_core.agreement import check_pairs
from bertscore_core.agreement.inputs import Doubles
from bertscore_core.errors import InputError

WHOLE = ""
"""The group of all rows, where there is no column of groups."""
LEAST_SYSTEMS = 3
"""Two are always on a straight line."""


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
    wanted = [options.candidate_column, options.reference_column, *_columns(options)]
    pieces = [JudgedRows.of(rows, options) for rows in _rows(plan, wanted)]
    found = _usable(JudgedRows.join(pieces), options.lower_is_better)
    _check(found, options)
    return found


def _rows(plan: Plan, wanted: Sequence[str]) -> Iterator[SplitRows]:
    """Read the rows of all files, in order; those of text directly."""
    reader = SplitReader(plan.splits, wanted)
    texts = {text.path: text for text in plan.sketched}
    for split in plan.splits:
        if split.num_rows is not None:
            yield reader.read(split)
        elif split.row_offset == 0:
            yield read_text(texts[split.path], split)


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


def _usable(read: JudgedRows, lower_is_better: bool) -> Judgements:
    """Take the rows that have all they need."""
    texts = PairTexts.of(read.candidates, read.references)
    reasons = [
        read.bad_lines.get(row) or reason or next(_missing(row, read), None)
        for row, reason in enumerate(texts.reasons)
    ]
    rows = np.array([row for row, reason in enumerate(reasons) if reason is None], dtype=np.int64)
    groups = _taken(read.keys.get("group"), rows)
    names, numbers = np.unique(
        np.array([WHOLE] * len(rows), dtype=str) if groups is None else groups, return_inverse=True
    )
    people = None if read.people is None else read.people[rows]
    return Judgements(
        candidates=[str(texts.candidates[row]) for row in rows],
        references=[only_strings(texts.references[row]) for row in rows],
        people=-people if people is not None and lower_is_better else people,
        labels=None if read.labels is None else read.labels[rows],
        names=tuple(str(name) for name in names),
        groups=numbers.astype(np.int64),
        systems=_taken(read.keys.get("system"), rows),
        items=_taken(read.keys.get("item"), rows),
        rows=rows,
        left_out=dict(sorted(Counter(reason for reason in reasons if reason).items())),
    )


def _missing(row: int, read: JudgedRows) -> Iterator[str]:
    """Yield what a row lacks beside its texts."""
    if read.people is not None and not np.isfinite(read.people[row]):
        yield "no_score_of_people"
    if read.labels is not None and not np.isfinite(read.labels[row]):
        yield "no_label"
    for what, values in read.keys.items():
        if values[row] is None:
            yield f"no_{what}"


def _taken(
    values: Sequence[str | None] | None, rows: npt.NDArray[np.int64]
) -> npt.NDArray[np.str_] | None:
    return None if values is None else np.array([values[row] for row in rows], dtype=str)


def _check(judgements: Judgements, options: TuneOptions) -> None:
    """Check that every group has enough rows and systems, and judgements that differ.

    Raises:
        InputError: One has not, or so many rows of an item that pairs of them cannot be formed.
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
                f"least {options.min_rows}. Add rows, lower --min-rows, or leave the group out of "
                "the files."
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
        _check_items_and_systems(judgements, own, where, options.statistic)


def _check_items_and_systems(
    judgements: Judgements, own: npt.NDArray[np.int64], where: str, statistic: str
) -> None:
    """Check that the rows of a group have items and systems by which they can be compared."""
    if judgements.items is not None:
        items = judgements.items[own]
        if (items == items[0]).all():
            raise InputError(
                f"the judgements{where} are all of one item: got it in {len(own)} rows; expected "
                "several, since errors follow from how items differ. Check --item-column, or "
                "leave it out."
            )
        check_pairs(items)
    if judgements.systems is not None and statistic.startswith("system_"):
        systems = len(set(judgements.systems[own].tolist()))
        if systems < LEAST_SYSTEMS:
            raise InputError(
                f"too few systems{where} for {statistic}: got {systems}; expected at least "
                f"{LEAST_SYSTEMS}. Choose by a statistic of rows, such as pearson."
            )
