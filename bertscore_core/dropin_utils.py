"""What users import from `bert_score.utils`: tables of models and languages, and the hash."""

from importlib.metadata import version

from bertscore_core.registry import known_languages, known_models, model_for_language
from bertscore_core.signature import upstream_hash


class _Languages(dict[str, str]):
    """Models by language. An unknown language is an error, not a multilingual model."""

    def __missing__(self, language: str) -> str:
        return model_for_language(language)


lang2model: dict[str, str] = _Languages(known_languages())
"""Default model of each language. Later scorers follow changes that users make here."""

model2layers: dict[str, int] = {
    spec.name: spec.num_layers for spec in known_models() if spec.num_layers is not None
}
"""Layer of each model whose layer is tuned. Later scorers follow additions that users make here."""


def get_hash(
    model: str,
    num_layers: int,
    idf: object,
    rescale_with_baseline: bool,
    use_custom_baseline: bool,
    use_fast_tokenizer: bool,
) -> str:
    """Return bert-score's hash string for these settings."""
    return upstream_hash(
        model=model,
        num_layers=str(num_layers),
        idf=bool(idf),
        rescaled=rescale_with_baseline,
        custom_baseline=use_custom_baseline,
        transformers=version("transformers"),  # the installed one, as in bert-score
        fast_tokenizer=use_fast_tokenizer,
    )
