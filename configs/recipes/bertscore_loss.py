"""1 - F1 as a loss, for a text that a model gives as probabilities of tokens.

The choice of a token has no gradient. So at each position the scorer's encoder gets the mean of the
token embeddings, weighted with the probabilities. Both models need the same vocabulary.

    scorer = BertScorer(ScorerConfig(model="all-MiniLM-L6-v2", backend="torch", dtype="float32"))
    loss = bertscore_loss(scorer, probabilities, token_weights(scorer, ids), "a cat sat")
"""

import torch
from torch.nn.functional import normalize

from bertscore_core import BertScorer, ConfigError, greedy_match


def token_weights(scorer: BertScorer, ids: torch.Tensor) -> torch.Tensor:
    """Weigh the tokens of a text, shape (S,): special tokens 0, as in the score, all others 1."""
    zeros = torch.tensor(scorer.tokenizer.zero_weight_ids)
    return (~torch.isin(ids, zeros)).float()


def bertscore_loss(
    scorer: BertScorer, probabilities: torch.Tensor, weights: torch.Tensor, reference: str
) -> torch.Tensor:
    """Return 1 - F1 of one text: probabilities of shape (S, V), weights of shape (S,).

    Raises:
        ConfigError: The scorer's backend has no gradients, as on a CPU where OpenVINO is installed.
    """
    if scorer.settings.backend != "torch":
        raise ConfigError(
            f"the loss cannot be computed: got the backend {scorer.settings.backend!r}, which has "
            "no gradients; expected ScorerConfig(..., backend='torch', dtype='float32')."
        )
    encoder = scorer.encoder.model.requires_grad_(False)  # cut at the scorer's layer
    embeddings = encoder.get_input_embeddings().weight
    ids = torch.from_numpy(scorer.tokenizer.encode([reference]).ids).long()
    hidden = encoder(inputs_embeds=(probabilities @ embeddings)[None]).last_hidden_state
    with torch.no_grad():
        wanted = encoder(ids[None]).last_hidden_state
    scores = greedy_match(
        normalize(hidden, dim=-1),
        normalize(wanted, dim=-1),
        torch.tensor([len(probabilities)]),
        torch.tensor([len(ids)]),
        weights[None],
        token_weights(scorer, ids)[None],
    )
    return 1 - scores.f1.mean()
