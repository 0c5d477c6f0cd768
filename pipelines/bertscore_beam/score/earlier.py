"""Scores that rows take from an earlier run, and what a part offers to later runs.

    digests --find--> FoundRows --taken_rows--> ScoredRows     instead of the encoder
    a part --rows_of_part--> FoundRows --taken_rows            to rescale it without its input
    ScoredPairs --offered_rows--> RowScores                    written beside the part

Raw scores are taken, and rescaled as the scorer does it. So the baselines may differ.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bertscore_beam.dump import columns
from bertscore_beam.dump.splits import Split
from bertscore_beam.dump.text_digests import Digests
from bertscore_beam.dump.texts import Reason
from bertscore_beam.runs.lookup import FoundRows, open_earlier
from bertscore_beam.runs.row_scores import VALUES, RowScores, SignedRows, encode_reasons
from bertscore_beam.runs.source import EarlierSource
from bertscore_beam.score.scored_pairs import ScoredPairs, ScoredRows
from bertscore_core import Scores
from bertscore_core.baseline import rescale
from bertscore_core.work import Work

Find: TypeAlias = Callable[[Digests, SignedRows], FoundRows]
"""Looks the rows of a table up: by the digests of their texts, and how they are to be scored."""


def finder(source: EarlierSource | None, split: Split) -> Find | None:
    """Return what looks the rows of a split up; None without an earlier run."""
    return None if source is None else partial(_find, source, split)


def _find(source: EarlierSource, split: Split, digests: Digests, signed: SignedRows) -> FoundRows:
    positions = split.row_offset + np.arange(len(digests))
    earlier = open_earlier(source.root, source.run)
    return earlier.find(split.input_name, positions, digests, signed)


def rows_of_part(scores: Mapping[str, pa.Array]) -> FoundRows:
    """Return the scores of a part as those of earlier rows; rows that were not encoded have none.

    Args:
        scores: Its score columns by name. Raw scores are those before rescaling, if it was done.
    """
    found = FoundRows.none(len(scores[columns.F1]))
    raw = {f"raw_{name}": scores[column] for name, column in columns.SCORES.items()}
    for name in set(VALUES.names or ()) - {"reason"}:
        column = scores.get(f"bertscore_{name}", raw.get(name))
        if column is not None:  # some are only in parts whose rows may differ in them
            nothing = pa.scalar(np.nan if name in raw else 0).cast(column.type)
            found.values[name] = column.fill_null(nothing).to_numpy(zero_copy_only=False)
    found.found[:] = scores[columns.CANDIDATE_TOKENS].is_valid().to_numpy(zero_copy_only=False)
    found.reasons[:] = scores[columns.ERROR].to_pylist()
    return found


def taken_rows(
    found: FoundRows, rows: npt.NDArray[np.int64], baseline: npt.ArrayLike | None
) -> tuple[ScoredRows, npt.NDArray[np.int64]]:
    """Return the rows that have earlier scores, and the positions of those that have none.

    Args:
        found: Which rows of their table were found. Shape (N,).
        rows: Positions of the rows in the table. Shape (M,).
        baseline: Precision, recall and F1 to rescale with; None to keep raw scores. Shape (3,).
    """
    is_found = found.found[rows]
    values = found.values[rows[is_found]]
    words = found.reasons[rows[is_found]]
    names = ("raw_precision", "raw_recall", "raw_f1")
    raw = np.stack([values[name] for name in names], axis=-1)
    final = raw if baseline is None else rescale(raw, np.array(baseline, np.float32))
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
