"""Cut off a run at each of its writes and deletions, give the same command again, compare the end.

`python -m tests.support.every_write FOLDER EVERY [KIND ...]` prints what it found as JSON. It
is a process of its own, since it forks: what takes seconds to import is imported once for all runs,
and a run that dies takes nothing with it but itself.

The project writes and deletes by few functions of `os` (see `bertscore_beam.files`). Each call is
counted here if it changes something below a folder, and one of them goes wrong. Calls wait for each
other, so that the number of changes is the same in every run. The runs are the smallest of their
kind, without a model: all that they write is real, but a stand-in for the encoder looks each token
up in a table of random vectors. So scores are a function of the texts, and a run takes less than a
second.
"""

import errno
import gc
import gzip
import io
import json
import os
import shutil
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch import Tensor

from bertscore_beam.baseline.sources import DATA_FOLDERS
from bertscore_beam.cli import main as cli
from bertscore_beam.dump.text.text_source import INPUT_FOLDER
from bertscore_beam.run.alone import LOCK_FILE
from bertscore_beam.run.folder import MANIFEST_FOLDER, RUN_FILE, OutputFolder
from bertscore_beam.run.output import JobFailedError
from bertscore_beam.run.publication import HEAD_FILE, WORK_FOLDER, successful_run
from bertscore_core.model.encoder import Encoder
from bertscore_core.model.resolve import ModelFiles
from bertscore_core.scorer_config import ScorerConfig
from tests.support.baseline_tables import write_rows
from tests.support.crawl_texts import sentences
from tests.support.dumps import pair_rows, write_dump
from tests.support.jobs import without_token
from tests.support.judgements import judgement_rows, write_judgements
from tests.support.quick_beam import remember
from tests.support.text_files import to_jsonl, write_text
from tests.support.tiny_models import build_tiny_model

WAYS = ("before", "after", "killed")
"""An error before the change is made, an error after it, and the death of the process before it."""

KILLED = 137
"""Status of a process that dies here, as that of one that was killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What goes wrong.

    Attributes:
        at: The number of the change, from 1 on.
        way: How it goes wrong, one of `WAYS`.
    """

    at: int
    way: str


@dataclass(slots=True)
class Disk:
    """What happened below the folder.

    Attributes:
        root: The folder.
        fault: What goes wrong; None for nothing.
        notes: File outside of it to which the rest is written.
        changes: Writes and deletions so far.
        happened: What went wrong, by the name of the function and the path; "" for nothing yet.
    """

    root: str
    fault: Fault | None
    notes: Path
    changes: int = 0
    happened: str = ""
    _turn: threading.RLock = field(default_factory=threading.RLock)

    def change(self, name: str, path: str, do: Callable[[], Any]) -> Any:
        """Make a change, or let it go wrong."""
        with self._turn:
            if not path.startswith(self.root) or not _changes(name, path):
                return do()
            self.changes += 1
            if self.fault is None or self.changes != self.fault.at:
                return do()
            self.happened = f"{name} {path[len(self.root) :]}"
            if self.fault.way == "killed":
                self.tell()
                os._exit(KILLED)
            if self.fault.way == "after":
                do()
            raise OSError(errno.EIO, "made up by a test")

    def tell(self) -> None:
        """Write down what happened."""
        told = {"changes": self.changes, "happened": self.happened}
        self.notes.write_text(json.dumps(told))


def _changes(name: str, path: str) -> bool:
    """Tell whether a call can have an effect. To `replace` and `link` the path is the new one."""
    if name in ("mkdir", "link"):
        return not os.path.lexists(path)
    if name == "rmdir":
        return os.path.isdir(path) and not os.listdir(path)
    return name == "replace" or os.path.lexists(path)


_FUNCTIONS = ("mkdir", "link", "replace", "remove", "rmdir", "unlink")


def _watched(disk: Disk, name: str) -> Callable[..., Any]:
    original: Callable[..., Any] = getattr(os, name)
    place = 1 if name in ("link", "replace") else 0

    def call(*args: Any, **kwargs: Any) -> Any:
        return disk.change(name, os.fspath(args[place]), lambda: original(*args, **kwargs))

    return call


_WIDTH = 8

Words = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallRun:
    """A command that writes into a folder.

    Attributes:
        words: The command.
        earlier: What has been run in that folder before, if anything; its output makes way.
        once: Whether the command is refused when its result is there.
    """

    words: Words
    earlier: Words = ()
    once: bool = False


