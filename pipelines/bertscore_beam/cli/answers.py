"""`groups`, `compare`, `report` and `check`: what finished runs say."""

from dataclasses import replace

from bertscore_beam.cli.show import print_error, report, say
from bertscore_beam.compare.compare_options import CompareOptions
from bertscore_beam.compare.comparison_tables import (
    caveats_in,
    changes_of,
    document_of,
    evidence_of,
    failures_of,
    gate_of,
    tables_of,
    warnings_in,
)
from bertscore_beam.compare.results import Compared
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.paths import absolute
from bertscore_beam.files.write import write_atomically
from bertscore_beam.options.answer_options import CheckOptions, GroupsOptions
from bertscore_beam.pages.group_rows import check_outside, outcome_of_groups
from bertscore_beam.pages.report_options import ReportOptions
from bertscore_beam.records.finished import (
    check_parts,
    open_finished,
    read_notes,
    why_not_done,
    without_other_formats,
)
from bertscore_beam.records.groups import group_name
from bertscore_beam.run.folder import RUN_FILE, OutputFolder
from bertscore_beam.run.output import BROKEN, DONE, UNJUDGED, WORSE, Outcome, TextTable
from bertscore_beam.run.publication import successful_run
from bertscore_core.errors import ConfigError

_STATUSES = {True: DONE, False: WORSE, None: UNJUDGED}
"""How a command ends, by whether its gate is passed."""


def print_groups(options: GroupsOptions) -> int:
    """Print the groups of a run, and write them to a file if one is named."""
    return report(outcome_of_groups(options))


def print_comparison(options: CompareOptions) -> int:
    """Compare runs or systems, and print the result; return the exit status."""
    # Here, since it takes time.
    from bertscore_beam.compare.compare import check_paired, compare_runs

    against, note = without_other_formats(options.against)
    if note and not against:
        open_finished(options.run)  # for its checks
        compared = Compared(comparisons=(), drop=options.fail_if_drop)
    else:
        compared = compare_runs(replace(options, against=against))
    check_paired(compared)
    status = _STATUSES[compared.passed]
    return report(
        Outcome(
            status=status,
            shown=tables_of(compared),
            document=document_of(compared),
            failures=failures_of(compared),
            warnings=(*filter(None, [note]), *warnings_in(compared)),
            notices=caveats_in(compared),
            is_answer=status == DONE,
        )
    )


def write_report(options: ReportOptions) -> int:
    """Write a page about a run, and say where it is."""
    runs = [options.run, *options.against]
    for path in runs:
        check_outside(options.output, path)
    try:
        from bertscore_beam.pages.page import caveat_sentences, render
        from bertscore_beam.pages.report_rows import collect
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"no report can be made: the package {error.name!r} is missing; expected the packages "
            "of the extra 'results'. In the checkout: pip install '.[results]'."
        ) from error
    against, note = without_other_formats(options.against)
    data = collect(options.with_runs(against))
    page = render(data)
    write_atomically(options.output, page.encode())
    shown: str = mask_credentials(options.output)
    if options.with_texts:
        say(f"{shown} holds texts of the run: share it only with those who may read them.")
    total = data.total.values
    compared = Compared(comparisons=data.comparisons, drop=options.fail_if_drop)
    status = _STATUSES[compared.passed]
    caveats = tuple(caveat_sentences(data))
    document = {
        "output": shown,
        "run": data.run,
        **{name: total[name] for name in ("rows", "scored", "f1", "f1_low", "f1_high")},
        "passed": compared.passed,
        "nights": len(data.nights),
        "notices": list(data.notices),
        "caveats": list(caveats),
        "bytes": len(page.encode()),
    }
    rows = [("page", shown), *gate_of(compared), *evidence_of(compared), *changes_of(compared)]
    rows += [("run", data.run), ("rows", f"{total['rows']:,}")]
    rows += [
        (f"f1 of {group_name(row.group)}", f"{row.values['f1']:.6f}")
        for row in data.scored_languages
    ]
    if total["f1"] is not None:
        rows.append((f"f1{data.over_languages}", f"{total['f1']:.6f}"))
    return report(
        Outcome(
            status=status,
            shown=(TextTable("Report", ("", ""), rows),),
            document=document,
            failures=failures_of(compared),
            warnings=tuple(filter(None, [note])),
            notices=(*data.notices, *caveats),
            is_answer=status == DONE,
        )
    )


def check(options: CheckOptions) -> int:
    """Tell whether an output folder holds a run that has succeeded, and is whole."""
    shown = mask_credentials(options.run)
    folder = OutputFolder(absolute(options.run))
    notes, success = read_notes(folder), successful_run(folder)
    if notes is not None and success is not None:
        finished = open_finished(options.run)  # for its checks
        if options.parts:
            check_parts(finished)
    is_there = notes is not None or folder.exists(RUN_FILE)
    why = "" if success else why_not_done(folder)
    if not is_there:
        raise ConfigError(
            f"{shown!r} holds no run: got no {RUN_FILE}; expected the output folder of `score` "
            "or `baseline`. Check the path."
        )
    if options.parts and notes is None:
        raise ConfigError(
            f"--parts reads the parts of a scoring run: got {shown!r}, the output of another "
            "command; expected that of `score`, `select` or `rescale`. Leave --parts out."
        )
    if success is None:
        return print_error(why, BROKEN)
    done = TextTable("Check", ("",), [(f"{shown} is done",)])
    return report(Outcome(shown=(done,), document={"folder": shown}, is_answer=True))
