"""Scores that rows take from an earlier run, and what a part offers to later runs.

    digests --find--> FoundRows --taken_rows--> ScoredRows     instead of the encoder
    ScoredPairs --offered_rows--> RowScores                    written beside the part

Raw scores are taken, and rescaled as the scorer does it. So the baselines may differ.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from bertscore_beam.dump.splits import Split
from bertscore_beam.dump.text_digests import Digests
from bertscore_beam.dump.texts import Reason
from bertscore_beam.runs.lookup import FoundRows, open_earlier
from bertscore_beam.runs.row_scores import VALUES, RowScores, SignedRows, encode_reasons
from bertscore_beam.runs.source import EarlierSource
from bertscore_beam.score.scored_pairs import ScoredPairs, ScoredRows
from bertscore_beam.score.settings import RowSetting
from bertscore_core import Scores
from bertscore_core.baseline import rescale
from bertscore_core.work import Work

Find: TypeAlias = Callable[[Digests, SignedRows], FoundRows]
"""Looks the rows of a table up: by the digests of their texts, and how they are to be scored."""


def finder(source: EarlierSource | None, split: Split) -> Find | None:
    """Return what looks the rows of a split up; None without an earlier run."""
    return None if source is None else partial(_find, source, split)


def _find(source: EarlierSource, split: Split, digests: Digests, signed: SignedRows) -> FoundRows:
    positions = split.offset + np.arange(len(digests))
    earlier = open_earlier(source.root, source.run)
    return earlier.find(split.input_name, positions, digests, signed)


def taken_rows(
    found: FoundRows, rows: npt.NDArray[np.int64], setting: RowSetting
) -> tuple[ScoredRows, npt.NDArray[np.int64]]:
    """Return the rows that have earlier scores, and the positions of those that have none.

    Args:
        found: Which rows of their table were found. Shape (N,).
        rows: Positions of the rows in the table. Shape (M,).
        setting: How they are to be scored.
    """
    is_found = found.found[rows]
    values = found.values[rows[is_found]]
    words = found.reasons[rows[is_found]]
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
        too_long=np.zeros(len(values), dtype=np.bool_),  # such rows have no scores to take
        windows=values["windows"].copy(),
        empty_candidate=words == Reason.EMPTY_CANDIDATE,
        empty_reference=words == Reason.EMPTY_REFERENCE,
        counted_as_empty=words == Reason.COUNTED_AS_EMPTY,
        only_special=words == Reason.ONLY_SPECIAL_TOKENS,
    )
    taken = ScoredRows(rows=rows[is_found], scores=scores, reasons=words.tolist(), work=Work())
    return taken, rows[~is_found]


def offered_rows(pairs: ScoredPairs, digests: Digests, signed: SignedRows) -> RowScores:
    """Return the raw scores of a table's rows for later runs.

    Args:
        pairs: All N rows with their scores.
        digests: Digests of their texts. Shape (N, 2).
        signed: How they were scored.
    """
    values = np.zeros(len(pairs), dtype=VALUES)
    codes, words = encode_reasons(pairs.reasons)
    for name in VALUES.names or ():
        if name != "reason":
            values[name][pairs.rows] = getattr(pairs.scores, name)
    values["reason"] = codes
    unscored = np.ones(len(pairs), dtype=np.bool_)
    unscored[pairs.rows[pairs.scores.scored]] = False
    values["raw_precision"][unscored] = np.nan
    return RowScores(digests=digests, values=values, signed=signed, reasons=words)
