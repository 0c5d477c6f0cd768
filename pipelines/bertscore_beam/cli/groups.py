"""`bertscore-beam groups`: the mean scores of each group of rows of a finished run."""

from collections.abc import Sequence

from bertscore_beam.cli.show import answer
from bertscore_beam.files.reach import before_work
from bertscore_beam.options.flags import StrictParser
from bertscore_beam.results.groups import check_output, groups_of_run, write_table


def groups_command(arguments: Sequence[str]) -> int:
    """Print the groups of a run, and write them to a file if one is named."""
    parser = StrictParser(
        prog="bertscore-beam groups",
        description="Rows, mean scores and their errors of each group of a finished run.",
        allow_abbrev=False,
    )
    parser.add_argument("run", metavar="RUN", help="output folder of `score` or `rescale`")
    parser.add_argument(
        "--by",
        metavar="COLUMN",
        nargs="+",
        action="extend",
        default=[],
        help="columns of groups, by name or dotted path; by default all rows are one group",
    )
    parser.add_argument(
        "--confidence", type=float, default=0.95, help="of the intervals (default: 0.95)"
    )
    parser.add_argument(
        "--output", metavar="FILE", help="write all groups to this file: .parquet, .pq or .csv"
    )
    parsed = parser.parse_strictly(arguments)
    if parsed.output is not None:
        check_output(parsed.output, parsed.run)
    with before_work():
        found = groups_of_run(parsed.run, parsed.by, parsed.confidence)
        if parsed.output is not None:
            write_table(found, parsed.output)
    return answer(found.document(), [found.shown()])
