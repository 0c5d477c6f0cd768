"""A stand-in of Cloud Storage on loopback: the part of its JSON API that our clients speak.

gcsfs, Google's own client and Beam talk to it where `STORAGE_EMULATOR_HOST` names it. Objects have
generations, and requests have preconditions: https://docs.cloud.google.com/storage/docs/json_api/v1
What the stand-in does not know is answered with 501 and noted, so that no test takes an answer
that was made up for one of the store. Whether a bucket has real folders is asked over gRPC, which
this server does not speak: gcsfs is told not to ask.
"""

import base64
import contextlib
import hashlib
import itertools
import json
import logging
import os
import re
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any
from unittest import mock
from urllib.parse import unquote

import fsspec
import google_crc32c
from gcsfs.extended_gcsfs import BucketType, ExtendedGcsFileSystem
from werkzeug.serving import make_server
from werkzeug.wrappers import Request, Response

from tests.support.faults import Faults
from tests.support.web import running

_PATH = re.compile(r"(?P<kind>|/upload|/download)/storage/v1/b/(?P<bucket>[^/]+)(?P<rest>/o.*)?")
_COPY = re.compile(r"/o/([^/]+)/rewriteTo/b/([^/]+)/o/([^/]+)")
_STEP = 256 * 1024
"""Bytes of which every chunk of a resumable upload but the last has a multiple."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Object:
    """An object as it is stored."""

    content: bytes
    generation: int
    kind: str
    written: str


@dataclass(slots=True, kw_only=True)
class _Upload:
    """A resumable upload that has begun: what the object will be, and what has arrived."""

    bucket: str
    name: str
    kind: str
    conditions: dict[str, str]
    content: bytes = b""


class _RefusedError(Exception):
    """The store refuses a request."""

    def __init__(self, status: HTTPStatus, reason: str = "") -> None:
        super().__init__(reason or status.phrase)
        self.status = status


@dataclass(slots=True)
class CloudStorage:
    """The store, a WSGI application.

    Attributes:
        buckets: The objects of each bucket, by name.
        page: Most objects in a page of a listing.
        requests: What was asked of which object or prefix since this was set to a list.
        unknown: Requests that the stand-in does not know.
    """

    buckets: dict[str, dict[str, Object]]
    page: int = 1000
    requests: list[tuple[str, str]] | None = None
    unknown: list[str] = field(default_factory=list)
    _uploads: dict[str, _Upload] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _generations: Iterator[int] = field(default_factory=lambda: itertools.count(1_700_000_000_000))

    def __call__(self, environ: dict[str, Any], start_response: Callable) -> Iterable[bytes]:
        """Answer a request."""
        request = Request(environ)
        content = request.get_data()
        try:
            with self._lock:
                answer = self._answer(request, content)
        except _RefusedError as refused:
            error = {"code": refused.status.value, "message": str(refused)}
            answer = _json({"error": error}, refused.status)
        return answer(environ, start_response)

    def put(self, bucket: str, name: str, content: bytes, kind: str = "") -> Object:
        """Store an object, in the place of an earlier one."""
        with self._lock:
            stored = Object(
                content=content,
                generation=next(self._generations),
                kind=kind or "application/octet-stream",
                written=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            )
            self._bucket(bucket)[name] = stored
        return stored

    def read(self, url: str) -> bytes:
        """Return the content of gs://BUCKET/NAME."""
        bucket, _, name = url.removeprefix("gs://").partition("/")
        with self._lock:
            return self.buckets[bucket][name].content

    def _answer(self, request: Request, content: bytes) -> Response:
        # Undecoded: a name may hold an encoded slash.
        path = request.environ["REQUEST_URI"].partition("?")[0]
        found = _PATH.fullmatch(path)
        if found is None:
            raise self._unknown(request)
        kind, bucket, rest = found["kind"], unquote(found["bucket"]), found["rest"]
        name = unquote(rest.removeprefix("/o/")) if rest else ""
        if kind == "/upload":
            return self._upload(request, bucket, content)
        match request.method, rest:
            case "GET", None:
                self._note("bucket", bucket)
                self._bucket(bucket)
                return _json({"kind": "storage#bucket", "name": bucket, "id": bucket})
            case "GET", "/o":
                return self._list(request, bucket)
            case "GET", _ if kind == "/download" or request.args.get("alt") == "media":
                return self._download(request, bucket, name)
            case "GET", _:
                self._note("stat", name)
                return _json(_describe(bucket, name, self._find(request, bucket, name)))
            case "DELETE", _ if name:
                self._note("delete", name)
                self._find(request, bucket, name)
                del self._bucket(bucket)[name]
                return Response(status=HTTPStatus.NO_CONTENT)
            case "POST", _ if (found := _COPY.fullmatch(rest or "")) is not None:
                return self._copy(request, bucket, *map(unquote, found.groups()))
        raise self._unknown(request)

    def _copy(self, request: Request, bucket: str, name: str, other: str, target: str) -> Response:
        self._note("copy", name)
        asked = request.args
        found = self._bucket(bucket).get(name)
        if found is None or asked.get("sourceGeneration") not in (None, str(found.generation)):
            raise _RefusedError(HTTPStatus.NOT_FOUND, f"No such object: {bucket}/{name}")
        _check({"ifGenerationMatch": asked.get("ifSourceGenerationMatch")}, found)
        _check(asked, self._bucket(other).get(target))
        resource = _describe(other, target, self.put(other, target, found.content, found.kind))
        return _json({"kind": "storage#rewriteResponse", "done": True, "resource": resource})

    def _unknown(self, request: Request) -> _RefusedError:
        self.unknown.append(f"{request.method} {request.full_path}")
        return _RefusedError(HTTPStatus.NOT_IMPLEMENTED, "the stand-in does not know this request")

    def _note(self, what: str, name: str) -> None:
        if self.requests is not None:
            self.requests.append((what, name))

    def _bucket(self, name: str) -> dict[str, Object]:
        if name not in self.buckets:
            raise _RefusedError(HTTPStatus.NOT_FOUND, "The specified bucket does not exist.")
        return self.buckets[name]

    def _find(self, request: Request, bucket: str, name: str) -> Object:
        """Return an object that is there and meets the conditions of a request."""
        found = self._bucket(bucket).get(name)
        wanted = request.args.get("generation")
        if found is None or wanted not in (None, str(found.generation)):
            raise _RefusedError(HTTPStatus.NOT_FOUND, f"No such object: {bucket}/{name}")
        _check(request.args, found)
        return found

    def _list(self, request: Request, bucket: str) -> Response:
        """Answer with a page of names: objects, and what the delimiter makes of longer ones."""
        asked = request.args
        prefix, delimiter = asked.get("prefix", ""), asked.get("delimiter", "")
        self._note("list", prefix)
        objects = self._bucket(bucket)
        after, most = asked.get("pageToken", ""), min(int(asked.get("maxResults", 1000)), self.page)
        items: list[dict[str, Any]] = []
        prefixes: list[str] = []
        page = {"kind": "storage#objects", "items": items, "prefixes": prefixes}
        last = ""
        for name in sorted(objects):
            below, found, _ = name.removeprefix(prefix).partition(delimiter or "\0")
            folder = f"{prefix}{below}{delimiter}" if delimiter and found else ""
            entry = folder or name
            if not name.startswith(prefix) or entry <= after or entry == last:
                continue
            if len(items) + len(prefixes) == most:
                return _json({**page, "nextPageToken": last})
            if folder:
                prefixes.append(folder)
            else:
                items.append(_describe(bucket, name, objects[name]))
            last = entry
        return _json(page)

    def _download(self, request: Request, bucket: str, name: str) -> Response:
        self._note("read", name)
        found = self._find(request, bucket, name)
        headers = {
            "X-Goog-Generation": str(found.generation),
            "X-Goog-Hash": f"crc32c={_crc(found.content)},md5={_md5(found.content)}",
            "ETag": f'"e{found.generation}="',
        }
        size, wanted = len(found.content), request.range
        if wanted is None:
            return Response(found.content, headers=headers, mimetype=found.kind)
        part = wanted.range_for_length(size)
        if part is None:
            raise _RefusedError(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
        start, stop = part
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
        status = HTTPStatus.PARTIAL_CONTENT
        return Response(found.content[start:stop], status, headers, mimetype=found.kind)

    def _upload(self, request: Request, bucket: str, content: bytes) -> Response:
        asked = request.args
        if "upload_id" in asked:
            return self._continue(request, asked["upload_id"], content)
        match asked.get("uploadType"):
            case "media":
                return self._finish(bucket, asked["name"], content, request.mimetype, asked)
            case "multipart":
                boundary = request.mimetype_params["boundary"]
                about, content, kind = _two_parts(content, boundary.encode())
                name = about.get("name") or asked["name"]
                return self._finish(bucket, name, content, about.get("contentType", kind), asked)
            case "resumable":
                about = json.loads(content or b"{}")
                upload = _Upload(
                    bucket=bucket,
                    name=about.get("name") or asked["name"],
                    kind=about.get("contentType") or request.headers["X-Upload-Content-Type"],
                    conditions=dict(asked),
                )
                self._note("begin", upload.name)
                _check(upload.conditions, self._bucket(bucket).get(upload.name))
                number = uuid.uuid4().hex
                self._uploads[number] = upload
                place = f"{request.url_root}upload/storage/v1/b/{bucket}/o?upload_id={number}"
                return Response(headers={"Location": place})
        raise self._unknown(request)

    def _continue(self, request: Request, number: str, content: bytes) -> Response:
        """Take a chunk of a resumable upload, or tell how much of it has arrived."""
        upload = self._uploads.get(number)
        if upload is None:
            raise _RefusedError(HTTPStatus.NOT_FOUND, "no such upload")
        if request.method == "DELETE":
            del self._uploads[number]
            return Response(status=499)  # the store's own answer: the client has closed it
        said = re.fullmatch(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)", request.headers["Content-Range"])
        if said is None or int(said[1] or len(upload.content)) != len(upload.content):
            raise _RefusedError(HTTPStatus.BAD_REQUEST, "the chunk does not begin where it should")
        upload.content += content
        if said[2] != "*" and len(upload.content) == int(said[2]):
            del self._uploads[number]
            return self._finish(
                upload.bucket, upload.name, upload.content, upload.kind, upload.conditions
            )
        if len(content) % _STEP:
            raise _RefusedError(HTTPStatus.BAD_REQUEST, "not a multiple of 256 KiB")
        self._note("chunk", upload.name)
        arrived = {"Range": f"bytes=0-{len(upload.content) - 1}"} if upload.content else {}
        return Response(status=HTTPStatus.PERMANENT_REDIRECT, headers=arrived)

    def _finish(
        self, bucket: str, name: str, content: bytes, kind: str, conditions: Any
    ) -> Response:
        self._note("write", name)
        _check(conditions, self._bucket(bucket).get(name))
        return _json(_describe(bucket, name, self.put(bucket, name, content, kind)))


def _check(conditions: Any, found: Object | None) -> None:
    """Check the preconditions of a request; generation 0 is that of an object that is not there."""
    generation = 0 if found is None else found.generation
    wanted = conditions.get("ifGenerationMatch")
    if wanted is not None and int(wanted) != generation:
        raise _RefusedError(HTTPStatus.PRECONDITION_FAILED)
    if (unwanted := conditions.get("ifGenerationNotMatch")) and int(unwanted) == generation:
        raise _RefusedError(HTTPStatus.NOT_MODIFIED)


def _two_parts(content: bytes, boundary: bytes) -> tuple[dict[str, Any], bytes, str]:
    """Return the description and the content of an object sent in one request, and its type.

    Clients end lines in both ways.
    """
    _, about, data, _ = re.split(rb"\r?\n?--" + re.escape(boundary) + rb"(?:--)?\r?\n?", content)
    (_, about), (head, data) = (
        re.split(rb"\r?\n\r?\n", part, maxsplit=1) for part in (about, data)
    )
    return json.loads(about), data, head.partition(b": ")[2].decode()


def _describe(bucket: str, name: str, found: Object) -> dict[str, Any]:
    return {
        "kind": "storage#object",
        "id": f"{bucket}/{name}/{found.generation}",
        "bucket": bucket,
        "name": name,
        "size": str(len(found.content)),
        "generation": str(found.generation),
        "metageneration": "1",
        "contentType": found.kind,
        "timeCreated": found.written,
        "updated": found.written,
        "storageClass": "STANDARD",
        "md5Hash": _md5(found.content),
        "crc32c": _crc(found.content),
        "etag": f"e{found.generation}=",
    }


def _md5(content: bytes) -> str:
    return base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()


def _crc(content: bytes) -> str:
    return base64.b64encode(google_crc32c.Checksum(content).digest()).decode()


def _json(value: Any, status: HTTPStatus = HTTPStatus.OK) -> Response:
    return Response(json.dumps(value), status, mimetype="application/json")


@contextlib.contextmanager
def cloud_storage(*buckets: str) -> Iterator[tuple[CloudStorage, Faults]]:
    """Run a store in a thread and point the environment at it; yield it, and what sets its faults.

    The environment is inherited by worker processes, and restored at the end.

    Raises:
        AssertionError: The store was asked for something that the stand-in does not know.
    """
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    store = CloudStorage({name: {} for name in buckets})
    faults = Faults(store)
    kind = fsspec.get_filesystem_class("gs")
    server = make_server("127.0.0.1", 0, faults, threaded=True)
    ordinary = mock.patch.object(ExtendedGcsFileSystem, "_get_bucket_type", _ordinary)
    with running(server) as url, mock.patch.dict(os.environ, store_environment(url)), ordinary:
        kind.clear_instance_cache()  # one made earlier in this process talks to an earlier server
        try:
            yield store, faults
        finally:
            kind.clear_instance_cache()
    assert store.unknown == []


@contextlib.contextmanager
def gcs_bucket(faults: list[Faults] | None = None) -> Iterator[str]:
    """Run a store with one bucket; yield the bucket's URL.

    Args:
        faults: Gets what sets the store's faults.
    """
    with cloud_storage("dumps") as (_, found):
        if faults is not None:
            faults.append(found)
        yield "gs://dumps"


def store_environment(url: str) -> dict[str, str]:
    """Return what points a command at a store."""
    return {"STORAGE_EMULATOR_HOST": url, "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false"}


async def _ordinary(system: ExtendedGcsFileSystem, bucket: str) -> BucketType:
    """Answer for the service that was not asked: gcsfs may have been imported long before."""
    return BucketType.NON_HIERARCHICAL
