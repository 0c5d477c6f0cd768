"""Fixtures of the tests of dumps."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

# A JVM takes many seconds to start, so one serves all tests. Each call has a session of its own.
_SERVER = """
import json, sys, traceback
from pyspark.sql import SparkSession
first = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.sql.session.timeZone", "America/New_York")
    .getOrCreate()
)
for line in sys.stdin:
    code, arguments = json.loads(line)
    names = {"spark": first.newSession(), "arguments": arguments}
    try:
        exec(code, names)
        print("RESULT " + json.dumps(names["result"]), flush=True)
    except Exception:
        print("ERROR " + json.dumps(traceback.format_exc()), flush=True)
"""


@pytest.fixture(scope="session")
def run_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Any]]:
    """Start a real Spark in a process of its own: its JVM and its sockets end with it.

    What is given runs lines of Python that know `spark` and `arguments`, a list of strings, and
    returns what they put into `result`, which must fit into JSON.
    """
    folder = tmp_path_factory.mktemp("spark")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, and there is no java on the path")
    with (
        open(folder / "stderr", "w+") as errors,
        subprocess.Popen(
            [sys.executable, "-c", _SERVER],
            cwd=folder,
            env={**os.environ, "SPARK_LOCAL_DIRS": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):

        def run(code: str, *arguments: object) -> Any:
            process.stdin.write(json.dumps([code, [str(one) for one in arguments]]) + "\n")
            process.stdin.flush()
            for line in process.stdout:
                kind, _, value = line.partition(" ")
                if kind in ("RESULT", "ERROR"):
                    assert kind == "RESULT", json.loads(value)
                    return json.loads(value)
            errors.seek(0)
            raise AssertionError(f"Spark has ended: {errors.read()[-3000:]}")

        yield run
        process.stdin.close()
