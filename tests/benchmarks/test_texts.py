import re
from statistics import mean

import pytest

from tests.benchmarks.texts import LONGEST, SPECIAL_TOKENS, WORDS, fixed, mixed


def token_counts(texts):
    """Count tokens as the models' tokenizers do: one a word or mark, and the special ones."""
    return [len(re.findall(r"\w+|[^\w\s]", text)) + SPECIAL_TOKENS for text in texts]


def test_a_seed_gives_the_same_pairs_and_another_gives_others():
    assert mixed(50, seed=3) == mixed(50, seed=3)
    assert mixed(50, seed=3) != mixed(50, seed=4)


@pytest.mark.parametrize("count", [100, 3000])
def test_texts_have_25_tokens_on_average(count):
    pairs = mixed(count)
    assert len(pairs) == len(pairs.references) == count
    assert mean(token_counts(pairs.references)) == pytest.approx(25, abs=2)
    assert mean(token_counts(pairs.candidates)) == pytest.approx(25, abs=2)


def test_the_tail_of_lengths_reaches_200_tokens_and_ends_at_the_limit():
    assert 200 < max(token_counts(mixed(3000).references)) <= LONGEST


def test_candidates_differ_from_their_references_by_different_shares():
    pairs = mixed(300)
    shared = [
        len(set(c.split()) & set(r.split())) / len(set(r.split()))
        for c, r in zip(pairs.candidates, pairs.references, strict=True)
    ]
    assert min(shared) < 0.5
    assert max(shared) > 0.95


def test_systems_share_their_reference():
    pairs = mixed(80, systems=8)
    assert pairs.references[0:8] == [pairs.references[0]] * 8
    assert len(set(pairs.references)) == 10
    assert len(set(pairs.candidates)) > 40


def test_fixed_texts_have_exactly_the_length_asked_for():
    pairs = fixed(5, 512)
    assert set(token_counts(pairs.candidates + pairs.references)) == {512}


def test_short_fixed_texts_can_be_distinct_words():
    words = [f"w{number}" for number in range(1000)]
    pairs = fixed(100, 3, words=words)
    assert set(pairs.candidates + pairs.references) <= set(words)
    assert len(set(pairs.references)) > 80


def test_no_word_stands_twice_in_the_list():
    assert len(set(WORDS)) == len(WORDS)
