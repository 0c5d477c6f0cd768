"""What planning and reading remote files costs: requests, and bytes. Counts, no clocks."""

import importlib
import io
import threading
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from bertscore_beam.dump import parquet, parquet_rows
from bertscore_beam.dump.columns import TableFields
from bertscore_beam.dump.inputs import expand_inputs
from bertscore_beam.dump.parquet import write_part
from bertscore_beam.dump.plan import Resources, plan_inputs
from bertscore_beam.dump.read_rows import read_split
from bertscore_beam.dump.text.text_source import open_text
from bertscore_beam.files.find import file_version
from bertscore_beam.files.paths import FILES_IN_FLIGHT
from bertscore_beam.files.read import open_source
from bertscore_beam.files.write import write_atomically
from bertscore_core.errors import InputError
from tests.pipelines.dump.text.convert import text_file
from tests.support.cloud_storage import gcs_bucket
from tests.support.faults import Faults
from tests.support.hostile import pairs, parquet_bytes
from tests.support.s3 import over_http, s3_bucket
from tests.support.tables import PAIRS, every_type, plan, plan_pairs


@pytest.mark.parametrize(
    "scheme", ["memory", *(pytest.param(one, marks=pytest.mark.process) for one in ("s3", "http"))]
)
def test_splits_are_read_from_memory_from_a_store_and_over_http(scheme):
    table = every_type()
    with nullcontext("memory://in") if scheme == "memory" else s3_bucket() as folder:
        path = f"{folder}/a b.parquet"
        write_atomically(path, write_part(table))
        splits = plan(over_http(path) if scheme == "http" else path, 20)
        got = pa.concat_tables([read_split(split) for split in splits])
    assert repr(got.to_pylist()) == repr(table.to_pylist())


@pytest.mark.process
def test_no_more_is_fetched_from_an_object_store_than_is_wanted(monkeypatch):
    for module in (parquet, parquet_rows):
        monkeypatch.setattr(module, "BUFFER_BYTES", 1000)
    fetched: list[int] = []
    file_type = importlib.import_module("s3fs.core").S3File
    fetch = file_type._fetch_range

    def counted(file: object, start: int, end: int) -> object:
        fetched.append(end - start)
        return fetch(file, start, end)

    monkeypatch.setattr(file_type, "_fetch_range", counted)
    table = pa.table({"text": [f"{i * 7919 % 10**8:08d}" * 4 for i in range(40_000)]})
    sink = pa.BufferOutputStream()
    pq.write_table(
        table, sink, 10_000, compression="none", use_dictionary=False, data_page_size=4_000
    )
    data = bytes(sink.getvalue())
    with s3_bucket() as bucket:
        path = f"{bucket}/big.parquet"
        write_atomically(path, data)
        # The footer, a look at the first rows of each row group (37 kB), and the rows.
        for rows, most in ((40_000, 1.2), (10_000, 0.35), (100, 0.2)):
            first = plan(path, rows)[0]
            fetched.clear()
            assert read_split(first).num_rows == rows
            assert sum(fetched) < most * len(data)


@pytest.mark.process
@pytest.mark.parametrize("store", [s3_bucket, gcs_bucket])
def test_a_small_file_is_read_with_one_request_and_a_changed_one_is_told(store):
    disturbed: list[Faults] = []
    with store(disturbed) as bucket:
        path = f"{bucket}/pairs.parquet"
        write_atomically(path, content(["a", "b", "c"]))
        (split,) = plan_pairs(path, rows=20).splits
        disturbed[0].requests = found = []
        assert read_split(split)["candidate"].to_pylist() == ["a", "b", "c"]
        assert [method for method, _ in found] == ["GET"]
        write_atomically(path, content(["a", "b", "d"]))  # of the same size
        with pytest.raises(InputError, match="has changed since it was planned"):
            read_split(split)
        with pytest.raises(FileNotFoundError, match=r"made\.parquet"):
            read_split(replace(split, data=f"{bucket}/made.parquet"))  # not the input's fault
        fsspec.filesystem(bucket.partition(":")[0]).rm(path)
        with pytest.raises(FileNotFoundError):
            read_split(split)


