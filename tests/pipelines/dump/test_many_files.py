"""What planning costs for each file: requests, and memory of the launcher. Counts, no clocks."""

import threading
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bertscore_beam.dump import Plan, Resources, plan_from_bytes, plan_to_bytes
from tests.support.dumps import write_small_files
from tests.support.faults import Faults
from tests.support.s3 import s3_bucket
from tests.support.tables import plan_pairs

pytestmark = pytest.mark.long

FILES = 2000
IN_FLIGHT = 40
"""More than the connections that the S3 client makes by default."""


class Requests:
    """Counts the requests of a server, and holds the first reads back until many have arrived."""

    def __init__(self, together: int) -> None:
        self.reads: Counter[str] = Counter()
        self.others: Counter[str] = Counter()
        self.most_at_once = 0
        self._waiting = 0
        self._together = together
        self._changed = threading.Condition()

    def __call__(self, environ: dict[str, Any]) -> None:
        path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
        with self._changed:
            if method != "GET" or not path.endswith(".parquet"):
                self.others[method] += 1
                return
            self.reads[path] += 1
            self._waiting += 1
            self.most_at_once = max(self.most_at_once, self._waiting)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self.most_at_once >= self._together, timeout=60)
            self._waiting -= 1


def plan(dump: str) -> Plan:
    resources = Resources(workers=2, files_in_flight=IN_FLIGHT)
    return plan_pairs(dump, rows=None, resources=resources)


@pytest.mark.process
def test_a_file_in_a_store_is_one_request_and_as_many_are_under_way_as_asked_for():
    faults: list[Faults] = []
    files = 300
    with s3_bucket(faults) as bucket:
        write_small_files(f"{bucket}/dump", files)
        requests = faults[0].watch = Requests(IN_FLIGHT)
        got = plan(f"{bucket}/dump")
        assert len(got.splits) == files
        assert requests.most_at_once == IN_FLIGHT
        assert set(requests.reads.values()) == {1}
        assert len(requests.reads) == files
        assert requests.others.total() <= 5


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with many files."""
    folder = tmp_path_factory.mktemp("many")
    write_small_files(str(folder), FILES)
    return folder


def test_the_launcher_holds_little_of_each_file(dump):
    plan(str(dump / "000000"))  # imports and tables that are made once
    tracemalloc.start()
    try:
        got = plan(str(dump))
        held, most = tracemalloc.get_traced_memory()
        data = plan_to_bytes(got)
        del got
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        again = plan_from_bytes(data, "plan")
        held_again, most_again = (size - before for size in tracemalloc.get_traced_memory())
    finally:
        tracemalloc.stop()
    assert len(again.splits) == FILES
    assert held / FILES < 1000
    assert most / FILES < 2400
    assert held_again / FILES < 1000
    assert most_again / FILES < 1000
