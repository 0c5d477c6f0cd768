"""The score of one candidate, worked out: every token, its match, its weight, and the sums.

    P = sum over candidate tokens of  weight / sum of weights * highest similarity
    R = the same over reference tokens
    F1 = 2 P R / (P + R)

References:
    Zhang et al. 2020, section 3, and figure 1.
"""

import html
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bertscore_core.errors import ConfigError, InputError, escape_text
from bertscore_core.idf import IdfTable, TokenWeights
from bertscore_core.match.embedding import EmbeddedTexts
from bertscore_core.scorer import BertScorer, as_list
from bertscore_core.specification import NOISE
from bertscore_core.stats.scores import Scores
from bertscore_core.tokenizer.tokenization import readable_tokens
from bertscore_core.tokens import FloatArray, IntArray, TokenizedPairs, first_highest
from bertscore_core.windows import Windows

MOST_SIMILARITIES = 1 << 24
"""Most similarities of one pair that are explained: two texts of 4,096 tokens, 64 MB."""

NO_MATCH = -1
"""The match of a token if the other text has no token."""


class Measures(NamedTuple):
    """Precision, recall and F1. NaN is not a score."""

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExplainedText:
    """One text of a pair, token by token. T tokens, special ones included.

    Attributes:
        tokens: What each token stands for; see `readable_tokens`. Shape (T,).
        weights: Weight of each token. Shape (T,), float32.
        matches: The most similar token of the other text, of those within 1e-6 the first;
            `NO_MATCH` if it has none. Shape (T,).
        similarities: Cosine with that token; NaN without one. Shape (T,), float32.
        windows: The window that each token's vector is from, from 0. Shape (T,).
        truncated: Whether the text was cut at the maximum length.
    """

    text: str
    tokens: tuple[str, ...]
    weights: FloatArray
    matches: IntArray
    similarities: FloatArray
    windows: IntArray
    truncated: bool

    @property
    def shares(self) -> npt.NDArray[np.float64]:
        """Share of each token in the sum of weights; NaN if that is 0. Shape (T,)."""
        total = self.weights.sum(dtype=np.float64)
        if total == 0:
            return np.full(len(self.weights), np.nan)
        shares: npt.NDArray[np.float64] = self.weights / total
        return shares

    @property
    def contributions(self) -> npt.NDArray[np.float64]:
        """What each token adds: its share times its similarity. Shape (T,)."""
        # Without weight a token adds nothing, even if it has no match.
        similarities: npt.NDArray[np.float64] = np.where(self.weights == 0, 0.0, self.similarities)
        return similarities * self.shares

    @property
    def total(self) -> float:
        """Sum of the contributions: precision of a candidate, recall of a reference."""
        return float(self.contributions.sum()) if len(self.tokens) else math.nan


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExplainedPair:
    """A candidate and one reference.

    Attributes:
        similarities: Cosines of all tokens. Shape (C, R), float32.
        raw: Scores of the pair before rescaling.
        scores: Scores of the pair, as `BertScorer.score` gives them for this reference alone.
        rule: Why the scores are not the sums: `empty_candidate`, `empty_reference`,
            `counted_as_empty`, `too_long`, `only_special_tokens` or `no_weighted_token`; None if
            they are.
    """

    candidate: ExplainedText
    reference: ExplainedText
    similarities: FloatArray
    raw: Measures
    scores: Measures
    rule: str | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Explanation:
    """The scores of one candidate, worked out.

    Attributes:
        pairs: The candidate with each reference, in their order.
        scores: Its scores: each measure is the best over the references.
        raw: The same before rescaling.
        best: The reference that gives each measure, from 0; of those within 1e-6 the first.
        baseline: What the scores are rescaled with; None if they are not.
        num_layers: The layer whose embeddings are compared.
        idf: Whether the tokens are weighted by inverse document frequency.
    """

    pairs: tuple[ExplainedPair, ...]
    scores: Measures
    raw: Measures
    best: tuple[int, int, int]
    baseline: Measures | None
    model: str
    num_layers: int
    idf: bool

    def as_dict(self) -> dict[str, Any]:
        """Return all numbers and tokens as plain values, for JSON; None stands for NaN."""
        return {
            "model": self.model,
            "num_layers": self.num_layers,
            "idf": self.idf,
            "scores": _plain(self.scores),
            "raw": _plain(self.raw),
            "baseline": None if self.baseline is None else _plain(self.baseline),
            "best_reference": dict(zip(Measures._fields, self.best, strict=True)),
            "pairs": [_describe_pair(pair) for pair in self.pairs],
        }

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value:.4f}" for name, value in self.scores._asdict().items())
        return f"Explanation({self.pairs[0].candidate.text!r}, {values})"

    def _repr_html_(self) -> str:
        return fragment(self)


