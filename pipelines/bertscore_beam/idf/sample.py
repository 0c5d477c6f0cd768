"""A look at some rows of the plan: do references repeat much, although every row would count?"""

from collections.abc import Sequence
from contextlib import suppress

from bertscore_beam.dump.columns import IdfColumns, column_of
from bertscore_beam.dump.parquet import UNREADABLE
from bertscore_beam.dump.read_split import read_split
from bertscore_beam.dump.splits import Split
from bertscore_beam.dump.texts import countable_references
from bertscore_beam.idf.repeats import Repeats, repeat_words

_SPLITS = 8


def repeats_in_sample(
    splits: Sequence[Split], reference_column: str, columns: IdfColumns
) -> str | None:
    """Return the warning about references that repeat in a sample; None without cause.

    The sample is the first splits of the first eight files: systems on one test set are usually in
    files of their own, in the same order. With fewer files it is more splits of each.

    Args:
        splits: All splits.
        reference_column: Column of references.
        columns: Columns that say how references are counted. With a key there is no warning.
    """
    if columns.key:
        return None
    sample = sorted(splits, key=lambda split: (split.row_offset, split.input_name))[:_SPLITS]
    seen = []
    for split in sample:
        with suppress(*UNREADABLE):  # the run says so
            table = read_split(split, [reference_column])
            references = countable_references(column_of(table, reference_column))
            seen.append(Repeats.of([group for group in references if group is not None]))
    repeats = Repeats.merge(seen)
    return repeat_words(repeats.rows, repeats.distinct, keyed=False, sampled=True)
