"""Looks at the folder of a simulated run after every change, past all clocks and caches."""

import gzip
import json
from collections.abc import Callable, Mapping
from functools import lru_cache

from bertscore_beam.run.folder import RUN_FILE, SUCCESS_FILE
from bertscore_beam.run.lock import LOCK_FILE
from bertscore_beam.score.part_record import PARTS_FOLDER, PartRecord, record_from_json
from bertscore_beam.score.record_packs import PACKS_FOLDER
from tests.simulation.commands import (
    SETTINGS,
    Command,
    expected,
    job_digest,
    rows_of,
    signature,
)


class Watch:
    """Finds what must never be seen in an output folder.

    Attributes:
        begun: The command of each run that has begun, by the run's name.
        found: What was wrong, each once.
    """

    def __init__(self, files: Callable[[], Mapping[str, bytes]]) -> None:
        self.begun: dict[str, Command] = {}
        self.found: dict[str, None] = {}
        self.files = files

    def look(self) -> None:
        """Look at the folder once."""
        files = self.files()
        self.found |= dict.fromkeys(vouching(files))
        run = successful(files)
        if run is not None:
            self.found |= dict.fromkeys(faults(files, self.begun[run]))


def vouching(files: Mapping[str, bytes]) -> list[str]:
    """Return which records vouch for a part of another setting, or of other rows, by its size."""
    found = []
    for name, record in records_of(files).items():
        part = files.get(name)
        if part is None or len(part) != record.part_bytes:
            continue
        rows = rows_of(part)
        if rows.setting != _setting_of(record.job_digest):
            found.append(f"{name}: a record of another setting vouches for it")
        elif rows.digests != record.digests:
            found.append(f"{name}: a record of other rows vouches for it")
    return found


def faults(files: Mapping[str, bytes], command: Command) -> list[str]:
    """Return what keeps a folder from being the whole result of a command."""
    setting, rows = expected(command)
    parts = {name: rows_of(data) for name, data in files.items() if is_part(name)}
    found = [
        f"{name}: made with other settings than the run that succeeded"
        for name, part in parts.items()
        if part.setting != setting
    ]
    there = [row for part in parts.values() for row in part.rows]
    if len(set(there)) < len(there):
        found.append("rows are doubled in a folder that is a success")
    if rows - set(there):
        found.append("rows are missing in a folder that is a success")
    if set(there) - rows:
        found.append("rows of another input are in a folder that is a success")
    return found


def is_part(name: str) -> bool:
    """Tell whether every reader of the folder takes a file for a part."""
    return name.endswith(".parquet") and not any(
        one.startswith(("_", ".")) for one in name.split("/")
    )


def successful(files: Mapping[str, bytes]) -> str | None:
    """Return the run that a valid marker names."""
    marker, run = (_json(files.get(name)).get("run") for name in (SUCCESS_FILE, RUN_FILE))
    return run if run is not None and marker == run else None


def run_of(files: Mapping[str, bytes]) -> str | None:
    """Return the run that the folder says it belongs to."""
    return _json(files.get(RUN_FILE)).get("run")


def holder_of(files: Mapping[str, bytes]) -> str | None:
    """Return the run that holds the lock; None without a lock."""
    return _json(files[LOCK_FILE])["run"] if LOCK_FILE in files else None


def records_of(files: Mapping[str, bytes]) -> dict[str, PartRecord]:
    """Return the records that count: a single one, or that of the latest pack."""
    found = {}
    for name in sorted(name for name in files if name.startswith(PACKS_FOLDER)):
        found |= {record.part_name: record for record in _packed(files[name])}
    for name, data in files.items():
        if name.startswith(PARTS_FOLDER) and (record := _record(data)) is not None:
            found[record.part_name] = record
    return found


@lru_cache(maxsize=10_000)
def _packed(data: bytes) -> tuple[PartRecord, ...]:
    lines = gzip.decompress(data).splitlines()
    return tuple(record for line in lines if (record := _record(line)) is not None)


@lru_cache(maxsize=10_000)
def _record(data: bytes) -> PartRecord | None:
    return record_from_json(data)


def _json(data: bytes | None) -> dict[str, str]:
    return {} if data is None else json.loads(data)


def _setting_of(digest: str) -> str:
    return {job_digest(one): signature(one) for one in SETTINGS}[digest]
