"""Reasoning before an answer: what is known of it, and what is left."""

import pytest

from bertscore_core import BERTScorer, BertScorer, ScorerConfig, explain, without_reasoning

HARMONY = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final"


@pytest.mark.parametrize("around", [("{}", "{}"), ("\n {}", "\n\n{}\n")])
@pytest.mark.parametrize(
    "before",
    [
        "<think>Hm.</think>",
        "<think></think>",
        "<think>Is <think> a tag?</think>",
        "<think>Hm.</think><think>Hm.</think>",
        "The user asks.</think>",  # the prompt has opened it
        "<thinking>Hm.\n</thinking>",
        "<thought>Hm.</thought>",
        "<reasoning>Hm.</reasoning>",
        "<seed:think>Hm.</seed:think>",
        "[THINK]Hm.[/THINK]",
        "Hm.[/THINK]",
        "<|channel>thought\nHm.<channel|>",
        f"{HARMONY}<|message|>",
        f"{HARMONY} <|constrain|>json<|message|>",
        "<|start|>assistant<|channel|>final<|message|>",
    ],
)
def test_the_answer_follows_the_reasoning(before, around):
    first, then = around
    text = first.format(before) + then.format("Paris, <b>[1]</b>.")
    assert without_reasoning(text) == "Paris, <b>[1]</b>."
    assert without_reasoning(f"{before} \n") == ""


@pytest.mark.parametrize(
    "answer",
    [
        "Use </think> to close.",
        "Paris. <think>Hm.</think> Or Lyon.",
        "Write <think> and </think> around it.",
    ],
)
def test_tags_in_an_answer_cut_nothing_off(answer):
    for before in ("<think>Hm.</think>", "Hm.</think>", "<think></think>\n[THINK]Hm.[/THINK]"):
        assert without_reasoning(f"{before} {answer}") == answer


def test_harmony_without_its_special_tokens_is_known_by_two_words():
    assert without_reasoning("analysisThe user asks.assistantfinalParis.") == "Paris."
    assert without_reasoning("analysisHm.assistantfinal") == ""


def test_what_ends_a_message_of_harmony_is_no_answer():
    for end in ("", "<|return|>", "<|end|><|start|>user"):
        assert without_reasoning(f"{HARMONY}<|message|>Paris.{end}") == "Paris."


@pytest.mark.parametrize(
    "text", ["<think>Hm", "[THINK]", "<|channel>thought", "<|channel|>analysis<|message|>Hm."]
)
def test_nothing_is_left_of_reasoning_that_never_ends(text):
    assert without_reasoning(text) == without_reasoning(f" {text} ") == ""


@pytest.mark.parametrize(
    "text",
    [
        "",
        " Paris. ",
        "I think> so [THINKING] <thinks>.",
        "Write <think> and </think> around it.",
        "Paris. <think>Hm.",
        "analysis of assistants",
        "<answer>Paris.</answer>",
        '```json\n{"answer": "Paris."}\n```',
    ],
)
def test_other_texts_stay_as_they_are(text):
    assert without_reasoning(text) is text


@pytest.mark.model
def test_an_answer_scores_as_without_its_reasoning_and_is_told_of_with_it(caplog):
    answer = "Paris, which lies on the Seine, is the capital of France."
    thought = (
        "Okay, the user asks about the capital of France. I should answer in one sentence. "
        "Marseille and Lyon are large, but neither is the capital."
    )
    candidates = [
        answer,
        f"<think>{thought}</think>\n\n{answer}",
        f"{thought}\n</think>\n\n{answer}",
        f"<think>{thought}",
    ]
    references = ["The capital of France is Paris, a city on the Seine."] * 4
    kept = BertScorer()
    stripped = BertScorer(ScorerConfig(strip_reasoning=True))
    plain, *with_reasoning = kept.score(candidates, references).f1.tolist()
    assert with_reasoning == pytest.approx([0.6187, 0.6247, 0.5294], abs=1e-4)
    assert plain == pytest.approx(0.9002, abs=1e-4)
    told = "The reasoning of a model is in 75.0% of the candidates"
    assert caplog.text.count(told) == 1
    expected = pytest.approx([plain] * 3 + [0.0], abs=1e-6)
    assert stripped.score(candidates, references).f1.tolist() == expected
    assert explain(stripped, candidates[1], references[0]).scores.f1 == pytest.approx(plain)
    own = [*map(without_reasoning, candidates)]
    drop_in = BERTScorer(model_type="all-MiniLM-L6-v2", num_layers=6)
    assert drop_in.score(own, references)[2].tolist() == expected
    assert caplog.text.count(told) == 1
    drop_in.score(candidates, references)
    assert caplog.text.count(told) == 2
    assert stripped.signature().reasoning == "stripped"
    assert "reasoning" not in kept.signature().format()
