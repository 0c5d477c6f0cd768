"""The languages of rows, read from a column of language codes."""

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc

from bertscore_beam.dump.language_codes import NO_LANGUAGE, language_of
from bertscore_beam.dump.texts import dictionary_of, texts_from_column


def languages_of(column: pa.ChunkedArray) -> list[str]:
    """Return the language of each row. Shape (rows,)."""
    encoded = dictionary_of(column)
    names = _names(encoded)
    return [NO_LANGUAGE if index is None else names[index] for index in encoded.indices.to_pylist()]


def count_languages(column: pa.ChunkedArray) -> Counter[str]:
    """Return the rows of each language."""
    encoded = dictionary_of(column)
    names = _names(encoded)
    counts: Counter[str] = Counter()
    for found in pc.value_counts(encoded.indices).to_pylist():
        index = found["values"]
        counts[NO_LANGUAGE if index is None else names[index]] += found["counts"]
    return counts


def _names(encoded: pa.DictionaryArray) -> list[str]:
    """Return the language of each distinct value."""
    return [language_of(text) for text in texts_from_column(pa.chunked_array([encoded.dictionary]))]