def looked_up(files: ModelFiles, config: ScorerConfig, **_: Any) -> Encoder:
    """Stand in for `load_encoder`."""
    layers = files.depth + 1 if config.all_layers else 1
    shape = (layers, files.config["vocab_size"], _WIDTH)
    vectors = torch.randn(shape, generator=torch.Generator().manual_seed(1))

    def start(ids: Tensor, mask: Tensor) -> Any:
        return lambda: vectors[:, ids]

    return Encoder(
        model=None,
        forward=start,
        device=torch.device("cpu"),
        hidden_size=_WIDTH,
        num_outputs=layers,
    )


def small_runs(folder: Path, out: str) -> tuple[Words, Mapping[str, SmallRun]]:
    """Write the inputs below a folder.

    Args:
        folder: The folder.
        out: Where the runs write: a folder in it, or in a store.

    Returns:
        A command that makes a run which others take scores from, and the runs by their kind.
    """
    model = build_tiny_model("bert", folder / "bert")
    dump = write_dump(folder / "dump", [4, 2], row_group_size=2)
    pairs = pair_rows(6)
    samples = [[text, text.upper(), "?"] for text in pairs["candidate"]]
    pq.write_table(
        pa.table({**pairs, "candidate": samples}), folder / "samples.parquet", row_group_size=2
    )
    texts = folder / "texts"
    for name, start, rows in (("a", 0, 4), ("b", 4, 2)):
        write_text(texts / f"{name}.jsonl", to_jsonl(pa.table(pair_rows(rows, start)).to_pylist()))
    (folder / "en.txt").write_text("\n".join(sentences("en", 60, 8)) + "\n")
    judgements = write_judgements(folder / "judgements.parquet", judgement_rows(3))
    for name, shift in (("one", 0.0), ("two", 0.1)):
        write_rows(folder / f"{name}.tsv", np.linspace(0.2, 0.5, 12).reshape(4, 3) + shift)
    before = folder / "before"
    encoder = ("--device", "cpu", "--backend", "torch")
    scored = ("--model", model, *encoder, "--num-layers", 2)
    weighted = ("score", "--input", dump, *scored)
    weighted += ("--idf", "corpus", "--idf-key", "id", "--group-by", "id")
    score = ("score", "--input", texts, *scored, "--output", out, "--split-rows")
    full = (*weighted, "--output", out, "--split-rows", 2, "--reuse", before, "--overwrite")
    select = ("select", "--input", folder / "samples.parquet", *scored, "--output", out)
    select += ("--overwrite", "--split-rows", 2)
    idf = ("idf", "--input", texts, "--model", model, "--idf-key", "id", "--split-rows", 2)
    baseline = ("baseline", "--sentences", f"en={folder / 'en.txt'}", "--models", model)
    baseline += ("--pairs", 20, "--idf", *encoder, "--output", out, "--overwrite", "--seed")
    tune = ("tune", "--judgements", judgements, "--score-column", "human", "--by", "language")
    tune += ("--models", model, *encoder, "--metrics", "bleu", "--resamples", 100)
    tune += ("--min-rows", 3)
    tune += ("--output", out, "--registry", f"{out}/layers.json", "--layers")
    rescale = ("rescale", before, "--output", out, "--overwrite", "--baseline")
    return _words(*weighted, "--output", before, "--split-rows", 3), {
        "score": SmallRun(words=_words(*score, 2), earlier=_words(*score, 1)),
        "score with idf, key, groups and reuse": SmallRun(
            words=_words(*full), earlier=_words(*full, "--num-layers", 1)
        ),
        "select": SmallRun(words=_words(*select), earlier=_words(*select, "--num-layers", 1)),
        "idf": SmallRun(words=_words(*idf, "--output", f"{out}/table.npz"), once=True),
        "baseline": SmallRun(words=_words(*baseline, 1), earlier=_words(*baseline, 2)),
        "tune": SmallRun(words=_words(*tune, 1, 2), earlier=_words(*tune, 1)),
        "rescale": SmallRun(
            words=_words(*rescale, folder / "one.tsv"), earlier=_words(*rescale, folder / "two.tsv")
        ),
    }


def _words(*words: object) -> Words:
    return (*map(str, words), "--quiet")


TIMED = ("seconds", "started", "pairs_per_second")
"""Ends of the names of fields of JSON that hold clocks, at any depth."""

