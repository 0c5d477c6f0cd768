"""Compare an output folder with a plan: which parts are done, stale, missing or reusable.

A part is done if its record is of the same settings and of the same rows of the same version of the
file, and the manifest lists it as it is. If it is staged, or has changed since, the workers read it
to its end. If the version of the file differs, or is unknown, the split is scored again, and its
rows take the scores that earlier parts have of them. A part is a function of its split and the
signature.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bertscore_beam.dump.columns import TableFields
from bertscore_beam.dump.plan import Plan
from bertscore_beam.dump.splits import Split
from bertscore_beam.records.record import PartRecord
from bertscore_beam.records.records import FoundParts, made_of
from bertscore_beam.records.settings import SettingsByLanguage
from bertscore_beam.records.summary import Totals
from bertscore_core.errors import SignatureError


def may_be_valid(
    split: Split, record: PartRecord, job_digest: str, idf: str | None, labels: Mapping[str, str]
) -> bool:
    """Tell whether the part of a split is valid if its rows are still the same.

    Args:
        split: The split.
        record: The record of its part.
        job_digest: Digest of the run's identity.
        idf: Fingerprint of the run's idf table, "" without one; None before the table is counted,
            which leaves it out of the comparison.
        labels: Label of the setting of each language; empty if all rows are scored alike.
    """
    return (
        record.part_name == split.part_name
        and split.num_rows in (None, record.rows_read)
        and record.job_digest == job_digest
        and idf in (None, record.idf)
        and all(labels.get(name, "") == rows.label for name, rows in record.languages.items())
    )


_DONE, _UNSURE, _PENDING = range(3)


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderDiff:
    """An output folder compared with a plan.

    Attributes:
        pending: Splits to score, in the order of the plan.
        unsure: Splits whose parts are staged, or are valid if they are whole, and their rows, and
            the idf table, are still the same.
        work: Both, in the order of the plan: at the end of a run the splits without a valid part.
        carried: Totals of the parts that are done; of none at the end of a run.
        stale: Parts of the plan's inputs that match none of its splits, cut by other sizes.
        orphans: Parts of inputs that are not in the plan: missing, renamed or rejected. They stay:
            a plan cannot decide whether to keep them.
        rows_at_risk: Rows of the parts that are replaced, or compared with the input: at the end of
            a run those that remain since their splits could not be scored.
    """

    pending: tuple[Split, ...]
    unsure: tuple[Split, ...]
    work: tuple[Split, ...]
    done: tuple[Split, ...]
    carried: Totals
    stale: tuple[str, ...]
    orphans: tuple[str, ...]
    rows_at_risk: int


def compare_with_plan(
    plan: Plan,
    found: FoundParts,
    job_digest: str,
    idf: str | None,
    labels: Mapping[str, str],
    *,
    staged: Collection[str] = (),
    at_end: bool = False,
) -> FolderDiff:
    """Compare an output folder with a plan.

    Args:
        plan: The plan.
        found: The parts of the folder.
        job_digest: Digest of the run's identity.
        idf: Fingerprint of the run's idf table, "" without one; None before the table is counted,
            when no earlier part is known to fit it.
        labels: As for `may_be_valid`.
        staged: What staged parts are made of.
        at_end: Whether the run has just read the rows and the parts: an unknown version of a file
            is no longer a doubt.
    """
    splits, left = plan.splits, dict(found.records)
    carried, rows_at_risk = Totals(), 0
    states = [_PENDING] * len(splits)
    for place, split in enumerate(splits):
        record = left.pop(split.part_name, None)
        if record is not None and may_be_valid(split, record, job_digest, idf, labels):
            is_sure = idf is not None and (split.part_name not in found.unverified or at_end)
            is_same = record.covers(split) if at_end else record.is_current(split)
            states[place] = _DONE if is_sure and is_same else _UNSURE
        elif (
            staged
            and idf is not None
            and split.file_version
            and made_of(split, job_digest, idf, labels, None) in staged
        ):
            states[place] = _UNSURE
        if record is not None and states[place] == _DONE:
            if not at_end:
                carried += Totals.of_record(record)
        elif record is not None:
            rows_at_risk += record.num_rows
    inputs = {split.input_name for split in splits} if left else set()
    stale = tuple(sorted(name for name in left if input_of(name) in inputs))
    pending, unsure, work, done = (
        tuple(split for split, state in zip(splits, states, strict=True) if state in chosen)
        for chosen in ([_PENDING], [_UNSURE], [_PENDING, _UNSURE], [_DONE])
    )
    return FolderDiff(
        pending=pending,
        unsure=unsure,
        work=work,
        done=done,
        carried=carried,
        stale=stale,
        orphans=tuple(sorted(left.keys() - {*stale})),
        rows_at_risk=rows_at_risk + (0 if at_end else sum(left[name].num_rows for name in stale)),
    )


def input_of(part_name: str) -> str:
    """Return the name of the input that a part belongs to."""
    return part_name.rpartition("/")[0]


def job_identity(settings: SettingsByLanguage, fields: TableFields, idf: str) -> dict[str, str]:
    """Return everything that must be equal for two runs to share an output folder.

    In a run with a column of languages that is also the setting of each language that both runs
    have; see `language_identity`.
    """
    chosen = {"candidate_columns": fields.several, "idf_key": fields.key, "idf_group": fields.group}
    by_column = {
        "candidate_column": str(fields.candidate_column),
        "reference_column": str(fields.candidate_column)
        if fields.compares_samples
        else fields.reference_column,
        **{name: json.dumps(names) for name, names in chosen.items() if names},
    }
    if fields.strip_reasoning:  # with one signature for all rows, a field of it
        by_column["reasoning"] = "stripped"
    if settings.sole is None:
        return {**by_column, "language_column": fields.language or "", "idf": idf}
    return {**settings.sole.signature.fields(), **by_column}


_LANGUAGE = "language "


def language_identity(settings: SettingsByLanguage) -> dict[str, str]:
    """Return the signature of each language, under a name of its own; empty without languages.

    They are not part of the digest in the records: a part depends only on the languages in it, and
    its record has their labels. So a language that is added later leaves earlier parts valid.
    """
    if not settings.by_column:
        return {}
    return {
        f"{_LANGUAGE}{language}": setting.signature.format()
        for language, setting in sorted(settings.by_language.items())
    }


def with_known_languages(
    identity: Mapping[str, str], previous_run: Mapping[str, Any] | None
) -> dict[str, str]:
    """Return the identity of a run, with the languages that only earlier runs of the folder had.

    They stay in the folder's record, so that a language that comes back with another setting is
    noticed.
    """
    before = (previous_run or {}).get("identity")
    known = before if isinstance(before, dict) and "language_column" in identity else {}
    return {name: text for name, text in known.items() if name.startswith(_LANGUAGE)} | dict(
        identity
    )


def comparable(
    previous_run: Mapping[str, Any] | None, identity: Mapping[str, str], *, sketched: bool = False
) -> Mapping[str, Any] | None:
    """Return an earlier run with the languages of this run: those that it lacks as they are now.

    Of a sketched plan, the corpus counts as that of the earlier run: its rows are not known yet.
    """
    before = (previous_run or {}).get("identity")
    if previous_run is None or not isinstance(before, dict):
        return previous_run
    both = (str(compared.get("idf")) for compared in (before, identity))
    if sketched and all(idf.startswith("corpus@") for idf in both):
        before = {**before, "idf": identity["idf"]}
    if "language_column" not in before:
        return {**previous_run, "identity": before}
    added = {name: text for name, text in identity.items() if name.startswith(_LANGUAGE)}
    return {**previous_run, "identity": {**added, **before}}


def check_same_job(records: Iterable[PartRecord], job_digest: str) -> None:
    """Check that all parts were made with the settings of this run, if `_run.json` is missing.

    Raises:
        SignatureError: A part was made with other settings.
    """
    other = [record.part_name for record in records if record.job_digest != job_digest]
    if other:
        raise SignatureError(
            f"the output folder holds scores made with other settings: got {len(other)} such "
            f"parts, as {other[0]!r}; expected none. Choose another --output, or use --overwrite "
            "to replace them."
        )
