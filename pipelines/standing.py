"""An output folder compared with a plan: what is done, and what prevents the run.

A part counts as done when its record is whole, was made with the same settings from the same rows
of the same version of the file, and the part is there in the size recorded. If only the version
differs, or there is none, the workers compare the rows with the record's digests.
Everything else is done again, which is harmless: a part is a function of its split and the
signature.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pipelines.manifest import PartRecord
from pipelines.planning import Plan
from pipelines.splits import Split


def is_done(
    split: Split,
    record: PartRecord | None,
    job_digest: str,
    idf: str | None,
    part_sizes: Mapping[str, int],
) -> bool:
    """Tell whether the part of a split needs no more work.

    Args:
        split: What is to be done.
        record: What is known of its part.
        job_digest: Digest of the settings the scores should be made with.
        idf: Fingerprint of the idf table they should be weighed with, "" without one; None when
            the table has yet to be counted, so that no earlier score can be known to fit it.
        part_sizes: Sizes in bytes of the parts that are there.
    """
    return (
        record is not None
        and idf is not None
        and record.covers(split)
        and may_hold(split, record, job_digest, idf)
        and part_sizes.get(record.part_name) == record.part_bytes
    )


def may_hold(split: Split, record: PartRecord, job_digest: str, idf: str | None) -> bool:
    """Tell whether the part of a split is valid if its rows are still the same.

    Args:
        split: What is to be done.
        record: What is known of its part.
        job_digest: As for `is_done`.
        idf: As for `is_done`; None leaves the table out of it.
    """
    return (
        (record.part_name, record.num_rows) == (split.part_name, split.num_rows)
        and record.job_digest == job_digest
        and idf in (None, record.idf)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """An output folder compared with a plan.

    Attributes:
        pending: Splits that still have to be scored, in the order of the plan.
        unsure: Splits whose parts are valid if their rows, and the idf table, are still the same.
        done: Records of the others.
        outdated: Parts to be made again that exist or have a record: both must be deleted first, so
            that no old one is left in the end.
        stale: Parts that `stale_parts` tells of.
        orphans: Parts that `orphan_parts` tells of.
    """

    pending: tuple[Split, ...]
    unsure: tuple[Split, ...]
    done: tuple[PartRecord, ...]
    outdated: tuple[str, ...]
    stale: tuple[str, ...]
    orphans: tuple[str, ...]


def standing_of(
    plan: Plan,
    records: Mapping[str, PartRecord],
    part_sizes: Mapping[str, int],
    job_digest: str,
    idf: str | None,
) -> Standing:
    """Tell what is done and what is in the way.

    Args:
        plan: What is to be done.
        records: What is known of the parts, by part name.
        part_sizes: Size in bytes of every part that is there and is ours.
        job_digest: Digest of the settings the scores should be made with.
        idf: Fingerprint of the idf table they should be weighed with, "" without one; None when
            the table has yet to be counted, so that no earlier score can be known to fit it.
    """
    done: list[PartRecord] = []
    unsure: list[Split] = []
    waiting: list[Split] = []
    for split in plan.splits:
        record = records.get(split.part_name)
        whole = record is not None and part_sizes.get(record.part_name) == record.part_bytes
        if record is None or not whole or not may_hold(split, record, job_digest, idf):
            waiting.append(split)
        elif idf is not None and record.is_current(split):
            done.append(record)
        else:
            unsure.append(split)
    names = {split.part_name for split in waiting}
    return Standing(
        pending=tuple(waiting),
        unsure=tuple(unsure),
        done=tuple(done),
        outdated=tuple(sorted(names & (records.keys() | part_sizes.keys()))),
        stale=stale_parts(plan, part_sizes),
        orphans=orphan_parts(plan, part_sizes),
    )


def stale_parts(plan: Plan, part_names: Iterable[str]) -> tuple[str, ...]:
    """Return the parts of inputs of the plan that it cuts elsewhere now: other sizes of splits.

    They hold rows that other parts hold as well, so they must be deleted before a run ends.
    """
    inputs = {split.input_name for split in plan.splits}
    expected = {split.part_name for split in plan.splits}
    strange = (name for name in part_names if name not in expected)
    return tuple(sorted(name for name in strange if input_of(name) in inputs))


def orphan_parts(plan: Plan, part_names: Iterable[str]) -> tuple[str, ...]:
    """Return the parts of inputs that are not in the plan any more: missing, renamed or rejected.

    They are to be reported; whether to keep them is not for a plan to decide.
    """
    inputs = {split.input_name for split in plan.splits}
    return tuple(sorted(name for name in part_names if input_of(name) not in inputs))


def input_of(part_name: str) -> str:
    """Return the name of the input that a part belongs to."""
    return part_name.rpartition("/")[0]
