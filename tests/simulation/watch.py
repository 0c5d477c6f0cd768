"""Looks at the folder of a simulated run after every change, past all clocks and caches."""

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from io import BytesIO
from typing import Any

import pyarrow.parquet as pq

from bertscore_beam.records.record import RECORD_KEY, PartRecord, record_from_json
from bertscore_beam.run.folder import RUN_FILE, SUCCESS_FILE
from bertscore_beam.run.lock import BEAT_FILE, LOCK_FILE, STALE_SECONDS, START_SECONDS
from tests.simulation.commands import SETTINGS, Command, expected, job_digest, rows_of, signature

_DECIDED = 3.0
"""Seconds between the last look at a heartbeat and the taking over of the lock, at most."""


class Watch:
    """Finds what must never be seen in an output folder.

    Attributes:
        begun: The command of each run that has begun, by the run's name.
        found: What was wrong, each once.
        going: Runs of detached jobs that nothing keeps from writing heartbeats.
    """

    def __init__(
        self,
        files: Callable[[], Mapping[str, bytes]],
        clock: Callable[[], float],
        *,
        is_prompt: bool,
    ) -> None:
        """Begin.

        Args:
            files: Returns the files of the folder.
            clock: Returns the moment.
            is_prompt: Whether nobody stands still between a decision and what comes of it.
        """
        self.begun: dict[str, Command] = {}
        self.found: dict[str, None] = {}
        self.going: set[str] = set()
        self.files = files
        self._clock, self._is_prompt = clock, is_prompt
        self._lock: dict[str, Any] = {}
        self._beats: list[tuple[float, bytes | None]] = []

    def look(self) -> None:
        """Look at the folder once."""
        files = self.files()
        self._look_at_lock(files)
        self.found |= dict.fromkeys(vouching(files))
        name = successful(files)
        if name is not None:
            self.found |= dict.fromkeys(faults(files, self.begun[name]))

    def _look_at_lock(self, files: Mapping[str, bytes]) -> None:
        """Find out whether the lock of a job is taken over that goes on."""
        now, lock, beat = self._clock(), _json(files.get(LOCK_FILE)), beat_of(files)
        if lock != self._lock:
            if lock.get("run") and self._lock.get("run") in self.going:
                self.found["the lock of a job that goes on is taken over"] = None
            before = [one for one in self._beats if one[0] < now - _DECIDED]
            if lock.get("run") and self._lock.get("detached") and before and self._is_prompt:
                moment, last = before[-1]
                if now - moment < (START_SECONDS if last is None else STALE_SECONDS):
                    self.found["a lock is taken over soon after a heartbeat"] = None
            self._lock, self._beats = lock, []
        if beat not in (one[1] for one in self._beats[-1:]):
            self._beats.append((now, beat))


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


def holder_of(files: Mapping[str, bytes]) -> str | None:
    """Return the run that holds the lock; None without a lock."""
    return _json(files[LOCK_FILE])["run"] if LOCK_FILE in files else None


def beat_of(files: Mapping[str, bytes]) -> bytes | None:
    """Return the last heartbeat of the run that holds the lock."""
    name = holder_of(files)
    return None if name is None else files.get(BEAT_FILE + name)


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
