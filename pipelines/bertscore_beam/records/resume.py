"""Compare an output folder with a plan: which splits are done, and which are to do.

A split is done if its part is of the same settings and of the same rows of the same version of the
file, and the manifest lists it as it is. All else is to do, and left to the workers: they read a
part that is staged, or has changed since, to its end, and take it if it is whole and valid.
Otherwise the split is scored, and its rows take the scores that earlier parts have of them. A part
is a function of its split and the signature.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bertscore_beam.dump.columns import TableFields
from bertscore_beam.dump.plan import Plan
from bertscore_beam.dump.splits import Split
from bertscore_beam.records.record import PartRecord
from bertscore_beam.records.records import FoundParts
from bertscore_beam.records.settings import SettingsByLanguage
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
        and split.num_rows == record.rows_read
        and record.job_digest == job_digest
        and idf in (None, record.idf)
        and all(labels.get(name, "") == rows.label for name, rows in record.languages.items())
    )


@dataclass(frozen=True, slots=True)
class FolderDiff:
    """An output folder compared with a plan.

    Attributes:
        found: The parts of the folder.
        done: Splits whose parts are there, in the order of the plan.
        to_do: The others. Their workers take what is staged of them, or still valid.
        left: Parts of inputs that are not in the plan: missing, renamed or rejected. Nearly all
            stay: a plan cannot decide whether to keep them. Of the other parts that are of no
            split, cut by other sizes, nothing stays but the scores that rows take from them.
    """

    plan: Plan
    found: FoundParts
    done: tuple[Split, ...]
    to_do: tuple[Split, ...]
    left: tuple[str, ...]

    def stay(self, tables: tuple[str, ...]) -> list[str]:
        """Return those of `left` that stay: all but those of files that have left Delta tables.

        `tables`: how the names of inputs begin that earlier runs have read as files of tables.
        """
        known = {file.input_name for file in self.plan.rejected_files}
        return [
            name
            for name in self.left
            if not (self.plan.is_whole and name.startswith(tables)) or input_of(name) in known
        ]

    def records(self) -> Iterator[PartRecord]:
        """Yield the records of the parts that are done."""
        return (self.found.records[split.part_name] for split in self.done)


def compare_with_plan(
    plan: Plan,
    found: FoundParts,
    job_digest: str,
    idf: str | None,
    labels: Mapping[str, str],
    made: Collection[str] = (),
) -> FolderDiff:
    """Compare an output folder with a plan.

    Args:
        plan: The plan.
        found: The parts of the folder.
        job_digest: Digest of the run's identity.
        idf: Fingerprint of the run's idf table, "" without one; None before the table is counted,
            when no part is known to fit it.
        labels: As for `may_be_valid`.
        made: The parts that workers of this run have made, or read and kept.
    """

    def is_done(split: Split) -> bool:
        name = split.part_name
        record = found.records.get(name)
        if name in made or record is None:
            return name in made
        return (
            idf is not None
            and name not in found.unverified
            and record.is_current(split)
            and may_be_valid(split, record, job_digest, idf, labels)
        )

    done: list[Split] = []
    to_do: list[Split] = []
    for split in plan.splits:
        (done if is_done(split) else to_do).append(split)
    inputs = {split.input_name for split in plan.splits}
    left = (name for name in found.records if input_of(name) not in inputs)
    return FolderDiff(plan, found, tuple(done), tuple(to_do), tuple(sorted(left)))


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


CORPUS = "corpus"
"""Begins the name of idf tables that are counted. It is all of it before the rows are known."""
_CORPUS = re.compile(rf"(^|\|idf:){CORPUS}@\w+")


def with_languages_of_both(
    previous_run: Mapping[str, Any] | None, identity: Mapping[str, str]
) -> tuple[Mapping[str, Any] | None, dict[str, str]]:
    """Return an earlier run and the identity of this one, each with the languages of both.

    Languages that only earlier runs of the folder had stay in its record, so that one that comes
    back with another setting is noticed. A corpus whose rows are not known yet counts as that of
    the earlier run.
    """
    now, before = dict(identity), (previous_run or {}).get("identity")
    if previous_run is None or not isinstance(before, dict):
        return previous_run, now
    earlier = {name: text for name, text in before.items() if name.startswith(_LANGUAGE)}
    if "language_column" in now:
        now = earlier | now
    if now["idf"] == CORPUS:
        named = before.keys() & {"idf", *earlier}
        texts = {name: _CORPUS.sub(rf"\1{CORPUS}", str(before[name])) for name in named}
        before = before | {name: text for name, text in texts.items() if text == now.get(name)}
    if "language_column" in before:
        before = {name: now[name] for name in now if name.startswith(_LANGUAGE)} | before
    return {**previous_run, "identity": before}, now


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
