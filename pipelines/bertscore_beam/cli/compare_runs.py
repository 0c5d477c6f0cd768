"""`bertscore-beam compare`: compare a run with others row by row, or systems of one run."""

import argparse
from collections.abc import Sequence

from bertscore_beam.cli.show import report
from bertscore_beam.files.reach import before_work
from bertscore_beam.options.flags import StrictParser
from bertscore_beam.run.exit_status import DONE, WORSE
from bertscore_beam.run.outcome import Outcome


def compare_runs_command(arguments: Sequence[str]) -> int:
    """Compare runs or systems, and print the result; return the exit status.

    Raises:
        ConfigError: They cannot be compared, or not as asked for.
    """
    parsed = _parse(arguments)
    from bertscore_beam.results.compare import check_paired, compare_runs
    from bertscore_beam.results.compare_options import CompareOptions
    from bertscore_beam.results.comparison_tables import (
        document_of,
        failures_of,
        tables_of,
        warnings_in,
    )

    with before_work():
        compared = compare_runs(
            CompareOptions(
                run=parsed.run,
                against=tuple(parsed.against),
                key=tuple(parsed.key),
                by=tuple(parsed.by),
                cluster=parsed.cluster,
                measure=parsed.measure,
                confidence=parsed.confidence,
                fail_if_drop=parsed.fail_if_drop,
                max_missing_fraction=parsed.max_missing_fraction,
                force=parsed.force,
                systems=None if parsed.systems is None else tuple(parsed.systems),
                system_column=parsed.system_column,
                seed=parsed.seed,
            )
        )
    if parsed.fail_if_drop is None:
        check_paired(compared)
    failures = failures_of(compared)
    return report(
        Outcome(
            status=WORSE if failures else DONE,
            shown=tables_of(compared),
            document=document_of(compared),
            warnings=(*warnings_in(compared), *failures),
            is_answer=not failures,
        )
    )


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = StrictParser(
        prog="bertscore-beam compare",
        description="Compare a finished run with others row by row, or systems within it.",
        allow_abbrev=False,
    )
    parser.add_argument("run", metavar="RUN", help="output folder of `score`")
    parser.add_argument(
        "against",
        metavar="AGAINST",
        nargs="*",
        help="output folders to compare it with, each by itself; differences are RUN - AGAINST",
    )
    parser.add_argument(
        "--key",
        metavar="COLUMN",
        nargs="+",
        default=(),
        help="columns that identify a row; by default rows are paired by file and position",
    )
    parser.add_argument(
        "--by",
        metavar="COLUMN",
        nargs="+",
        default=(),
        help="columns of groups, each of which is compared as well",
    )
    parser.add_argument(
        "--cluster",
        metavar="COLUMN",
        help="rows with the same value resemble each other, such as those of one document",
    )
    parser.add_argument(
        "--systems",
        metavar="NAME",
        nargs="*",
        help="compare two systems of the run, or rank more of them; without names, all",
    )
    parser.add_argument(
        "--system-column",
        metavar="COLUMN",
        default="system",
        help="column of systems (default: system)",
    )
    parser.add_argument(
        "--measure", default="f1", help="f1, precision or recall (default: f1)", metavar="MEASURE"
    )
    parser.add_argument(
        "--confidence",
        type=float,
        default=0.95,
        help="of the intervals and the gate (default: 0.95)",
    )
    parser.add_argument(
        "--fail-if-drop",
        type=float,
        metavar="DROP",
        help="end with status 4 if RUN, or a group, is worse by more than this",
    )
    parser.add_argument(
        "--max-missing-fraction",
        type=float,
        default=0.01,
        metavar="SHARE",
        help="largest share of the rows scored in AGAINST that may have no score in RUN, with "
        "--fail-if-drop (default: 0.01)",
    )
    parser.add_argument(
        "--force", action="store_true", help="compare scores that were made with other settings"
    )
    parser.add_argument(
        "--seed", type=int, default=12345, help="of the tests by resampling (default: 12345)"
    )
    parsed, unknown = parser.parse_known_args(arguments)
    wrong = [word for word in unknown if word.startswith("-")]
    if wrong:
        raise parser.unknown_flag(wrong[0])
    parsed.against += unknown  # argparse leaves over the folders that follow a flag
    return parsed
