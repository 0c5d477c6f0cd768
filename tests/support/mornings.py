"""Three made-up nights of six systems and four directions: what a page has to show in a minute.

    python -m tests.support.mornings FOLDER

writes them as finished runs, and beside each the page about it. Scores are made from the words that
a candidate has in common with its reference, and no model has run.
"""

import random
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from bertscore_beam.dump import columns
from bertscore_beam.metrics.table import score_rows
from bertscore_beam.pages.report_options import ReportOptions
from tests.support.crawl_texts import sentences
from tests.support.made_runs import SIGNATURE, made_run, scored

SYSTEMS = {
    "online-a": 0.86,
    "online-b": 0.82,
    "llm-x": 0.9,
    "llm-y": 0.88,
    "rbmt": 0.68,
    "nmt": 0.79,
}
"""The share of words that each system gets right."""

DIRECTIONS = {"ro-en": "en", "et-en": "en", "en-de": "de", "en-zh": "zh"}
"""The directions, with the language of their texts."""

SEGMENTS = 150
NIGHTS = ("2026-11-21", "2026-11-22", "2026-11-23")
METRICS = ("bleu", "chrf")

_BASELINE = 0.55
"""The F1 that two texts without a common word have before rescaling."""

_Row = dict[str, object]


def morning(folder: Path) -> ReportOptions:
    """Write the nights, and return the options of the page about the last one.

    In it, `llm-y` cuts a third of its texts into Chinese, `nmt` from Romanian has become better,
    `online-a` has lost two texts into German, and one row of twenty of every system is another.
    """
    for day, night in enumerate(NIGHTS):
        table = _table(list(_rows(day)))
        files = {f"{half}.parquet": table.slice(1800 * at, 1800) for at, half in enumerate("ab")}
        signatures = {
            language: replace(SIGNATURE, model="all-MiniLM-L6-v2", baseline=f"{language}@made-up")
            for language in ("de", "en", "zh")
        }
        made_run(folder / night, files, signature=signatures, started=1.7952e9 + 86_400 * day)
    return ReportOptions(
        run=str(folder / "2026-*"),
        against=(str(folder / NIGHTS[-2]),),
        output=str(folder / "report.html"),
        by=("system", "lp"),
        key=("segment", "system"),
        cluster="document",
        with_texts=True,
        fail_if_drop=0.01,
    )


def _rows(day: int) -> Iterator[_Row]:
    for lp, language in DIRECTIONS.items():
        chance = random.Random(f"lengths {lp}")
        made = iter(sentences(language, 4 * SEGMENTS, seed=len(lp) + sum(map(ord, lp))))
        for number in range(SEGMENTS):
            text = _joined(language, [next(made) for _ in range(chance.choice((1, 1, 2, 3)))])
            for system in SYSTEMS:
                yield {
                    "segment": f"{lp}-{number}",
                    "document": f"{lp}-{number // (6 + number % 5)}",
                    "system": system,
                    "lp": lp,
                    "language": language,
                    "candidate": _candidate(text, system, lp, number, day),
                    "reference": text,
                }


def _candidate(text: str, system: str, lp: str, number: int, day: int) -> str | None:
    """Return what a system wrote on a day: most often the same as on the day before."""
    name = f"{system} {lp} {number}"
    if day == 2 and (system, lp) == ("online-a", "en-de") and number in (31, 88):
        return None
    version = max((one for one in range(1, day + 1) if _draw(f"{name} {one}") < 0.05), default=0)
    share = SYSTEMS[system]
    if day == 2 and (system, lp) == ("nmt", "ro-en"):
        share += 0.1
    words = _words(DIRECTIONS[lp], text)
    chance = random.Random(f"{name} {version}")
    said = [word if chance.random() < share else chance.choice(words) for word in words]
    if day == 2 and (system, lp) == ("llm-y", "en-zh") and _draw(f"{name} cut") < 0.35:
        said = said[: round(0.6 * len(said))]
    return ("" if DIRECTIONS[lp] == "zh" else " ").join(said)


def _draw(name: str) -> float:
    return random.Random(name).random()


def _words(language: str, text: str) -> list[str]:
    return list(text) if language == "zh" else text.split()


def _joined(language: str, parts: list[str]) -> str:
    return ("" if language == "zh" else " ").join(parts)


def _table(rows: list[_Row]) -> pa.Table:
    found = [_scores(str(row["language"]), row["candidate"], str(row["reference"])) for row in rows]
    precision, recall, f1 = np.array([scores for scores, _ in found]).T
    given = {name: pa.array([row[name] for row in rows]) for name in rows[0]}
    table = scored(f1, precision=precision, recall=recall, **given)
    for name, column in zip(columns.RAW_SCORES.values(), (precision, recall, f1), strict=True):
        raw = np.float32(_BASELINE + (1 - _BASELINE) * column)
        table = table.append_column(name, pa.array(raw, mask=np.isnan(raw)))
    tokens = [len(_words(str(row["language"]), str(row["reference"]))) + 2 for row in rows]
    for name in (columns.CANDIDATE_TOKENS, columns.REFERENCE_TOKENS):
        counts = pa.array(np.int32(tokens), mask=np.isnan(f1))
        table = table.set_column(table.column_names.index(name), name, counts)
    for at, name in enumerate(METRICS):
        metrics = [each[at] if each else (None, None) for _, each in found]
        table = table.append_column(columns.METRICS[name], pa.array([own for own, _ in metrics]))
        table = table.append_column(
            columns.METRIC_COUNTS[name], pa.array([own for _, own in metrics], pa.list_(pa.int64()))
        )
    return table


@cache
def _scores(
    language: str, candidate: str | None, reference: str
) -> tuple[tuple[float, float, float], list[tuple[float, list[int]]]]:
    """Return precision, recall and F1, and each metric with its counts."""
    if candidate is None:
        return (np.nan, np.nan, np.nan), []
    said, meant = _words(language, candidate), _words(language, reference)
    common = sum(min(said.count(word), meant.count(word)) for word in set(said))
    in_order = sum(one == other for one, other in zip(said, meant, strict=False))
    right = 0.5 * (common + in_order)
    precision, recall = right / len(said), right / len(meant)
    f1 = 2 * precision * recall / max(precision + recall, 1e-9)
    each = score_rows(METRICS, language, [candidate], [[reference]])
    return (precision, recall, f1), [(float(own[0]), counts[0].tolist()) for own, counts in each]


def main() -> None:
    """Write the nights and their page."""
    from bertscore_beam.pages.page import render
    from bertscore_beam.pages.report_rows import collect

    options = morning(Path(sys.argv[1]))
    Path(options.output).write_text(render(collect(options)), encoding="utf-8")
    print(options.output)


if __name__ == "__main__":
    main()
