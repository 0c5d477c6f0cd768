"""Object stores of a simulated world, as fsspec file systems: each call is a step of an actor.

s3, gs    listed in one request; an object appears when it is whole; exclusive creation
kms       s3, but a copy has another ETag
az        the same, but listed a folder at a time
weak      as az, but creation is not exclusive, as in some S3-compatible stores
mounted   neither a disk nor an object store, as HDFS: written under another name, then moved
"""

import hashlib
from collections.abc import Mapping
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import fsspec
from fsspec import AbstractFileSystem

from tests.simulation.world import World

KINDS = ("s3", "gs", "az", "weak", "mounted")


_PAGE = 20
"""Names in a page of a listing; other writers may come between two pages."""


class _Files(dict[str, bytes]):
    """Objects by path.

    Attributes:
        generations: A number for each object that is there, which no other ever has.
    """

    def __init__(self) -> None:
        super().__init__()
        self.generations: dict[str, int] = {}
        self._numbers = count(1)

    def __setitem__(self, path: str, data: bytes) -> None:
        self.generations[path] = next(self._numbers)
        super().__setitem__(path, data)

    def __missing__(self, path: str) -> bytes:
        raise FileNotFoundError(path)

    def take(self, path: str) -> bytes:
        data = self[path]
        del self[path]
        return data


class FileExpired(OSError):
    """A file that was opened in one version has another."""


class _Opened:
    """A file that is read where it is asked for, in the version that `details` names, if any."""

    def __init__(self, fs: "_Store", path: str, size: int) -> None:
        self._fs, self._path, self._place = fs, path, 0
        self.size = size
        self.details: dict[str, Any] = {}

    def seek(self, place: int) -> None:
        self._place = place

    def read(self, size: int = -1) -> bytes:
        data = self._fs.cat_file(self._path)
        if self.details and self._fs._version(self._path)["ETag"] != self.details["ETag"]:
            raise FileExpired(self._path)
        return data[self._place :] if size < 0 else data[self._place : self._place + size]

    def close(self) -> None:
        """Do nothing."""


