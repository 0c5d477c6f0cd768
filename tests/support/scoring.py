"""Score one table with one loaded scorer, as a run without a column of languages does."""

import pyarrow as pa

from bertscore_beam.dump.columns import TableFields
from bertscore_beam.dump.texts import Rows
from bertscore_beam.idf.idf_tables import IdfTables
from bertscore_beam.records.settings import EVERY_LANGUAGE, SettingsByLanguage
from bertscore_beam.score.rows import score_table
from bertscore_beam.score.scored_table import ScoredTable
from bertscore_core import BertScorer, IdfTable
from bertscore_core.scorer_config import WorkerSettings


def score_all_rows(
    scorer: BertScorer, table: pa.Table, fields: TableFields, idf: IdfTable | None = None
) -> ScoredTable:
    """Score every row of a table with a scorer."""
    by_language = {EVERY_LANGUAGE: scorer.settings.for_workers()}
    tables = None if idf is None else IdfTables.of(idf)
    settings = SettingsByLanguage(by_language=by_language, rescaled=scorer.config.rescale)
    return score_table(_One(scorer), Rows(table, fields), settings=settings, idf=tables)


class _One:
    """A scorer that is loaded already."""

    def __init__(self, scorer: BertScorer) -> None:
        self._scorer = scorer

    def __call__(self, setting: WorkerSettings) -> BertScorer:
        return self._scorer

    def has(self, setting: WorkerSettings) -> bool:
        return True
