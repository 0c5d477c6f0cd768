"""Made-up pairs with the shape of real ones: word frequencies, lengths, and spread of scores.

Sentences are drawn from a list of common English words by Zipf's law. Lengths follow a log-normal
distribution, taken at even quantiles and then shuffled, so that every sample has the same mix: a
mean of 25 tokens, special ones included, and a tail up to 300. Candidates are their references
with words replaced, dropped, added or swapped, a different share in each pair. Every word and every
mark is one token for the models of `tests.benchmarks.models`; a share of the words, another one in
each text, are compounds of several tokens, as names, numbers and addresses are, so that the number
of words does not tell the number of tokens.
"""

import math
import random
from collections.abc import Iterable, Sequence
from itertools import accumulate
from pathlib import Path
from statistics import NormalDist

MEAN_TOKENS = 25
SPREAD = 0.8
"""Standard deviation of the logarithm of the length."""
SHORTEST, LONGEST = 5, 300
SPECIAL_TOKENS = 2
MARK_EVERY = 11
"""Words between two commas or full stops."""
MOST_COMPOUNDS = 0.08
"""Largest share of compounds in a text. Sorted by words, batches of 64 are then a third padding, as
they are for seven real corpora of translations (26 to 43%)."""

WORDS = tuple(Path(__file__).with_name("words.txt").read_text(encoding="utf-8").split())


Pairs = tuple[list[str], list[str]]
"""Texts to score: N candidates and their N references."""


def mixed(count: int, seed: int = 0, *, mean_tokens: float = MEAN_TOKENS) -> Pairs:
    """Make pairs with the realistic mix of lengths.

    Args:
        count: Number of pairs, N.
        seed: The same seed gives the same pairs.
        mean_tokens: Mean length, special tokens included.
    """
    generator = random.Random(seed)
    lengths = mixed_lengths(count, mean_tokens, generator)
    return _pairs((draw_text(length - SPECIAL_TOKENS, generator) for length in lengths), generator)


def fixed(count: int, tokens: int) -> Pairs:
    """Make pairs of texts of exactly so many tokens, special ones included."""
    generator = random.Random(0)
    texts = (draw_words(tokens - SPECIAL_TOKENS, generator) for _ in range(count))
    return _pairs(texts, generator, actions=("replace",))


def mixed_lengths(count: int, mean_tokens: float, generator: random.Random) -> list[int]:
    """Return lengths in tokens at even quantiles of the log-normal distribution, shuffled."""
    normal = NormalDist(math.log(mean_tokens) - SPREAD**2 / 2, SPREAD)
    exact = [math.exp(normal.inv_cdf((i + 0.5) / count)) for i in range(count)]
    lengths = [min(max(round(length), SHORTEST), LONGEST) for length in exact]
    generator.shuffle(lengths)
    return lengths


def draw_text(tokens: int, generator: random.Random) -> list[str]:
    """Draw words of so many tokens in all, some of them compounds such as `sun-city-name`."""
    share = generator.uniform(0.0, MOST_COMPOUNDS)
    words = iter(draw_words(tokens, generator))
    text: list[str] = []
    room = tokens
    while room > 0:
        parts = generator.randint(2, 4) if generator.random() < share else 1
        parts = min(parts, (room + 1) // 2)
        text.append("-".join(next(words) for _ in range(max(parts, 1))))
        room -= max(2 * parts - 1, 1)
    return text


def draw_words(count: int, generator: random.Random) -> list[str]:
    """Draw words by Zipf's law, with a mark behind every few and at the end."""
    words = generator.choices(WORDS, cum_weights=_ZIPF, k=count)
    for position in range(MARK_EVERY, count, MARK_EVERY + 1):
        words[position] = generator.choice(",.")
    if count > 1:
        words[-1] = "."
    return words


_ZIPF = list(accumulate(1 / rank for rank in range(1, len(WORDS) + 1)))


def _pairs(
    texts: Iterable[list[str]],
    generator: random.Random,
    actions: Sequence[str] = ("replace", "replace", "drop", "add", "swap"),
) -> Pairs:
    pairs = [(" ".join(_edit(words, actions, generator)), " ".join(words)) for words in texts]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def _edit(words: Sequence[str], actions: Sequence[str], generator: random.Random) -> list[str]:
    """Change a share of the words, the share drawn for each text."""
    share = generator.uniform(0.0, 0.7)
    result = list(words)
    for position in range(len(words) - 1, -1, -1):
        if generator.random() >= share:
            continue
        action = generator.choice(actions)
        other = generator.choices(WORDS, cum_weights=_ZIPF, k=1)
        if action == "replace":
            result[position : position + 1] = other
        elif action == "drop" and len(result) > 1:
            del result[position]
        elif action == "add":
            result[position:position] = other
        elif position:
            result[position - 1 : position + 1] = reversed(result[position - 1 : position + 1])
    if result == list(words):  # no candidate is its reference, so that texts are distinct
        position = generator.randrange(len(result))
        result[position] = generator.choice([word for word in WORDS if word != words[position]])
    return result
