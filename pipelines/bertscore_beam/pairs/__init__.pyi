from .batches import ScoreBatches as ScoreBatches
from .handler import BertScoreModelHandler as BertScoreModelHandler, PairScore as PairScore
from .pair_settings import ByLanguage as ByLanguage
from .transform import ScorePairs as ScorePairs
