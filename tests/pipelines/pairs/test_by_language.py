"""Pairs of several languages in somebody's pipeline."""

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to

from bertscore_beam import BertScoreModelHandler, ByLanguage, ScorePairs
from bertscore_core import BertScorer, ConfigError, InputError, ScorerConfig

pytestmark = pytest.mark.job

SHALLOW = ScorerConfig(model="all-MiniLM-L6-v2", num_layers=3, device="cpu")
DEEP = ScorerConfig(model="all-MiniLM-L6-v2", device="cpu")
CONFIGS = {"EN": DEEP, "de": SHALLOW}
LANGUAGES = ["en", "DE", "zh", None, 7, "en"]
REASONS = [None, None, "language_without_setting", "null_language", "unknown_language", None]


def test_each_pair_is_scored_by_its_language():
    rows = [
        {"id": i, "candidate": f"a cat sat {i}", "reference": "the cat sat", "lang": language}
        for i, language in enumerate(LANGUAGES)
    ]
    transform = ScorePairs(ByLanguage(field="lang", configs=CONFIGS))
    signatures = {name: made.format() for name, made in transform.signatures().items()}
    expected = []
    for row, reason in zip(rows, REASONS, strict=True):
        language = None if reason else str(row["lang"]).lower()
        score = None
        if language is not None:
            config = DEEP if language == "en" else SHALLOW
            found = BertScorer(config).score([row["candidate"]], [row["reference"]])
            score = round(float(found.f1[0]), 5)
        expected.append((row["id"], score, reason, signatures.get(language)))

    def shown(row):
        f1 = row["bertscore_f1"]
        rounded = None if f1 is None else round(f1, 5)
        return row["id"], rounded, row["bertscore_error"], row["bertscore_signature"]

    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        scored = pipeline | beam.Create(rows) | transform | beam.Map(shown)
        assert_that(scored, equal_to(expected))


def test_a_misspelt_field_of_languages_is_an_error():
    """Else a whole run would have no scores, and `null_language` as the reason of every row."""
    handler = BertScoreModelHandler(ByLanguage(field="lnag", configs=CONFIGS))
    model = handler.load_model()
    batch = [{"candidate": "a cat", "reference": "the cat", "lang": "en"}] * 512
    assert {found.inference.error for found in handler.run_inference(batch, model)} == {
        "null_language"
    }
    with pytest.raises(InputError, match="no element has the language field 'lnag'"):
        handler.run_inference(batch, model)


def test_a_mapping_is_checked_when_the_transform_is_built(tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("LAYER,P,R,F\n" + "".join(f"{n},0.1,0.1,0.1\n" for n in range(7)))
    rescaled = ScorerConfig(model="all-MiniLM-L6-v2", rescale=True, baseline=str(table))
    wrong = {
        "same baseline": {"en": rescaled, "de": rescaled},
        "some languages are rescaled": {"en": rescaled, "de": DEEP},
        "language 'de'": {"en": DEEP, "de": ScorerConfig(model="no-such-model")},
        "distinct language codes": {"en": DEEP, "EN": DEEP},
        "is empty": {},
    }
    for words, configs in wrong.items():
        with pytest.raises(ConfigError, match=words):
            ScorePairs(ByLanguage(field="lang", configs=configs))
    shared = {"en": rescaled, "de": rescaled}
    ScorePairs(ByLanguage(field="lang", configs=shared, allow_shared_baseline=True))
