"""A real S3-compatible server on loopback, for tests of what object stores do differently."""

import logging
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock
from urllib.parse import quote

import fsspec
from moto.server import ThreadedMotoServer


@contextmanager
def s3_bucket() -> Iterator[str]:
    """Start the server, make a bucket and point the environment at it; yield the bucket's URL.

    The environment is inherited by worker processes, and restored at the end. The bucket's name is
    new each time: servers of one process share what they hold.
    """
    name = f"dumps-{uuid.uuid4().hex}"
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    environment = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    kind = fsspec.get_filesystem_class("s3")
    try:
        with mock.patch.dict(os.environ, environment):
            os.environ.pop("AWS_PROFILE", None)
            # A file system made earlier in this process talks to an earlier server.
            kind.clear_instance_cache()
            fsspec.filesystem("s3").mkdir(name)
            yield f"s3://{name}"
    finally:
        kind.clear_instance_cache()
        server.stop()


def over_http(url: str) -> str:
    """Let anybody read an object of the running server, and return its plain address."""
    fsspec.filesystem("s3").chmod(url, "public-read")
    return f"{os.environ['AWS_ENDPOINT_URL']}/{quote(url.removeprefix('s3://'))}"
