"""Where outputs lie, seen from outside of the commands that write them.

A name is a folder and perhaps folders below it, such as `cycle-0007/out`; on S3 the first is
a bucket.
"""

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from tests.support.faults import set_faults
from tests.support.s3 import s3_environment

_OBSERVER = "observer"
"""Access key of our own requests, which no fault meets."""


@dataclass
class LocalStore:
    """Folders on this machine.

    Attributes:
        poll_seconds: How often to look at an output.
    """

    root: Path
    name: str = "local"
    poll_seconds: float = 0.03

    def make(self, folder: str) -> None:
        """Make a folder."""
        (self.root / folder).mkdir(parents=True)

    def drop(self, folder: str) -> None:
        """Remove a folder and all it holds."""
        shutil.rmtree(self.root / folder)

    def place(self, name: str) -> str:
        """Return the path of a name."""
        return str(self.root / name)

    def environment(self, client: str) -> dict[str, str]:
        """Return what a command needs to get there under a name of its own: nothing."""
        return {}

    def versions(self, name: str) -> dict[str, str]:
        """Return all files below a folder, hidden ones included, with what tells their versions."""
        top = self.root / name
        found = {}
        for folder, _, files in os.walk(top):
            for file in files:
                try:
                    status = os.stat(os.path.join(folder, file))
                except FileNotFoundError:
                    continue
                path = os.path.relpath(os.path.join(folder, file), top)
                found[path] = f"{status.st_size}/{status.st_mtime_ns}/{status.st_ino}"
        return found

    def read(self, name: str, file: str) -> bytes:
        """Return the content of a file."""
        return (self.root / name / file).read_bytes()

    def write(self, name: str, file: str, data: bytes) -> None:
        """Make a file."""
        (self.root / name / file).write_bytes(data)


@dataclass
class S3Store:
    """Buckets of a real server on loopback, which can be given faults."""

    url: str
    name: str = "s3"
    poll_seconds: float = 0.1
    _client: Any = field(init=False)

    def __post_init__(self) -> None:
        """Connect to the server."""
        self._client = boto3.client(
            "s3",
            endpoint_url=self.url,
            aws_access_key_id=_OBSERVER,
            aws_secret_access_key=_OBSERVER,
            region_name="us-east-1",
            config=Config(max_pool_connections=50),
        )

    def make(self, folder: str) -> None:
        """Make the bucket."""
        self._client.create_bucket(Bucket=folder)

    def drop(self, folder: str) -> None:
        """Empty the bucket and remove it."""
        for file in self.versions(folder):
            self._client.delete_object(Bucket=folder, Key=file)
        self._client.delete_bucket(Bucket=folder)

    def place(self, name: str) -> str:
        """Return its URL."""
        return f"s3://{name}"

    def environment(self, client: str) -> dict[str, str]:
        """Point a command at the server."""
        return {**s3_environment(self.url), "AWS_ACCESS_KEY_ID": client}

    def versions(self, name: str) -> dict[str, str]:
        """List them."""
        bucket, prefix = _bucket_and_prefix(name)
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return {
            entry["Key"].removeprefix(prefix): f"{entry['ETag']}/{entry['LastModified']}"
            for page in pages
            for entry in page.get("Contents", ())
        }

    def read(self, name: str, file: str) -> bytes:
        """Get the object."""
        bucket, prefix = _bucket_and_prefix(name)
        return self._client.get_object(Bucket=bucket, Key=prefix + file)["Body"].read()

    def write(self, name: str, file: str, data: bytes) -> None:
        """Put the object."""
        bucket, prefix = _bucket_and_prefix(name)
        self._client.put_object(Bucket=bucket, Key=prefix + file, Body=data)

    def disturb(self, client: str, **rule: Any) -> None:
        """Let requests of one client go wrong for a while."""
        set_faults(self.url, client=client, **rule)


Store = LocalStore | S3Store


def _bucket_and_prefix(name: str) -> tuple[str, str]:
    bucket, _, prefix = name.partition("/")
    return bucket, f"{prefix}/" if prefix else ""
