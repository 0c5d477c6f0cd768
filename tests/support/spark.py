"""A real Spark, in a process of its own: its JVM and its sockets end with it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

_SESSION = """
import json, sys
from pyspark.sql import SparkSession
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.sql.session.timeZone", "America/New_York")
    .getOrCreate()
)
arguments = sys.argv[1:]
"""


def run_spark(folder: Path, code: str, *arguments: object) -> Any:
    """Run lines that know `spark` and `arguments`, and return what they leave in `result`.

    Args:
        folder: Where Spark may leave files of its own.
        code: Lines of Python; `result` must fit into JSON.
        arguments: What the lines find in `arguments`, as strings.
    """
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, and there is no java on the path")
    done = subprocess.run(
        [sys.executable, "-c", f"{_SESSION}{code}\nprint('RESULT ' + json.dumps(result))"]
        + [str(argument) for argument in arguments],
        cwd=folder,
        env={**os.environ, "SPARK_LOCAL_DIRS": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert lines, done.stderr[-3000:]
    return json.loads(lines[-1].removeprefix("RESULT "))
