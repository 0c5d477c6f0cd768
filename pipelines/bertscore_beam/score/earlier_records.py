"""Single records that are there when a split is begun: of earlier runs, and of earlier tries."""

import threading
import time
from functools import cached_property

from bertscore_beam.files.paths import is_remote
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.score.part_record import PARTS_FOLDER, PartRecord, record_name
from bertscore_beam.score.records import read_record

LISTED_SECONDS = 60.0
"""How long a listing of an object store counts, at least."""

_TIMES_AS_LONG = 100
"""It counts so many times as long as it took: the folder may hold a record for each of a million
splits."""


class EarlierRecords:
    """Finds the records of parts, with few requests for those that are not there.

    Nearly no split has one, and on an object store the answer that a file is missing takes a
    request. So the folder is listed there, now and then. What another try has written since then is
    seen only if it is asked for: otherwise its split is scored again, and the same part is written.
    """

    def __init__(self, folder: OutputFolder) -> None:
        """Keep the folder; it is looked at when a record is asked for."""
        self._folder = folder
        self._names: frozenset[str] = frozenset()
        self._until: float | None = None
        self._lock = threading.Lock()  # threads share what is found

    def find(self, part_name: str, *, is_likely: bool = False) -> PartRecord | None:
        """Return the record of a part; None if there is none, or it is damaged.

        Args:
            part_name: The part.
            is_likely: Whether to ask for the record itself: another try may just have written it.
        """
        if not is_likely and self._is_remote and record_name(part_name) not in self._listed():
            return None
        return read_record(self._folder, part_name)

    @cached_property
    def _is_remote(self) -> bool:
        # Not sooner: a job is also built where the store cannot be reached.
        return is_remote(self._folder.root)

    def _listed(self) -> frozenset[str]:
        with self._lock:
            began = time.monotonic()
            if self._until is None or began > self._until:
                self._names = frozenset(self._folder.files(PARTS_FOLDER))
                took = time.monotonic() - began
                self._until = began + max(LISTED_SECONDS, _TIMES_AS_LONG * took)
            return self._names
