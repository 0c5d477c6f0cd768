"""The algorithm of bert-score 0.3.13, for machines on which the package cannot be installed.

Written anew after the package's steps: texts sorted by their number of words, encoded 64 at a time
with padding in float32, each batch's states moved to the host; then pairs, 64 at a time, moved back
padded and matched. One text at a time is tokenised. It stands in for the package in speed; its
padding is masked as ours is.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModel, AutoTokenizer

from bertscore_core.match import greedy_match
from bertscore_core.model import cut


class PlainLoop:
    """A model under the reference's loop.

    Args:
        folder: Folder of the model; one of RoBERTa has that in its name.
        num_layers: Layer to score.
        device: Where it computes.
    """

    def __init__(self, folder: Path, num_layers: int, device: str) -> None:
        self._tokenizer = AutoTokenizer.from_pretrained(folder)
        self._prefix = " " if "roberta" in folder.name else ""
        model: Any = AutoModel.from_pretrained(folder, dtype=torch.float32)
        cut(model, num_layers)
        self._model = model.to(device).eval()
        self._device = device

    @torch.no_grad()
    def score(
        self, candidates: Sequence[str], references: Sequence[str], batch_size: int = 64
    ) -> tuple[None, None, Tensor]:
        """Return the F1 of every pair, in the place that bert-score has it."""
        texts = sorted({*candidates, *references}, key=lambda text: -len(text.split(" ")))
        states: dict[str, Tensor] = {}
        for start in range(0, len(texts), batch_size):
            batch = texts[start : start + batch_size]
            ids = [self._tokenizer(self._prefix + text.strip(), truncation=True) for text in batch]
            rows = self._tokenizer.pad(ids, return_tensors="pt").to(self._device)
            hidden = self._model(rows["input_ids"], attention_mask=rows["attention_mask"])[0].cpu()
            lengths = rows["attention_mask"].sum(dim=1).tolist()
            states |= {
                text: row[:length] for text, row, length in zip(batch, hidden, lengths, strict=True)
            }
        scores: list[Tensor] = []
        for start in range(0, len(candidates), batch_size):
            pairs = slice(start, start + batch_size)
            left, right = (
                self._padded([states[text] for text in side[pairs]])
                for side in (candidates, references)
            )
            units, counts, weights = zip(left, right, strict=True)
            scores.append(greedy_match(*units, *counts, *weights).f1.cpu())
        return None, None, torch.cat(scores)

    def _padded(self, states: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Return unit vectors, the numbers of tokens, and the weights of these, on the device."""
        vectors = pad_sequence([row.to(self._device) for row in states], batch_first=True)
        counts = torch.tensor(list(map(len, states)), device=self._device)
        places = torch.arange(vectors.shape[1], device=self._device)
        # The special tokens, first and last, have no weight.
        weights = ((places > 0) & (places < counts[:, None] - 1)).to(vectors.dtype)
        return vectors / vectors.norm(dim=-1, keepdim=True).clamp_min(1e-12), counts, weights
