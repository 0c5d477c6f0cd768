"""Find and open the earlier run whose scores are to be taken over."""

import posixpath
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date

from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.find import Trouble, search
from bertscore_beam.files.paths import absolute
from bertscore_beam.files.read import in_parallel
from bertscore_beam.records.finished import RunNotes, read_notes
from bertscore_beam.records.lookup import equal_settings
from bertscore_beam.records.records import has_parts
from bertscore_beam.records.row_scores import NO_SETTING
from bertscore_beam.run.folder import RUN_FILE, OtherFormatError, OutputFolder
from bertscore_beam.run.publication import successful_run
from bertscore_core.errors import ConfigError, InputError, SignatureError
from bertscore_core.signature import Signature, score_differences

UNCOUNTED = "corpus@"
"""Begins the field `idf` of a signature whose table is still to be counted."""

_LATEST = "latest:"
"""Begins a `--reuse` that is a pattern: the newest successful run among the folders it matches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReusableRun:
    """An earlier run whose scores may be taken over.

    Attributes:
        is_done: Whether it has succeeded. Its staged parts count as well.
        signatures: Those of its languages; their idf may be any of several tables.
        listed: Name of the list of its parts, which workers make tables of; "" before it is
            written.
    """

    root: str
    run: str
    is_done: bool
    signatures: tuple[str, ...]
    listed: str = ""

    @property
    def shown(self) -> str:
        """Its folder without credentials, for messages."""
        return mask_credentials(self.root)

    def describe(self) -> dict[str, str]:
        """Return which run it is, for `_run.json`."""
        return {"folder": self.shown, "run": self.run}


def find_reuse(reuse: str, output: str, now: Sequence[Signature]) -> tuple[ReusableRun | None, str]:
    """Find the run that a `--reuse` names, and tell whether its scores can be taken over.

    Args:
        reuse: The folder of a run, or `latest:` and a pattern of such folders.
        output: The output folder of this run.
        now: How rows are to be scored, one signature for each idf table. Where idf is still to be
            counted, its field is left out of the comparison.

    Returns:
        The run to take scores from, None if there is none; and what to tell the user about it.

    Raises:
        ConfigError: The folder named holds no scoring run, or is the output itself.
        OSError: A folder cannot be reached.
    """
    why = ""
    if reuse.startswith(_LATEST):
        pattern = reuse.removeprefix(_LATEST)
        runs, left_out = scoring_runs(pattern, "--reuse latest:")
        source = _latest(runs, output)
        order = "the dates of the folders" if _are_dated(runs) else "time"
        why = f" It is the newest by {order}."
        if source is None:
            shown = mask_credentials(pattern)
            note = f"No run has succeeded yet in a folder like {shown!r}: everything is scored."
            return None, note + left_out
        why += left_out
    else:
        try:
            source = _open(absolute(reuse), output)
        except OtherFormatError as error:
            return None, f"No scores can be reused: {error} Everything is scored."
    if not has_parts(OutputFolder(source.root)):
        note = (
            f"No scores can be reused from {source.shown}: it has written no part. Everything is "
            "scored."
        )
        return None, note
    if others := differences(source, now):
        return None, _other_settings(source, others)
    state = "" if source.is_done else " It is not done: what it has written is taken."
    note = f"Rows that {source.shown} has scored with the same texts take its scores."
    note += f"{state}{why}"
    return source, note


def _open(root: str, output: str) -> ReusableRun:
    folder = OutputFolder(root)
    if root == output:
        raise ConfigError(
            f"--reuse names the output itself: got {folder.shown!r}; expected the folder of "
            "another run. Parts that are in the output are kept without it."
        )
    notes = read_notes(folder)
    if notes is None:
        what = "the output of another command" if folder.exists(RUN_FILE) else f"no {RUN_FILE}"
        raise ConfigError(
            f"--reuse {folder.shown!r} is not a scoring run: got {what}; expected the output "
            "folder of `score`. Check the path, or write latest:PATTERN to use a run only if there "
            "is one."
        )
    return _source(notes)


def _latest(runs: Sequence[RunNotes], output: str) -> ReusableRun | None:
    for notes in reversed(runs):
        if notes.root != output and successful_run(OutputFolder(notes.root)) is not None:
            return _source(notes)
    return None


def _left_out(errors: Mapping[str, Exception]) -> str:
    """Say which runs are passed over since they cannot be read, after a space; "" for none."""
    note = ""
    for kind, why in ((InputError, "is damaged"), (OtherFormatError, "is of another version")):
        roots = [root for root, error in errors.items() if isinstance(error, kind)]
        if roots:
            note += (
                f" Runs left out because their {RUN_FILE} {why}: {len(roots):,}, such as "
                f"{mask_credentials(roots[-1])!r}."
            )
    return note


def scoring_runs(pattern: str, option: str) -> tuple[list[RunNotes], str]:
    """Return the scoring runs of the folders that a pattern matches, the oldest first.

    If all folders are named by dates, such as 2026-11-20 or dt=20261120, they are in the order of
    these: a night that is scored again stays where it was. Otherwise that of their times counts.

    Returns:
        The runs; and a note of others, after a space, if there are any that cannot be read.

    Raises:
        OSError: A folder cannot be listed or read.
    """
    searched = search(posixpath.join(pattern, RUN_FILE), (RUN_FILE,))
    lost = [match for match in searched.found if match.trouble is Trouble.UNLISTED]
    if lost:
        raise OSError(
            f"{mask_credentials(lost[0].path)!r} cannot be listed ({lost[0].message}); expected to "
            f"see every run that {option} may mean."
        )
    paths = (match.path for match in searched.found if match.trouble is None)
    roots = [absolute(path.removesuffix(RUN_FILE).rstrip("/")) for path in paths]
    runs: list[RunNotes] = []
    errors: dict[str, Exception] = {}
    for root, notes in zip(roots, in_parallel(_notes_in, roots), strict=True):
        if isinstance(notes, Exception):
            errors[root] = notes
        elif notes is not None and notes.started is not None:
            runs.append(notes)
    by_date = _are_dated(runs)
    runs.sort(
        key=lambda run: (str(folder_date(run.root)) if by_date else "", run.started, run.root)
    )
    return runs, _left_out(errors)


def _notes_in(root: str) -> RunNotes | Exception | None:
    try:
        return read_notes(OutputFolder(root))
    except (InputError, OtherFormatError) as error:
        return error


def _are_dated(runs: Sequence[RunNotes]) -> bool:
    return all(folder_date(run.root) is not None for run in runs)


_DATE = re.compile(r"(?<!\d)(\d{4})([-_]?)(\d\d)\2(\d\d)(?!\d)")


def folder_date(root: str) -> date | None:
    """Return the only date in the name of a folder; None without one, or with several."""
    dates = set()
    for match in _DATE.finditer(posixpath.basename(root.rstrip("/"))):
        with suppress(ValueError):
            dates.add(date(int(match[1]), int(match[3]), int(match[4])))
    return dates.pop() if len(dates) == 1 else None


def _source(notes: RunNotes) -> ReusableRun:
    stated = filter(None, (notes.signature, *notes.signatures.values()))
    return ReusableRun(
        root=notes.root,
        run=notes.run,
        is_done=successful_run(OutputFolder(notes.root)) is not None,
        signatures=tuple(dict.fromkeys(stated)),
    )


def differences(source: ReusableRun, now: Sequence[Signature]) -> dict[str, tuple[str, str]]:
    """Return in which fields the settings of an earlier run differ from the nearest of these.

    Both values by field; empty if one gives equal scores, or without any.
    """
    codes = equal_settings(source.signatures, tuple(signature.format() for signature in now))
    if (codes != NO_SETTING).any():
        return {}
    # Settings that differ in nothing but their idf tables differ alike.
    others = {
        replace(signature, idf="none" if signature.idf == "none" else ""): signature
        for signature in now
    }
    return min((_differences(source, one) for one in others.values()), key=len, default={})


def _differences(source: ReusableRun, now: Signature) -> dict[str, tuple[str, str]]:
    found = []
    for text in source.signatures:
        with suppress(SignatureError):
            found.append(score_differences(Signature.parse(text), now))
    if not found:
        return {"signature": ("none that can be read", now.format())}
    nearest = min(found, key=len)
    if "none" not in nearest.get("idf", ()):
        nearest.pop("idf", None)  # which table it is shows only when rows are looked up
    return nearest


def _other_settings(source: ReusableRun, differences: Mapping[str, tuple[str, str]]) -> str:
    listed = [
        f"{name} {earlier!r} there, {present!r} here"
        for name, (earlier, present) in differences.items()
    ]
    return (
        f"No scores can be reused from {source.shown}, since they were made with other settings: "
        f"{'; '.join(listed)}. Everything is scored."
    )
