"""How many requests a run takes of an object store, counted at the server."""

import re
from collections import Counter

import fsspec
import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.publication import read_head
from tests.support.cloud_storage import cloud_storage
from tests.support.dumps import write_dump
from tests.support.faults import Faults
from tests.support.s3 import s3_bucket

pytestmark = [pytest.mark.job, pytest.mark.process]

FILES = 30
OF_A_RUN = 90
"""Requests that a run takes whatever the number of its splits, at most."""
LOCK = ("GET lock", "PUT lock")
"""Those that depend on how long it takes: looks at the lock and heartbeats."""


class Store:
    """A bucket with a dump of files of two rows, and the requests that it gets."""

    def __init__(self, url, faults, dump):
        self.input, self.output = f"{url}/in", f"{url}/out"
        self._faults = faults
        fsspec.filesystem("s3").put(f"{dump}/", f"{self.input}/", recursive=True)

    def requests(self, *words, status=cli.DONE):
        """Run a command; return its requests, by what they are about."""
        self._faults.requests = found = []
        assert cli.main([*map(str, words)]) == status
        self._faults.requests = None
        return Counter(f"{method} {_kind(path)}" for method, path in found)


def _kind(path):
    """Return what an object is: an input, a part, a record, or anything else of the run."""
    _, _, below = path.lstrip("/").partition("/")
    return _kind_below(below)


def _kind_below(below):
    for kind, is_one in {
        "lock": below.endswith("/lock.json") or "_manifest/beat-" in below,
        "input": below.startswith("in/"),
        "staged": re.search(r"_work/[0-9a-f]{32}/", below) is not None,
        "part": "part-" in below,
    }.items():
        if is_one and not below.endswith("/"):
            return kind
    return "run"


@pytest.mark.long
def test_requests_of_a_split_and_of_a_finished_run(tmp_path, tiny_folder):
    dump = write_dump(tmp_path / "dump", [2] * FILES)
    disturbed: list[Faults] = []
    with s3_bucket(disturbed) as url:
        store = Store(url, disturbed[0], dump)
        score = ("score", "--input", store.input, "--output", store.output, "--device", "cpu")
        score += ("--model", tiny_folder("bert"), "--num-layers", 2, "--quiet")
        fresh = store.requests(*score)
        assert fresh["GET input"] == 2 * FILES  # to plan it, and to read its rows
        # Before a part is staged, its folder is listed; then it is copied, and all that are staged
        # are deleted together.
        assert [fresh[kind] for kind in ("PUT staged", "PUT part")] == [FILES] * 2
        assert fresh["GET part"] == fresh["GET staged"] == 0
        timed = sum(fresh[kind] for kind in LOCK)
        assert fresh.total() - timed - FILES <= 4 * FILES + OF_A_RUN
        for words in (score, (*score, "--dry-run")):
            again = store.requests(*words)
            assert {kind.split()[1] for kind in again} <= {"run", "lock"}
            assert again.total() - sum(again[kind] for kind in LOCK) <= OF_A_RUN
        grouped = store.requests("groups", store.output, "--by", "candidate")
        assert grouped["GET part"] == FILES + 1  # its rows; the first one also for its columns
        assert grouped.total() - FILES <= OF_A_RUN
        folder = OutputFolder(store.output)
        assert len(read_head(folder).shards) == 1


@pytest.mark.long
def test_requests_of_a_split_and_of_a_finished_run_in_cloud_storage(tmp_path, tiny_folder):
    dump = write_dump(tmp_path / "dump", [2] * FILES)
    with cloud_storage("bucket") as (store, _):
        for path in dump.iterdir():
            store.put("bucket", f"in/{path.name}", path.read_bytes())

        def requests(*words):
            store.requests = found = []
            assert cli.main([*map(str, words)]) == cli.DONE
            store.requests = None
            return Counter(f"{what} {_kind_below(name.rstrip('/'))}" for what, name in found)

        score = ("score", "--input", "gs://bucket/in", "--output", "gs://bucket/out")
        score += ("--device", "cpu", "--model", tiny_folder("bert"), "--num-layers", 2, "--quiet")
        fresh = requests(*score)
        assert [fresh[kind] for kind in ("write staged", "copy staged")] == [FILES] * 2
        of_input = {kind: count for kind, count in fresh.items() if kind.endswith(" input")}
        assert of_input == {"read input": 2 * FILES}  # to plan a file, and to read its rows
        timed = sum(count for kind, count in fresh.items() if kind.endswith(" lock"))
        assert fresh.total() - timed - FILES <= 5 * FILES + OF_A_RUN
        finished = requests(*score)
        assert {kind.split()[1] for kind in finished} <= {"run", "lock"}
        assert finished.total() <= OF_A_RUN + 10