def explain(
    scorer: BertScorer,
    candidate: str,
    references: str | Sequence[str],
    *,
    idf: IdfTable | None = None,
) -> Explanation:
    """Work out the scores of one candidate with its references; see `BertScorer.score`.

    Raises:
        InputError: A value is not a text, there is no reference, or two texts are too long.
        ConfigError: The scorer scores all layers at once, or means over references.
        IdfError: The idf table belongs to another tokenizer or truncation.
    """
    group = [references] if isinstance(references, str) else as_list("references", references)
    if idf is None and scorer.config.idf:  # as `score` does
        scorer.tokenize([candidate], [group])  # for its checks
        idf = scorer.count_idf([group])
    return explain_weighted(
        scorer, candidate, group, scorer.token_weights(idf), idf=idf is not None
    )


def explain_weighted(
    scorer: BertScorer,
    candidate: str,
    references: Sequence[str],
    weights: TokenWeights,
    *,
    idf: bool,
) -> Explanation:
    """Work out the scores of one candidate with given token weights; see `explain`.

    `idf` says whether they are idf weights.
    """
    if scorer.config.all_layers:
        raise ConfigError(
            "a scorer of all layers cannot be explained: got all_layers; expected one layer. Make "
            "a scorer with num_layers."
        )
    if scorer.config.references != "best":
        raise ConfigError(
            "a mean over references cannot be explained: got references mean; expected best. "
            "Explain the pair of two texts."
        )
    pairs = scorer.tokenize([candidate], [references])
    _check_size(pairs)
    apart = together = scorer.score_tokenized(pairs, weights)
    if len(references) > 1:
        apart = scorer.score_tokenized(
            scorer.tokenize([candidate] * len(references), [[text] for text in references]), weights
        )
    num_layers = scorer.settings.num_layers
    baseline = None
    if scorer.baseline is not None:
        baseline = Measures(*scorer.baseline.row(num_layers).tolist())
    scores, raw = _measures_of(together, 0)
    return Explanation(
        pairs=_explain_pairs(scorer, pairs, weights, [candidate, *references], apart),
        scores=scores,
        raw=raw,
        best=_best(apart, raw),
        baseline=baseline,
        model=scorer.settings.files.name,
        num_layers=num_layers,
        idf=idf,
    )


def _check_size(pairs: TokenizedPairs) -> None:
    lengths = pairs.texts.lengths
    tokens, longest = int(lengths[pairs.candidates[0]]), int(lengths[pairs.references].max())
    if tokens * longest > MOST_SIMILARITIES:
        raise InputError(
            f"the texts are too long to be explained: got {tokens:,} tokens in the candidate and "
            f"{longest:,} in a reference; expected at most {MOST_SIMILARITIES:,} similarities. "
            "Lower max_length, or shorten the texts."
        )


def _explain_pairs(
    scorer: BertScorer,
    pairs: TokenizedPairs,
    weights: TokenWeights,
    texts: Sequence[str],
    scores: Scores,
) -> tuple[ExplainedPair, ...]:
    numbers = np.concatenate([pairs.candidates, pairs.references])
    needed = np.unique(numbers[pairs.texts.lengths[numbers] > 0])
    embedded = scorer.embed(pairs.texts, needed, weights) if len(needed) else None

    def explained(place: int, similarities: FloatArray) -> ExplainedText:
        ids = pairs.texts.row(int(numbers[place]))
        windows = Windows.cut(np.zeros(1, np.int64), np.array([len(ids)]), scorer.tokenizer.windows)
        matches = np.full(len(ids), NO_MATCH, dtype=np.int64)
        best = np.full(len(ids), np.nan, dtype=np.float32)
        if similarities.shape[1]:
            best = similarities.max(axis=1)
            matches = (similarities >= best[:, None] - NOISE).argmax(axis=1).astype(np.int64)
        return ExplainedText(
            text=texts[place],
            tokens=readable_tokens(scorer.tokenizer, ids.tolist()),
            weights=weights.of(ids),
            matches=matches,
            similarities=best,
            windows=np.repeat(np.arange(len(windows.kept)), windows.kept),
            truncated=bool(pairs.texts.truncated[numbers[place]]),
        )

    explanations = []
    for place in range(1, len(texts)):
        similarities = _similarities(scorer, embedded, numbers[0], numbers[place])
        own_scores, raw = _measures_of(scores, place - 1)
        explanations.append(
            ExplainedPair(
                candidate=explained(0, similarities),
                reference=explained(place, similarities.T),
                similarities=similarities,
                raw=raw,
                scores=own_scores,
                rule=_rule(scores, place - 1),
            )
        )
    return tuple(explanations)


