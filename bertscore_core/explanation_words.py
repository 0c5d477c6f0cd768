"""The sentences of an explanation, which are the same wherever it is shown."""

import math

from bertscore_core.explanation import ExplainedPair, ExplainedText, Explanation, Measures

_RULES = {
    "empty_candidate": "The candidate is empty: a rule for empty texts gives the scores.",
    "empty_reference": "The reference is empty: a rule for empty texts gives the scores.",
    "counted_as_empty": (
        "A text has exactly two tokens and counts as empty, as in bert-score: precision and recall "
        "are 0."
    ),
    "too_long": "A text is longer than the maximum length: the pair has no scores.",
    "only_special_tokens": (
        "A text holds nothing but special tokens, which have no weight: its precision or recall is "
        "0, and F1 is 0."
    ),
    "no_weighted_token": "No token of a text has weight, so there is no average.",
}


def rule_words(rule: str) -> str:
    """Return why the scores of a pair are not the sums."""
    return _RULES[rule]


def making_words(explanation: Explanation) -> str:
    """Return what the scores were made with."""
    weighting = "idf weights" if explanation.idf else "equal weights"
    return f"{explanation.model}, layer {explanation.num_layers}, {weighting}"


def reference_words(explanation: Explanation, number: int) -> str:
    """Return which reference this is, and which measures come from it."""
    if len(explanation.pairs) == 1:
        return "The pair"
    names = ("precision", "recall", "F1")
    best = [name for name, one in zip(names, explanation.best, strict=True) if one == number]
    own = f", which gives {', '.join(best)}" if best else ""
    return f"Reference {number + 1} of {len(explanation.pairs)}{own}"


def text_notes(text: ExplainedText) -> list[str]:
    """Return what else there is to know about a text."""
    notes = []
    if text.truncated:
        notes.append("The text was cut at the maximum length: the rest of it counts for nothing.")
    windows = int(text.windows.max(initial=0)) + 1
    if windows > 1:
        notes.append(f"The text is long: its vectors are from {windows} overlapping windows.")
    return notes


def formula_words(pair: ExplainedPair, baseline: Measures | None) -> list[str]:
    """Return how the scores of a pair follow from the sums."""
    raw, scores = pair.raw, pair.scores
    if pair.rule is not None:
        return [f"{name} = {score_words(value)}" for name, value in scores._asdict().items()]
    precision, recall = pair.candidate.total, pair.reference.total
    words = [
        f"precision = sum of the candidate's contributions = {precision:.6f}",
        f"recall = sum of the reference's contributions = {recall:.6f}",
        f"F1 = 2 x {precision:.6f} x {recall:.6f} / ({precision:.6f} + {recall:.6f}) "
        f"= {raw.f1:.6f}",
    ]
    if baseline is not None:
        words += [
            f"rescaled {name} = ({before:.6f} - {below:.6f}) / (1 - {below:.6f}) = {after:.6f}"
            for name, before, below, after in zip(
                ("precision", "recall", "F1"), raw, baseline, scores, strict=True
            )
        ]
    return words


def score_words(value: float) -> str:
    """Return a score to six digits; `none` for NaN."""
    return "none" if math.isnan(value) else f"{value:.6f}"
