"""Collect what a page says: from the rows of a run, its summary, and the runs beside it."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from glob import has_magic
from itertools import chain

import numpy as np
import pyarrow as pa

from bertscore_beam.compare.compare_options import CompareOptions
from bertscore_beam.compare.comparison_tables import warnings_in
from bertscore_beam.compare.results import Compared, Comparison, MovedRow, Ranking
from bertscore_beam.compare.settings import compare_settings, stated_signatures
from bertscore_beam.dump import columns
from bertscore_beam.dump.census import WHOLE, groups_of
from bertscore_beam.dump.keys import keys_of
from bertscore_beam.dump.languages import NO_CODE, codes_first, language_name
from bertscore_beam.dump.paths import column_of
from bertscore_beam.dump.texts import Rows, Text, UnreadableText, texts_from_column
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.metrics.table import no_numbers_warning, tokenized_warning
from bertscore_beam.pages.mix import mix_notices
from bertscore_beam.pages.one_pass import F1, Findings, gather
from bertscore_beam.pages.report_data import (
    ChosenRow,
    MeanOfRows,
    Night,
    ReportData,
    Texts,
    are_of_one_language,
    place_of_shown,
)
from bertscore_beam.pages.report_options import MEASURE, ReportOptions
from bertscore_beam.pages.words import ORDERED_BY, signature_sentences
from bertscore_beam.records.earlier_run import scoring_runs
from bertscore_beam.records.finished import FinishedRun, RowPlace, open_finished, read_rows, utc
from bertscore_beam.records.groups import (
    GroupRow,
    group_order,
    group_row,
    language_order,
    merge_groups,
)
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.publication import successful_run
from bertscore_core.errors import ConfigError
from bertscore_core.stats.score_statistics import STATISTIC_BINS, ScoreStatistics

_UNREADABLE = {
    None: "(null)",
    UnreadableText.INVALID_UTF8: "(not valid UTF-8)",
    UnreadableText.NOT_TEXT: "(not a text)",
}


def _chosen_rows(
    options: ReportOptions, run: FinishedRun, places: Sequence[RowPlace]
) -> tuple[ChosenRow, ...]:
    by, key = options.by, options.row_key
    wanted = [*columns.SCORES.values(), columns.CANDIDATE_TOKENS, columns.ERROR, *by, *key]
    wanted += run.notes.fields.shown if options.with_texts else ()
    return tuple(
        ChosenRow(
            place=place,
            **{measure: table[name][0].as_py() for measure, name in columns.SCORES.items()},
            group=groups_of(table, by).groups[0],
            key=tuple(keys_of(column_of(table, name)).of_rows[0] for name in key),
            reason=table[columns.ERROR][0].as_py(),
            tokens=table[columns.CANDIDATE_TOKENS][0].as_py(),
            texts=_texts(run, table) if options.with_texts else None,
        )
        for place, table in zip(places, read_rows(run, places, wanted), strict=True)
    )


def _moved_rows(
    options: ReportOptions, run: FinishedRun, other: FinishedRun, moved: Sequence[MovedRow]
) -> tuple[ChosenRow, ...]:
    shown = _chosen_rows(options, run, [RowPlace(row.file, row.row) for row in moved])
    candidates: list[str | None] = [None] * len(moved)
    if options.with_texts:
        places = [RowPlace(row.against_file, row.against_row) for row in moved]
        earlier = read_rows(other, places, other.notes.fields.shown)
        candidates = [_texts(other, table).candidate for table in earlier]
    return tuple(
        replace(row, before=move.against_score, candidate_before=candidate)
        for row, move, candidate in zip(shown, moved, candidates, strict=True)
    )


def _texts(run: FinishedRun, row: pa.Table) -> Texts:
    rows = Rows(row, run.notes.fields)
    (candidate,) = texts_from_column(rows.candidates)
    # Samples that are compared with each other have no references of their own.
    (references,) = [[]] if rows.fields.compares_samples else rows.reference_texts
    (language,) = rows.languages or [NO_CODE]
    return Texts(
        candidate=_shown(candidate),
        references=("(null)",) if references is None else tuple(map(_shown, references)),
        language=None if language in ("", NO_CODE) else language.replace("_", "-"),
    )


def _shown(text: Text) -> str:
    return text if isinstance(text, str) else _UNREADABLE[text]


def _find_series(pattern: str) -> tuple[list[str], list[str]]:
    """Return the folders of the runs that are done, the newest last, and what is said of others."""
    if not has_magic(pattern):
        return [pattern], []
    runs, others = scoring_runs(pattern, "RUN")
    roots = [run.root for run in runs]
    done = [root for root in roots if successful_run(OutputFolder(root)) is not None]
    if not done:
        raise ConfigError(
            f"no folder that matches {mask_credentials(pattern)!r} holds a finished run: got "
            f"{len(roots)} that are not finished; expected one or more output folders of `score`. "
            "Check the pattern."
        )
    notices = []
    if left_out := len(roots) - len(done):
        notices.append(f"Runs of the series that are not done are left out: {left_out:,}.")
    if others:
        notices.append(others.strip())
    return done, notices


def _nights(
    options: ReportOptions, earlier: Sequence[str], newest: FinishedRun, findings: Findings
) -> Iterator[Night]:
    """Yield the runs of a series, the newest last."""
    for root in (*earlier, None):
        run = newest if root is None else open_finished(root)
        sums = findings if root is None else merge_groups(run, options.by)
        groups = sums.groups or {}
        yield Night(
            run=run.folder.shown,
            started=_utc(run.notes.started),
            total=group_row(WHOLE, sums.total, options.confidence),
            comparable=_is_comparable(newest, run),
            groups={
                name: MeanOfRows(float(own.means[F1]), own.scored)
                for name, own in groups.items()
                if own.scored
            },
            languages={
                (name,): MeanOfRows(own.f1, own.scored)
                for name, own in run.summary.languages.items()
                if own.f1 is not None
            },
        )


def _utc(seconds: float | None) -> str:
    return "–" if seconds is None else utc(seconds).strftime("%Y-%m-%d %H:%M:%S")


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
    from bertscore_beam.compare.compare import compare_finished  # here, since it takes time

    (*earlier, newest), left_out = _find_series(options.run)
    run = open_finished(newest)
    others = [open_finished(folder) for folder in options.against]
    findings = gather(run, options.by, options.rows)
    comparisons: tuple[Comparison, ...] = ()
    fallen: tuple[ChosenRow, ...] = ()
    risen: tuple[ChosenRow, ...] = ()
    warnings: tuple[str, ...] = ()
    if others:
        comparisons = compare_finished(options.comparison(), run, others).comparisons
        shown = place_of_shown(comparisons)
        of_shown = comparisons[shown :: len(others)]
        (moves,) = (one.moved for one in of_shown if one.measure == MEASURE)
        moved = list(zip(moves, _moved_rows(options, run, others[shown], moves), strict=True))
        fallen = tuple(row for move, row in moved if move.change < 0)
        risen = tuple(row for move, row in moved if move.change > 0)
        warnings = warnings_in(Compared(comparisons=of_shown))
    confidence = options.confidence
    groups = [group_row(*group, confidence) for group in findings.groups.items()]
    nights = tuple(_nights(options, earlier, run, findings)) if earlier else ()
    signatures = stated_signatures(run)
    fields = chain.from_iterable(map(signature_sentences, signatures.values()))
    return ReportData(
        options=options,
        run=run.folder.shown,
        started=_utc(run.notes.started),
        made=_utc(datetime.now(UTC).timestamp()),
        rescaled=any(name == "baseline" and value != "none" for name, value, _ in fields),
        total=group_row(WHOLE, findings.total, confidence),
        summary=run.summary,
        parts=len(run.records),
        part_bytes=sum(record.part_bytes for record in run.records),
        histogram=_histogram(findings.total),
        groups=tuple(sorted(groups, key=_by_f1)),
        ranking=_ranking(options, run),
        languages=tuple(
            group_row((language_name(name),), findings.languages[name], confidence)
            for name in codes_first(findings.languages)
        ),
        language_groups=()
        if are_of_one_language(findings.language_groups, groups)
        else tuple(
            group_row(name, findings.language_groups[name], confidence)
            for name in sorted(findings.language_groups, key=language_order)
        ),
        lengths=tuple(
            group_row((str(2**power), str(2 ** (power + 1) - 1)), own, confidence)
            for power, own in sorted(findings.lengths.items())
            if own.scored
        ),
        rejected_files=tuple(
            (mask_credentials(path), why) for path, why in run.summary.rejected_files.items()
        ),
        worst=_chosen_rows(options, run, findings.worst),
        best=_chosen_rows(options, run, findings.best),
        comparisons=comparisons,
        fallen=fallen,
        risen=risen,
        nights=nights,
        signatures=signatures,
        notices=(
            *filter(None, [options.notice]),
            *_notices(run, nights),
            *mix_notices(nights, options.fail_if_drop),
            *left_out,
            *warnings,
        ),
    )


def _ranking(options: ReportOptions, run: FinishedRun) -> Ranking | None:
    from bertscore_beam.compare.compare import compare_finished  # here, since it takes time

    if options.system_column is None:
        return None
    how = CompareOptions(
        run=options.run,
        key=options.answer_key,
        cluster=options.cluster,
        confidence=options.confidence,
        systems=(),
        system_column=options.system_column,
    )
    compared = compare_finished(how, run, [])
    return compared.rankings[0] if compared.rankings else None


def _by_f1(row: GroupRow) -> tuple[float, object]:
    f1 = row.values["f1"]
    return math.inf if f1 is None else -round(f1, ORDERED_BY), group_order(row.group)


def _histogram(total: ScoreStatistics) -> tuple[tuple[float, float, int], ...]:
    """Return bars that begin at multiples of their width, which is a power of two."""
    histogram = total.histograms[F1]
    bins, factor = histogram.bins, 1
    if not len(bins):
        return ()
    while bins[-1] // factor - bins[0] // factor >= MOST_BARS:
        factor *= 2
    first = bins[0] // factor
    counts = np.bincount(bins // factor - first, histogram.counts).astype(np.int64)
    edges = (first + np.arange(len(counts) + 1)) * (factor * 2 / STATISTIC_BINS) - 1
    return tuple(zip(edges.tolist(), edges[1:].tolist(), counts.tolist(), strict=False))


def _notices(run: FinishedRun, nights: Sequence[Night]) -> list[str]:
    summary, notices = run.summary, []
    rejected, rows = summary.rejected, run.rows
    if not run.rows:
        notices.append("The run has no rows.")
    elif rejected:
        notices.append(f"{rejected:,} of {rows:,} rows have no scores: the means leave them out.")
    files = summary.num_rejected_files
    if files:
        notices.append(f"{files:,} input files were rejected: their rows are not in any mean.")
    scripts = summary.other_scripts
    if scripts:
        notices.append(
            f"{scripts:,} rows are in another script than the language of the baseline: their "
            "rescaled scores mean little."
        )
    metrics = summary.content.get("metrics") or {}
    notices += filter(None, [tokenized_warning(summary.tokenized), no_numbers_warning(metrics)])
    if not all(item.comparable for item in nights):
        notices.append("Some runs of the series were scored with other settings than the newest.")
    return notices
