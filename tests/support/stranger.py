"""Somebody else on this machine, who tries what Beam's ports would let him.

Takes a user, what to try, a file, and addresses: sockets or HOST:PORT. Prints what came of each as
JSON. Root becomes the user first.
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import grpc
from apache_beam.portability import common_urns
from apache_beam.portability.api import (
    beam_artifact_api_pb2,
    beam_artifact_api_pb2_grpc,
    beam_fn_api_pb2,
    beam_fn_api_pb2_grpc,
    beam_runner_api_pb2,
)

NOBODY = 65534


HARMLESS = ("connect", "file")
"""What does not disturb a run, should it succeed."""

EVERYTHING = ("list", *HARMLESS, "data", "control")


def ask_as(
    user: int, addresses: Iterable[str], file: Path, tries: Iterable[str]
) -> dict[str, dict[str, str]]:
    """Try things in a process of a user, and return what came of them, by address."""
    words = [str(user), ",".join(tries), str(file), *addresses]
    command = [sys.executable, "-m", "tests.support.stranger", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    answer: dict[str, dict[str, str]] = json.loads(done.stdout)
    return answer


def _try(tries: Iterable[str], address: str, file: str) -> dict[str, str]:
    target = f"unix:{address}" if address.startswith("/") else address
    channel = grpc.insecure_channel(target)
    metadata = [("worker_id", "worker_0")]

    def connect() -> None:
        if address.startswith("/"):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(address)
        else:
            host, _, port = address.rpartition(":")
            socket.create_connection((host, int(port)), 5).close()

    def read_file() -> str:
        payload = beam_runner_api_pb2.ArtifactFilePayload(path=file).SerializeToString()
        artifact = beam_runner_api_pb2.ArtifactInformation(
            type_urn=common_urns.artifact_types.FILE.urn, type_payload=payload
        )
        stub = beam_artifact_api_pb2_grpc.ArtifactRetrievalServiceStub(channel)
        request = beam_artifact_api_pb2.GetArtifactRequest(artifact=artifact)
        return b"".join(part.data for part in stub.GetArtifact(request, timeout=10)).decode()

    def send_data() -> None:
        stub = beam_fn_api_pb2_grpc.BeamFnDataStub(channel)
        list(stub.Data(iter([beam_fn_api_pb2.Elements()]), metadata=metadata, timeout=10))

    def take_work() -> None:
        stub = beam_fn_api_pb2_grpc.BeamFnControlStub(channel)
        request = beam_fn_api_pb2.GetProcessBundleDescriptorRequest()
        stub.GetProcessBundleDescriptor(request, metadata=metadata, timeout=10)

    known = {
        "list": lambda: os.listdir(os.path.dirname(address)),
        "connect": connect,
        "file": read_file,
        "data": send_data,
        "control": take_work,
    }
    return {name: _outcome(known[name]) for name in tries}


def _outcome(attempt: Callable[[], Any]) -> str:
    try:
        return f"got {attempt()}"
    except grpc.RpcError as error:
        return str(error.code().name)
    except OSError as error:
        return type(error).__name__


if __name__ == "__main__":
    user, names, path, *found = sys.argv[1:]
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(int(user))
        os.setuid(int(user))
    print(json.dumps({address: _try(names.split(","), address, path) for address in found}))
