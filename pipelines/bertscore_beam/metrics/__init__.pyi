"""Metrics of other libraries beside BERTScore: of rows, and of all rows as one corpus."""

from .metric import Metric as Metric
from .processes import MetricProcesses as MetricProcesses, columns_of as columns_of
from .rouge import RougeL as RougeL
from .sacre import SacreMetric as SacreMetric
from .table import (
    CORPUS_METRICS as CORPUS_METRICS,
    check_metrics as check_metrics,
    corpus_score as corpus_score,
    described as described,
    identity_of as identity_of,
    label_of as label_of,
    metric_of as metric_of,
    num_counts as num_counts,
    score_rows as score_rows,
    signature_words as signature_words,
    speed_words as speed_words,
)