def _etag(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


class _Store(AbstractFileSystem):
    """One world's store at a time; the instances of all threads share it."""

    cachable = False
    local_expiry_check = True
    world: World
    files: ClassVar[_Files] = _Files()  # which each world sets

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path.partition("://")[2].rstrip("/") if "://" in path else path.rstrip("/")

    def split_path(self, path: str) -> tuple[str, str, None]:
        bucket, _, key = path.partition("/")
        return bucket, key, None

    def _step(self, words: str, path: str) -> str:
        return f"{words} {path.partition('/')[2]}"

    def cat_file(self, path: str, start: Any = None, end: Any = None, **_: Any) -> bytes:
        return self.world.read(self._step("read", path), lambda: self.files[path])[start:end]

    def open(self, path: str, mode: str = "rb", size: int | None = None, **_: Any) -> Any:
        path = self._strip_protocol(path)
        return _Opened(self, path, self.info(path)["size"] if size is None else size)

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        def act() -> None:
            self.files[path2] = self.files[path1]

        self.world.change(self._step("copy to", path2), act)

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        def act() -> None:
            if mode == "create" and not isinstance(self, WeakStore) and path in self.files:
                raise FileExistsError(path)
            self.files[path] = value

        self.world.change(self._step("put" if mode == "overwrite" else mode, path), act)

    def put_file(self, lpath: str, rpath: str, **_: Any) -> None:
        self.pipe_file(rpath, Path(lpath).read_bytes())

    def rm_file(self, path: str) -> None:
        self.world.change(self._step("delete", path), lambda: self.files.take(path))

    def mv(self, path1: str, path2: str, **_: Any) -> None:
        def act() -> None:
            self.files[path2] = self.files.take(path1)

        self.world.change(self._step("move to", path2), act)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Do nothing: this store has no folders."""

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        return self.world.read(self._step("info", path), lambda: self._info(path))

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        def act() -> list[Any]:
            inside = f"{path}/"
            names = {
                inside + name[len(inside) :].partition("/")[0]
                for name in self.files
                if name.startswith(inside)
            }
            if not names:
                raise FileNotFoundError(path)
            return [self._info(name) for name in sorted(names)]

        listed = self.world.read(self._step("list", path), act)
        return listed if detail else [info["name"] for info in listed]

    def find(self, path: str, **_: Any) -> dict[str, Any]:
        def act() -> dict[str, Any]:
            names = sorted(name for name in self.files if name.startswith(f"{path}/"))
            return {name: self._info(name) for name in names}

        return self.world.read(self._step("find", path), act)

    def _page(self, bucket: str, prefix: str, after: str) -> tuple[list[dict[str, Any]], str]:
        """Return some objects of a bucket, and the last name of them if more follow."""
        names = sorted(
            name
            for name in self.files
            if name.startswith(f"{bucket}/{prefix}") and name > f"{bucket}/{after}"
        )
        found = [
            {**self._info(name), "key": name.removeprefix(f"{bucket}/")} for name in names[:_PAGE]
        ]
        return found, found[-1]["key"] if len(names) > _PAGE else ""

    def _info(self, path: str) -> dict[str, Any]:
        if path in self.files:
            size, version = len(self.files[path]), self._version(path)
            return {"name": path, "type": "file", "size": size, **version}
        if any(name.startswith(f"{path}/") for name in self.files):
            return {"name": path, "type": "directory", "size": 0}
        raise FileNotFoundError(path)

    def _version(self, path: str) -> dict[str, str]:
        return {"etag": str(self.files.generations[path])}


class S3Store(_Store):
    """Deletes many objects in one request, and lists some in each. Equal contents, equal ETags."""

    protocol = ("simulated-s3", "s3")
    req_kw: ClassVar[dict[str, str]] = {}

    def call_s3(self, method: str, **given: Any) -> dict[str, Any]:
        known = {"list_objects_v2": self._list, "delete_objects": self._delete}
        known |= {"put_object": self._put, "copy_object": self._copy, "delete_object": self._take}
        return known[method](**given)

    def _version(self, path: str) -> dict[str, str]:
        return {"ETag": f'"{_etag(self.files[path])}"'}

    def _check(self, path: str, wanted: str) -> None:
        if self._version(path)["ETag"] != wanted:
            refused = OSError(22, "PreconditionFailed")
            refused.__cause__ = _ClientError()
            raise refused

    def _put(self, *, Bucket: str, Key: str, Body: bytes, IfMatch: str) -> dict[str, Any]:
        path = f"{Bucket}/{Key}"

        def act() -> None:
            self._check(path, IfMatch)
            self.files[path] = Body

        self.world.change(self._step("replace", path), act)
        return {}

    def _take(self, *, Bucket: str, Key: str, IfMatch: str) -> dict[str, Any]:
        path = f"{Bucket}/{Key}"

        def act() -> None:
            self._check(path, IfMatch)
            self.files.take(path)

        self.world.change(self._step("delete if", path), act)
        return {}

    def _copy(self, *, Bucket: str, Key: str, CopySource: dict[str, str]) -> dict[str, Any]:
        path, source = f"{Bucket}/{Key}", f"{CopySource['Bucket']}/{CopySource['Key']}"

        def act() -> str:
            self.files[path] = self.files[source]
            return self._version(path)["ETag"]

        etag = self.world.change(self._step("copy to", path), act)
        return {"CopyObjectResult": {"ETag": etag}}

    def _list(
        self, *, Bucket: str, Prefix: str, Delimiter: str, ContinuationToken: str = ""
    ) -> dict[str, Any]:
        assert not Delimiter
        act = partial(self._page, Bucket, Prefix, ContinuationToken)
        found, token = self.world.read(self._step("list", f"{Bucket}/{Prefix}"), act)
        more = {"NextContinuationToken": token} if token else {}
        contents = [{"Key": one["key"], "Size": one["size"], "ETag": one["ETag"]} for one in found]
        return {"Contents": contents, "IsTruncated": bool(more), **more}

    def _delete(self, *, Bucket: str, Delete: Any) -> dict[str, Any]:
        names = [f"{Bucket}/{one['Key']}" for one in Delete["Objects"]]

        def act() -> None:
            for name in names:
                self.files.pop(name, None)

        self.world.change(f"delete {', '.join(map(str, names))}", act)
        return {}


class EncryptedStore(S3Store):
    """As S3 with a key of one's own: a copy has another ETag."""

    protocol = ("simulated-kms", "s3")

    def _version(self, path: str) -> dict[str, str]:
        return {"ETag": f'"{self.files.generations[path]}"'}


class _ClientError(Exception):
    """As that of botocore behind a refusal of S3."""

    def __init__(self) -> None:
        self.response = {"Error": {"Code": "PreconditionFailed"}}


class GoogleStore(_Store):
    """Every object has a generation of its own."""

    protocol = ("simulated-gs", "gs")
    base = "https://simulated/storage/v1/"

    def _version(self, path: str) -> dict[str, str]:
        generation = str(self.files.generations[path])
        return {"generation": generation, "md5Hash": _etag(self.files[path])}

    def url(self, path: str, generation: str = "") -> str:
        query = f"?generation={generation}" if generation else ""
        return f"https://simulated/download/{path}{query}"

    def call(self, method: str, place: str, *names: str, **given: Any) -> Any:
        if place == "b/{}/o":
            return self._list(*names, **given)
        if place.endswith("/upload/storage/v1/b/{}/o"):
            return self._put(*names, **given)
        if place == "b/{}/o/{}/rewriteTo/b/{}/o/{}":
            return self._copy(*names)
        if method == "DELETE":
            return self._take("/".join(names), given["ifGenerationMatch"])
        path, _, query = place.removeprefix("https://simulated/download/").partition("?generation=")
        return self._get(path, query, **given)

    def _check(self, path: str, wanted: str) -> None:
        if self._version(path)["generation"] != wanted:
            raise FileExistsError(path)

    def _get(
        self, path: str, wanted: str, headers: Mapping[str, str] | None = None
    ) -> tuple[dict[str, str], bytes]:
        def act() -> tuple[dict[str, str], bytes]:
            data, generation = self.files[path], self._version(path)["generation"]
            if wanted and wanted != generation:
                raise FileNotFoundError(path)
            if headers:
                start, last = map(int, headers["Range"].removeprefix("bytes=").split("-"))
                data = data[start : last + 1]
            return {"X-Goog-Generation": generation}, data

        return self.world.read(self._step("read", path), act)

    def _put(self, bucket: str, *, name: str, data: bytes, **given: Any) -> None:
        path = f"{bucket}/{name}"

        def act() -> None:
            self._check(path, given["ifGenerationMatch"])
            self.files[path] = data

        self.world.change(self._step("replace", path), act)

    def _take(self, path: str, generation: str) -> None:
        def act() -> None:
            self._check(path, generation)
            self.files.take(path)

        self.world.change(self._step("delete if", path), act)

    def _copy(self, bucket: str, name: str, other: str, target: str) -> dict[str, Any]:
        path = f"{other}/{target}"

        def act() -> dict[str, str]:
            self.files[path] = self.files[f"{bucket}/{name}"]
            return self._version(path)

        resource = self.world.change(self._step("copy to", path), act)
        return {"done": True, "resource": resource}

    def _list(self, bucket: str, **given: Any) -> dict[str, Any]:
        where = f"{bucket}/{given['prefix']}"
        act = partial(self._page, bucket, given["prefix"], given.get("pageToken", ""))
        found, token = self.world.read(self._step("list", where), act)
        more = {"nextPageToken": token} if token else {}
        items = [{**one, "name": one["key"], "size": str(one["size"])} for one in found]
        return {"items": items, **more}


class AzureStore(_Store):
    protocol = ("simulated-az", "az")


class WeakStore(_Store):
    protocol = ("simulated-weak", "r2")


class MountedStore(_Store):
    protocol = ("simulated-mounted",)


_CLASSES = (S3Store, EncryptedStore, GoogleStore, AzureStore, WeakStore, MountedStore)
for _one in _CLASSES:
    fsspec.register_implementation(_one.protocol[0], _one, clobber=True)


def open_store(kind: str, world: World) -> str:
    """Give a world an empty store; return the output folder in it."""
    _Store.world, _Store.files = world, _Files()
    return f"simulated-{kind}://bucket/out"


def stored() -> dict[str, bytes]:
    """Return the files below the output folder, by their path below it."""
    return _Store.files
