"""Score one table with one loaded scorer, as a run without a column of languages does."""

import pyarrow as pa

from bertscore_core import BertScorer, IdfTable
from pipelines.dump.columns import TableFields
from pipelines.idf.tables import IdfTables
from pipelines.score.rows import score_table
from pipelines.score.scored_table import ScoredTable
from pipelines.score.settings import RowSetting, RunSettings


def score_all_rows(
    scorer: BertScorer, table: pa.Table, fields: TableFields, idf: IdfTable | None = None
) -> ScoredTable:
    """Score every row of a table with a scorer."""
    setting = RowSetting(
        config=scorer.config,
        signature=scorer.signature(),
        max_length=scorer.tokenizer.max_length,
    )
    tables = None if idf is None else IdfTables.of(idf)
    settings = RunSettings.of_all_rows(setting)
    return score_table(_One(scorer), table, fields, settings=settings, idf=tables)


class _One:
    """A scorer that is loaded already."""

    def __init__(self, scorer: BertScorer) -> None:
        self._scorer = scorer

    def __call__(self, setting: RowSetting) -> BertScorer:
        return self._scorer

    def has(self, setting: RowSetting) -> bool:
        return True