@pytest.mark.process
def test_an_object_that_changes_after_it_was_found_is_told_by_its_path():
    with gcs_bucket() as bucket:
        path = f"{bucket}/pairs.parquet"
        write_atomically(path, content(["a"]))
        found = expand_inputs([path])
        write_atomically(path, content(["b"]))
        said = f"replaced or deleted since generation [0-9]+ was found: '{path}'"
        with pytest.raises(OSError, match=said):
            plan_inputs(found, fields=PAIRS, target_rows=20)


@pytest.mark.process
@pytest.mark.parametrize("store", [s3_bucket, gcs_bucket])
def test_of_a_text_of_0_bytes_no_later_version_is_read(store):
    with store() as bucket:
        path = f"{bucket}/pairs.tsv"
        write_atomically(path, b"")
        planned = text_file(path, version=file_version(path))
        write_atomically(path, b"candidate\treference\n")
        with open_text(planned) as stream:
            assert stream.read() == b""


def test_a_remote_file_is_closed_with_what_reads_it(monkeypatch):
    """One of SFTP has a handle at the server."""

    class Handle(io.BytesIO):
        size = 3

    handle = Handle(b"abc")
    monkeypatch.setattr(MemoryFileSystem, "_open", lambda *_, **__: handle)
    with open_source("memory://a") as source:
        assert (source.read(), handle.closed) == (b"abc", False)
    assert handle.closed


def content(words: list[str]) -> bytes:
    return write_part(pa.table({"candidate": words, "reference": ["r"] * len(words)}))


@pytest.mark.process
@pytest.mark.parametrize("rows", [1000, 2000])  # of one row group, and of two
def test_splits_of_one_file_share_its_footer(monkeypatch, rows):
    disturbed: list[Faults] = []
    with s3_bucket(disturbed) as bucket:
        path = f"{bucket}/big.parquet"
        table = pa.table({"text": [f"{i * 7919 % 10**8:08d}" * 9 for i in range(8000)]})
        coded = pa.StructArray.from_arrays([pa.array(["x"] * 8000).dictionary_encode()], ["a"])
        table = table.append_column("coded", coded)
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, 1000, compression="none", use_dictionary=["coded.a"])
        write_atomically(path, bytes(sink.getvalue()))
        fields = TableFields(reference_column="text")
        splits = plan_pairs(path, rows=rows, fields=fields).splits
        # A worker is another process: it has not planned the file.
        monkeypatch.setattr(parquet, "_footers", {})
        disturbed[0].requests = found = []
        got = pa.concat_tables([read_split(split) for split in splits])
        assert got.to_pylist() == table.to_pylist()
        assert len(found) == 1 + len(splits) == 1 + 8000 // rows


# --- Many files -----------------------------------------------------------------------------------


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


@pytest.mark.process
@pytest.mark.long
def test_a_file_in_a_store_is_one_request_and_many_are_under_way():
    faults: list[Faults] = []
    files = 300
    with s3_bucket(faults) as bucket:
        data = parquet_bytes(pairs())
        fsspec.filesystem("s3").pipe({f"{bucket}/dump/{n}.parquet": data for n in range(files)})
        requests = faults[0].watch = Requests(FILES_IN_FLIGHT)
        resources = Resources(workers=2)
        got = plan_pairs(f"{bucket}/dump", rows=None, resources=resources)
        assert len(got.splits) == files
        assert requests.most_at_once == FILES_IN_FLIGHT
        assert set(requests.reads.values()) == {1}
        assert len(requests.reads) == files
        # However many files; two look for the log of a table beside the folder.
        assert requests.others.total() == 5
