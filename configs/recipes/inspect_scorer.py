"""A scorer for Inspect: Task(dataset=..., solver=..., scorer=bertscore())."""

from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState

from bertscore_core import BertScorer, ScorerConfig


@scorer(metrics=[mean(), stderr()])
def bertscore(model: str = "all-MiniLM-L6-v2") -> Scorer:
    """Return the F1 of an answer with the best of its targets."""
    bert = BertScorer(ScorerConfig(model=model))

    async def score(state: TaskState, target: Target) -> Score:
        answer = state.output.completion
        f1 = bert.score([answer], [list(target)]).f1[0]
        return Score(value=float(f1), answer=answer)

    return score
