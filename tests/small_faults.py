"""Put small faults into the code, one at a time, and see which layer of tests finds each.

    python -m tests.small_faults RESULTS.jsonl                    all faults, by the quick tests
    python -m tests.small_faults RESULTS.jsonl --layers quick test --rooms core score

A fault is a line of code and what it becomes. It is looked for by its text and not by its file, so
that moving code leaves the list as it is. Each is put into a copy of the tree, whose tests run one
layer after the other until one finds it. The results are appended to a file, a line each, and what
is in it already is not tried again.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
SOURCES = ("bertscore_core", "pipelines")
LAYERS = {
    "quick": "not (model or job or process or long)",
    "test": "(model or job or process) and not long",
    "engines": "long",
}
"""What each layer adds to the one before, as an expression of pytest marks."""


class Fault(NamedTuple):
    """A small fault, of the kind that a tired person makes.

    Attributes:
        room: The part of the project that it is in.
        right: A piece of code that occurs once.
        wrong: What it becomes.
    """

    room: str
    right: str
    wrong: str


FAULTS = (
    # Matching, batches, idf and windows.
    Fault(
        "core",
        "similarity.masked_fill(reference_padding[:, None, :], lowest).amax(dim=2)",
        "similarity.amax(dim=2)",
    ),
    Fault(
        "core",
        "similarity.masked_fill(candidate_padding[:, :, None], lowest).amax(dim=1)",
        "similarity.masked_fill(candidate_padding[:, :, None], 0.0).amax(dim=1)",
    ),
    Fault(
        "core",
        "torch.maximum(columns, tile.amax(dim=0), out=columns)",
        "torch.maximum(columns, tile.amin(dim=0), out=columns)",
    ),
    Fault(
        "core",
        "np.log((documents + 1) / (self.frequencies.counts + 1))",
        "np.log(documents / self.frequencies.counts)",
    ),
    Fault("core", "default = math.log(documents + 1)", "default = math.log(max(documents, 1))"),
    Fault(
        "core",
        "table = np.full(max(known, default=0) + 1, other)",
        "table = np.full(max(known, default=0) + 1, 1.0)",
    ),
    Fault("core", "return max(self.content // 2, 1)", "return max(self.content // 2 - 1, 1)"),
    Fault("core", "+ shape.content - 1) // 2 + 1)", "+ shape.content) // 2 + 1)"),
    Fault(
        "core",
        "if length <= tokenizer.num_special_tokens_to_add():",
        "if length < tokenizer.num_special_tokens_to_add():",
    ),
    Fault("core", "if not 0 <= layer < len(self.rows):", "if not 0 <= layer <= len(self.rows):"),
    Fault(
        "core",
        "return cls(first=pad_id + 1, pad_id=pad_id, fills=fills)",
        "return cls(first=pad_id, pad_id=pad_id, fills=fills)",
    ),
    Fault(
        "core",
        "if counts.min() < 1 or counts.max() > documents:",
        "if counts.min() < 1:",
    ),
    Fault(
        "core",
        "np.asarray(np.sqrt(variances) / math.sqrt(number), dtype=np.float64)",
        "np.asarray(np.sqrt(variances) / number, dtype=np.float64)",
    ),
    Fault(
        "core",
        "if len(order) and whole * bytes_per_token <= budget.block_bytes:",
        "if len(order):",
    ),
    # The scoring job.
    Fault(
        "records",
        'return split.file_version != "" and self.covers(split)',
        "return self.covers(split)",
    ),
    Fault(
        "records",
        "if record is None or part_sizes.get(record.part_name) != record.part_bytes:",
        "if record is None or record.part_name not in part_sizes:",
    ),
    Fault(
        "records",
        "whole = not goal.num_unreachable_files and not missing and not doubled and whole_idf",
        "whole = not goal.num_unreachable_files and not missing and whole_idf",
    ),
    Fault("records", "and idf in (None, record.idf)", "and idf is not False"),
    Fault(
        "score",
        "others = [name for name in records.keys() | sizes.keys() if name not in done]",
        "others = [name for name in records.keys() & sizes.keys() if name not in done]",
    ),
    Fault("records", "if size is None or size == len(line):", "if True:"),
    Fault("records", "if first <= place.row < rows:", "if first <= place.row <= rows:"),
    # Reading dumps.
    Fault(
        "dump",
        "rows + group.num_rows > target_rows or size + group.num_bytes > target_bytes",
        "rows + group.num_rows > target_rows",
    ),
    Fault("dump", "if start < self._position:", "if start <= self._position:"),
    Fault(
        "dump",
        "if (count := table.column_names.count(name)) > 1:",
        "if (count := table.column_names.count(name)) > 2:",
    ),
    Fault("dump", "if len(self.languages) > MOST_LANGUAGES:", "if False:"),
    Fault("dump", "self._open is not None:", "self._open is None:"),
    Fault(
        "dump",
        "number = min(math.ceil(rows / self.rows), self.most, len(splits)) or 1",
        "number = min(math.ceil(rows / self.rows), self.most) or 1",
    ),
    Fault("dump", "width = array.type.bit_width // 8", "width = 8"),
    # Runs, their folder and their workers.
    Fault("run", "if lock != content or beat not in (None, before):", "if lock != content:"),
    Fault("run", "if before.get(name) != identity.get(name)", "if name not in before"),
    Fault(
        "run",
        "while len(self._hand) < self._pool.at_once and not self._pool.closing:",
        "while len(self._hand) <= self._pool.at_once and not self._pool.closing:",
    ),
    Fault("run", "if holder is not None and holder.is_gone():", "if holder is not None:"),
    Fault(
        "run",
        "if isinstance(value, float) and not math.isfinite(value):",
        "if isinstance(value, float) and math.isinf(value):",
    ),
    # Earlier runs.
    Fault(
        "records", "return len(self.rows).bit_length() - 1", "return len(self.rows).bit_length()"
    ),
    Fault(
        "records",
        "words = np.full(NO_REASON + 1, None, dtype=object)",
        "words = np.full(NO_REASON, None, dtype=object)",
    ),
    Fault(
        "records",
        'return isinstance(identity, dict) and "command" not in identity',
        "return isinstance(identity, dict)",
    ),
    # Idf of a corpus.
    Fault("idf", "if len(known) < len(key):", "if not known:"),
    Fault("idf", "if rows < max(_FEWEST_ROWS, _MANY * distinct):", "if rows < _FEWEST_ROWS:"),
    Fault(
        "idf",
        "return rows is not None and rows < self.options.min_rows",
        "return rows is not None and rows <= self.options.min_rows",
    ),
    Fault(
        "idf",
        "return not self.group_columns and self.tables.keys() == {WHOLE}",
        "return not self.group_columns",
    ),
    # Files and stores.
    Fault("files", 'return not answer.get("Errors")', "return True"),
    Fault("files", 'if not name.endswith("/"):  # what consoles make for a folder', "if name:"),
    Fault(
        "files",
        "if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):",
        "if not stat.S_ISREG(mode) and stat.S_ISDIR(mode):",
    ),
    # Baselines, and the pages that they are made of.
    Fault(
        "baseline",
        "return record if record is not None and record.sample == sample.digest else None",
        "return record",
    ),
    Fault(
        "baseline",
        'return [code for code, row in summary["languages"].items() if row["sentences"] < 2]',
        'return [code for code, row in summary["languages"].items() if row["sentences"] < 1]',
    ),
    Fault(
        "baseline",
        "gap = np.nan_to_num(np.abs(moments.gaps) / moments.gap_errors).max()",
        "gap = np.nan_to_num(moments.gaps / moments.gap_errors).max()",
    ),
    Fault(
        "crawl",
        "return -(-len(sentence) // CHARACTERS_A_WORD)",
        "return len(sentence) // CHARACTERS_A_WORD",
    ),
    Fault("crawl", "if language is None or language not in languages:", "if language is None:"),
    Fault("crawl", "if wrong or len(content) > MAX_LISTING_BYTES:", "if wrong:"),
    # What is made of finished runs.
    Fault(
        "compare",
        "moves = np.where(np.abs(raw) > self._noise, differences, 0.0)",
        "moves = differences",
    ),
    Fault(
        "compare",
        "is_first = (comparison.result.difference or 0.0) > 0",
        "is_first = (comparison.result.difference or 0.0) >= 0",
    ),
    Fault(
        "compare", "return values[min(number, len(values) - 1)]", "return values[min(number, 0)]"
    ),
    Fault(
        "compare",
        "return not any(comparison.failures for comparison in self.comparisons)",
        "return not all(comparison.failures for comparison in self.comparisons)",
    ),
    Fault(
        "pages",
        "limit = np.partition(values[rows], count - 1)[count - 1]",
        "limit = np.partition(values[rows], count)[count]",
    ),
    Fault("baseline", "size = 12 if len(title) <= _LONGEST_NAME else 9", "size = 12"),
    Fault(
        "baseline",
        "if all(not want or want == own for want, own in zip(asked, key, strict=True))",
        "if any(not want or want == own for want, own in zip(asked, key, strict=True))",
    ),
    Fault("baseline", "if not is_known:", "if is_known is None:"),
    Fault("tune", "if (items == items[0]).all():", "if False:"),
    Fault(
        "tune",
        "return int(candidates[np.nanargmax(values)]) if np.isfinite(values).any() else None",
        "return int(candidates[np.nanargmin(values)]) if np.isfinite(values).any() else None",
    ),
    Fault(
        "tune",
        "most = max(len(group) for group in references)",
        "most = min(len(group) for group in references)",
    ),
    # What people give: options, commands, and Beam pipelines of their own.
    Fault(
        "options",
        "if option.is_needed and option.field not in values:",
        "if option.field not in values and False:",
    ),
    Fault("options", "if not isinstance(content, dict):", "if content is None:"),
    Fault("core", "return len(first) == len(second) and all(", "return all("),
    Fault(
        "pairs",
        "if num_threads is not None and (type(num_threads) is not int or num_threads < 1):",
        "if num_threads is not None and type(num_threads) is not int:",
    ),
    Fault(
        "pairs",
        "kinds = [item for item in get_args(kind) if item is not type(None)]",
        "kinds = list(get_args(kind))",
    ),
    Fault("pairs", "if not batch or name in seen:", "if not batch:"),
    Fault(
        "cli",
        'return [option.word if _TRUTH[value.lower()] else f"--no-{option.word[2:]}"]',
        "return [option.word]",
    ),
    Fault(
        "cli",
        "if kind in FORMATS and len(places) > 1:",
        "if kind in FORMATS and len(places) > 2:",
    ),
    Fault(
        "options",
        "if not self.row and self.worst is None and self.best is None:",
        "if not self.row and self.worst is None:",
    ),
    Fault(
        "cli",
        "elif isinstance(error, BertScoreError) and not isinstance(error, _BROKEN):",
        "elif isinstance(error, BertScoreError):",
    ),
    Fault(
        "imports",
        "return all(file.reason is not FileReason.UNLISTED for file in self.rejected)",
        "return True",
    ),
    Fault(
        "imports",
        "texts = tuple(text for text in plan.texts if text.target not in done)",
        "texts = plan.texts",
    ),
    Fault(
        "imports",
        'folder.delete(*(f"{IMPORTS_FOLDER}/{name}" for name in noted.keys() - kept))',
        "pass",
    ),
    Fault(
        "score",
        "final = raw if baseline is None else rescale(raw, np.array(baseline, np.float32))",
        "final = raw",
    ),
    Fault("score", "return taken, rows[~is_found]", "return taken, rows"),
    Fault(
        "options",
        "if option is None or option.name not in flags:",
        "if option is None or key not in flags:",
    ),
    Fault(
        "pages",
        "texts = _texts(run, places) if options.with_texts else [None] * len(places)",
        "texts = _texts(run, places)",
    ),
    Fault("pages", "against=earlier.candidate", "against=row.texts.candidate"),
)


def place_of(fault: Fault, root: Path) -> Path:
    """Return the only file that has the right piece of code.

    Raises:
        ValueError: None has it, or it occurs more than once.
    """
    counts = {
        path: found for path, text in _texts(root).items() if (found := text.count(fault.right))
    }
    if sum(counts.values()) != 1:
        raise ValueError(f"a fault cannot be placed: got {counts or 'no place'} of {fault.right!r}")
    return next(iter(counts))


@cache
def _texts(root: Path) -> dict[Path, str]:
    paths = (path for source in SOURCES for path in sorted((root / source).rglob("*.py")))
    return {path: path.read_text(encoding="utf-8") for path in paths}


def copy_tree(target: Path) -> None:
    """Copy the files that git knows, and those of the environment that tests call by path."""
    names = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True).split("\0")
    for name in filter(None, names):
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((ROOT / name).read_bytes())
        path.chmod((ROOT / name).stat().st_mode)
    (target / ".venv").symlink_to(ROOT / ".venv")


def finds(tree: Path, layer: str, room: str, arguments: list[str]) -> str:
    """Return the first test of a layer that fails in a tree; "" if none does.

    The tests of the fault's own room are tried first, since they find most and are few.
    """
    own = "tests/core" if room == "core" else f"tests/pipelines/{room}"
    return _fails(tree, layer, [own, "-n", "0", *arguments]) or _fails(
        tree, layer, ["-n", "2", "--dist", "loadfile", *arguments]
    )


def _fails(tree: Path, layer: str, arguments: list[str]) -> str:
    # The list's own test fails with every fault: it looks for the right code.
    arguments = ["--ignore", "tests/test_small_faults.py", *arguments]
    own = os.pathsep.join(map(str, (tree, tree / "pipelines")))
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    found = subprocess.run(
        [*command, "-m", LAYERS[layer], *arguments],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": own, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
    )
    lines = [line for line in found.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if found.returncode == 0:
        return ""
    return lines[0].split(" - ")[0] if lines else f"pytest ended with status {found.returncode}"


def main() -> None:
    """Try the faults that a file of results does not have yet, and count what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("--layers", nargs="+", default=["quick"], choices=LAYERS)
    parser.add_argument("--rooms", nargs="+", default=sorted({one.room for one in FAULTS}))
    parser.add_argument("--pytest", nargs=argparse.REMAINDER, default=[])
    given = parser.parse_args()
    lines = given.results.read_text().splitlines() if given.results.exists() else []
    known = {tuple(line["fault"]): line for line in map(json.loads, lines)}
    places = {fault: place_of(fault, ROOT) for fault in FAULTS if fault.room in given.rooms}
    for fault, place in places.items():
        tried = known.get(fault, {"tried": [], "test": ""})
        layers = [one for one in given.layers if one not in tried["tried"]]
        if tried["test"] or not layers:
            continue
        with tempfile.TemporaryDirectory(prefix="fault-") as folder:
            copy_tree(Path(folder))
            path = Path(folder) / place.relative_to(ROOT)
            path.write_text(path.read_text().replace(fault.right, fault.wrong))
            started, test = time.perf_counter(), ""
            done = list(tried["tried"])
            for layer in layers:
                done.append(layer)
                if test := finds(Path(folder), layer, fault.room, given.pytest):
                    break
        line = {"fault": fault, "tried": done, "test": test}
        known[fault] = line
        with given.results.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(f"{time.perf_counter() - started:6.0f} s  {fault.room:9} {test or 'NOT FOUND'}")
    found = Counter(line["tried"][-1] if line["test"] else "none" for line in known.values())
    print(dict(found))


if __name__ == "__main__":
    main()
