"""Collect what a page says: from the rows of a run, its summary, and the runs beside it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np

from bertscore_beam.dump.language_codes import by_name, words_for
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.results.compare import compare_runs
from bertscore_beam.results.compare_options import CompareOptions
from bertscore_beam.results.comparison import Comparison, Group, Ranking
from bertscore_beam.results.report.chosen import extreme_rows, moved_rows
from bertscore_beam.results.report.data import (
    ChosenRow,
    Cost,
    GroupRow,
    LengthBin,
    Night,
    ReasonCount,
    ReportData,
    Setting,
)
from bertscore_beam.results.report.estimates import F1, estimates
from bertscore_beam.results.report.gather import Findings, gather
from bertscore_beam.results.report.nights import Series, find_series, nights_of, utc
from bertscore_beam.results.report.options import ReportOptions
from bertscore_beam.results.report.words import signature_sentences
from bertscore_beam.results.warnings import unpaired_words
from bertscore_beam.score.finished import FinishedRun, open_finished
from bertscore_beam.score.group_table import SHARES
from bertscore_core.score_statistics import STATISTIC_BINS, ScoreStatistics

MOST_BARS = 64
"""Most bars of a histogram."""


def collect(options: ReportOptions) -> ReportData:
    """Collect what a page says of a run.

    Raises:
        ConfigError: A folder holds no run that is done, or an option does not fit the run.
        InputError: A part is damaged.
        OSError: A run cannot be reached.
    """
    series = find_series(options.run)
    run = open_finished(series.newest, "RUN")
    other = None if options.against is None else open_finished(options.against, "--against")
    found = gather(run, options.by, options.rows)
    comparison = None if other is None else _compared(options, run, other)
    fallen, risen = _moved(options, run, other, comparison)
    total, confidence = found.total, options.confidence
    edges, factor, first, last = _bars(total)
    nights = nights_of(series, run, found, options)
    return ReportData(
        run=run.folder.shown,
        started=utc(run.run.get("started")),
        made=utc(datetime.now(UTC).timestamp()),
        version=version("bertscore-beam"),
        confidence=confidence,
        rescaled=any(_is_rescaled(one) for one in _signatures(run).values()),
        total=replace(
            _group_row((), total, confidence), histogram=_histogram(total, factor, first, last)
        ),
        bins=edges,
        by=options.by,
        groups=_groups(found.groups, confidence),
        ranking=_ranking(options, run),
        system_column=options.system_column,
        languages=_languages(found.languages, confidence),
        lengths=_lengths(found, confidence),
        reasons=_reasons(total),
        rejected_files=_rejected_files(run),
        worst=extreme_rows(run, found.worst, with_texts=options.with_texts),
        best=extreme_rows(run, found.best, with_texts=options.with_texts),
        with_texts=options.with_texts,
        against=comparison,
        fallen=fallen,
        risen=risen,
        nights=nights,
        cost=_cost(run),
        settings=_settings(run),
        notices=_notices(run, comparison, series, nights),
    )


def _is_rescaled(signature: str) -> bool:
    """Tell whether a signature says that scores are rescaled."""
    return any(
        name == "baseline" and value != "none" for name, value, _ in signature_sentences(signature)
    )


def _compared(options: ReportOptions, run: FinishedRun, other: FinishedRun) -> Comparison:
    """Compare the run with another one."""
    compared = compare_runs(
        CompareOptions(
            run=run.folder.root,
            against=(other.folder.root,),
            key=options.row_key,
            by=options.by,
            cluster=options.cluster,
            confidence=options.confidence,
            force=options.force,
            moved_rows=options.rows,
        )
    )
    return compared.comparisons[0]


def _ranking(options: ReportOptions, run: FinishedRun) -> Ranking | None:
    """Rank the systems of the run on the rows that all of them have scored."""
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
    """Return the rows that fell most and those that rose most."""
    if other is None or comparison is None:
        return (), ()
    down = [one for one in comparison.moved if one.change < 0]
    up = [one for one in comparison.moved if one.change > 0]
    fallen, risen = (
        moved_rows(run, other, some, with_texts=options.with_texts) for some in (down, up)
    )
    return fallen, risen


def _group_row(name: Group, statistics: ScoreStatistics, confidence: float) -> GroupRow:
    precision, recall, f1 = estimates(statistics, confidence)
    quantiles = statistics.quantiles(SHARES)[:, F1].tolist() if statistics.scored else ()
    return GroupRow(
        name=name,
        rows=statistics.rows,
        scored=statistics.scored,
        truncated=statistics.truncated,
        precision=precision,
        recall=recall,
        f1=f1,
        quantiles=tuple(quantiles),
    )


def _groups(groups: Mapping[Group, ScoreStatistics], confidence: float) -> tuple[GroupRow, ...]:
    """Return the groups, that with the highest F1 first; those without scores come last."""
    rows = [_group_row(name, one, confidence) for name, one in groups.items()]
    return tuple(
        sorted(
            rows,
            key=lambda row: (
                -math.inf if row.f1.mean is None else row.f1.mean,
                [value or "" for value in row.name],
            ),
            reverse=True,
        )
    )


def _languages(languages: Mapping[str, ScoreStatistics], confidence: float) -> tuple[GroupRow, ...]:
    return tuple(
        _group_row((words_for(name),), languages[name], confidence) for name in by_name(languages)
    )


def _lengths(found: Findings, confidence: float) -> tuple[LengthBin, ...]:
    return tuple(
        LengthBin(
            low=2**power,
            high=2 ** (power + 1) - 1,
            scored=one.scored,
            truncated=one.truncated,
            f1=estimates(one, confidence)[F1],
        )
        for power, one in sorted(found.lengths.items())
        if one.scored
    )


def _bars(total: ScoreStatistics) -> tuple[tuple[float, ...], int, int, int]:
    """Return the edges of a histogram's bars, how many bins are in one, and the bins it covers."""
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
    """Return the reasons, the commonest first."""
    return tuple(
        ReasonCount(reason=reason, rows=rows, rejected=total.rejected_reasons.get(reason, 0))
        for reason, rows in sorted(total.reasons.items(), key=lambda one: (-one[1], one[0]))
    )


def _rejected_files(run: FinishedRun) -> tuple[tuple[str, str], ...]:
    files = run.summary.get("rejected_files")
    given = files.items() if isinstance(files, dict) else ()
    return tuple((mask_credentials(str(path)), str(reason)) for path, reason in given)


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


def _settings(run: FinishedRun) -> tuple[Setting, ...]:
    return tuple(
        Setting(language=name, signature=text, sentences=signature_sentences(text))
        for name, text in _signatures(run).items()
    )


def _notices(
    run: FinishedRun, comparison: Comparison | None, series: Series, nights: Sequence[Night]
) -> tuple[str, ...]:
    """Return what a reader must not miss."""
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
        names = ", ".join(dict.fromkeys(one.field for one in comparison.settings.moving))
        notices.append(
            f"The two runs were scored with other settings ({names}): their difference is also "
            "that of the settings."
        )
    if comparison is not None and not comparison.whole.counts.pairs:
        notices.append(
            f"The run cannot be compared with {comparison.against}: "
            f"{unpaired_words(comparison.whole.counts)}"
        )
    if series.unfinished:
        notices.append(f"Runs of the series that are not done are left out: {series.unfinished:,}.")
    if not all(one.comparable for one in nights):
        notices.append("Some runs of the series were scored with other settings than the newest.")
    return tuple(notices)