OF_A_RUN = ("run", "token", "epoch", "seal", "digest", "part_version", "reused")
OF_A_RUN += ("parts_of_earlier_runs", "parts_kept", "replaced", "tokens", "batches", "padding")
"""Fields of JSON that tell one run from another, at any depth; a file's digest is of these, too."""

State = dict[str, Any]
"""The content of each file of a folder, by its path, without clocks."""

_NO_RESULTS = (MANIFEST_FOLDER, HEAD_FILE, INPUT_FOLDER, WORK_FOLDER)

_SECONDS = 120
"""After which a run counts as one that hangs."""


def _faults(changes: int, every: int) -> Iterator[Fault]:
    """Yield what goes wrong: each change in each way, or every so many in the ways by turns."""
    for turn, at in enumerate(range(1, changes + 1, every)):
        for way in WAYS if every == 1 else WAYS[turn % len(WAYS) :][:1]:
            yield Fault(at=at, way=way)


def state_of(folder: Path) -> State:
    """Return what is in a folder."""
    found: State = {}
    head = folder / HEAD_FILE
    shards = json.loads(head.read_text())["shards"] if head.exists() else []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = str(path.relative_to(folder))
        if name.startswith(f"{MANIFEST_FOLDER}/parts-") and name not in shards:
            found[f"{MANIFEST_FOLDER}/a shard that the head does not name"] = None
        elif name in shards:  # the name has a token
            shard = json.loads(gzip.decompress(path.read_bytes()))
            found |= {f"entry of {entry[0]}": _timeless(entry[4]) for entry in shard["entries"]}
        elif path.name == HEAD_FILE:
            found[name] = json.loads(path.read_bytes())["state"]
        elif path.suffix == ".parquet":
            found[name] = without_token(path.read_bytes())
        elif path.suffix == ".json" or path.name == "_SUCCESS":
            found[name] = _timeless(json.loads(path.read_bytes()))
        elif path.suffix == ".npz" and "scores" in path.parts:
            with np.load(io.BytesIO(path.read_bytes())) as arrays:
                found[name] = {
                    key: arrays[key].tobytes() for key in arrays if not key.endswith(TIMED)
                }
        else:
            found[name] = path.read_bytes()
    return found


def _timeless(value: Any) -> Any:
    if isinstance(value, Mapping):
        names = [name for name in value if not name.endswith(TIMED) and name not in OF_A_RUN]
        return {name: _timeless(value[name]) for name in names}
    return [_timeless(one) for one in value] if isinstance(value, list) else value


def results_of(state: State) -> State:
    """Return what is no bookkeeping: parts with their records, tables, and what is said of them.

    In a folder of baselines, `_run.json` says what its data are of, which tables are made from.
    """
    command = state.get(RUN_FILE, {}).get("identity", {}).get("command")
    no_results = {*_NO_RESULTS, *((*DATA_FOLDERS, RUN_FILE) if command == "baseline" else ())}
    return {
        name: content
        for name, content in state.items()
        if not any(part in no_results or part.startswith(".") for part in name.split("/"))
    }


def _without_lock(state: State) -> State:
    """Leave out a lock: one that stays behind keeps nobody out."""
    return {name: content for name, content in state.items() if not name.endswith(LOCK_FILE)}


def differences(found: State, expected: State) -> str:
    """Name the files that differ; "" for none."""
    words = []
    for name in sorted(found.keys() | expected.keys()):
        if name not in found:
            words.append(f"{name} is missing")
        elif name not in expected:
            words.append(f"{name} is left")
        elif found[name] != expected[name]:
            words.append(f"{name} differs{_fields(found[name], expected[name])}")
    return "; ".join(words)


def _fields(found: Any, expected: Any) -> str:
    """Name the fields of JSON that differ."""
    if not (isinstance(found, dict) and isinstance(expected, dict)):
        return ""
    names = sorted(found.keys() | expected.keys())
    return f" in {[name for name in names if found.get(name) != expected.get(name)]}"


