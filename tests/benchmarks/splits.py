"""What a split costs beside its rows: planning, running, looking over again, concluding.

    python -m tests.benchmarks.splits --files 1000 10000 100000
    python -m tests.benchmarks.splits --files 1000 4000 --latency 0.03

Makes files of two rows and runs the command line over them: a dry run, the run, and the same
command once more, which has nothing left to do. All files hold the same two pairs under ids of
their own, and a run of one such file is given as `--reuse`. So rows take their scores from there,
no model runs, and what remains is what the job itself costs for each file.

With `--latency` input and output are on a local S3 server that waits so many seconds before each
answer, and its requests are counted. There the model runs, since a look-up in an earlier run would
be a request more for each file.

Each step prints one JSON line: seconds, seconds of the processor of all its processes, and the most
memory that the launcher held. The conclusion of a local run is the time from the last part to the
success marker.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.run.folder import SUCCESS_FILE
from tests.support.faults import count_faults, set_faults
from tests.support.s3 import s3_environment, s3_process

ROWS = 2
_MARK = b"row @@@@@@@@"
_FILES_PER_FOLDER = 1000
_SECONDS_PER_LOOK = 0.1


def file_of(number: int) -> bytes:
    """Return a file of two rows; the same number gives the same bytes."""
    return _TEMPLATE.replace(_MARK, b"row %08d" % number)


def _template() -> bytes:
    """Return a file whose mark can be replaced by any text of the same length."""
    columns = {
        "id": [f"{_MARK.decode()}-{row}" for row in range(ROWS)],
        "candidate": [f"cat number {row}" for row in range(ROWS)],
        "reference": [f"the cat with number {row}" for row in range(ROWS)],
    }
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="none", use_dictionary=False, write_statistics=False)
    return bytes(sink.getvalue())


_TEMPLATE = _template()


def file_name(number: int) -> str:
    """Return the name of a file below the dump."""
    folder, file = divmod(number, _FILES_PER_FOLDER)
    return f"{folder:05d}/shard-{file:05d}.parquet"


def make_files(dump: str, count: int) -> None:
    """Write so many files below a folder or a URL."""
    fs, root = fsspec.core.url_to_fs(dump)
    if "://" not in dump:
        for folder in range(-(-count // _FILES_PER_FOLDER)):
            Path(root, f"{folder:05d}").mkdir(parents=True)
        for number in range(count):
            Path(root, file_name(number)).write_bytes(file_of(number))
        return
    with ThreadPoolExecutor(16) as pool:
        numbers = range(count)
        list(pool.map(lambda n: fs.pipe_file(f"{root}/{file_name(n)}", file_of(n)), numbers))


def measure(command: list[str]) -> dict[str, float]:
    """Run a command that must end well.

    Returns:
        Its seconds; the processor's seconds of itself and its workers; the most memory of itself,
        without its workers, in MB.
    """
    started, own = time.perf_counter(), 0
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    status = Path(f"/proc/{process.pid}/status")
    while True:
        ended, code, used = os.wait4(process.pid, os.WNOHANG)
        if ended:
            break
        words = status.read_text().partition("VmHWM:")[2].split()
        own = int(words[0]) if words else own
        time.sleep(_SECONDS_PER_LOOK)
    process.returncode = os.waitstatus_to_exitcode(code)
    if process.returncode:
        raise SystemExit(f"{command} ended with status {process.returncode}")
    return {
        "seconds": round(time.perf_counter() - started, 1),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "launcher_mb": round(own * 1024 / 1e6),
    }


def score_command(dump: str, output: str) -> list[str]:
    """Return the command that scores a dump."""
    words = ["score", "--input", dump, "--output", output, "--device", "cpu", "--quiet"]
    return [sys.executable, "-m", "bertscore_beam", *words]


def score_first(place: str) -> str:
    """Score one file, and return the folder with its scores."""
    dump, output = f"{place}/first-dump", f"{place}/first"
    make_files(dump, 1)
    subprocess.run(score_command(dump, output), check=True, stdout=subprocess.DEVNULL)
    return output


def steps(dump: str, output: str, given: argparse.Namespace) -> Iterator[dict[str, object]]:
    """Plan, run and look over again; yield what each took."""
    command = [*score_command(dump, output), "--workers", str(given.workers), *given.option]
    for step, more in {"plan": ["--dry-run"], "run": [], "again": []}.items():
        before = requests_so_far()
        result = {"step": step, **measure([*command, *more])}
        if before is not None:
            result["requests"] = requests_so_far() - before
        elif step == "run":
            result["conclusion_seconds"] = round(conclusion_seconds(Path(output)), 1)
        yield result


def conclusion_seconds(output: Path) -> float:
    """Return the time from the last part to the success marker."""
    parts = output.rglob("part-*.parquet")
    return (output / SUCCESS_FILE).stat().st_mtime - max(path.stat().st_mtime for path in parts)


def requests_so_far() -> int | None:
    """Return the requests that the S3 server has answered slowly; None without a server."""
    url = os.environ.get("AWS_ENDPOINT_URL")
    return None if url is None else sum(count_faults(url).values())


@contextmanager
def places(latency: float | None) -> Iterator[str]:
    """Yield where files go: a temporary folder, or a bucket on a server that takes its time."""
    if latency is None:
        with tempfile.TemporaryDirectory(prefix="splits-") as scratch:
            yield scratch
        return
    with s3_process() as url:
        os.environ.update(s3_environment(url))
        fsspec.filesystem("s3").mkdir("splits")
        yield "s3://splits"


def slopes(measured: Mapping[int, Mapping[str, float]]) -> Iterator[dict[str, object]]:
    """Yield the milliseconds that a file more costs in each step, between one size and the next."""
    for (few, less), (many, more) in pairwise(sorted(measured.items())):
        for step, seconds in more.items():
            slope = (seconds - less[step]) / (many - few)
            yield {"step": step, "from": few, "to": many, "cpu_msec_a_file": round(slope * 1e3, 2)}


def main() -> None:
    """Measure each number of files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--latency", type=float, help="use an S3 server that waits so many seconds")
    parser.add_argument("--option", nargs="+", default=[], help="more words for the command")
    given = parser.parse_args()
    measured: dict[int, dict[str, float]] = {}
    with places(given.latency) as place:
        if given.latency is None:
            given.option += ["--reuse", score_first(place)]
        for count in given.files:
            dump, output = f"{place}/dump-{count}", f"{place}/out-{count}"
            started = time.perf_counter()
            make_files(dump, count)
            print(f"{count} files made in {time.perf_counter() - started:.0f} s", file=sys.stderr)
            if given.latency is not None:
                url = os.environ["AWS_ENDPOINT_URL"]
                set_faults(url, rate=1.0, kinds=("stall",), stall=given.latency)
            for result in steps(dump, output, given):
                measured.setdefault(count, {})[str(result["step"])] = float(result["cpu_seconds"])
                print(json.dumps({"benchmark": "splits", "files": count, **result}), flush=True)
            if given.latency is not None:
                set_faults(url, rate=0.0)
    for slope in slopes(measured):
        print(json.dumps({"benchmark": "splits", **slope}), flush=True)


if __name__ == "__main__":
    main()
