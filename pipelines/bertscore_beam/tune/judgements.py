"""Judgements of people: texts with a score or a label, read and checked before any model runs."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bertscore_beam.dump.columns import TableFields
from bertscore_beam.dump.inputs import InputFile, expand_inputs
from bertscore_beam.dump.keys import keys_of
from bertscore_beam.dump.paths import column_of
from bertscore_beam.dump.plan import Plan, check_all_reached, plan_inputs
from bertscore_beam.dump.read_rows import SplitReader, SplitRows, read_text
from bertscore_beam.dump.splits import MOST_SPLIT_ROWS
from bertscore_beam.dump.text.text_source import texts_among
from bertscore_beam.dump.texts import answers, only_strings, reference_texts, texts_from_column
from bertscore_beam.files.checked import digest_of, to_line
from bertscore_beam.score.rows import PairTexts
from bertscore_beam.tune.tune_options import TuneOptions
from bertscore_core.errors import InputError
from bertscore_core.reasoning import REASONING
from bertscore_core.stats.caveats import (
    Caveat,
    GroupCaveats,
    caveat_messages,
    caveats_of_groups,
    caveats_of_values,
)
from bertscore_core.stats.estimates import ROUNDING, check_pairs, is_constant
from bertscore_core.stats.score_statistics import Doubles, UnknownTokens
from bertscore_core.tokens import BoolArray, IntArray

# Read the rows of files with judgements; each file keeps its own types.

_TRUTH = {"true": "1", "false": "0"}
"""How truth values are written in files of text."""

_LACKS = {
    "people": "no_score_of_people",
    "labels": "no_label",
    "groups": "no_group",
    "systems": "no_system",
    "items": "no_item",
}
"""Why a row cannot be used that has no value of one of these."""

Values = dict[str, Sequence[Any]]
"""Rows as they were read, usable or not: texts, and for the columns that are given a value or none
(None or NaN) for each row, by what it is."""


def _read(rows: SplitRows, options: TuneOptions) -> Values:
    table, bad = rows.table, {} if rows.lines is None else rows.lines.reasons
    given = texts_from_column(column_of(table, options.candidate_column))
    candidates, marks = answers(given, strip=options.strip_reasoning)
    values: Values = {
        "candidates": candidates,
        "marks": [marks.get(row) for row in range(len(table))],
        "references": reference_texts(column_of(table, options.reference_column)),
        "bad_lines": [bad.get(row) for row in range(len(table))],
    }
    if options.source_column is not None:
        sources = texts_from_column(column_of(table, options.source_column))
        values["sources"] = [text if isinstance(text, str) else None for text in sources]
    read = {"people": _numbers, "labels": _labels}
    for what, (option, name) in options.columns.items():
        if name is not None:
            values[what] = read.get(what, _keys)(table, name, option)
    return values


def _keys(table: pa.Table, name: str, _: str) -> list[str | None]:
    """Return the values of a column of keys. An empty text is null: files of text have none."""
    return [value or None for value in keys_of(column_of(table, name)).of_rows]


def _labels(table: pa.Table, name: str, option: str) -> list[float | None]:
    values = _numbers(table, name, option)
    wrong = [value for value in values if _is_there(value) and value not in (0, 1)]
    if wrong:
        raise InputError(
            f"the column {name!r} holds no labels: got {wrong[0]:g} in {len(wrong)} rows; "
            f"expected 0 or 1, or false or true. Convert it, or name another one with {option}."
        )
    return values


def _is_there(value: str | float | None) -> bool:
    return value is not None and (isinstance(value, str) or math.isfinite(value))


def _numbers(table: pa.Table, name: str, option: str) -> list[float | None]:
    column = column_of(table, name)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return _parsed(column.to_pylist(), name, option)
    try:
        return pc.cast(column, pa.float64()).to_pylist()  # type: ignore[no-any-return]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(
            f"the column {name!r} holds no numbers: got type {column.type}; expected a number in "
            f"each row, or null. Convert it, or name another one with {option}."
        ) from error


def _parsed(texts: Sequence[str | None], name: str, option: str) -> list[float | None]:
    values: list[float | None] = []
    wrong = []
    for row, text in enumerate(texts):
        word = (text or "").strip().lower()
        try:
            values.append(float(_TRUTH.get(word, word)) if word else None)
        except ValueError:
            wrong.append(row)
    if wrong:
        raise InputError(
            f"the column {name!r} holds texts that are not numbers: got {len(wrong):,} of them in "
            f"{len(texts):,} rows, the first in row {wrong[0]:,} (counted from 0 in its part of "
            f"the input); expected a number in each row, or none. Mend it, or name another one "
            f"with {option}."
        )
    return values


_WHOLE = ""
"""The group of all rows, where there is no column of groups."""
_LEAST_SYSTEMS = 3
"""Two are always on a straight line."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judgements:
    """N usable rows, in the order of the input.

    Attributes:
        candidates: One text each.
        references: One or several texts each.
        sources: What the candidates were made from, None where that is no text; empty without a
            column.
        people: Scores of people, higher for better texts. This and the next are None without a
            column of them, as are systems and items.
        labels: 1.0 for a paraphrase, 0.0 for none.
        names: Names of the groups, sorted.
        groups: Position of each row's group in `names`. Shape (N,).
        rows: Where each row was in the input, counted over all files. Shape (N,).
        left_out: Rows of the input that cannot be used, by reason.
        has_reasoning: Whether the candidate is scored with a model's reasoning. Shape (N,).
    """

    candidates: Sequence[str]
    references: Sequence[Sequence[str]]
    sources: Sequence[str | None]
    people: Doubles | None
    labels: Doubles | None
    names: tuple[str, ...]
    groups: IntArray
    systems: npt.NDArray[np.str_] | None
    items: npt.NDArray[np.str_] | None
    rows: IntArray
    left_out: Mapping[str, int]
    has_reasoning: BoolArray

    def __len__(self) -> int:
        return len(self.candidates)

    def of_group(self, group: int) -> IntArray:
        """Return the positions of the rows of a group."""
        return np.flatnonzero(self.groups == group)

    def caveats(self) -> tuple[str, ...]:
        """Return what a reader should know of the texts, as `score` says it."""
        shares = [self.has_reasoning[self.of_group(group)] for group in range(len(self.names))]
        own = [_caveats(share) for share in shares]
        groups = caveats_of_groups(([name], of) for name, of in zip(self.names, own, strict=True))
        whole = _caveats(self.has_reasoning)
        return tuple(caveat_messages(whole, GroupCaveats(groups, len(self.names))).values())

    @property
    def texts_digest(self) -> str:
        """Digest of the texts and groups, on which the scores depend. 16 hexadecimal digits."""
        groups = [self.names[group] for group in self.groups.tolist()]
        texts = {"candidates": self.candidates, "references": self.references, "groups": groups}
        return digest_of(to_line(texts), 16)