def _similarities(scorer: BertScorer, embedded: EmbeddedTexts | None, *texts: int) -> FloatArray:
    if embedded is None:
        return np.zeros((0, 0), dtype=np.float32)
    starts, ends = embedded.starts, embedded.starts + embedded.lengths
    candidate, reference = (embedded.vectors[-1, starts[text] : ends[text]] for text in texts)
    with scorer.computing(), scorer.encoder.products():
        # Vectors have unit length, so products are cosines.
        cosines: FloatArray = (candidate @ reference.T).float().cpu().numpy()
    return cosines


def _rule(scores: Scores, row: int) -> str | None:
    return next((name for name, (marks, _) in _RULES.items() if getattr(scores, marks)[row]), None)


def _best(scores: Scores, raw: Measures) -> tuple[int, int, int]:
    columns = np.array([scores.raw_precision, scores.raw_recall, scores.raw_f1])
    # NaN is the highest, or no score and left out: what all references give tells.
    is_left_out = np.isnan(columns) & ~np.isnan(np.array(raw))[:, None]
    values = np.where(is_left_out, np.float32(-np.inf), columns)
    precision, recall, f1 = first_highest(values, np.zeros(1, dtype=np.int64))[:, 0].tolist()
    return precision, recall, f1


def _measures_of(scores: Scores, row: int) -> tuple[Measures, Measures]:
    """Return the scores of a row, and those before rescaling."""
    final, raw = (
        Measures(*(float(getattr(scores, before + name)[row]) for name in Measures._fields))
        for before in ("", "raw_")
    )
    return final, raw


def _plain(measures: Measures) -> dict[str, float | None]:
    return {name: _number(value) for name, value in measures._asdict().items()}


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _describe_pair(pair: ExplainedPair) -> dict[str, Any]:
    return {
        "scores": _plain(pair.scores),
        "raw": _plain(pair.raw),
        "rule": pair.rule,
        "candidate": _describe_text(pair.candidate),
        "reference": _describe_text(pair.reference),
        "similarities": [[_number(value) for value in row] for row in pair.similarities.tolist()],
    }


def _describe_text(text: ExplainedText) -> dict[str, Any]:
    return {
        "text": text.text,
        "truncated": text.truncated,
        "sum": _number(text.total),
        "tokens": [
            {
                "token": token,
                "weight": float(text.weights[number]),
                "share": _number(text.shares[number]),
                "match": int(match) if (match := text.matches[number]) != NO_MATCH else None,
                "similarity": _number(text.similarities[number]),
                "contribution": _number(text.contributions[number]),
                "window": int(text.windows[number]),
            }
            for number, token in enumerate(text.tokens)
        ],
    }


# The sentences of an explanation, which are the same wherever it is shown.

_RULES = {
    "too_long": ("too_long", "A text is longer than the maximum length: the pair has no scores."),
    "empty_candidate": (
        "empty_candidate",
        "The candidate is empty: a rule for empty texts gives the scores.",
    ),
    "empty_reference": (
        "empty_reference",
        "The reference is empty: a rule for empty texts gives the scores.",
    ),
    "counted_as_empty": (
        "counted_as_empty",
        "A text has exactly two tokens and counts as empty, as in bert-score: precision and recall "
        "are 0.",
    ),
    "only_special_tokens": (
        "only_special",
        "A text holds nothing but special tokens, which have no weight: its precision or recall is "
        "0, and F1 is 0.",
    ),
    "no_weighted_token": (
        "unweighted",
        "No token of a text has weight, so there is no average. A token such as [UNK] "
        "has no weight if every reference that was counted for idf holds it.",
    ),
}
"""Why the scores of a pair are not the sums, by `ExplainedPair.rule`: the first whose rows `Scores`
marks by this name, and a sentence."""


