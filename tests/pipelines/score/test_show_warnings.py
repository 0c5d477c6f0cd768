"""Warnings at the end of a scoring run."""

import pytest

from pipelines.runs.source import EarlierSource
from pipelines.score.show_warnings import unused_words

SIGNATURE = (
    "bertscore|model:{}|weights:1|num_layers:6|layer_semantics:cut|tokenizer:2|prefix_space:no|"
    "max_length:512|idf:{}|baseline:none|empty:zero|dtype:float32|batch_tokens:any|attention:auto|"
    "backend:torch|version:0.1.0|torch:2.13.0|transformers:5.23.0"
)
ENGLISH, GERMAN = SIGNATURE.format("english", "aaaa"), SIGNATURE.format("german", "bbbb")
OTHER_IDF = SIGNATURE.format("german", "cccc")


def of_languages(**signatures: str | None) -> dict[str, object]:
    languages = {name: {"signature": text} for name, text in signatures.items()}
    return {"reused": 0, "scored": 3, "signature": None, "languages": languages}


@pytest.mark.parametrize(
    ("summary", "why"),
    [
        ({"reused": 0, "scored": 3, "signature": ENGLISH}, "no rows of these texts"),
        ({"reused": 0, "scored": 3, "signature": OTHER_IDF}, "its idf table is another one"),
        (of_languages(en=ENGLISH, de=GERMAN, none=None), "no rows of these texts"),
        (of_languages(en=ENGLISH, de=OTHER_IDF), "its idf table is another one"),
    ],
)
def test_a_run_that_reuses_nothing_says_why(summary, why):
    earlier = EarlierSource(root="/run", run="1", is_done=True, signatures=(ENGLISH, GERMAN))
    assert why in unused_words(earlier, summary)
    assert unused_words(earlier, summary | {"reused": 1}) is None
    assert unused_words(None, summary) is None
