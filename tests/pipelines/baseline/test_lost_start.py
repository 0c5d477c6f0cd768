"""A baseline run that has lost its folder leaves it to the run that has it now."""

from dataclasses import replace

import pytest

from bertscore_beam.baseline import BaselineOptions, SourceFiles, begin_baseline, prepare_baseline
from bertscore_beam.files import TEMPORARY_PREFIX
from bertscore_beam.options import read_options
from bertscore_beam.run import FolderLostError, OutputFolder, RunLock, Runner
from tests.support.crawls import baseline
from tests.support.lost_folder import assert_nothing_changes_after_loss, files_below


@pytest.fixture
def plan_of(crawl, model, output):
    """Return what plans a run on the folder, whose source has other files by now."""

    def plan(*more):
        words = baseline(crawl, output, model)[1:]
        if "--seed" in more:
            words = words[: words.index("--seed")] + words[words.index("--seed") + 2 :]
        options = read_options(BaselineOptions, [*words, *more], "baseline")
        files = SourceFiles(names=(), paths={}, digest="another")
        return replace(prepare_baseline(options, Runner.of(options)), files={"en": files})

    return plan


def begin(plan, output, run):
    begin_baseline(plan, OutputFolder(str(output), RunLock(str(output), run)), print)


@pytest.mark.parametrize("more", [(), ("--overwrite",), ("--overwrite", "--seed", "4")])
def test_start_of_a_baseline_that_lost_its_folder_changes_nothing(output, plan_of, more):
    (output / f"{TEMPORARY_PREFIX}1234").write_bytes(b"half")
    plan = plan_of(*more)
    before = files_below(output)
    with pytest.raises(FolderLostError):
        begin(plan, output, "another")
    assert files_below(output) == before


def test_start_of_a_baseline_changes_nothing_after_it_loses_its_folder(
    output, plan_of, monkeypatch
):
    plan = plan_of("--overwrite")
    looks = assert_nothing_changes_after_loss(
        monkeypatch, output, lambda: begin(plan, output, "mine")
    )
    assert not list(output.rglob("*.tsv"))
    assert looks == 6  # as many as there are writes and deletions
