"""`groups`, `compare`, `report` and `check`: what finished runs say."""

from bertscore_beam import compare, files, records, run
from bertscore_beam.cli.show import print_error, report, say
from bertscore_beam.options import CheckOptions, GroupsOptions
from bertscore_beam.pages import ReportOptions, check_outside, outcome_of_groups
from bertscore_core import ConfigError


def print_groups(options: GroupsOptions) -> int:
    """Print the groups of a run, and write them to a file if one is named."""
    return report(outcome_of_groups(options))


def print_comparison(options: "compare.CompareOptions") -> int:
    """Compare runs or systems, and print the result; return the exit status."""
    with files.before_work():
        compared = compare.compare_runs(options)
    if options.fail_if_drop is None:
        compare.check_paired(compared)
    failures = compare.failures_of(compared)
    return report(
        run.Outcome(
            status=run.WORSE if failures else run.DONE,
            shown=compare.tables_of(compared),
            document=compare.document_of(compared),
            warnings=(*compare.warnings_in(compared), *failures),
            is_answer=not failures,
        )
    )


def write_report(options: ReportOptions) -> int:
    """Write a page about a run, and say where it is."""
    runs = [options.run, *options.against]
    for path in runs:
        check_outside(options.output, path)
    try:
        from bertscore_beam.compare import Compared, answer_of, failures_of
        from bertscore_beam.pages import collect, render
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"no report can be made: the package {error.name!r} is missing; expected the packages "
            "of the extra 'results'. In the checkout: pip install '.[results]'."
        ) from error
    with files.before_work(), files.reaching("RUN", *runs):
        data = collect(options)
    page = render(data)
    with files.reaching("--output", options.output):
        files.write_atomically(options.output, page.encode())
    shown: str = files.mask_credentials(options.output)
    if options.with_texts:
        say(f"{shown} holds texts of the run: share it only with those who may read them.")
    total = data.total.values
    compared = Compared(comparisons=data.comparisons)
    failures = failures_of(compared)
    document = {
        "output": shown,
        "run": data.run,
        **{name: total[name] for name in ("rows", "scored", "f1", "f1_low", "f1_high")},
        "passed": compared.passed,
        "nights": len(data.nights),
        "notices": list(data.notices),
        "caveats": list(data.caveats),
        "bytes": len(page.encode()),
    }
    rows = [("page", shown), ("run", data.run), ("rows", f"{total['rows']:,}")]
    rows += [
        (f"f1 of {records.group_name(row.group or ())}", f"{row.values['f1']:.6f}")
        for row in data.scored_languages
    ]
    if total["f1"] is not None:
        rows.append((f"f1{data.over_languages}", f"{total['f1']:.6f}"))
    rows += answer_of(compared)
    rows += [("notice", words) for words in data.notices]
    rows += [("caveat", words) for words in data.caveats]
    return report(
        run.Outcome(
            status=run.WORSE if failures else run.DONE,
            shown=(run.Shown("Report", ("", ""), rows),),
            document=document,
            warnings=failures,
            is_answer=not failures,
        )
    )


def check(options: CheckOptions) -> int:
    """Tell whether an output folder holds a run that has succeeded, and is whole."""
    shown = files.mask_credentials(options.run)
    with files.before_work(), files.reaching("RUN", options.run):
        folder = run.OutputFolder(files.absolute(options.run))
        notes, success = records.read_notes(folder), run.successful_run(folder)
        gates = None if success else folder.read_json(run.SUMMARY_FILE).get("failed_gates")
        if notes is not None and success is not None:
            finished = records.open_finished(options.run)  # for its checks
            if options.parts:
                records.check_parts(finished)
        is_there = notes is not None or folder.exists(run.RUN_FILE)
    if not is_there:
        raise ConfigError(
            f"{shown!r} holds no run: got no {run.RUN_FILE}; expected the output folder of `score` "
            "or `baseline`. Check the path."
        )
    if options.parts and notes is None:
        raise ConfigError(
            f"--parts reads the parts of a scoring run: got {shown!r}, the output of another "
            "command; expected that of `score`, `select` or `rescale`. Leave --parts out."
        )
    if success is None:
        why = f"got no {run.SUCCESS_FILE} of it; wait for it, or run its command again."
        if isinstance(gates, list) and gates:
            names = ", ".join(map(str, gates))
            why = f"it ended without passing {names}; see its {run.SUMMARY_FILE}."
        return print_error(f"the run in {shown!r} is not done: {why}", run.BROKEN)
    done = run.Shown("Check", ("",), [(f"{shown} is done",)])
    return report(run.Outcome(shown=(done,), document={"folder": shown}, is_answer=True))
