"""A drawing of how similar the tokens of two texts are: BERTScore averages its maxima."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bertscore_core.embedding import embed
from bertscore_core.errors import ConfigError
from bertscore_core.idf import TokenWeights
from bertscore_core.memory import Budget
from bertscore_core.scorer import BertScorer
from bertscore_core.tokens import FloatArray
from bertscore_core.work import Work


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
    embedded = embed(
        scorer.encoder,
        tokens,
        np.arange(2),
        TokenWeights.uniform(()),  # not used: the drawing shows cosines without weights
        pad_id=scorer.tokenizer.pad_id,
        budget=Budget.for_device(scorer.encoder.device),
        work=Work(),
    )
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
    image = axes.imshow(values, cmap="Blues", vmin=0, vmax=1)
    axes.set_xticks(range(columns), similarities.reference, rotation=45, ha="right")
    axes.set_yticks(range(rows), similarities.candidate)
    axes.set_xlabel("Reference (tokenized)")
    axes.set_ylabel("Candidate (tokenized)")
    axes.set_title("Similarity Matrix" + (" (after Rescaling)" if similarities.rescaled else ""))
    figure.colorbar(image, ax=axes, fraction=0.02)
    for (row, column), value in np.ndenumerate(values):
        color = "k" if value < 0.5 else "w"  # readable on light and on dark cells
        axes.text(column, row, f"{value:.3f}", ha="center", va="center", color=color)
    return plt
