"""The mapping of languages: what each one is scored with.

    languages:
      en: {model: roberta-large}
      zh: {model: bert-base-chinese, num_layers: 8, baseline: tables/zh.tsv}
      "*": {model: xlm-roberta-large}     # every language that is not named

What an entry leaves out comes from the options of the run, then from the registry.
"""

import dataclasses
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from bertscore_beam.dump.language_codes import is_code
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.options.checks import check_at_least, check_value
from bertscore_beam.options.config_file import load_yaml
from bertscore_beam.options.near_names import unknown_key
from bertscore_beam.options.values import fit_value, plain_value
from bertscore_core.errors import ConfigError

OTHERS = "*"
"""Name of the entry for every language that is not named."""


@dataclass(frozen=True, kw_only=True)
class LanguageOptions:
    """What one language is scored with.

    Attributes:
        model: Hub id, local folder or registry name.
        num_layers: Layer whose embeddings are compared.
        revision: Revision of a model on the hub.
        max_length: Number of tokens after which a text is cut, or `unlimited`.
        baseline: Table to rescale with, or a folder of tables.
    """

    model: str | None = None
    num_layers: int | None = None
    revision: str | None = None
    max_length: int | Literal["unlimited"] | None = None
    baseline: str | None = None

    def given(self) -> dict[str, Any]:
        """Return what the entry says, by the name of the option."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class LanguageMap:
    """The entries of a mapping of languages.

    Attributes:
        entries: Language code in lower case, or `*`, and its entry, in the order given.
    """

    entries: tuple[tuple[str, LanguageOptions], ...]

    def __str__(self) -> str:
        """Return the names of the languages."""
        return ", ".join(name for name, _ in self.entries)

    def __iter__(self) -> Iterator[str]:
        """Yield the languages that are named, without `*`."""
        return (name for name, _ in self.entries if name != OTHERS)

    def find(self, language: str) -> LanguageOptions | None:
        """Return the entry of a language: its own, else that of `*`, else None."""
        entries = dict(self.entries)
        return entries.get(language, entries.get(OTHERS))

    def describe(self) -> dict[str, Any]:
        """Return the mapping as plain values, without credentials."""
        return {
            name: {key: plain_value(value) for key, value in entry.given().items()}
            for name, entry in self.entries
        }


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
    if not isinstance(value, Mapping) or not value:
        raise ConfigError(
            f"'languages' in {source} does not fit: got {type(value).__name__}; expected a mapping "
            "of language codes, such as {en: {model: roberta-large}}, or the path of a YAML file "
            "with one."
        )
    entries: dict[str, LanguageOptions] = {}
    for key, entry in value.items():
        name = _language(key, source)
        if name in entries:
            raise ConfigError(
                f"language {name!r} is named twice in {source}: got {key!r} as well; expected it "
                "once. Upper and lower case are the same."
            )
        entries[name] = _entry(name, entry, f"language {name!r} in {source}")
    return LanguageMap(entries=tuple(entries.items()))


def _language(key: object, source: str) -> str:
    """Return a key as a language code in lower case."""
    if key is False:  # YAML reads a bare `no` as false
        raise ConfigError(
            f"a language in {source} is read as false: got the key no; expected a text. Write "
            '"no" with quotes for Norwegian.'
        )
    name = str(key).lower()
    check_value(
        f"languages in {source}",
        key,
        fine=isinstance(key, str) and (name == OTHERS or is_code(name)),
        expected="language codes such as en or zh-cn, or '*' for every other language",
        cure="Correct this key.",
    )
    return name


def _entry(name: str, value: object, source: str) -> LanguageOptions:
    """Read the entry of one language."""
    if value is None:
        value = {}
    if not isinstance(value, Mapping):
        raise ConfigError(
            f"{source} does not fit: got {type(value).__name__}; expected a mapping such as "
            f"{{model: roberta-large}}. Write {name}: {{model: ...}}."
        )
    hints = typing.get_type_hints(LanguageOptions)
    values: dict[str, Any] = {}
    for key, item in value.items():
        option = str(key).replace("-", "_")
        if option not in hints:
            raise unknown_key(str(key), list(hints), source)
        if option in values:
            raise ConfigError(f"{option!r} is given twice in {source}; expected it once.")
        values[option] = fit_value(option, item, hints[option], source)
    entry = LanguageOptions(**values)
    check_at_least("num_layers", entry.num_layers, 0)
    if entry.max_length != "unlimited":
        check_at_least("max_length", entry.max_length, 1)
    for option, item in entry.given().items():
        check_value(
            option,
            item,
            fine=not isinstance(item, str) or bool(item.strip()),
            expected=f"some text in {source}",
            cure="Leave it out for the default.",
        )
    return entry
