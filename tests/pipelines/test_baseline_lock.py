"""A baseline run that has lost its folder leaves it to the run that has it now."""

import shutil

import pytest

from pipelines import cli
from pipelines.baseline.command import start_baseline
from pipelines.baseline.options import BaselineOptions
from pipelines.baseline.prepare import prepare_baseline
from pipelines.flags import read_options
from pipelines.io.files import TEMPORARY_PREFIX
from pipelines.lock import FolderLostError, RunLock
from tests.support.crawls import baseline, make_crawl, run_baseline


def files_below(folder):
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def finished(tmp_path_factory, tiny_folder):
    """Return the words of a finished run and its folder."""
    folder = tmp_path_factory.mktemp("finished")
    crawl, output = make_crawl(folder / "crawl"), folder / "out"
    model = shutil.copytree(tiny_folder("bert"), folder / "bert")
    assert run_baseline(crawl, output, model) == cli.DONE
    return baseline(crawl, output, model)[1:], output


@pytest.mark.parametrize("more", [(), ("--overwrite",), ("--overwrite", "--seed", "4")])
def test_start_of_a_baseline_that_lost_its_folder_changes_nothing(finished, more):
    words, output = finished
    (output / f"{TEMPORARY_PREFIX}1234").write_bytes(b"half")
    before = files_below(output)
    if "--seed" in more:
        words = words[: words.index("--seed")] + words[words.index("--seed") + 2 :]
    job = prepare_baseline(read_options(BaselineOptions, [*words, *more], "baseline"))
    with pytest.raises(FolderLostError):
        start_baseline(job, {"en": "another"}, RunLock(str(output), "another"))
    assert files_below(output) == before


def test_start_of_a_baseline_changes_nothing_after_it_loses_its_folder(
    finished, tmp_path, monkeypatch
):
    """The folder is lost at each look at the lock in turn."""
    words, whole = finished
    output = shutil.copytree(whole, tmp_path / "out")
    words = [str(output) if word == str(whole) else word for word in words]
    job = prepare_baseline(read_options(BaselineOptions, [*words, "--overwrite"], "baseline"))
    seen, looks = [], 0

    def check(lock):
        seen.append(files_below(output))
        if len(seen) > looks:
            raise FolderLostError

    monkeypatch.setattr(RunLock, "check", check)
    while True:
        seen.clear()
        try:
            start_baseline(job, {"en": "another"}, RunLock(str(output), "mine"))
        except FolderLostError:
            assert files_below(output) == seen[-1]
            looks += 1
        else:
            break
    assert looks == 6
