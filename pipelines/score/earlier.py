"""Scores that rows take from an earlier run, and what a part offers to later runs.

    digests --find--> FoundRows --taken_rows--> ScoredRows     instead of the encoder
    ScoredPairs --offered_rows--> RowScores                    written beside the part

Raw scores are taken, and rescaled as the scorer does it. So the baselines may differ.
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from bertscore_core import Scores, Signature
from bertscore_core.baseline import rescale
from bertscore_core.work import Work
from pipelines.dump.splits import Split
from pipelines.dump.text_digests import Digests
from pipelines.dump.texts import Reason
from pipelines.runs.lookup import FoundRows, open_earlier
from pipelines.runs.row_scores import VALUES, RowScores, encode_reasons
from pipelines.runs.source import EarlierSource
from pipelines.score.scored_pairs import ScoredPairs, ScoredRows
from pipelines.score.settings import RowSetting

Find: TypeAlias = Callable[[npt.NDArray[np.int64], Digests, Signature], FoundRows]
"""Looks rows up: their positions in the table, the digests of their texts, how to score them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingOfRows:
    """Rows of a table and the signature of their scores, with the fingerprint of the idf table."""

    rows: npt.NDArray[np.int64]
    signature: Signature


def finder(source: EarlierSource | None, split: Split) -> Find | None:
    """Return what looks the rows of a split up; None without an earlier run."""
    if source is None:
        return None
    return partial(_find, source, split)


def _find(
    source: EarlierSource,
    split: Split,
    rows: npt.NDArray[np.int64],
    digests: Digests,
    signature: Signature,
) -> FoundRows:
    earlier = open_earlier(source.root, source.run)
    return earlier.find(split.input_name, split.row_offset + rows, digests, signature)


def taken_rows(
    found: FoundRows, rows: npt.NDArray[np.int64], setting: RowSetting
) -> tuple[ScoredRows, npt.NDArray[np.int64]]:
    """Return the rows that have earlier scores, and the positions of those that have none.

    Args:
        found: Which of the rows were found. Shape (M,).
        rows: Positions of the rows in their table. Shape (M,).
        setting: How they are to be scored.
    """
    values = found.values[found.found]
    words = found.reasons[found.found]
    names = ("raw_precision", "raw_recall", "raw_f1")
    raw = np.stack([values[name] for name in names], axis=-1)
    final = (
        raw if setting.baseline is None else rescale(raw, np.array(setting.baseline, np.float32))
    )
    scores = Scores(
        precision=final[:, 0],
        recall=final[:, 1],
        f1=final[:, 2],
        raw_precision=raw[:, 0],
        raw_recall=raw[:, 1],
        raw_f1=raw[:, 2],
        best_reference=values["best_reference"].copy(),
        candidate_tokens=values["candidate_tokens"].copy(),
        reference_tokens=values["reference_tokens"].copy(),
        truncated=values["truncated"].copy(),
        empty_candidate=words == Reason.EMPTY_CANDIDATE,
        empty_reference=words == Reason.EMPTY_REFERENCE,
        counted_as_empty=words == Reason.COUNTED_AS_EMPTY,
    )
    taken = ScoredRows(rows=rows[found.found], scores=scores, reasons=words.tolist(), work=Work())
    return taken, rows[~found.found]


def offered_rows(
    pairs: ScoredPairs, digests: Digests, subsets: Sequence[SettingOfRows]
) -> RowScores:
    """Return the raw scores of a table's rows for later runs.

    Args:
        pairs: All N rows with their scores.
        digests: Digests of their texts. Shape (N, 2).
        subsets: The rows of each setting.
    """
    values = np.zeros(len(pairs), dtype=VALUES)
    codes, words = encode_reasons(pairs.reasons)
    scores, there = pairs.scores, pairs.rows[pairs.scores.scored]
    for name in VALUES.names or ():
        if name != "reason":
            values[name][pairs.rows] = getattr(scores, name)
    values["reason"] = codes
    unscored = np.ones(len(pairs), dtype=np.bool_)
    unscored[there] = False
    values["raw_precision"][unscored] = np.nan
    settings = np.zeros(len(pairs), dtype=np.uint16)
    for code, subset in enumerate(subsets):
        settings[subset.rows] = code
    return RowScores(
        digests=digests,
        values=values,
        settings=settings,
        # Raw scores do not depend on the baseline.
        signatures=tuple(
            dataclasses.replace(subset.signature, baseline="none").format() for subset in subsets
        ),
        reasons=words,
    )
