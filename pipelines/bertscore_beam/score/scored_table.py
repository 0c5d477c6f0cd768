"""A table with score columns after its own: scores, reasons and signatures as Arrow columns."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from bertscore_beam.dump import columns
from bertscore_beam.dump.columns import TableFields, column_of, is_list
from bertscore_beam.dump.parts import SIGNATURE_KEY, SIGNATURES_KEY
from bertscore_beam.dump.scripts import count_other_scripts
from bertscore_beam.dump.texts import countable_references
from bertscore_beam.idf.tables import IdfTables
from bertscore_beam.runs.row_scores import RowScores
from bertscore_beam.score.language_rows import LanguageRows
from bertscore_beam.score.scored_pairs import ScoredPairs
from bertscore_beam.score.settings import RunSettings
from bertscore_core import ScoreSummary, Signature
from bertscore_core.tokens import BoolArray
from bertscore_core.work import Work

SCHEMA_VERSION = "1"
"""Version of the names and meanings of the score columns, in every part's metadata."""

_SIGNATURE_TYPE = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredTable:
    """A table with score columns after its own, and the sums over its rows.

    Attributes:
        table: All rows, in their order.
        summary: Sums over the rows.
        rejected: Reason of each row without scores, by its position in the table.
        work: The work of the device.
        languages: The rows of each language; empty if all rows are scored alike.
        other_scripts: Rows whose references are plainly in another script than the language of the
            baseline, in a run that scores all rows alike.
        reused: Which rows took the scores of an earlier run. Shape (rows,).
        offered: The raw scores of the rows, for later runs.
    """

    table: pa.Table
    summary: ScoreSummary
    rejected: Mapping[int, str]
    work: Work
    languages: Mapping[str, LanguageRows]
    other_scripts: int
    reused: BoolArray
    offered: RowScores


def with_scores(
    table: pa.Table,
    fields: TableFields,
    languages: Sequence[str],
    pairs: ScoredPairs,
    *,
    settings: RunSettings,
    idf: IdfTables | None,
    reused: BoolArray,
    offered: RowScores,
) -> ScoredTable:
    """Append the score columns to a table.

    Args:
        table: Rows of the input.
        fields: The columns of texts.
        languages: Language of each row; empty if all rows are scored alike.
        pairs: The scores of the rows.
        settings: The settings they were scored with.
        idf: The idf table, if they were weighted.
        reused: Which rows took the scores of an earlier run. Shape (rows,).
        offered: The raw scores of the rows, for later runs.
    """
    added = score_columns(
        pairs,
        rescaled=settings.rescaled,
        windowed=settings.windowed,
        listed=is_list(column_of(table, fields.reference_column).type),
    )
    if settings.sole is None:
        signatures = settings.signatures(idf)
        added[columns.SIGNATURE] = _signature_column(pairs, languages, signatures)
        present = set(languages)
        metadata = metadata_by_language(
            {language: text for language, text in signatures.items() if language in present}
        )
    else:
        metadata = part_metadata(settings.sole.final_signature(idf))
    others = 0
    if settings.script_language:
        groups = countable_references(column_of(table, fields.reference_column))
        firsts = [group[0] for group in groups if group]
        others = count_other_scripts(firsts, settings.script_language)
    return ScoredTable(
        table=columns.append_scores(table, added, metadata),
        summary=pairs.summary(),
        rejected=pairs.rejected(),
        work=pairs.work,
        languages=_by_language(pairs, languages, settings),
        other_scripts=others,
        reused=reused,
        offered=offered,
    )


def score_columns(
    pairs: ScoredPairs, *, rescaled: bool, windowed: bool, listed: bool
) -> dict[str, pa.Array]:
    """Return the scores and reasons of pairs as Arrow columns by name.

    Args:
        pairs: The pairs.
        rescaled: Whether to include the raw scores.
        windowed: Whether to include the number of windows.
        listed: Whether to include the best reference, since there are lists of references.
    """
    found = pairs.by_column(rescaled=rescaled, windowed=windowed)
    if not listed:
        del found[columns.BEST_REFERENCE]
    added = {name: pa.array(column.data, mask=column.mask) for name, column in found.items()}
    return {**added, columns.ERROR: pa.array(pairs.reasons, type=pa.string())}


def _signature_column(
    pairs: ScoredPairs, languages: Sequence[str], signatures: Mapping[str, str]
) -> pa.DictionaryArray:
    """Return the signature of the scores of each row; null for rows that were not scored."""
    rows = pairs.rows.tolist()
    texts = sorted({signatures[languages[row]] for row in rows})
    number = {text: index for index, text in enumerate(texts)}
    indices = np.zeros(len(pairs), dtype=np.int32)
    missing = np.ones(len(pairs), dtype=np.bool_)
    indices[pairs.rows] = [number[signatures[languages[row]]] for row in rows]
    missing[pairs.rows] = False
    return pa.DictionaryArray.from_arrays(
        pa.array(indices, mask=missing), pa.array(texts, pa.string())
    ).cast(_SIGNATURE_TYPE)


def _by_language(
    pairs: ScoredPairs, languages: Sequence[str], settings: RunSettings
) -> dict[str, LanguageRows]:
    """Return the rows of each language."""
    found = np.array(languages, dtype=object)
    return {
        language: LanguageRows(
            label=settings.label(language), summary=pairs.summary(found == language)
        )
        for language in sorted(set(languages))
    }


def metadata_by_language(signatures: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata of a table whose rows have languages: the signature of each of them."""
    return {
        "bertscore.schema_version": SCHEMA_VERSION,
        SIGNATURES_KEY: json.dumps(dict(signatures)),
    }


def part_metadata(signature: Signature) -> dict[str, str]:
    """Return the metadata of a part whose rows are all scored alike."""
    return {
        "bertscore.schema_version": SCHEMA_VERSION,
        SIGNATURE_KEY: signature.format(),
        "bertscore.hash": signature.upstream_hash(),
    }