def describe_making(explanation: Explanation) -> str:
    """Return what the scores were made with."""
    weighting = "idf weights" if explanation.idf else "equal weights"
    return f"{escape_text(explanation.model)}, layer {explanation.num_layers}, {weighting}"


def describe_reference(explanation: Explanation, number: int) -> str:
    """Return which reference this is, and which measures come from it."""
    if len(explanation.pairs) == 1:
        return "The pair"
    names = ("precision", "recall", "F1")
    best = [
        name for name, reference in zip(names, explanation.best, strict=True) if reference == number
    ]
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


def formula_lines(pair: ExplainedPair, baseline: Measures | None) -> list[str]:
    """Return how the scores of a pair follow from the sums, or why they do not."""
    raw, scores = pair.raw, pair.scores
    if pair.rule is not None:
        _, why = _RULES[pair.rule]
        own = scores._asdict().items()
        return [why, *(f"{name} = {format_score(value)}" for name, value in own)]
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


def score_rows(explanation: Explanation) -> list[tuple[str, ...]]:
    """Return the scores as a table: what each row is, then `Measures`."""
    rows = [("score", explanation.scores)]
    if explanation.baseline is not None:
        rows = [
            ("before rescaling", explanation.raw),
            ("baseline", explanation.baseline),
            ("rescaled score", explanation.scores),
        ]
    table = [(name, *map(format_score, values)) for name, values in rows]
    if len(explanation.pairs) > 1:
        table.append(("best reference", *(str(number + 1) for number in explanation.best)))
    return table


TOKEN_VALUES = ("weight", "share", "match", "similarity", "contribution")
"""What `token_rows` says of each token."""


def token_rows(text: ExplainedText, other: ExplainedText) -> list[tuple[str, ...]]:
    """Return the tokens of a text as a table: each with its `TOKEN_VALUES`, then the sum."""
    rows = [
        (
            token,
            f"{text.weights[number]:.4f}",
            format_score(text.shares[number]),
            other.tokens[match] if (match := int(text.matches[number])) != NO_MATCH else "",
            format_score(text.similarities[number]),
            format_score(text.contributions[number]),
        )
        for number, token in enumerate(text.tokens)
    ]
    return [*rows, ("sum", "", "", "", "", format_score(text.total))]


def format_score(value: float) -> str:
    """Return a score to six digits; `none` for NaN."""
    return "none" if math.isnan(value) else f"{value:.6f}"


# An explanation as HTML: a page without scripts that loads nothing, or a piece of one.

_MOST_CELLS = 250_000
"""Most similarities shown, of two texts of 500 tokens: some 5 MB. Of more, only the matches."""

_LEVELS = 10

_PAGE_STYLE = """
:root { color-scheme: light dark; }
body { margin: 1em auto; padding: 0 1em; max-width: 90em; background: #fff; }
@media (prefers-color-scheme: dark) { body { background: #121212; } }
"""


@cache
def _style() -> str:
    return resources.files("bertscore_core").joinpath("data", "explanation.css").read_text("utf-8")


def page(sections: Sequence[tuple[str, Sequence[str], Explanation]], title: str) -> str:
    """Return a page that needs nothing else.

    Args:
        sections: A heading, some lines of notes, and an explanation each.
        title: Title of the page.
    """
    parts = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
        f"<title>{_escape(title)}</title>\n<style>{_PAGE_STYLE}{_style()}</style>\n</head>\n<body>\n",
        f'<main class="bse">\n<h1>{_escape(title)}</h1>\n',
    ]
    for heading, notes, explanation in sections:
        parts.append(f"<section>\n<h2><bdi>{_escape(heading)}</bdi></h2>\n")
        parts += [f"<p>{_escape(note)}</p>\n" for note in notes]
        parts += _explanation(explanation)
        parts.append("</section>\n")
    parts.append("</main>\n</body>\n</html>\n")
    return "".join(parts)


def fragment(explanation: Explanation) -> str:
    """Return an explanation with its style, to be shown in a notebook."""
    body = "".join(_explanation(explanation))
    return f'<style>{_style()}</style>\n<div class="bse">\n{body}</div>\n'


