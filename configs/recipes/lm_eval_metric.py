"""A metric for lm-eval: what stands in the YAML of the task. `answer` is a column of its data.

process_results: !function lm_eval_metric.process_results
metric_list:
  - metric: bertscore
    aggregation: mean
    higher_is_better: true
"""

from bertscore_core import BertScorer, ScorerConfig

bert = BertScorer(ScorerConfig(model="all-MiniLM-L6-v2"))


def process_results(doc: dict[str, str | list[str]], results: list[str]) -> dict[str, float]:
    """Return the F1 of a generated text with the best of its answers."""
    return {"bertscore": float(bert.score(results[:1], [doc["answer"]]).f1[0])}
