"""An explanation as tables, for a terminal."""

from collections.abc import Iterator

from bertscore_beam.run.output import TextTable
from bertscore_core.explanations.explanation import (
    TOKEN_VALUES,
    Explanation,
    Measures,
    describe_making,
    describe_reference,
    formula_lines,
    score_rows,
    text_notes,
    token_rows,
)


def explanation_tables(explanation: Explanation) -> Iterator[TextTable]:
    """Yield the scores, then for each reference both texts, their tokens, and the sums."""
    yield TextTable("", ("",), [(describe_making(explanation),)])
    yield TextTable("Scores", ("", *Measures._fields), score_rows(explanation))
    for number, pair in enumerate(explanation.pairs):
        title = describe_reference(explanation, number)
        texts = [("candidate", pair.candidate), ("reference", pair.reference)]
        about = [("", title)] if len(explanation.pairs) > 1 else []
        for name, text in texts:
            about += [(name, text.text), *((name, note) for note in text_notes(text))]
        yield TextTable(title, ("", ""), about)
        for (name, text), (match, other) in (texts, texts[::-1]):
            heads = (name, *(match if head == "match" else head for head in TOKEN_VALUES))
            yield TextTable("", heads, token_rows(text, other))
        sums = formula_lines(pair, explanation.baseline)
        yield TextTable("", ("",), [(line,) for line in sums])
