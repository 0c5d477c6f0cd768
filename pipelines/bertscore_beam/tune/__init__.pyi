from .job import TUNE as TUNE
from .judgements import Judgements as Judgements, read_judgements as read_judgements
from .other_metrics import (
    corpus_agreement as corpus_agreement,
    languages_of_rows as languages_of_rows,
    score_judgements as score_judgements,
)
from .tune_options import TuneOptions as TuneOptions
from .tune_results import (
    GroupRows as GroupRows,
    held_out as held_out,
    hybrids_of as hybrids_of,
    mean_of as mean_of,
    statistics_of as statistics_of,
)
