"""The mapping of languages: what each one is scored with."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from bertscore_beam.dump.languages import is_code
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.options.declare import Flag, Options
from bertscore_beam.options.values import check_value, load_yaml, to_json_value
from bertscore_core.errors import ConfigError

MaxLength: TypeAlias = Annotated[
    int | Literal["unlimited"] | None,
    Flag(least=1),
    "Number of tokens after which a text is cut, or `unlimited`; by default the model's own limit.",
]
Revision: TypeAlias = Annotated[
    str | None, "Revision of a model on the hub: a branch, tag or commit."
]

OTHERS = "*"
"""Name of the entry for every language that is not named."""


@dataclass(frozen=True, kw_only=True)
class LanguageOptions(Options):
    """What one language is scored with."""

    model: Annotated[str | None, "Hub id, local folder or registry name."] = None
    num_layers: Annotated[int | None, Flag(least=0), "Layer whose embeddings are compared."] = None
    revision: Revision = None
    max_length: MaxLength = None
    baseline: Annotated[str | None, "Table to rescale with, or a folder of tables."] = None

    def given(self) -> dict[str, Any]:
        """Return what the entry says, by the name of the option.

        One that names a model says that it has no layer and no revision of another one.
        """
        of_model = ("num_layers", "revision") if self.model is not None else ()
        return {k: v for k, v in vars(self).items() if v is not None or k in of_model}

    def describe(self) -> dict[str, Any]:
        """Return what the entry says as plain values, without credentials."""
        return {k: to_json_value(v) for k, v in vars(self).items() if v is not None}


LanguageMap: TypeAlias = dict[str, LanguageOptions]
"""What each language is scored with, by its code in lower case or `*`, in the order given."""


def find_language(languages: LanguageMap | None, language: str) -> LanguageOptions | None:
    """Return the entry of a language: its own, else that of `*`, else None.

    Without a mapping it is empty: the registry chooses.
    """
    if languages is None:
        return LanguageOptions()
    return languages.get(language, languages.get(OTHERS))


def language_map(value: object, source: str) -> LanguageMap:
    """Read a mapping of languages: itself, or the path of a YAML file that holds it.

    Args:
        value: The mapping, or the path.
        source: Where it comes from, for the error messages.

    Raises:
        ConfigError: The file cannot be read, a language is named twice, a key is not known, or a
            value does not fit.
    """
    if isinstance(value, str):
        source, content = mask_credentials(value), load_yaml(value, option="languages")
        # The file may be a whole config, of which only the mapping is read.
        value = content.get("languages", content)
    example = "{en: {model: roberta-large}}, or the path of a YAML file with one"
    entries = by_code(value, source, example=example, others=OTHERS)
    return {name: _entry(name, entry, source) for name, entry in entries.items()}


def by_code(
    mapping: object, source: str, *, example: str, others: str | None = None
) -> dict[str, Any]:
    """Return a mapping of languages by their codes in lower case.

    Args:
        mapping: The mapping.
        source: Where it comes from, for the error messages.
        example: What is expected, for the error messages.
        others: The key for every other language; None for no such key.

    Raises:
        ConfigError: It is no mapping, it is empty, a key is no code, or a language is named twice.
    """
    if not isinstance(mapping, Mapping) or not mapping:
        got = type(mapping).__name__ if mapping else repr(mapping)
        raise ConfigError(
            f"the languages in {source} do not fit: got {got}; expected a mapping of language "
            f"codes, such as {example}."
        )
    entries: dict[str, Any] = {}
    for key, entry in mapping.items():
        name = str(key).lower()
        check_value(
            f"languages in {source}",
            key,
            fine=isinstance(key, str) and (name == others or is_code(name)),
            expected="language codes such as en or zh-cn"
            + (f", or {others!r} for every other language" if others else ""),
            cure='YAML reads the word no as false. Write "no" with quotes for Norwegian.'
            if key is False
            else "Correct this key.",
        )
        if name in entries:
            raise ConfigError(
                f"language {name!r} is named twice in {source}: got {key!r} as well; expected it "
                "once. Upper and lower case are the same."
            )
        entries[name] = entry
    return entries


def _entry(name: str, value: object, source: str) -> LanguageOptions:
    source = f"language {name!r} in {source}"
    if value is not None and not isinstance(value, Mapping):
        raise ConfigError(
            f"{source} does not fit: got {type(value).__name__}; expected a mapping such as "
            f"{{model: roberta-large}}. Write {name}: {{model: ...}}."
        )
    try:
        return LanguageOptions.from_mapping(value or {}, source)
    except ConfigError as error:
        message = str(error)
        raise ConfigError(message if source in message else f"{source}: {message}") from error
