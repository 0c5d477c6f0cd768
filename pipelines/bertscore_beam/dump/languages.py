"""The languages of rows, read from a column of language codes."""

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.compute as pc

from bertscore_beam.dump.columns import column_of
from bertscore_beam.dump.language_codes import NO_LANGUAGE, language_of
from bertscore_beam.dump.parquet import UNREADABLE
from bertscore_beam.dump.read_split import read_split
from bertscore_beam.dump.splits import Split
from bertscore_beam.dump.texts import texts_from_column
from bertscore_beam.files.paths import IO_THREADS
from bertscore_core.errors import InputError

MOST_LANGUAGES = 1000
"""More distinct codes than this are not those of languages: the registry has about 100."""


def languages_of(column: pa.ChunkedArray) -> list[str]:
    """Return the language of each row. Shape (rows,)."""
    encoded = dictionary_of(column)
    names = [
        language_of(text) for text in texts_from_column(pa.chunked_array([encoded.dictionary]))
    ]
    return [NO_LANGUAGE if index is None else names[index] for index in encoded.indices.to_pylist()]


def count_languages(splits: Sequence[Split], column: str) -> Counter[str]:
    """Count the rows of each language, reading only the column of languages.

    Splits are read in parallel. Those that cannot be read are left out: their rows are not scored
    either, or have a language without a setting, if they can be read later.

    Raises:
        InputError: There are too many distinct values for a column of languages.
    """
    counts: Counter[str] = Counter()
    with ThreadPoolExecutor(IO_THREADS) as pool:
        for found in pool.map(lambda split: _count(split, column), splits):
            counts += found
            if len(counts) > MOST_LANGUAGES:
                pool.shutdown(wait=False, cancel_futures=True)
                raise InputError(
                    f"the language column {column!r} holds no languages: got more than "
                    f"{MOST_LANGUAGES:,} distinct values; expected codes such as en or zh. Name "
                    "the right one with --language-column."
                )
    return counts


def _count(split: Split, column: str) -> Counter[str]:
    try:
        return Counter(languages_of(column_of(read_split(split, [column]), column)))
    except UNREADABLE:
        return Counter()


def dictionary_of(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """Return a column as one array with each distinct value once."""
    if pa.types.is_null(column.type):
        column = column.cast(pa.string())
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    if not pa.types.is_dictionary(column.type):
        column = pc.dictionary_encode(column)
    return pa.chunked_array(column.chunks, type=column.type).unify_dictionaries().combine_chunks()
