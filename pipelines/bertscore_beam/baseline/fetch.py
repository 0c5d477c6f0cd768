"""Fetch files over http into the output folder, few at a time, for all workers to read.

Servers ask for few requests at a time, and reading takes longer than fetching. So files are
fetched in a few lanes, whatever the number of workers, and read in a stage of their own on all of
them. Only names go from one stage to the other: a file of 60 MB is no element of a pipeline.
"""

from collections.abc import Iterator, Sequence

from bertscore_beam.baseline import layout
from bertscore_beam.baseline.inputs import SentenceFile, note_failed
from bertscore_beam.crawl.fetch import FetchError, FetchPolicy, fetched
from bertscore_beam.files.paths import is_remote
from bertscore_beam.run.folder import OutputFolder

_ON_A_DISK = 128
"""Files that are fetched before they are read, if the output is on a disk: 8 GB of WET files."""
_IN_A_STORE = 1024
"""The same for an object store, 67 GB: a stage takes minutes to start on a cluster."""


def waves_of_files(files: Sequence[SentenceFile], output: str) -> list[list[SentenceFile]]:
    """Divide files into waves, which bound the space that fetched files take.

    Args:
        files: What to read.
        output: The output folder.

    Returns:
        One wave if no file has to be fetched.
    """
    size = len(files)
    if any(file.is_fetched for file in files):
        size = _IN_A_STORE if is_remote(output) else _ON_A_DISK
    return [list(files[start : start + size]) for start in range(0, len(files), max(size, 1))]


def lanes_of_files(files: Sequence[SentenceFile], downloads: int) -> list[tuple[SentenceFile, ...]]:
    """Divide files into lanes; the files of a lane are fetched one after the other.

    Args:
        files: What to fetch.
        downloads: Most files fetched at a time.
    """
    count = min(len(files), downloads)
    return [tuple(files[start::count]) for start in range(count)]


def lane_name(lane: Sequence[SentenceFile]) -> str:
    """Return the name that people know a lane by."""
    more = f" and {len(lane) - 1:,} more" if len(lane) > 1 else ""
    return lane[0].label + more


def fetch_lane(
    lane: Sequence[SentenceFile], *, folder: OutputFolder, policy: FetchPolicy
) -> Iterator[str]:
    """Fetch the files of a lane one after the other, and yield the labels of those fetched."""
    for file in lane:
        if fetch_file(file, folder, policy):
            yield file.label


def fetch_file(file: SentenceFile, folder: OutputFolder, policy: FetchPolicy) -> bool:
    """Fetch a file into the output folder; False where that failed, with a note in `_failed`.

    A file that was fetched already is not fetched again: that would be a lane that is retried.

    Raises:
        OSError: The copy cannot be written.
        FolderLostError: The folder belongs to another run by now.
    """
    record = layout.raw_record_path(file.label)
    if folder.exists(record):
        return True
    try:
        with fetched(file.path, policy) as got:
            folder.store(layout.raw_path(file.label), got.file)
    except FetchError as error:
        note_failed(file, error, folder)
        return False
    folder.write_json(record, {"attempts": got.attempts, "retries": list(got.retries)})
    return True


def labels_fetched(folder: OutputFolder) -> set[str]:
    """Return the labels of the files that are in the output folder, whole."""
    names = folder.files(layout.FETCHED_FOLDER, suffix=".json")
    return {name.removesuffix(".json") for name in names}


def retries_of(file: SentenceFile, folder: OutputFolder) -> tuple[str, ...]:
    """Return the attempts that failed before a file was fetched."""
    return tuple(folder.read_json(layout.raw_record_path(file.label)).get("retries", ()))


def delete_fetched(folder: OutputFolder, labels: Sequence[str]) -> None:
    """Delete fetched files: first their records, without which they do not count.

    Raises:
        FolderLostError: The folder belongs to another run by now.
    """
    folder.delete(*map(layout.raw_record_path, labels))
    folder.delete(*map(layout.raw_path, labels))


def delete_all_fetched(folder: OutputFolder) -> None:
    """Delete what runs that were killed have left of fetched files.

    Raises:
        FolderLostError: The folder belongs to another run by now.
    """
    left = [f"{layout.FETCHED_FOLDER}/{name}" for name in folder.files(layout.FETCHED_FOLDER)]
    folder.delete(*left)
    folder.delete_empty_folders(layout.FETCHED_FOLDER)
