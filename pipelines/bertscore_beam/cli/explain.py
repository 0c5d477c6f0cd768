"""`bertscore-beam explain`: the score of rows of a run, or of two texts, token by token."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from bertscore_beam.cli.manner import manner
from bertscore_beam.cli.show import report, say
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.paths import absolute
from bertscore_beam.files.reach import reaching
from bertscore_beam.files.write import write_atomically
from bertscore_beam.idf.saved import load_idf
from bertscore_beam.options.flags import StrictParser, add_flags_of
from bertscore_beam.options.score import IDF_WORDS, ScoreOptions
from bertscore_beam.results.chosen_rows import extreme_rows, named_rows
from bertscore_beam.results.explain_rows import (
    RowChanges,
    RowExplanation,
    StoredRow,
    explain_row,
    read_idf,
    read_stored,
    row_config,
)
from bertscore_beam.results.explain_terminal import terminal
from bertscore_beam.run.outcome import Outcome
from bertscore_beam.run.printing import escape_line, escape_text
from bertscore_beam.run.runner import Runner
from bertscore_beam.run.streams import printed
from bertscore_beam.score.finished import FinishedRun, RowPlace, open_finished
from bertscore_beam.scorer import read_baseline, scorer_config
from bertscore_core import Baseline, BertScorer, ConfigError, explain
from bertscore_core.explanation import Explanation
from bertscore_core.explanation_html import page
from bertscore_core.explanation_picture import FORMATS, check_matplotlib, picture

# Options of `score` that say how two texts are scored.
_OF_TEXTS = (
    "model", "num_layers", "language", "revision", "max_length", "long_text", "idf", "rescale",
    "baseline", "empty", "dtype", "device", "backend", "allow_pickle_weights",
)  # fmt: skip

# Those that may be given with a run as well: where its files are now, and what computes.
_OF_RUNS = ("model", "revision", "idf", "baseline", "device", "backend", "allow_pickle_weights")

_TITLE = "BERTScore, explained"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Explained:
    """An explanation with its heading, notes for people, and what JSON says beside it.

    Warnings are notes, too: in which ways the explanation is not that of the run.
    """

    heading: str
    notes: tuple[str, ...]
    explanation: Explanation
    facts: dict[str, Any]
    warnings: tuple[str, ...] = ()


def explain_command(arguments: Sequence[str]) -> int:
    """Explain rows of a run, or two texts.

    Raises:
        ConfigError: The arguments contradict each other, or the run or the model cannot be used.
        InputError: The run has no such row.
    """
    parsed = _parse(arguments)
    kind = _kind_of(parsed.output)
    found = _explain_run(parsed, kind) if parsed.run is not None else _explain_texts(parsed)
    if parsed.output is not None:
        _write(parsed.output, kind, found)
    if parsed.output is None and not manner().json:
        _print(found)
        return printed()
    if parsed.output is not None:
        say(f"{mask_credentials(parsed.output)} is written.")
    warnings = tuple(f"{one.heading}: {words}" for one in found for words in one.warnings)
    document = {"explanations": [{**one.facts, **one.explanation.as_dict()} for one in found]}
    return report(Outcome(document=document, warnings=warnings, is_answer=True))


def _parse(arguments: Sequence[str]) -> Any:
    """Read the arguments, and check that they belong together."""
    parser = StrictParser(
        prog="bertscore-beam explain",
        description="Work out the score of rows of a run, or of two texts, token by token.",
        allow_abbrev=False,
    )
    parser.add_argument("run", nargs="?", metavar="RUN", help="output folder of `score`")
    parser.add_argument(
        "--row", nargs="+", action="extend", default=[], metavar="FILE:N",
        help="rows of the run: an input file, and a position in it from 0",
    )  # fmt: skip
    parser.add_argument("--worst", type=int, metavar="N", help="the N rows with the lowest F1")
    parser.add_argument("--best", type=int, metavar="N", help="the N rows with the highest F1")
    parser.add_argument("-c", "--candidate", metavar="TEXT", help="a candidate, without a run")
    parser.add_argument(
        "-r", "--reference", nargs="+", action="extend", default=[], metavar="TEXT",
        help="its reference, or several",
    )  # fmt: skip
    parser.add_argument(
        "--output", metavar="FILE", help="write FILE.html, FILE.png or FILE.svg, and print nothing"
    )
    add_flags_of(parser, ScoreOptions, _OF_TEXTS)
    parsed = parser.parse_strictly(arguments)
    if parsed.run is None:
        _check_texts(parsed)
    else:
        _check_run(parsed)
    return parsed


def _check_texts(parsed: Any) -> None:
    if parsed.candidate is None or not parsed.reference:
        raise ConfigError(
            "there is nothing to explain: got no run, and not both texts; expected RUN and its "
            "rows, or -c TEXT and -r TEXT."
        )
    if parsed.row or parsed.worst is not None or parsed.best is not None:
        raise ConfigError(
            "--row, --worst and --best choose rows of a run: got none; expected its folder. Write "
            "bertscore-beam explain RUN --row FILE:N."
        )
    if parsed.idf == "corpus":
        raise ConfigError(
            "--idf corpus cannot weigh two texts: got no corpus; expected the path of a table. "
            "Count one with `bertscore-beam idf`."
        )


def _check_run(parsed: Any) -> None:
    if parsed.candidate is not None or parsed.reference:
        raise ConfigError(
            "a run has texts of its own: got -c or -r beside it; expected one of the two. Leave "
            "the run out to explain two texts."
        )
    for name in ("worst", "best"):
        if (count := getattr(parsed, name)) is not None and count < 1:
            raise ConfigError(f"--{name} is {count}; expected at least 1.")
    if not parsed.row and parsed.worst is None and parsed.best is None:
        raise ConfigError(
            "no row was chosen: got a run alone; expected rows of it. Add --worst 5, --best 5 or "
            "--row FILE:N."
        )
    if parsed.idf in IDF_WORDS:
        raise ConfigError(
            f"--idf {parsed.idf} cannot weigh rows of a run: expected the path of the table that "
            "weighed them. Leave it out: the run has its own."
        )
    fixed = [name for name in _OF_TEXTS if name not in _OF_RUNS]
    given = [name for name in fixed if getattr(parsed, name) is not None]
    if given:
        flags = ", ".join("--" + name.replace("_", "-") for name in given)
        raise ConfigError(
            f"a row is explained with the settings of its run: got {flags}; expected none of "
            "these. Leave them out, or explain the two texts with -c and -r."
        )


def _kind_of(output: str | None) -> str:
    """Return the kind of file to write, "" for none; raise if it is unknown or cannot be made."""
    if output is None:
        return ""
    kind = output.rpartition(".")[2].lower()
    if kind not in (*FORMATS, "html"):
        raise ConfigError(
            f"--output cannot be written: got {mask_credentials(output)!r}; expected a name that "
            "ends in .html, .png or .svg. Rename it."
        )
    if kind in FORMATS:
        check_matplotlib()
    return kind


def _check_one(kind: str, count: int) -> None:
    """Raise if several explanations are to be put into a picture."""
    if kind in FORMATS and count > 1:
        raise ConfigError(
            f"a picture shows one row: got {count}; expected one. Choose one with --row, or write "
            "an HTML file."
        )


def _explain_texts(parsed: Any) -> list[_Explained]:
    given = {name: value for name in _OF_TEXTS if (value := getattr(parsed, name)) is not None}
    options = ScoreOptions.from_mapping({**given, "input": ["-"], "output": "-"}, "the flags")
    table = None
    if options.idf not in IDF_WORDS:
        with reaching("idf", options.idf):
            table = load_idf(options.idf).only(mask_credentials(options.idf))
    scorer = BertScorer(scorer_config(options, Runner.of(options)))
    explanation = explain(scorer, parsed.candidate, parsed.reference, idf=table)
    signature = scorer.signature(table).format()
    return [
        _Explained(
            heading="Two texts",
            notes=(f"signature: {signature}",),
            explanation=explanation,
            facts={"signature": signature},
        )
    ]


def _explain_run(parsed: Any, kind: str) -> list[_Explained]:
    run = open_finished(parsed.run)
    places = _places(parsed, run)
    _check_one(kind, len(places))
    rows = read_stored(run, places)
    changes = RowChanges(**{name: getattr(parsed, name) for name in _OF_RUNS})
    tables = read_idf(run, changes)
    scorers: dict[tuple[str | None, str], BertScorer] = {}
    found = []
    for row in rows:
        key = row.language, row.signature.format()
        if key not in scorers:
            scorers[key] = BertScorer(row_config(run, row, changes, _read_baseline))
        found.append(_of_row(explain_row(run, row, scorers[key], tables)))
    return found


def _places(parsed: Any, run: FinishedRun) -> list[RowPlace]:
    """Return the rows that were asked for, each once."""
    places = named_rows(run, parsed.row)
    if parsed.worst is not None:
        places += extreme_rows(run, parsed.worst, worst=True)
    if parsed.best is not None:
        places += extreme_rows(run, parsed.best, worst=False)
    if not places:
        raise ConfigError(
            f"the run in {run.folder.shown!r} has no row with a score; expected one to explain."
        )
    return list(dict.fromkeys(places))


def _read_baseline(path: str, row: StoredRow, language: str | None) -> Baseline:
    with reaching("baseline", path):
        return read_baseline(
            path,
            language=language,
            model=lambda: row.signature.model,
            idf=row.signature.idf != "none",
        )


def _of_row(explained: RowExplanation) -> _Explained:
    """Return the explanation of a row, with the scores that the run has."""
    row, differences = explained.row, explained.differences
    stored = row.scores
    notes = [
        f"in the run: precision {stored.precision:.6f}, recall {stored.recall:.6f}, F1 "
        f"{stored.f1:.6f}"
    ]
    if row.reason is not None:
        notes.append(f"bertscore_error: {row.reason}")
    warnings = tuple(f"not as in the run: {words}" for words in differences)
    return _Explained(
        heading=str(row.place),
        warnings=warnings,
        notes=(*notes, *warnings, f"signature: {row.signature.format()}"),
        explanation=explained.explanation,
        facts={
            "file": row.place.input_name,
            "row": row.place.row,
            "language": row.language,
            "signature": row.signature.format(),
            "error": row.reason,
            "stored": stored._asdict(),
            "differences": list(differences),
        },
    )


def _write(path: str, kind: str, found: Sequence[_Explained]) -> None:
    """Write the file for people."""
    if kind == "html":
        data = page([(one.heading, one.notes, one.explanation) for one in found], _TITLE).encode()
    else:
        data = picture(found[0].explanation, kind)
    with reaching("output", path):
        write_atomically(absolute(path), data)


def _print(found: Sequence[_Explained]) -> None:
    """Print for people; where there is no terminal, without colours and as wide as it gets."""
    console = Console(highlight=False)
    for one in found:
        console.print(escape_line(one.heading), style="bold", markup=False)
        console.print(terminal(one.explanation, width=console.width))
        for note in one.notes:
            console.print(escape_text(note), markup=False, soft_wrap=True)
        console.print()
