"""What a split costs beside its rows, on a disk and on an object store."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.dump import Split, Splits
from bertscore_beam.records import RunTotals, find_records, record_path
from bertscore_beam.run import SUCCESS_FILE, OutputFolder
from bertscore_beam.score import ScoreJob, finish_run, resume_score
from tests.benchmarks.harness import Recorder, peak_mb, run_command
from tests.support.faults import count_faults, set_faults
from tests.support.jobs import job_options, plan_imported, start
from tests.support.s3 import s3_environment, s3_process

_FILES_PER_FOLDER = 1000
_MARK = "row @@@@@@@@"


def splits(
    recorder: Recorder,
    *,
    files: Sequence[int] = (1000, 10_000),
    workers: int = 2,
    latency: float = 0.0,
    option: Sequence[str] = (),
) -> None:
    """What a split costs beside its rows: planning, running, looking over again, concluding.

    Makes files of two rows and runs the command line over them: a dry run, the run, and the same
    command once more, which has nothing left to do. All files hold the same two pairs under ids of
    their own, and a run of one such file is given as `--reuse`. So rows take their scores from
    there, no model runs, and what remains is what the job itself costs for each file. The
    conclusion of a local run is the time from the last part to the success marker.

    With `--latency` input and output are on a local S3 server that waits so many seconds before
    each answer, and its requests are counted. There the model runs, since a look-up in an earlier
    run would be a request more for each file. `--option=--flag` has more words for the command.
    """
    measured: dict[int, dict[str, float]] = {}
    with places(latency) as place:
        url = os.environ["AWS_ENDPOINT_URL"] if latency else ""
        more = [*option, "--workers", workers]
        if not latency:
            make_files(f"{place}/first-dump", 1)
            run_command(score_words(f"{place}/first-dump", f"{place}/first"))
            more += ["--reuse", f"{place}/first"]
        for count in files:
            make_files(f"{place}/dump-{count}", count)
            output = f"{place}/out-{count}"
            if latency:
                set_faults(url, rate=1.0, kinds=("stall",), stall=latency)
            for step, flags in {"plan": ["--dry-run"], "run": [], "again": []}.items():
                before = sum(count_faults(url).values()) if latency else 0
                cost = run_command([*score_words(f"{place}/dump-{count}", output), *more, *flags])
                measured.setdefault(count, {})[step] = cost["cpu_seconds"]
                if latency:
                    cost["requests"] = sum(count_faults(url).values()) - before
                elif step == "run":
                    cost["conclusion_seconds"] = conclusion_seconds(Path(output))
                recorder.add(what=step, n=count, seconds=[cost.pop("seconds")], **cost)
            if latency:
                set_faults(url, rate=0.0)
    for (few, less), (many, costs) in pairwise(sorted(measured.items())):
        for step, seconds in costs.items():
            slope = (seconds - less[step]) / (many - few)
            recorder.add(what=f"{step}: a file more than {few}", n=many, cpu_msec=slope * 1e3)


def made_splits(recorder: Recorder, *, number: int = 1_000_000, folder: str = "") -> None:
    """What the launcher takes to begin and to end a run of made-up splits; no row is read.

    A file is scored, and its split and record are copied under other names, 1,000 splits a file:
    parts that are only as large as their records say, and records in files of their own, as a run
    leaves them that was stopped. A run is begun over these, and once more now that the records are
    packed, with nothing left to score. Then it is ended, without an index. The memory is the peak
    of this process, which has loaded torch; that of a run has not.
    """
    with TemporaryDirectory(prefix="made-", dir=folder or None) as place:
        make_files(f"{place}/dump", 1)
        run_command([*score_words(f"{place}/dump", f"{place}/out"), "--no-index"])
        options = job_options(Path(place, "dump"), Path(place, "out"), index=False)
        planned = plan_imported(options)
        (split,), output = planned.plan.splits, Path(planned.output)
        (record,) = find_records(OutputFolder(planned.output)).records
        file_rows = 1000 * record.num_rows

        def made() -> Iterator[Split]:
            for at in range(number):
                name, offset = f"{at // 1000:05}.parquet", at % 1000 * record.num_rows
                yield replace(split, input_name=name, row_offset=offset, file_rows=file_rows)

        rmtree(output)
        for one in made():
            names = ("part_name", "input_name", "row_offset", "file_rows")
            own = replace(record, **{name: getattr(one, name) for name in names})
            for path in (output / one.part_name, output / record_path(one.part_name)):
                path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(own.to_json())
            with (output / one.part_name).open("wb") as part:
                part.truncate(record.part_bytes)
        planned = replace(planned, plan=replace(planned.plan, splits=Splits.of(made())))

        def measured(step: str, act: Callable[[], Any]) -> Any:
            Path("/proc/self/clear_refs").write_text("5")  # forget the peak
            started, before = time.perf_counter(), time.process_time()
            result = act()
            cost = {"cpu_seconds": time.process_time() - before, "peak_memory_mb": peak_mb()}
            recorder.add(what=step, n=number, seconds=[time.perf_counter() - started], **cost)
            return result

        def begin() -> ScoreJob:
            return start(resume_score(planned, OutputFolder(planned.output)))

        measured("begin", begin)
        job = measured("begin again", begin)
        assert measured("end", lambda: finish_run(job.spec, RunTotals(), None))


def score_words(dump: str, output: str) -> list[str]:
    """Return the words that score a dump."""
    return ["score", "--input", dump, "--output", output, "--device", "cpu", "--quiet"]


def conclusion_seconds(output: Path) -> float:
    """Return the time from the last part to the success marker."""
    parts = output.rglob("part-*.parquet")
    return (output / SUCCESS_FILE).stat().st_mtime - max(path.stat().st_mtime for path in parts)


@contextmanager
def places(latency: float) -> Iterator[str]:
    """Yield where files go: a temporary folder, or a bucket on a server that takes its time."""
    if not latency:
        with TemporaryDirectory(prefix="splits-") as scratch:
            yield scratch
        return
    with s3_process() as url:
        os.environ.update(s3_environment(url))
        fsspec.filesystem("s3").mkdir("splits")
        yield "s3://splits"


def make_files(dump: str, count: int) -> None:
    """Write so many files of two rows below a folder or a URL."""
    columns = {
        "id": [f"{_MARK}-{row}" for row in range(2)],
        "candidate": [f"cat number {row}" for row in range(2)],
        "reference": [f"the cat with number {row}" for row in range(2)],
    }
    sink = pa.BufferOutputStream()
    plain = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    pq.write_table(pa.table(columns), sink, **plain)
    template = bytes(sink.getvalue())
    fs, root = fsspec.core.url_to_fs(dump)
    for folder in range(-(-count // _FILES_PER_FOLDER) if "://" not in dump else 0):
        Path(root, f"{folder:05d}").mkdir(parents=True)

    def write(number: int) -> None:
        folder, file = divmod(number, _FILES_PER_FOLDER)
        data = template.replace(_MARK.encode(), b"row %08d" % number)
        fs.pipe_file(f"{root}/{folder:05d}/shard-{file:05d}.parquet", data)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(write, range(count)))
