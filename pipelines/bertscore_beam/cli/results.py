"""`groups`, `compare` and `report`: what finished runs say."""

from typing import TYPE_CHECKING

from bertscore_beam.cli.show import report, say
from bertscore_beam.files import before_work, mask_credentials, reaching, write_atomically
from bertscore_beam.options import GroupsOptions
from bertscore_beam.pages import ReportOptions, check_outside, outcome_of_groups
from bertscore_beam.run import DONE, WORSE, Outcome, Shown
from bertscore_core import ConfigError

if TYPE_CHECKING:
    from bertscore_beam.compare import CompareOptions


def print_groups(options: GroupsOptions) -> int:
    """Print the groups of a run, and write them to a file if one is named."""
    return report(outcome_of_groups(options))


def compare(options: "CompareOptions") -> int:
    """Compare runs or systems, and print the result; return the exit status."""
    from bertscore_beam.compare import (
        check_paired,
        compare_runs,
        document_of,
        failures_of,
        tables_of,
        warnings_in,
    )

    with before_work():
        compared = compare_runs(options)
    if options.fail_if_drop is None:
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


def write_report(options: ReportOptions) -> int:
    """Write a page about a run, and say where it is."""
    runs = [options.run, *([options.against] if options.against else [])]
    for run in runs:
        check_outside(options.output, run)
    try:
        from bertscore_beam.compare import Compared, answer_of, failures_of
        from bertscore_beam.pages import collect, render
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"no report can be made: the package {error.name!r} is missing; expected the packages "
            "of the extra 'results'. In the checkout: pip install '.[results]'."
        ) from error
    with before_work(), reaching("RUN", *runs):
        data = collect(options)
    page = render(data)
    with reaching("--output", options.output):
        write_atomically(options.output, page.encode())
    shown: str = mask_credentials(options.output)
    if options.with_texts:
        say(f"{shown} holds texts of the run: share it only with those who may read them.")
    total = data.total.values
    compared = Compared(comparisons=() if data.against is None else (data.against,))
    failures = failures_of(compared)
    document = {
        "output": shown,
        "run": data.run,
        **{name: total[name] for name in ("rows", "scored", "f1", "f1_low", "f1_high")},
        "passed": compared.passed,
        "nights": len(data.nights),
        "notices": list(data.notices),
        "bytes": len(page.encode()),
    }
    rows: list[tuple[str, ...]] = [("page", shown), ("run", data.run)]
    rows.append(("rows", f"{total['rows']:,}"))
    if total["f1"] is not None:
        rows.append(("f1", f"{total['f1']:.6f}"))
    rows += answer_of(compared)
    rows += [("notice", words) for words in data.notices]
    return report(
        Outcome(
            status=WORSE if failures else DONE,
            shown=(Shown("Report", ("", ""), rows),),
            document=document,
            warnings=failures,
            is_answer=not failures,
        )
    )
