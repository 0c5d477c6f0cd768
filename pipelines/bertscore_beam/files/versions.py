"""Change a file only in the version that was read or listed, and give it another name.

S3 and Google Cloud Storage compare the version in the request that makes the change: If-Match and
If-None-Match, ifGenerationMatch. Elsewhere it is compared just before. So on a local disk one
process alone may change the folder, and in other stores another writer may come in between.
"""

import os
import posixpath
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from fsspec.implementations.local import LocalFileSystem

from bertscore_beam.files import paths
from bertscore_beam.files.listing import Stored, stored_here, stored_remotely
from bertscore_beam.files.read import is_other_version, open_source, read_bytes
from bertscore_beam.files.write import create_exclusively, delete, sync_folder, write_atomically

NOT_THERE = ""
"""The version of a file that is not there."""

_GONE = (FileNotFoundError, NotADirectoryError)
_REFUSED = ("PreconditionFailed", "412")
"""What S3 answers if an object has another version."""


def read_version(path: str) -> tuple[bytes, str] | None:
    """Return the content of a small file and its version; None if it is not there."""
    try:
        with paths.at(path) as (fs, inner):
            if paths.protocols(fs) & paths.GCS:
                headers, data = fs.call("GET", fs.url(inner))
                return bytes(data), str(headers["X-Goog-Generation"])
            found = _look(path)
            if paths.protocols(fs) & paths.S3:  # s3fs names no version beside what it reads
                with open_source(path, size=found.size, version=found.version) as source:
                    return bytes(source.read()), found.version
            return read_bytes(path), found.version
    except _GONE:
        return None
    except OSError as error:
        if not is_other_version(error, path):
            raise
    return read_version(path)


def replace_version(path: str, data: bytes, version: str) -> bool:
    """Replace a small file that still has a version; tell whether this is what is there now.

    A request whose answer is lost is sent again, and is refused since it was carried out before.
    So who is refused looks: no two contents that ever are there may be the same.

    Raises:
        OSError: It cannot be written, or cannot be known to be.
    """
    try:
        if version == NOT_THERE:
            create_exclusively(path, data)
        else:
            _put(path, data, version)
    except OSError as error:
        found = read_version(path)
        now = NOT_THERE if found is None else found[1]
        if now == version and not isinstance(error, FileExistsError):  # that has gone meanwhile
            raise
        return found is not None and found[0] == data
    return True


def _put(path: str, data: bytes, version: str) -> None:
    """Replace a file, or raise an OSError if it has another version."""
    with paths.at(path) as (fs, inner):
        if paths.protocols(fs) & paths.S3:
            bucket, key, _ = fs.split_path(inner)
            fs.call_s3("put_object", Bucket=bucket, Key=key, Body=data, IfMatch=f'"{version}"')
        elif paths.protocols(fs) & paths.GCS:
            bucket, key, _ = fs.split_path(inner)
            place = fs.base.replace("/storage/", "/upload/storage/") + "b/{}/o"
            asked = {"uploadType": "media", "name": key, "ifGenerationMatch": version}
            kind = {"Content-Type": "application/octet-stream"}
            fs.call("POST", place, bucket, headers=kind, data=data, **asked)
        elif (found := read_version(path)) is not None and found[1] == version:
            write_atomically(path, data)
        else:
            raise FileExistsError(path)


def delete_version(path: str, version: str) -> None:
    """Delete a file in the version that was listed; nothing happens if it has another one.

    In a store a request each: those that delete many know no versions.
    """
    with paths.at(path) as (fs, inner), suppress(*_GONE):
        if paths.protocols(fs) & paths.S3:
            _delete_from_s3(fs, inner, version)
        elif paths.protocols(fs) & paths.GCS:
            bucket, key, _ = fs.split_path(inner)
            with suppress(FileExistsError):  # it has another version
                fs.call("DELETE", "b/{}/o/{}", bucket, key, ifGenerationMatch=version)
        elif _look(path).version == version:
            delete(path)


def _delete_from_s3(fs: Any, path: str, version: str) -> None:
    bucket, key, _ = fs.split_path(path)
    try:
        fs.call_s3("delete_object", Bucket=bucket, Key=key, IfMatch=f'"{version}"')
    except OSError as error:
        answer = getattr(error.__cause__, "response", {})
        if answer.get("Error", {}).get("Code") not in _REFUSED:
            raise


def _look(path: str) -> Stored:
    with paths.at(path) as (fs, inner):
        if isinstance(fs, LocalFileSystem):
            return stored_here(inner)
        fs.invalidate_cache(inner)
        return stored_remotely(fs, fs.info(inner))


def rename_or_copy(path: str, target: str) -> str:
    """Give a file another name, in the place of what has that name; return its `Stored.content`.

    A disk renames it: see `sync_folders`. In an object store it is copied, in one request.

    Raises:
        FileNotFoundError: It is not there.
    """
    with paths.at(path) as (fs, inner):
        to = paths.resolve(target)[1]
        if isinstance(fs, LocalFileSystem):
            os.makedirs(os.path.dirname(to), exist_ok=True)
            os.replace(inner, to)
            return stored_here(to).content
        if paths.protocols(fs) & paths.S3:
            (bucket, key, _), (other, name, _) = fs.split_path(inner), fs.split_path(to)
            source = {"Bucket": bucket, "Key": key}
            answer = fs.call_s3("copy_object", Bucket=other, Key=name, CopySource=source)
            return str(answer["CopyObjectResult"]["ETag"]).strip('"')
        if paths.protocols(fs) & paths.GCS:
            (bucket, key, _), (other, name, _) = fs.split_path(inner), fs.split_path(to)
            more: dict[str, str] = {}
            while True:
                place = "b/{}/o/{}/rewriteTo/b/{}/o/{}"
                answer = fs.call("POST", place, bucket, key, other, name, json_out=True, **more)
                if answer["done"]:
                    return str(answer["resource"].get("md5Hash") or "")
                more = {"rewriteToken": answer["rewriteToken"]}  # it is large, or goes far
        if paths.protocols(fs) & paths.PUT_IS_WHOLE:
            fs.cp_file(inner, to)
        else:
            fs.makedirs(posixpath.dirname(to), exist_ok=True)
            fs.mv(inner, to)
        return ""


def sync_folders(files: Iterable[str]) -> None:
    """Let renames and deletions outlive a loss of power, in the folders of files on a disk."""
    places = {
        os.path.dirname(inner)
        for fs, inner in map(paths.resolve, files)
        if isinstance(fs, LocalFileSystem)
    }
    for folder in places:
        sync_folder(folder)
