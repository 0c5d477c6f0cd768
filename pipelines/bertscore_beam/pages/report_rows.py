"""Collect what a page says: from the rows of a run, its summary, and the runs beside it."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np
import pyarrow as pa

from bertscore_beam.compare import (
    WHOLE,
    CompareOptions,
    Comparison,
    Group,
    MovedRow,
    Ranking,
    compare_runs,
    compare_settings,
    keys_of,
    unpaired_words,
)
from bertscore_beam.dump import (
    NO_CODE,
    Text,
    UnreadableText,
    by_name,
    column_of,
    columns,
    language_of,
    reference_texts,
    texts_from_column,
    words_for,
)
from bertscore_beam.files import mask_credentials, reaching
from bertscore_beam.pages.one_pass import OPTION, Findings, gather, language_column
from bertscore_beam.pages.report_data import (
    F1,
    ChosenRow,
    Cost,
    GroupRow,
    Night,
    ReasonCount,
    ReportData,
    Texts,
)
from bertscore_beam.pages.report_options import ReportOptions
from bertscore_beam.pages.words import signature_sentences
from bertscore_beam.records import (
    FinishedRun,
    RowPlace,
    group_order,
    merge_groups,
    open_finished,
    read_rows,
    scoring_runs,
)
from bertscore_beam.run import OutputFolder, successful_run
from bertscore_core.errors import ConfigError
from bertscore_core.stats import STATISTIC_BINS, ScoreStatistics

# Rows that are shown by themselves: their scores, and their texts if the page holds texts.

_UNREADABLE = {
    UnreadableText.INVALID_UTF8: "(not valid UTF-8)",
    UnreadableText.NOT_TEXT: "(not a text)",
}


def extreme_rows(
    run: FinishedRun, rows: Sequence[ChosenRow], key: Sequence[str], *, with_texts: bool
) -> tuple[ChosenRow, ...]:
    """Return rows with the lowest or highest F1 as they are shown."""
    places = [RowPlace(row.file, row.row) for row in rows]
    texts = _texts(run, places) if with_texts else [None] * len(places)
    return tuple(
        replace(row, texts=own, key=values)
        for row, own, values in zip(rows, texts, keys_of(run, places, key), strict=True)
    )


def moved_rows(
    run: FinishedRun, against: FinishedRun, moved: Sequence[MovedRow], *, with_texts: bool
) -> tuple[ChosenRow, ...]:
    """Return rows that have moved as they are shown, in the order given."""
    places = [RowPlace(row.file, row.row) for row in moved]
    stored = read_rows(run, places, [*_SCORES, columns.CANDIDATE_TOKENS, columns.ERROR])
    texts: Sequence[Texts | None] = [None] * len(moved)
    if with_texts:
        earlier = [RowPlace(row.against_file, row.against_row) for row in moved]
        texts = [
            _with_candidate(now, before)
            for now, before in zip(_texts(run, places), _texts(against, earlier), strict=True)
        ]
    return tuple(
        ChosenRow(
            file=row.file,
            row=row.row,
            group=row.group,
            precision=_value(table, columns.PRECISION),
            recall=_value(table, columns.RECALL),
            f1=row.score,
            tokens=_value(table, columns.CANDIDATE_TOKENS),
            reason=_value(table, columns.ERROR),
            before=row.against_score,
            texts=own,
            key=row.key,
        )
        for row, table, own in zip(moved, stored, texts, strict=True)
    )


_SCORES = (columns.PRECISION, columns.RECALL)


def _with_candidate(now: Texts, before: Texts) -> Texts:
    return replace(now, against=before.candidate)


def _value(row: pa.Table, name: str) -> Any:
    return row[name][0].as_py() if name in row.schema.names else None


def _texts(run: FinishedRun, places: Sequence[RowPlace]) -> list[Texts]:
    identity = run.run["identity"]
    candidate = str(identity.get("candidate_column", "candidate"))
    reference = str(identity.get("reference_column", "reference"))
    language = language_column(run)
    wanted = [candidate, reference, *([language] if language else [])]
    return [
        Texts(
            candidate=_shown(texts_from_column(column_of(row, candidate))[0]),
            references=_references(row, reference),
            language=_code(row, language),
        )
        for row in read_rows(run, places, wanted)
    ]


def _references(row: pa.Table, name: str) -> tuple[str, ...]:
    texts = reference_texts(column_of(row, name))[0]
    return ("(null)",) if texts is None else tuple(map(_shown, texts))


def _code(row: pa.Table, name: str | None) -> str | None:
    code = NO_CODE if name is None else language_of(column_of(row, name)[0].as_py())
    return None if code in ("", NO_CODE) else code.replace("_", "-")


def _shown(text: Text) -> str:
    if isinstance(text, str):
        return text
    return "(null)" if text is None else _UNREADABLE[text]


# A series of runs: the newest is the headline, and all of them are the trend.

_MAGIC = re.compile(r"[*?\[]")


def find_series(pattern: str) -> tuple[list[str], int]:
    """Find the runs that a folder, or a pattern of folders, stands for.

    Returns:
        The folders of the runs that are done, the newest last, and how many are not done.
    """
    if not _MAGIC.search(pattern):
        return [pattern], 0
    with reaching("RUN", pattern):
        roots = [folder.root for folder in scoring_runs(pattern, "RUN")]
        done = [root for root in roots if successful_run(OutputFolder(root)) is not None]
    if not done:
        raise ConfigError(
            f"no run is done in a folder like {mask_credentials(pattern)!r}: got {len(roots)} that "
            "are not; expected one or more output folders of `score`. Check the pattern."
        )
    return done, len(roots) - len(done)


def nights_of(
    earlier: Sequence[str], newest: FinishedRun, findings: Findings, options: ReportOptions
) -> tuple[Night, ...]:
    """Return every run of a series, the oldest first; none for a single run."""
    if not earlier:
        return ()
    nights = []
    for root in earlier:
        run = open_finished(root, "RUN")
        merged = merge_groups(run, options.by, OPTION)
        nights.append(_night(run, merged.total, merged.groups, options, newest))
    return (*nights, _night(newest, findings.total, findings.groups, options, newest))


def utc(seconds: Any) -> str:
    """Return seconds since the epoch as a date and time in UTC."""
    if not isinstance(seconds, (int, float)):
        return "–"
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _night(
    run: FinishedRun,
    total: ScoreStatistics,
    groups: Mapping[Group, ScoreStatistics],
    options: ReportOptions,
    newest: FinishedRun,
) -> Night:
    rows = [GroupRow.of(name, own, options.confidence) for name, own in groups.items()]
    return Night(
        run=run.folder.shown,
        started=utc(run.run.get("started")),
        total=GroupRow.of(WHOLE, total, options.confidence),
        comparable=_is_comparable(newest, run),
        groups=tuple((row.name, row.f1) for row in rows),
    )


def _is_comparable(newest: FinishedRun, run: FinishedRun) -> bool:
    """Tell whether the scores of two runs were made alike, which needs a language in common."""
    try:
        return not compare_settings(newest, run).moving
    except ConfigError:
        return False


MOST_BARS = 64
"""Most bars of a histogram."""


def collect(options: ReportOptions) -> ReportData:
    """Collect what a page says of a run.

    Raises:
        ConfigError: A folder holds no run that is done, or an option does not fit the run.
        InputError: A part is damaged.
        OSError: A run cannot be reached.
    """
    (*earlier, newest), unfinished = find_series(options.run)
    run = open_finished(newest, "RUN")
    other = None if options.against is None else open_finished(options.against, "--against")
    findings = gather(run, options.by, options.rows)
    comparison = None if other is None else _compared(options, run, other)
    fallen, risen = _moved(options, run, other, comparison)
    total, confidence = findings.total, options.confidence
    edges, factor, first, last = _bars(total)
    nights = nights_of(earlier, run, findings, options)
    signatures = _signatures(run)
    return ReportData(
        options=options,
        run=run.folder.shown,
        started=utc(run.run.get("started")),
        made=utc(datetime.now(UTC).timestamp()),
        version=version("bertscore-beam"),
        rescaled=any(map(_is_rescaled, signatures.values())),
        total=replace(
            GroupRow.of(WHOLE, total, confidence),
            histogram=_histogram(total, factor, first, last),
        ),
        bins=edges,
        groups=_groups(findings.groups, confidence),
        ranking=_ranking(options, run),
        languages=tuple(
            GroupRow.of((words_for(name),), findings.languages[name], confidence)
            for name in by_name(findings.languages)
        ),
        lengths=tuple(
            GroupRow.of((str(2**power), str(2 ** (power + 1) - 1)), own, confidence)
            for power, own in sorted(findings.lengths.items())
            if own.scored
        ),
        reasons=_reasons(total),
        rejected_files=_rejected_files(run),
        worst=extreme_rows(run, findings.worst, options.row_key, with_texts=options.with_texts),
        best=extreme_rows(run, findings.best, options.row_key, with_texts=options.with_texts),
        against=comparison,
        fallen=fallen,
        risen=risen,
        nights=nights,
        cost=_cost(run),
        signatures=signatures,
        notices=_notices(run, comparison, unfinished, nights),
    )


def _is_rescaled(signature: str) -> bool:
    return any(
        name == "baseline" and value != "none" for name, value, _ in signature_sentences(signature)
    )


def _compared(options: ReportOptions, run: FinishedRun, other: FinishedRun) -> Comparison:
    return compare_runs(options.comparison(run.folder.root, other.folder.root)).comparisons[0]


def _ranking(options: ReportOptions, run: FinishedRun) -> Ranking | None:
    if options.system_column is None:
        return None
    compared = compare_runs(
        CompareOptions(
            run=run.folder.root,
            key=options.answer_key,
            cluster=options.cluster,
            confidence=options.confidence,
            systems=(),
            system_column=options.system_column,
        )
    )
    return compared.rankings[0] if compared.rankings else None


def _moved(
    options: ReportOptions,
    run: FinishedRun,
    other: FinishedRun | None,
    comparison: Comparison | None,
) -> tuple[tuple[ChosenRow, ...], tuple[ChosenRow, ...]]:
    if other is None or comparison is None:
        return (), ()
    fallen, risen = (
        moved_rows(
            run,
            other,
            [row for row in comparison.moved if row.change * sign > 0],
            with_texts=options.with_texts,
        )
        for sign in (-1, 1)
    )
    return fallen, risen


def _groups(groups: Mapping[Group, ScoreStatistics], confidence: float) -> tuple[GroupRow, ...]:
    rows = [GroupRow.of(name, own, confidence) for name, own in groups.items()]
    return tuple(
        sorted(
            rows,
            key=lambda row: (
                math.inf if row.f1.mean is None else -row.f1.mean,
                group_order(row.name),
            ),
        )
    )


def _bars(total: ScoreStatistics) -> tuple[tuple[float, ...], int, int, int]:
    bins = total.histograms[F1].bins
    if not len(bins):
        return (), 1, 0, 0
    first, last = int(bins[0]), int(bins[-1]) + 1
    factor = 1
    while (last - 1) // factor - first // factor + 1 > MOST_BARS:
        factor *= 2
    first, last = first // factor * factor, -(-last // factor) * factor
    width = 2 / STATISTIC_BINS
    edges = tuple(bin_ * width - 1 for bin_ in range(first, last + 1, factor))
    return edges, factor, first, last


def _histogram(total: ScoreStatistics, factor: int, first: int, last: int) -> tuple[int, ...]:
    counts = total.histograms[F1].dense(STATISTIC_BINS)[first:last]
    return tuple(np.add.reduceat(counts, range(0, len(counts), factor)).tolist()) if last else ()


def _reasons(total: ScoreStatistics) -> tuple[ReasonCount, ...]:
    return tuple(
        ReasonCount(reason=reason, rows=rows, rejected=total.rejected_reasons.get(reason, 0))
        for reason, rows in sorted(total.reasons.items(), key=lambda count: (-count[1], count[0]))
    )


def _rejected_files(run: FinishedRun) -> tuple[tuple[str, str], ...]:
    files = run.summary.get("rejected_files")
    listed = files.items() if isinstance(files, dict) else ()
    return tuple((mask_credentials(str(path)), str(reason)) for path, reason in listed)


def _cost(run: FinishedRun) -> Cost:
    summary = run.summary
    reused = int(summary.get("reused") or 0)
    return Cost(
        pairs=run.rows,
        fresh=run.rows - reused,
        reused=reused,
        seconds=_known(summary, "seconds"),
        scoring_seconds=_known(summary, "scoring_seconds"),
        pairs_per_second=_known(summary, "pairs_per_second"),
        tokens=None if summary.get("tokens") is None else int(summary["tokens"]),
        padding=_known(summary, "padding"),
        parts=len(run.records),
        part_bytes=sum(record.part_bytes for record in run.records),
    )


def _known(summary: Mapping[str, Any], name: str) -> float | None:
    value = summary.get(name)
    return float(value) if isinstance(value, (int, float)) else None


def _signatures(run: FinishedRun) -> dict[str, str]:
    """Return how the scores were made, by language; under "" if all were made alike."""
    languages = run.summary.get("languages")
    stated: Mapping[str, Any] = (
        {name: about.get("signature") for name, about in languages.items()}
        if isinstance(languages, dict)
        else {"": run.summary.get("signature")}
    )
    return {name: text for name, text in stated.items() if isinstance(text, str)}


def _notices(
    run: FinishedRun, comparison: Comparison | None, unfinished: int, nights: Sequence[Night]
) -> tuple[str, ...]:
    summary, notices = run.summary, []
    rejected, rows = int(summary.get("rejected") or 0), run.rows
    if not run.rows:
        notices.append("The run has no rows.")
    elif rejected:
        notices.append(f"{rejected:,} of {rows:,} rows have no scores: the means leave them out.")
    files = int(summary.get("num_rejected_files") or 0)
    if files:
        notices.append(f"{files:,} input files were rejected: their rows are not in any mean.")
    scripts = int(summary.get("other_scripts") or 0)
    if scripts:
        notices.append(
            f"{scripts:,} rows are in another script than the language of the baseline: their "
            "rescaled scores mean little."
        )
    if comparison is not None and comparison.settings.moving:
        names = ", ".join(dict.fromkeys(item.field for item in comparison.settings.moving))
        notices.append(
            f"The two runs were scored with other settings ({names}): their difference is also "
            "that of the settings."
        )
    if comparison is not None and not comparison.whole.counts.pairs:
        notices.append(
            f"The run cannot be compared with {comparison.against}: "
            f"{unpaired_words(comparison.whole.counts)}"
        )
    if unfinished:
        notices.append(f"Runs of the series that are not done are left out: {unfinished:,}.")
    if not all(item.comparable for item in nights):
        notices.append("Some runs of the series were scored with other settings than the newest.")
    return tuple(notices)
