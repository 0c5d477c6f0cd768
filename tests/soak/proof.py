"""What must be true of a finished output: the dump's rows, and an undisturbed run's bytes."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.records import IDF_FILE, PACKS_FOLDER, REJECTS_FOLDER
from bertscore_beam.run import SUCCESS_FILE, SUMMARY_FILE
from bertscore_beam.score import PLANS_FOLDER
from tests.soak.stages import part_names
from tests.soak.stores import Store

_SUMMED = ("rows", "scored", "reasons", "success", "complete")
_MEANS = ("precision", "recall", "f1")
_MOST_PACKS = 3
"""A run that was resumed has its records in up to two packs of earlier tries, and in its own."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An output folder, read.

    Attributes:
        names: All its files, hidden ones included. Those whose names differ from run to run are
            counted, folder by folder.
        contents: Parts, idf table, lists of rejects: what must be the same bytes every time.
        summary: The summary.
    """

    names: frozenset[str]
    contents: Mapping[str, bytes]
    summary: Mapping[str, object]

    @classmethod
    def take(cls, store: Store, output: str) -> "Snapshot":
        """Read an output."""
        names = store.versions(output)
        kept = part_names(names)
        kept += [name for name in names if name == IDF_FILE or name.startswith(REJECTS_FOLDER)]
        summary = store.read(output, SUMMARY_FILE) if SUMMARY_FILE in names else b"{}"
        return cls(
            _comparable(names),
            {name: store.read(output, name) for name in kept},
            json.loads(summary),
        )


def _comparable(names: Iterable[str]) -> frozenset[str]:
    """Number the files that are named by where the output is, or by how often it was tried."""
    found = set(names)
    plans = [name for name in found if name.startswith(f"{PLANS_FOLDER}/")]
    found = found.difference(plans).union(f"{PLANS_FOLDER}/{n + 1}" for n in range(len(plans)))
    packs = [name for name in found if name.startswith(f"{PACKS_FOLDER}/")]
    if 0 < len(packs) <= _MOST_PACKS:
        found = found.difference(packs).union([PACKS_FOLDER])
    return frozenset(found)


@dataclass
class Verdict:
    """How an output differs from what it should be.

    Attributes:
        lost: Rows that are not there.
        doubled: Rows that are there more than once.
        changed: Rows with other values or in another place.
        violations: Everything that is wrong, in words.
    """

    lost: int = 0
    doubled: int = 0
    changed: int = 0
    violations: list[str] = field(default_factory=list)


def judge(found: Snapshot, expected: Snapshot, dump: Mapping[str, pa.Table]) -> Verdict:
    """Compare an output with an undisturbed one and with the dump.

    Args:
        found: The output.
        expected: That of a run that nothing befell.
        dump: The input tables by file name.
    """
    verdict = Verdict()
    if SUCCESS_FILE not in found.names:
        verdict.violations.append("there is no _SUCCESS")
    for names, words in (
        (found.names - expected.names, "files that should not be there"),
        (expected.names - found.names, "files that are missing"),
    ):
        if names:
            verdict.violations.append(f"{words}: {sorted(names)[:5]} ({len(names)})")
    for name in sorted(found.contents.keys() & expected.contents.keys()):
        if found.contents[name] != expected.contents[name]:
            verdict.violations.append(f"other bytes in {name}")
    for key in (*_SUMMED, *_MEANS):
        ours, theirs = found.summary.get(key), expected.summary.get(key)
        if not _same_number(ours, theirs):
            verdict.violations.append(f"summary: {key} is {ours!r}; expected {theirs!r}")
    _compare_rows(found, expected, dump, verdict)
    return verdict


def _same_number(ours: object, theirs: object) -> bool:
    """Compare; the parts' sums may have been added up in another order."""
    if isinstance(ours, float) and isinstance(theirs, float):
        return math.isclose(ours, theirs, rel_tol=1e-12)
    return ours == theirs


def _compare_rows(
    found: Snapshot, expected: Snapshot, dump: Mapping[str, pa.Table], verdict: Verdict
) -> None:
    """Count rows lost, doubled and changed, file by file of the dump."""
    for file, given in dump.items():
        ours, theirs = (_rows_of(file, snapshot) for snapshot in (found, expected))
        ids = [] if ours is None else ours["id"].to_pylist()
        wanted = given["id"].to_pylist()
        lost, doubled = len(set(wanted) - set(ids)), len(ids) - len(set(ids))
        verdict.lost += lost
        verdict.doubled += doubled
        if lost or doubled:
            verdict.violations.append(f"{file}: {lost} rows lost, {doubled} doubled")
        elif ids != wanted or not ours.select(given.column_names).equals(given):
            verdict.changed += sum(mine != its for mine, its in zip(ids, wanted, strict=True)) or 1
            verdict.violations.append(f"{file}: rows are in another order or have other values")
        elif not ours.equals(theirs):
            verdict.changed += _rows_that_differ(ours, theirs)
            verdict.violations.append(f"{file}: scores differ")


def _rows_of(file: str, snapshot: Snapshot) -> pa.Table | None:
    """Read all parts of a file of the dump, in order."""
    parts = [name for name in sorted(snapshot.contents) if name.startswith(f"{file}/part-")]
    if not parts:
        return None
    return pa.concat_tables(
        [pq.ParquetFile(pa.BufferReader(snapshot.contents[name])).read() for name in parts]
    )


def _rows_that_differ(ours: pa.Table, theirs: pa.Table) -> int:
    return sum(not ours.slice(row, 1).equals(theirs.slice(row, 1)) for row in range(ours.num_rows))
