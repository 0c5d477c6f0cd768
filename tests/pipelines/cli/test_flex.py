"""Starting from a Flex Template."""

import pytest

from bertscore_beam.cli.flex import command, launch
from bertscore_beam.options.flags import read_options
from bertscore_beam.options.score_options import ScoreOptions
from bertscore_beam.run.runner import Runner

LAUNCHER = [
    "--runner=DataflowRunner",
    "--project=a-project",
    "--region=us-central1",
    "--temp_location=gs://a-bucket/tmp",
    "--template_location=gs://a-bucket/staging/template_launches/1/job_object",
]


def options(*arguments):
    verb, *rest = command("score", [*arguments, *LAUNCHER])
    assert verb == "score"
    return read_options(ScoreOptions, rest, "test")


def test_parameters_are_ours_by_any_spelling_and_all_else_is_beams():
    found = options(
        "--input=gs://a-bucket/a.parquet gs://a-bucket/b.parquet",
        "--output=gs://a-bucket/out",
        "--split_rows=100",
        "--candidate-column=hyp",
        "--rescale=true",
        "--lang=no",
        "--overwrite=False",
        "--model=",
    )
    assert found.input == ("gs://a-bucket/a.parquet", "gs://a-bucket/b.parquet")
    assert (found.split_rows, found.candidate_column, found.language) == (100, ("hyp",), "no")
    assert (found.rescale, found.overwrite, found.model) == (True, False, None)
    assert found.beam == tuple(LAUNCHER)


def test_a_template_only_submits_the_job():
    assert Runner.of(options("--input=a", "--output=b")).detached


@pytest.mark.job
def test_launching_ends_as_the_command_does(capsys):
    assert launch("score", ["--input=a", "--output=b", "--rescale=si"]) == 2
    said = capsys.readouterr().err
    assert "parameter rescale cannot be used: got 'si'; expected true or false." in said
    arguments = ["--input=gs://a-bucket/in", "--output=gs://a-bucket/out", *LAUNCHER]
    assert launch("score", arguments) == 2
    assert "DataflowRunner needs --sdk_container_image" in capsys.readouterr().err
