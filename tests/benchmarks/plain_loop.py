"""The algorithm of bert-score 0.3.13, for machines on which the package cannot be installed.

Written anew after the package's steps: texts sorted by their number of words, encoded 64 at a time
with padding in float32, each batch's states moved to the host; then pairs, 64 at a time, moved back
padded and matched. One text at a time is tokenised. It stands in for the package in speed; its
padding is masked as ours is.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModel, AutoTokenizer

from bertscore_core.match import greedy_match
from bertscore_core.model import cut


class PlainLoop:
    """A model under the reference's loop.

    Args:
        folder: Folder of the model.
        num_layers: Layer to score.
        device: Where it computes.
        prefix_space: Put a space before every text, as the reference does for RoBERTa.
    """

    def __init__(
        self, folder: Path, num_layers: int, device: str, *, prefix_space: bool = False
    ) -> None:
        self._tokenizer = AutoTokenizer.from_pretrained(folder)
        self._prefix = " " if prefix_space else ""
        model = AutoModel.from_pretrained(folder, dtype=torch.float32)
        cut(model, num_layers)
        self._model = model.to(device).eval()
        self._device = device

    @torch.no_grad()
    def score(
        self, candidates: Sequence[str], references: Sequence[str], batch_size: int = 64
    ) -> tuple[None, None, Tensor]:
        """Return the F1 of every pair, in the place that bert-score has it.

        Args:
            candidates: Texts, N.
            references: Texts, N.
            batch_size: Texts, and pairs, a batch.
        """
        texts = sorted({*candidates, *references}, key=lambda text: -len(text.split(" ")))
        states: dict[str, Tensor] = {}
        weights: dict[str, Tensor] = {}
        for batch in _batches(texts, batch_size):
            ids = [self._encode(text) for text in batch]
            hidden = self._forward(ids).cpu()
            for text, row, tokens in zip(batch, hidden, ids, strict=True):
                states[text] = row[: len(tokens)]
                weights[text] = torch.ones(len(tokens))
                weights[text][[0, -1]] = 0.0  # the special tokens
        scores: list[Tensor] = []
        for batch in _batches(list(zip(candidates, references, strict=True)), batch_size):
            sides = [[pair[side] for pair in batch] for side in (0, 1)]
            vectors = [self._pad([states[text] for text in side]) for side in sides]
            lengths = [torch.tensor([len(states[text]) for text in side]) for side in sides]
            token_weights = [self._pad([weights[text] for text in side]) for side in sides]
            matched = greedy_match(
                *[one / one.norm(dim=-1, keepdim=True).clamp_min(1e-12) for one in vectors],
                *[one.to(self._device) for one in lengths],
                *token_weights,
            )
            scores.append(matched.f1.cpu())
        return None, None, torch.cat(scores)

    def _encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(self._prefix + text.strip(), truncation=True))

    def _forward(self, ids: list[list[int]]) -> Tensor:
        rows = [torch.tensor(row) for row in ids]
        fill = float(self._tokenizer.pad_token_id)
        padded = pad_sequence(rows, batch_first=True, padding_value=fill)
        steps = torch.arange(padded.shape[1])[None, :]
        mask = (steps < torch.tensor([len(row) for row in ids])[:, None]).long()
        output = self._model(padded.to(self._device), attention_mask=mask.to(self._device))
        hidden: Tensor = output[0]
        return hidden

    def _pad(self, rows: list[Tensor]) -> Tensor:
        return pad_sequence([row.to(self._device) for row in rows], batch_first=True)


def _batches(items: Sequence, size: int) -> Iterator[Sequence]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
