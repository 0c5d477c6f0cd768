from .pairs import (
    BertScoreModelHandler as BertScoreModelHandler,
    ByLanguage as ByLanguage,
    PairScore as PairScore,
    ScoreBatches as ScoreBatches,
    ScorePairs as ScorePairs,
)
