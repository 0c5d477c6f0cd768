"""Google Cloud Storage in memory, with listings that end early: gcsfs itself, answered from here.

gcsfs ends a listing without an error after `listing.GCSFS_STOPS_AT` names. A test sets that number
so low that a listing reaches it.
"""

import contextlib
import hashlib
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import fsspec
from gcsfs.core import GCSFileSystem, validate_response

from bertscore_beam.files import listing

_PAGE = 2
"""Objects in a page of a listing."""


class CutOffStore(GCSFileSystem):
    """Is `gs://`, with objects in the class, and listings that end at `listing.GCSFS_STOPS_AT`."""

    objects: dict[str, bytes] = {}  # noqa: RUF012 - all file systems share one store

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs | {"token": "anon"})

    async def _sequential_list_objects_helper(self, **kwargs: Any) -> Any:
        most = kwargs.pop("max_results") or listing.GCSFS_STOPS_AT
        return await super()._sequential_list_objects_helper(max_results=most, **kwargs)

    async def _request(self, method: str, path: str, *args: str, **given: Any) -> tuple[Any, ...]:
        status, content = self._answer(method, path, args, given)
        validate_response(status, content, path, args)
        return status, {"Content-Length": str(len(content))}, None, content

    def _answer(self, method: str, path: str, names: Any, given: Any) -> tuple[int, bytes]:
        """Return the status and the body of the answer to a request."""
        if method == "POST":
            return self._upload(bytes(given["data"]), given)
        if path.endswith("/o"):
            return 200, json.dumps(self._page(given)).encode()
        key = unquote(path.rpartition("/o/")[2].partition("?")[0]) if not names else names[1]
        if key not in self.objects:
            return 404, b"{}"
        if method == "DELETE":
            del self.objects[key]
            return 204, b""
        if "alt=media" not in path:
            return 200, json.dumps(self._described(key)).encode()
        content = self.objects[key]
        wanted = (given.get("headers") or {}).get("Range", "bytes=0-")
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        return 200, content[int(first) : int(last or len(content)) + 1]

    def _upload(self, data: bytes, given: dict[str, Any]) -> tuple[int, bytes]:
        """Keep an object that is sent in one request, after its name."""
        _, about, content = data.removesuffix(b"\n--==0==--").split(b"\n\n", 2)
        key = json.loads(about.partition(b"\n--==0==")[0])["name"]
        if given.get("ifGenerationMatch") == "0" and key in self.objects:
            return 412, b"{}"
        self.objects[key] = content
        return 200, json.dumps(self._described(key)).encode()

    def _page(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return one page of a listing."""
        prefix, delimiter = given.get("prefix") or "", given.get("delimiter")
        lines: dict[str, str] = {}
        for key in sorted(self.objects):
            if key.startswith(prefix):
                below, slash, _ = key[len(prefix) :].partition(delimiter or "\0")
                lines[f"{prefix}{below}{slash}"] = "prefixes" if slash else "items"
        start = int(given.get("pageToken") or 0)
        end = start + min(_PAGE, given["maxResults"])
        page: dict[str, Any] = {"kind": "storage#objects", "prefixes": [], "items": []}
        for name, kind in list(lines.items())[start:end]:
            page[kind].append(name if kind == "prefixes" else self._described(name))
        return page | ({"nextPageToken": str(end)} if end < len(lines) else {})

    def _described(self, key: str) -> dict[str, str]:
        """Return what the store says about an object."""
        content = self.objects[key]
        digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
        return {"bucket": "bucket", "name": key, "size": str(len(content)), "md5Hash": digest}


@contextlib.contextmanager
def cut_off_store() -> Iterator[CutOffStore]:
    """Offer `gs://bucket`, empty."""
    kind = fsspec.get_filesystem_class("gs")
    fsspec.register_implementation("gs", CutOffStore, clobber=True)
    CutOffStore.objects.clear()
    try:
        yield CutOffStore()
    finally:
        fsspec.register_implementation("gs", kind, clobber=True)
        CutOffStore.clear_instance_cache()
        CutOffStore.objects.clear()
