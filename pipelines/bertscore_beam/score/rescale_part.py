"""Rescale one part of a run from its raw scores."""

import numpy as np

from bertscore_beam.dump import columns
from bertscore_beam.dump.logical_types import has_utc_times
from bertscore_beam.dump.parquet import open_parquet
from bertscore_beam.dump.parts import write_part
from bertscore_beam.score.earlier import rows_of_part, taken_rows
from bertscore_beam.score.scored_pairs import ScoredPairs
from bertscore_beam.score.scored_table import part_metadata, score_columns
from bertscore_core import ScoreSummary, Signature
from bertscore_core.tokens import FloatArray


def rescaled_part(path: str, row: FloatArray, signature: Signature) -> tuple[bytes, ScoreSummary]:
    """Return a part as `score --rescale` would have written it, and the sums over its rows.

    Args:
        path: The part.
        row: Precision, recall and F1 of the baseline. Shape (3,).
        signature: How the scores are made now.

    Raises:
        InputError: The part is damaged.
        OSError: It cannot be reached.
    """
    with open_parquet(path) as (file, _):
        table, utc_times = file.read(), has_utc_times(file.schema)
    inputs, before = columns.split_scores(table)
    found = rows_of_part(before)
    taken, _ = taken_rows(found, np.flatnonzero(found.found), row)
    pairs = ScoredPairs.joined(found.reasons.tolist(), [taken])
    after = score_columns(
        pairs,
        rescaled=True,
        windowed=columns.WINDOWS in before,
        listed=columns.BEST_REFERENCE in before,
    )
    scored = columns.append_scores(inputs, after, part_metadata(signature))
    return write_part(scored, utc_times=utc_times), pairs.summary()
