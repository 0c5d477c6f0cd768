"""`bertscore-beam report`: one page about a run, as HTML that needs nothing else."""

from argparse import Namespace
from collections.abc import Sequence
from typing import Any

from bertscore_beam.cli.show import answer, say
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.reach import before_work, reaching
from bertscore_beam.files.write import write_atomically
from bertscore_beam.options.flags import StrictParser
from bertscore_beam.results.groups import check_outside
from bertscore_beam.run.exit_status import DONE
from bertscore_beam.run.outcome import Shown
from bertscore_core.errors import ConfigError

DEFAULT_OUTPUT = "report.html"


def report_command(arguments: Sequence[str]) -> int:
    """Write a page about a run, and say where it is.

    Raises:
        ConfigError: The run is not done, an option does not fit, or a package is missing.
        InputError: A part of the run is damaged.
        OSError: The run or the output cannot be reached.
    """
    parsed = _parse(arguments)
    for run in (parsed.run, parsed.against or parsed.run):
        check_outside(parsed.output, run)
    collect, render, options = _imported(parsed)
    with before_work(), reaching("RUN", parsed.run, *([parsed.against] if parsed.against else [])):
        data = collect(options)
    page = render(data)
    with reaching("--output", parsed.output):
        write_atomically(parsed.output, page.encode())
    shown: str = mask_credentials(parsed.output)
    if parsed.with_texts:
        say(f"{shown} holds texts of the run: share it only with those who may read them.")
    f1 = data.total.f1
    document = {
        "status": DONE,
        "output": shown,
        "run": data.run,
        "rows": data.total.rows,
        "scored": data.total.scored,
        "f1": f1.mean,
        "f1_low": f1.low,
        "f1_high": f1.high,
        "nights": len(data.nights),
        "notices": list(data.notices),
        "bytes": len(page.encode()),
    }
    rows: list[tuple[str, ...]] = [
        ("page", shown),
        ("run", data.run),
        ("rows", f"{data.total.rows:,}"),
    ]
    if f1.mean is not None:
        rows.append(("f1", f"{f1.mean:.6f}"))
    rows += [("notice", words) for words in data.notices]
    return answer(document, [Shown("Report", ("", ""), rows)])


def _imported(parsed: Namespace) -> tuple[Any, Any, Any]:
    """Import what makes pages, and check the options.

    Raises:
        ConfigError: A package of the extra is missing.
    """
    try:
        from bertscore_beam.results.report.collect import collect
        from bertscore_beam.results.report.options import ReportOptions
        from bertscore_beam.results.report.page import render
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"no report can be made: the package {error.name!r} is missing; expected the packages "
            "of the extra 'results'. Install them: pip install 'bertscore-beam[results]'."
        ) from error
    options = ReportOptions(
        run=parsed.run,
        against=parsed.against,
        by=tuple(parsed.by),
        key=tuple(parsed.key),
        cluster=parsed.cluster,
        system_column=parsed.system_column,
        with_texts=parsed.with_texts,
        rows=parsed.rows,
        confidence=parsed.confidence,
        force=parsed.force,
    )
    return collect, render, options


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = StrictParser(
        prog="bertscore-beam report",
        description="Write one page about a finished run, as HTML that loads nothing.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "run",
        metavar="RUN",
        help="output folder of `score`, or a pattern of such folders: the newest is the headline, "
        "and all of them are the trend",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE.html",
        default=DEFAULT_OUTPUT,
        help=f"the page (default: {DEFAULT_OUTPUT})",
    )
    parser.add_argument("--against", metavar="RUN", help="another run, to compare with row by row")
    parser.add_argument(
        "--by",
        nargs="+",
        metavar="COLUMN",
        default=(),
        help="columns of groups",
    )
    parser.add_argument(
        "--key",
        nargs="+",
        metavar="COLUMN",
        default=(),
        help="columns that identify a row, for --against and --system-column; without it rows are "
        "paired by file and position",
    )
    parser.add_argument(
        "--cluster",
        metavar="COLUMN",
        help="rows with the same value resemble each other, such as those of one document",
    )
    parser.add_argument("--system-column", metavar="COLUMN", help="rank the systems of this column")
    parser.add_argument(
        "--with-texts", action="store_true", help="show the texts of single rows, not only scores"
    )
    parser.add_argument(
        "--rows",
        type=int,
        default=20,
        metavar="N",
        help="single rows of each kind, such as those with the lowest F1 (default: 20)",
    )
    parser.add_argument(
        "--confidence", type=float, default=0.95, help="of the intervals (default: 0.95)"
    )
    parser.add_argument(
        "--force", action="store_true", help="compare runs that were scored with other settings"
    )
    parsed = parser.parse_strictly(arguments)
    if not parsed.output.endswith((".html", ".htm")):
        raise ConfigError(
            f"--output cannot be written: got {mask_credentials(parsed.output)!r}; expected a name "
            "that ends in .html. Rename it."
        )
    return parsed