class Workshop:
    """Runs small runs in forks of this process, on a local disk."""

    def __init__(self, root: Path) -> None:
        self.out, self._log, self._told = root / "out", root / "log", root / "told"
        self._begin = root / "begin"
        before, self.runs = small_runs(root, str(self.out))
        self._done(before)

    def try_every(self, small: SmallRun, every: int) -> dict[str, Any]:
        """Cut a run off at every so many of its changes; in each way, or by turns.

        Returns:
            How many writes and deletions there are in a run that nothing befalls (`changes`), how
            many runs went wrong somewhere (`cuts`), how these ended, and how often (`statuses`),
            what is wrong with them, or with what the same command made of them (`problems`), and
            how long all of them took (`seconds`).
        """
        started = time.monotonic()
        self._warm_up(small.words)
        self._prepare(small)
        self._done(small.words)
        changes = json.loads(self._told.read_text())["changes"]
        first, whole = state_of(self._begin), state_of(self.out)
        statuses: Counter[int] = Counter()
        problems = []
        for fault in _faults(changes, every):
            self._begin_again()
            status = self._run(small.words, fault)
            happened = json.loads(self._told.read_text())["happened"]
            problem = "" if happened else "it was not reached"
            problem = problem or self._claims(status, first, whole) or self._again(small, whole)
            if problem:
                where = f"{fault.at} {fault.way} {happened}"
                problems.append(f"{where}: status {status}, {problem}")
            statuses[status] += 1
        shutil.rmtree(self.out)
        seconds = round(time.monotonic() - started, 1)
        found = {"changes": changes, "cuts": statuses.total(), "statuses": statuses}
        return {**found, "problems": problems, "seconds": seconds}

    def _warm_up(self, words: Words) -> None:
        """Run a command here: what it imports and makes once a process is there in all forks."""
        undrawn = mock.patch("vl_convert.vegalite_to_png", return_value=b"")  # threads of V8, too
        with redirect_stdout(io.StringIO()), undrawn:
            cli.main(words)
        while threading.active_count() > 1:  # a thread would be lost in the forks
            time.sleep(0.05)
        gc.collect()
        gc.freeze()  # a collection would touch, and so copy, all of it in each fork

    def _prepare(self, small: SmallRun) -> None:
        """Make the folder that a run begins with."""
        shutil.rmtree(self._begin, ignore_errors=True)
        self._begin.mkdir()
        self._begin_again()
        if small.earlier:
            self._done(small.earlier)
            shutil.copytree(self.out, self._begin, dirs_exist_ok=True)

    def _begin_again(self) -> None:
        shutil.rmtree(self.out, ignore_errors=True)
        shutil.copytree(self._begin, self.out)

    def _claims(self, status: int, first: State, whole: State) -> str:
        """Say what is missing in a folder that is said to be whole."""
        state = state_of(self.out)
        is_marked = False
        with suppress(JobFailedError):  # it is being published
            is_marked = successful_run(OutputFolder(str(self.out))) is not None
        if status == cli.DONE or (is_marked and results_of(state) != results_of(first)):
            return differences(results_of(state), results_of(whole))
        return ""

    def _again(self, small: SmallRun, whole: State) -> str:
        """Give the same command again; say what is wrong then."""
        if small.once and not differences(_without_lock(state_of(self.out)), whole):
            return ""
        status = self._run(small.words)
        if status != cli.DONE:
            return f"then {status}: {self._log.read_text()[-400:]}"
        return differences(state_of(self.out), whole)

    def _done(self, words: Words) -> None:
        if self._run(words) != cli.DONE:
            raise RuntimeError(self._log.read_text())

    def _run(self, words: Words, fault: Fault | None = None) -> int:
        """Run a command in a fork, and return its exit status."""
        process = os.fork()
        if not process:
            signal.alarm(_SECONDS)
            status = 70
            with suppress(BaseException):
                file = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                os.dup2(file, 1)
                os.dup2(file, 2)
                disk = Disk(f"{self.out}/", fault, self._told)
                with mock.patch.multiple(os, **{name: _watched(disk, name) for name in _FUNCTIONS}):
                    status = cli.main(words)
                disk.tell()
                sys.stdout.flush()
            os._exit(status)
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def main(arguments: Sequence[str]) -> int:
    """Try the kinds that are named, or all of them."""
    folder, every, *names = arguments
    torch.set_num_threads(1)
    with ExitStack() as stack:
        remember(stack.enter_context(pytest.MonkeyPatch.context()))
        for patch in (
            mock.patch("bertscore_core.scorer.load_encoder", looked_up),
            mock.patch("bertscore_beam.run.runner.usable_cores", return_value=1),  # no threads
            mock.patch("bertscore_beam.run.job._pool_of", return_value=None),  # nor processes
            mock.patch.object(os, "fsync"),  # processes die here, and no machine
        ):
            stack.enter_context(patch)
        shop = Workshop(Path(folder))
        for name in names or shop.runs:
            found = shop.try_every(shop.runs[name], int(every))
            print(json.dumps({"kind": name, **found}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