def _explanation(explanation: Explanation) -> Iterator[str]:
    yield f"<p>{_escape(describe_making(explanation))}</p>\n"
    yield _scores_table(explanation)
    for number, pair in enumerate(explanation.pairs):
        yield f"<section>\n<h3>{_escape(describe_reference(explanation, number))}</h3>\n"
        yield from _pair(pair, explanation.baseline)
        yield "</section>\n"


def _scores_table(explanation: Explanation) -> str:
    cells = [(name, _cells(values)) for name, *values in score_rows(explanation)]
    return '<p class="label">Scores</p>\n' + _table("Scores", Measures._fields, cells)


def _pair(pair: ExplainedPair, baseline: Measures | None) -> Iterator[str]:
    for name, text in (("Candidate", pair.candidate), ("Reference", pair.reference)):
        written = _escape(text.text) or "(empty)"
        yield f'<h4>{name}</h4>\n<p class="written" dir="auto">{written}</p>\n{_coloured(text)}'
        yield from (f"<p>{_escape(note)}</p>\n" for note in text_notes(text))
    yield "<ul>\n"
    yield from (f"<li>{_escape(words)}</li>\n" for words in formula_lines(pair, baseline))
    yield "</ul>\n"
    yield _matrix(pair)
    yield _parts("Precision: the tokens of the candidate", pair.candidate, pair.reference)
    yield _parts("Recall: the tokens of the reference", pair.reference, pair.candidate)


def _coloured(text: ExplainedText) -> str:
    spans = []
    for number, token in enumerate(text.tokens):
        similarity, weight = text.similarities[number], text.weights[number]
        label = f"similarity {format_score(similarity)}, weight {weight:.3f}"
        level = f"none s{_level(similarity)}" if weight == 0 else f"s{_level(similarity)}"
        spans.append(f'<span class="{level}" title="{label}">{_escape(token)}</span>')
    return f'<p class="tokens" dir="auto">{" ".join(spans) or "(no tokens)"}</p>\n'


def _matrix(pair: ExplainedPair) -> str:
    rows, columns = pair.similarities.shape
    if not rows or not columns:
        return ""
    if rows * columns > _MOST_CELLS:
        return f"<p>The {rows:,} x {columns:,} similarities are left out: they are too many.</p>\n"
    label = "Similarities. P: match of a candidate token; R: match of a reference token."
    matches = pair.candidate.matches.tolist()
    back = pair.reference.matches.tolist()
    lines = []
    for row, values in enumerate(pair.similarities.tolist()):
        cells = []
        for column, value in enumerate(values):
            mark = ("P" if matches[row] == column else "") + ("R" if back[column] == row else "")
            level = f"s{_level(value)}" + (" m" if mark else "")
            letters = f"<b>{mark}</b>" if mark else ""
            cells.append(f'<td class="{level}">{value:.2f}{letters}')
        lines.append((pair.candidate.tokens[row], "".join(cells)))
    table = _table(label, pair.reference.tokens, lines, "matrix")
    return f'<p class="label">{label}</p>\n{table}'


def _parts(caption: str, text: ExplainedText, other: ExplainedText) -> str:
    rows = [(token, _cells(values)) for token, *values in token_rows(text, other)]
    table = _table(caption, TOKEN_VALUES, rows)
    return f"<details>\n<summary>{caption}</summary>\n{table}</details>\n"


def _cells(values: Iterable[str]) -> str:
    return "".join(f"<td><bdi>{_escape(value)}</bdi>" for value in values)


def _table(
    label: str, heads: Iterable[str], rows: Iterable[tuple[str, str]], kind: str = "plain"
) -> str:
    """Return a table in a region that scrolls. A row is its heading and its cells as HTML."""
    head = "".join(f'<th scope="col"><bdi>{_escape(name)}</bdi>' for name in heads)
    body = "".join(
        f'<tr><th scope="row"><bdi>{_escape(name)}</bdi>{cells}\n' for name, cells in rows
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">\n'
        f'<table class="{kind}">\n<tr><td>{head}\n{body}</table>\n</div>\n'
    )


def _level(similarity: float) -> int:
    return 0 if math.isnan(similarity) else round(min(max(similarity, 0.0), 1.0) * _LEVELS)


def _escape(text: str) -> str:
    return html.escape(escape_text(text))
