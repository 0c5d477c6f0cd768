"""What planning costs for each file: requests, and memory of the launcher. Counts, no clocks."""

import threading
from collections import Counter
from typing import Any

import fsspec
import pytest

from bertscore_beam.dump import Plan, Resources
from tests.support.faults import Faults
from tests.support.hostile import pairs, parquet_bytes
from tests.support.s3 import s3_bucket
from tests.support.tables import plan_pairs

pytestmark = pytest.mark.long

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
        data = parquet_bytes(pairs())
        fsspec.filesystem("s3").pipe({f"{bucket}/dump/{n}.parquet": data for n in range(files)})
        requests = faults[0].watch = Requests(IN_FLIGHT)
        got = plan(f"{bucket}/dump")
        assert len(got.splits) == files
        assert requests.most_at_once == IN_FLIGHT
        assert set(requests.reads.values()) == {1}
        assert len(requests.reads) == files
        assert requests.others.total() <= 5
