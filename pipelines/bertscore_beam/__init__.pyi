from .compare.compare import compare_runs as compare_runs
from .compare.compare_options import CompareOptions as CompareOptions
from .pairs.batches import ScoreBatches as ScoreBatches
from .pairs.frames import score_frame as score_frame
from .pairs.handler import BertScoreModelHandler as BertScoreModelHandler, PairScore as PairScore
from .pairs.pair_configs import ByLanguage as ByLanguage
from .pairs.transform import ScorePairs as ScorePairs