def _caveats(has_reasoning: BoolArray) -> tuple[Caveat, ...]:
    share = float(has_reasoning.mean()) if len(has_reasoning) else 0.0
    return caveats_of_values(UnknownTokens(), 0, reasoning=share)


def read_judgements(options: TuneOptions, output: str) -> Judgements:
    """Read and check judgements.

    The output folder is never read.

    Raises:
        InputError: A file cannot be read, a column is missing or does not hold what it should, or
            too few rows can be used.
        OSError: A file cannot be reached.
    """
    files = expand_inputs(options.judgements, exclude=output, input_format=options.input_format)
    pieces = [_read(rows, options) for rows in _rows(files, options)]
    joined = {name: list(chain.from_iterable(map(itemgetter(name), pieces))) for name in pieces[0]}
    judgements = _usable(joined, options.lower_is_better)
    _check(judgements, options)
    return judgements


def _rows(files: Sequence[InputFile], options: TuneOptions) -> Iterator[SplitRows]:
    """Read the rows of all files, in order; those of text directly."""
    plan, fields = _plan(files, options), _fields(options)
    wanted = fields.named()
    reader = SplitReader(plan.splits, wanted)
    texts = {text.path: text for text in texts_among(files, wanted, fields.lists)}
    for split in plan.splits:
        if not split.is_estimated:
            yield reader.read(split)
        elif split.row_offset == 0:
            yield read_text(texts[split.path], split)


