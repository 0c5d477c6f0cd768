"""A drawing of how similar the tokens of two texts are: BERTScore averages its maxima.

`draw_matrix` is the one way in which such a matrix is drawn; `explanation_picture` adds to it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bertscore_core.errors import ConfigError
from bertscore_core.idf import TokenWeights
from bertscore_core.scorer import BertScorer
from bertscore_core.tokens import FloatArray
from bertscore_core.visible_text import escape_text


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Similarities:
    """Cosines between the tokens of a candidate and of a reference, without special tokens.

    Attributes:
        candidate: Spelling of the candidate's tokens. C strings.
        reference: The same for the reference. R strings.
        values: Cosines, rescaled by the baseline of F1 if the scorer rescales. Shape (C, R).
        rescaled: Whether they are.
    """

    candidate: tuple[str, ...]
    reference: tuple[str, ...]
    values: FloatArray
    rescaled: bool


def compare_tokens(scorer: BertScorer, candidate: str, reference: str) -> Similarities:
    """Compare every token of a candidate with every token of a reference.

    References:
        bert-score 0.3.13, `plot_example`: it leaves out the first and the last token of each text,
        and of all layers it takes the last.
    """
    tokens = scorer.tokenizer.encode([candidate, reference])
    # The drawing shows cosines: the weights are not used.
    embedded = scorer.embed(tokens, np.arange(2), TokenWeights.uniform(()))
    sides = [
        embedded.vectors[-1, start : start + length].cpu()
        for start, length in zip(embedded.starts, tokens.lengths, strict=True)
    ]
    # Vectors have unit length, so products are cosines.
    values = (sides[0] @ sides[1].T)[1:-1, 1:-1].numpy()
    baseline = scorer.baseline
    if baseline is not None:
        below = baseline.row(scorer.settings.num_layers)[2]
        values = (values - below) / (1 - below)
    spelled = [
        tuple(scorer.tokenizer.decode(token) for token in tokens.row(row).tolist()[1:-1])
        for row in range(2)
    ]
    return Similarities(
        candidate=spelled[0],
        reference=spelled[1],
        values=values,
        rescaled=baseline is not None,
    )


def draw(similarities: Similarities) -> Any:
    """Draw similarities, and return matplotlib's pyplot with the figure.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ConfigError(
            "plot_example cannot draw: matplotlib is not installed. Install it with "
            "`pip install 'bertscore-beam[plot]'`."
        ) from error
    values, (rows, columns) = similarities.values, similarities.values.shape
    figure, axes = plt.subplots(figsize=(max(columns, 2), max(rows, 2)), layout="constrained")
    image = draw_matrix(axes, values, similarities.candidate, similarities.reference, digits=3)
    axes.set_xlabel("Reference (tokenized)")
    axes.set_ylabel("Candidate (tokenized)")
    axes.set_title("Similarity Matrix" + (" (after Rescaling)" if similarities.rescaled else ""))
    figure.colorbar(image, ax=axes, fraction=0.02)
    return plt


def draw_matrix(
    axes: Any,
    values: FloatArray,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    digits: int | None,
) -> Any:
    """Draw a matrix of similarities on matplotlib's axes, and return its image.

    Args:
        axes: The axes.
        values: The similarities. Shape (C, R).
        rows: A label for each row. C strings.
        columns: A label for each column. R strings.
        digits: Digits after the point in each cell; None to leave the numbers out.
    """
    image = axes.imshow(values, cmap="Blues", vmin=0, vmax=1)
    across, down = ([escape_text(label) for label in labels] for labels in (columns, rows))
    axes.set_xticks(range(len(columns)), across, rotation=45, ha="right")
    axes.set_yticks(range(len(rows)), down)
    for label in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        label.set_parse_math(False)  # a token may hold dollar signs
    for (row, column), value in np.ndenumerate(values) if digits is not None else ():
        color = "k" if value < 0.5 else "w"  # readable on light and on dark cells
        axes.text(column, row, f"{value:.{digits}f}", ha="center", va="center", color=color)
    return image
