"""What the device did is counted."""

import time

from bertscore_core.tokens import Work

TEXTS = ["a cat", "a cat sat on the mat", "the dog barked at the cat for a long time"]


def scored(scorer, candidates, references):
    work = Work()
    pairs = scorer.tokenize(candidates, references)
    scorer.score_tokenized(pairs, scorer.token_weights(None), work)
    return pairs, work


def test_tokens_are_those_of_the_distinct_texts(tiny_scorer):
    scorer = tiny_scorer(num_layers=2, backend="torch")
    pairs, work = scored(scorer, TEXTS, TEXTS[::-1])
    assert work.tokens == pairs.texts.lengths.sum()
    assert work.batches == 1
    assert work.padded_tokens == len(TEXTS) * pairs.texts.lengths.max()
    assert work.padding == 1 - work.tokens / work.padded_tokens
    assert work.retries == 0


def test_idle_time_is_counted_from_the_end_of_the_call_before(tiny_scorer):
    scorer = tiny_scorer(num_layers=2, backend="torch")
    _, first = scored(scorer, TEXTS, TEXTS)
    between = scorer.queue.begin()
    time.sleep(0.05)
    slept = scorer.queue.begin().moment.seconds_after(between.moment)
    _, second = scored(scorer, TEXTS, TEXTS)
    assert second.idle_seconds > slept > 0
    assert min(first.busy_seconds, second.busy_seconds) > 0
    assert first.late_seconds == second.late_seconds == 0  # of a GPU alone


def test_counts_add_up():
    total = Work(batches=1, tokens=5, padded_tokens=6) + Work(batches=2, tokens=1, retries=3)
    assert total == Work(batches=3, tokens=6, padded_tokens=6, retries=3)
    assert Work().padding == 0
