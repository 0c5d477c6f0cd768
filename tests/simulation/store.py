"""Object stores of a simulated world, as fsspec file systems: each call is a step of an actor.

s3, gs    listed in one request; an object appears when it is whole; exclusive creation
az        the same, but listed a folder at a time
weak      as az, but creation is not exclusive, as in some S3-compatible stores
mounted   neither a disk nor an object store, as HDFS: written under another name, then moved
"""

import io
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import fsspec
from fsspec import AbstractFileSystem

from tests.simulation.world import World

KINDS = ("s3", "gs", "az", "weak", "mounted")


_PAGE = 20
"""Names in a page of a listing; other writers may come between two pages."""


class _Files(dict[str, bytes]):
    """Objects by path."""

    def __missing__(self, path: str) -> bytes:
        raise FileNotFoundError(path)

    def take(self, path: str) -> bytes:
        data = self[path]
        del self[path]
        return data


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

    def open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        file: Any = io.BytesIO(self.cat_file(self._strip_protocol(path)))
        file.size = len(file.getvalue())
        return file

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

    def _page(self, bucket: str, prefix: str, after: str) -> tuple[list[tuple[str, int]], str]:
        """Return some names in a bucket, with their sizes, and the last of them if more follow."""
        names = sorted(
            name
            for name in self.files
            if name.startswith(f"{bucket}/{prefix}") and name > f"{bucket}/{after}"
        )
        found = [
            (name_of.removeprefix(f"{bucket}/"), len(self.files[name_of]))
            for name_of in names[:_PAGE]
        ]
        return found, found[-1][0] if len(names) > _PAGE else ""

    def _info(self, path: str) -> dict[str, Any]:
        if path in self.files:
            return {"name": path, "type": "file", "size": len(self.files[path])}
        if any(name.startswith(f"{path}/") for name in self.files):
            return {"name": path, "type": "directory", "size": 0}
        raise FileNotFoundError(path)


class S3Store(_Store):
    """Deletes many objects in one request, and lists some in each."""

    protocol = ("simulated-s3", "s3")
    req_kw: ClassVar[dict[str, str]] = {}

    def call_s3(self, method: str, **given: Any) -> dict[str, Any]:
        return {"list_objects_v2": self._list, "delete_objects": self._delete}[method](**given)

    def _list(
        self, *, Bucket: str, Prefix: str, Delimiter: str, ContinuationToken: str = ""
    ) -> dict[str, Any]:
        assert not Delimiter
        act = partial(self._page, Bucket, Prefix, ContinuationToken)
        found, token = self.world.read(self._step("list", f"{Bucket}/{Prefix}"), act)
        more = {"NextContinuationToken": token} if token else {}
        contents = [{"Key": name, "Size": size} for name, size in found]
        return {"Contents": contents, "IsTruncated": bool(more), **more}

    def _delete(self, *, Bucket: str, Delete: Any) -> dict[str, Any]:
        names = [f"{Bucket}/{one['Key']}" for one in Delete["Objects"]]

        def act() -> None:
            for name in names:
                self.files.pop(name, None)

        self.world.change(f"delete {', '.join(map(str, names))}", act)
        return {}


class GoogleStore(_Store):
    protocol = ("simulated-gs", "gs")

    def call(self, method: str, path: str, bucket: str, **given: Any) -> dict[str, Any]:
        assert (method, path, given["json_out"]) == ("GET", "b/{}/o", True)
        where = f"{bucket}/{given['prefix']}"
        act = partial(self._page, bucket, given["prefix"], given.get("pageToken", ""))
        found, token = self.world.read(self._step("list", where), act)
        more = {"nextPageToken": token} if token else {}
        return {"items": [{"name": name, "size": str(size)} for name, size in found], **more}


class AzureStore(_Store):
    protocol = ("simulated-az", "az")


class WeakStore(_Store):
    protocol = ("simulated-weak", "r2")


class MountedStore(_Store):
    protocol = ("simulated-mounted",)


_CLASSES = (S3Store, GoogleStore, AzureStore, WeakStore, MountedStore)
for _one in _CLASSES:
    fsspec.register_implementation(_one.protocol[0], _one, clobber=True)


def open_store(kind: str, world: World) -> str:
    """Give a world an empty store; return the output folder in it."""
    _Store.world, _Store.files = world, _Files()
    return f"simulated-{kind}://bucket/out"


def stored() -> dict[str, bytes]:
    """Return the files below the output folder, by their path below it."""
    return _Store.files
