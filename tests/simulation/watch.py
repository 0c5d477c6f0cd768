"""Looks at the folder of a simulated run after every change, past all clocks and caches."""

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from io import BytesIO
from typing import Any

import pyarrow.parquet as pq

from bertscore_beam.records.record import RECORD_KEY, PartRecord, record_from_json
from bertscore_beam.run.folder import RUN_FILE, SUCCESS_FILE
from bertscore_beam.run.publication import HEAD_FILE
from tests.simulation.commands import SETTINGS, Command, expected, job_digest, rows_of, signature


class Watch:
    """Finds what must never be seen in an output folder.

    Attributes:
        begun: The command of each run that has begun, by the run's name.
        found: What was wrong, each once.
    """

    def __init__(self, files: Callable[[], Mapping[str, bytes]], *, is_guarded: bool) -> None:
        """Begin.

        Args:
            files: Returns the files of the folder.
            is_guarded: Whether nobody comes between a look and a change there.
        """
        self.begun: dict[str, Command] = {}
        self.found: dict[str, None] = {}
        self.files = files
        self._is_guarded = is_guarded
        self._tokens: dict[int, str] = {}
        self._last = 0

    def look(self) -> None:
        """Look at the folder once."""
        files = self.files()
        self.found |= dict.fromkeys(vouching(files))
        name = successful(files)
        if name is not None:
            self.found |= dict.fromkeys(faults(files, self.begun[name]))
        if (head := head_of(files)) is not None and self._is_guarded:
            epoch, token = head["epoch"], head["token"]
            if epoch < self._last or self._tokens.setdefault(epoch, token) != token:
                self.found["an older publication replaces a newer one"] = None
            self._last = epoch


def vouching(files: Mapping[str, bytes]) -> list[str]:
    """Return which records vouch for a part of another setting, or of other rows."""
    found = []
    for name, record in records_of(files).items():
        rows = rows_of(files[name])
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
    present = [row for part in parts.values() for row in part.rows]
    if len(set(present)) < len(present):
        found.append("rows are doubled in a folder that is a success")
    if rows - set(present):
        found.append("rows are missing in a folder that is a success")
    if set(present) - rows:
        found.append("rows of another input are in a folder that is a success")
    return found


def is_part(name: str) -> bool:
    """Tell whether every reader of the folder takes a file for a part."""
    return name.endswith(".parquet") and not any(
        part.startswith(("_", ".")) for part in name.split("/")
    )


def successful(files: Mapping[str, bytes]) -> str | None:
    """Return the run that the marker names."""
    return _json(files.get(SUCCESS_FILE)).get("token")


def run_of(files: Mapping[str, bytes]) -> str | None:
    """Return the run that the folder says it belongs to."""
    return _json(files.get(RUN_FILE)).get("run")


def head_of(files: Mapping[str, bytes]) -> dict[str, Any] | None:
    """Return the head of the publications; None without one."""
    return json.loads(files[HEAD_FILE]) if HEAD_FILE in files else None


def records_of(files: Mapping[str, bytes]) -> dict[str, PartRecord]:
    """Return the records of the parts of a folder, by part name."""
    parts = {name: _record(data) for name, data in files.items() if is_part(name)}
    return {name: record for name, record in parts.items() if record is not None}


@lru_cache(maxsize=10_000)
def _record(data: bytes) -> PartRecord | None:
    return record_from_json(pq.read_metadata(BytesIO(data)).metadata[RECORD_KEY])


def _json(data: bytes | None) -> dict[str, Any]:
    return {} if data is None else json.loads(data)


def _setting_of(digest: str) -> str:
    return {job_digest(layers): signature(layers) for layers in SETTINGS}[digest]