def _plan(files: Sequence[InputFile], options: TuneOptions) -> Plan:
    plan = plan_inputs(files, fields=_fields(options), target_rows=MOST_SPLIT_ROWS)
    check_all_reached(plan)
    if plan.rejected_files:
        first = plan.rejected_files[0]
        raise InputError(
            f"{len(plan.rejected_files)} of the files with judgements cannot be read: got "
            f"{first.path}: {first.message} Leave it out, or mend it: agreement is computed over "
            "all judgements."
        )
    return plan


def _fields(options: TuneOptions) -> TableFields:
    return TableFields(
        candidate_column=options.candidate_column,
        reference_column=options.reference_column,
        source=options.source_column,
        others=tuple(_columns(options).items()),
    )


def _columns(options: TuneOptions) -> dict[str, str]:
    return {name: option for option, name in options.columns.values() if name is not None}


def _usable(values: Mapping[str, Sequence[Any]], lower_is_better: bool) -> Judgements:
    texts = PairTexts.of(values["candidates"], values["references"], {})
    both = zip(values["bad_lines"], texts.reasons, strict=True)
    reasons = [bad or reason for bad, reason in both]
    for what, lack in _LACKS.items():
        for row, value in enumerate(values.get(what, ())):
            if not _is_there(value):
                reasons[row] = reasons[row] or lack
    rows = np.array([row for row, reason in enumerate(reasons) if reason is None], dtype=np.int64)

    taken = {
        what: np.array([values[what][row] for row in rows]) for what in _LACKS if what in values
    }
    people, groups = taken.get("people"), taken.get("groups", np.full(len(rows), _WHOLE))
    names, numbers = np.unique(groups, return_inverse=True)
    return Judgements(
        candidates=[str(texts.candidates[row]) for row in rows],
        references=[only_strings(texts.references[row]) for row in rows],
        sources=[values["sources"][row] for row in rows] if "sources" in values else [],
        people=-people if people is not None and lower_is_better else people,
        labels=taken.get("labels"),
        names=tuple(map(str, names)),
        groups=numbers.astype(np.int64),
        systems=taken.get("systems"),
        items=taken.get("items"),
        rows=rows,
        left_out=dict(sorted(Counter(reason for reason in reasons if reason).items())),
        has_reasoning=np.array([values["marks"][row] == REASONING for row in rows], np.bool_),
    )


def _check(judgements: Judgements, options: TuneOptions) -> None:
    left_out = "".join(f", {many:,} {why}" for why, many in judgements.left_out.items())
    for group, name in enumerate(judgements.names or (_WHOLE,)):
        own = judgements.of_group(group)
        where = "" if name == _WHOLE else f" in the group {name!r}"
        if len(own) < options.min_rows:
            raise InputError(
                f"too few judgements{where}: got {len(own)} usable rows{left_out}; expected at "
                f"least {options.min_rows}. Check the columns, add rows, lower --min-rows, or "
                "leave the group out of the files."
            )
        columns = {"--score-column": judgements.people, "--label-column": judgements.labels}
        for option, values in columns.items():
            if values is not None and is_constant(values[own], ROUNDING):
                raise InputError(
                    f"the judgements{where} are all the same: got {values[own][0]:g} in "
                    f"{len(own)} rows; expected different ones, since nothing agrees or disagrees "
                    f"with a constant. Check {option}."
                )
        _check_items_and_systems(judgements, own, where, options.statistic)


def _check_items_and_systems(
    judgements: Judgements, own: IntArray, where: str, statistic: str
) -> None:
    if judgements.items is not None:
        items = judgements.items[own]
        if (items == items[0]).all():
            raise InputError(
                f"the judgements{where} are all of one item: got it in {len(own)} rows; expected "
                "several, since errors follow from how items differ. Check --key, or "
                "leave it out."
            )
        check_pairs(items)
    if judgements.systems is not None and statistic.startswith("system_"):
        systems = len(set(judgements.systems[own].tolist()))
        if systems < _LEAST_SYSTEMS:
            raise InputError(
                f"too few systems{where} for {statistic}: got {systems}; expected at least "
                f"{_LEAST_SYSTEMS}. Choose by a statistic of rows, such as pearson."
            )
