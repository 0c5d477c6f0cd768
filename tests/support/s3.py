"""A real S3-compatible server on loopback, for tests of what object stores do differently."""

import logging
import os
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock
from urllib.parse import quote

import fsspec
from moto.moto_server import werkzeug_app
from werkzeug.serving import make_server

from tests.support.faults import Faults
from tests.support.web import running


@contextmanager
def s3_server() -> Iterator[tuple[str, Faults]]:
    """Run a server in a thread; yield its address and the faults it may be given."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server_of = werkzeug_app.DomainDispatcherApplication(werkzeug_app.create_backend_app)
    faults = Faults(_one_change_at_a_time(server_of))
    handler = werkzeug_app.MotoRequestHandler
    server = make_server("127.0.0.1", 0, faults, threaded=True, request_handler=handler)
    with running(server) as url:
        yield url, faults


def _one_change_at_a_time(application: Callable[..., Iterable[bytes]]) -> Callable[..., Any]:
    """Let a server compare a version and make a change without another one in between.

    moto does both, one after the other.
    """
    lock = threading.Lock()

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] in ("GET", "HEAD"):
            return application(environ, start_response)
        with lock:
            return list(application(environ, start_response))

    return answer


@contextmanager
def s3_bucket(faults: list[Faults] | None = None) -> Iterator[str]:
    """Start the server, make a bucket and point the environment at it; yield the bucket's URL.

    The environment is inherited by worker processes, and restored at the end. The bucket's name is
    new each time: servers of one process share what they hold.

    Args:
        faults: Gets what sets the server's faults.
    """
    name = f"dumps-{uuid.uuid4().hex}"
    kind = fsspec.get_filesystem_class("s3")
    try:
        with s3_server() as (url, found), mock.patch.dict(os.environ, s3_environment(url)):
            os.environ.pop("AWS_PROFILE", None)
            # A file system made earlier in this process talks to an earlier server.
            kind.clear_instance_cache()
            fsspec.filesystem("s3").mkdir(name)
            if faults is not None:
                faults.append(found)
            yield f"s3://{name}"
    finally:
        kind.clear_instance_cache()


def s3_environment(url: str) -> dict[str, str]:
    """Return what points a command at a server."""
    return {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }


def over_http(url: str) -> str:
    """Let anybody read an object of the running server, and return its plain address."""
    fsspec.filesystem("s3").chmod(url, "public-read")
    return f"{os.environ['AWS_ENDPOINT_URL']}/{quote(url.removeprefix('s3://'))}"
