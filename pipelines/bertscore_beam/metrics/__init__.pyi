"""Metrics of other libraries beside BERTScore: of rows, and of all rows as one corpus."""

from .rouge import RougeL as RougeL
from .sacre import SacreMetric as SacreMetric
from .table import (
    CORPUS_METRICS as CORPUS_METRICS,
    Metric as Metric,
    MetricProcesses as MetricProcesses,
    check_metrics as check_metrics,
    columns_of as columns_of,
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
