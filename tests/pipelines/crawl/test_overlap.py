"""Corpus BLEU of pairs from sums that add up."""

import pytest
import sacrebleu

from bertscore_beam.crawl import Overlap, describe_overlap, sampling, tokenizer_of
from tests.support.crawl_texts import sentences

TEXTS = sentences("en", 60, seed=1)


def test_bleu_is_that_of_sacrebleu():
    candidates, references = TEXTS[:30], TEXTS[30:]
    expected = sacrebleu.corpus_bleu(candidates, [references], smooth_method="none").score
    assert 1 < expected < 30
    assert Overlap.of(candidates, references, "en").bleu == pytest.approx(expected, abs=1e-12)


def test_parts_add_up_to_the_whole():
    parts = [Overlap.of(TEXTS[n : n + 10], TEXTS[n + 30 : n + 40], "en") for n in (20, 0, 10)]
    assert Overlap.merge(parts) == Overlap.of(TEXTS[:30], TEXTS[30:], "en")
    assert Overlap.merge([]) == Overlap.of([], [], "en")


def test_equal_sentences_have_all_and_foreign_ones_nothing_in_common():
    assert Overlap.of(TEXTS[:5], TEXTS[:5], "en").bleu == pytest.approx(100)
    nothing = Overlap.of(["one two three four five"], ["six seven eight nine ten"], "en")
    assert nothing.bleu == 0
    assert Overlap.of(["a b"], ["a b"], "en").bleu is None  # no n-gram of four tokens


def test_languages_without_spaces_are_compared_by_character():
    assert [tokenizer_of(code) for code in ("de", "zh", "ja", "th")] == [
        "13a",
        "zh",
        "char",
        "char",
    ]
    pair = ["渡船的船长昨天晚上在岛上"], ["渡船的船长昨天晚上在市场"]
    assert Overlap.of(*pair, "zh").common[0] == 10
    said = describe_overlap(Overlap.of(*pair, "zh"), "zh")
    assert 50 < said["bleu"] < 100
    assert "tok:zh" in said["signature"]


@pytest.mark.parametrize("language", ["en", "zh", "ja"])
def test_pairs_that_another_process_has_counted_are_described(language):
    counted = Overlap.of(TEXTS[:30], TEXTS[30:], language)
    present = describe_overlap(counted, language)
    sampling._bleu.cache_clear()  # as in a process that has counted nothing
    assert describe_overlap(counted, language) == present
