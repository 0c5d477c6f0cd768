from .embedding import (
    EmbeddedTexts as EmbeddedTexts,
    Engine as Engine,
    embed as embed,
    plan_embedding as plan_embedding,
)
from .kernel import score_pairs as score_pairs
from .matching import (
    PairScores as PairScores,
    average as average,
    best_matches as best_matches,
    best_matches_in_tiles as best_matches_in_tiles,
    combine as combine,
    greedy_match as greedy_match,
    optimal_matches as optimal_matches,
)
