"""`bertscore-beam check`: whether the run of an output folder is done, as an exit status."""

from collections.abc import Sequence

from bertscore_beam.cli.show import answer, print_error
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.paths import absolute
from bertscore_beam.files.reach import before_work, reaching
from bertscore_beam.options.flags import StrictParser
from bertscore_beam.run.exit_status import BROKEN
from bertscore_beam.run.folder import RUN_FILE, SUCCESS_FILE, OutputFolder, read_run
from bertscore_beam.run.success import successful_run
from bertscore_core import ConfigError


def check(arguments: Sequence[str]) -> int:
    """Tell whether an output folder holds a run that has succeeded."""
    parser = StrictParser(
        prog="bertscore-beam check",
        description="Tell by the exit status whether the run of an output folder is done.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "folder", metavar="FOLDER", help="output folder of `score`, `rescale`, `baseline` or `tune`"
    )
    parsed = parser.parse_strictly(arguments)

    shown = mask_credentials(parsed.folder)
    with before_work(), reaching("folder", parsed.folder):
        folder = OutputFolder(absolute(parsed.folder))
        run, success = read_run(folder), successful_run(folder)
    if run is None:
        raise ConfigError(
            f"{shown!r} holds no run: got no {RUN_FILE}; expected the output folder of `score` or "
            "`baseline`. Check the path."
        )
    if success is None:
        return print_error(
            f"the run in {shown!r} is not done: got no {SUCCESS_FILE} of it; wait for it, or run "
            "its command again.",
            BROKEN,
        )
    return answer({"folder": shown}, f"{shown} is done")
