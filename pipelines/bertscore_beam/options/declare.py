r"""What an option class declares: names, types, help, and how values are read by name.

A field of a class is a key of the YAML file and, with dashes, a flag of the command line. Beside
its type stand its help and, where more is to be said of it, a `Flag`:

    workers: Annotated[int | None, Flag(least=1), "Number of worker processes."] = None
"""

import dataclasses
import re
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self, TypeAlias

from bertscore_beam.options.values import alternatives, check_value, fit_value, to_json_value
from bertscore_core.errors import ConfigError, nearest

_COMMA = re.compile(r"(?<!\\),")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    r"""How an option is given, and what its value may be.

    Attributes:
        metavar: What stands for the value in the help.
        name: What users call it, if they call it otherwise than the code does.
        also: Other names that are accepted.
        short: A flag of one letter.
        dash: A flag of one letter that stands for the value `-`.
        position: Whether it is given without a flag.
        split: Whether commas separate its values, as blanks do; `\,` is a comma of a value.
        nargs: How many values argparse takes, if not as many as its type says.
        least: The least number.
        share: Whether it is a number from 0 to 1.
        blank: Whether a text may be blank.
    """

    metavar: str = ""
    name: str = ""
    also: tuple[str, ...] = ()
    short: str = ""
    dash: str = ""
    position: bool = False
    split: bool = False
    nargs: str | None = None
    least: int | None = None
    share: bool = False
    blank: bool = False


Column: TypeAlias = Annotated[str | None, Flag(metavar="COLUMN")]
Columns: TypeAlias = Annotated[tuple[str, ...], Flag(metavar="COLUMN", split=True)]
Names: TypeAlias = Annotated[tuple[str, ...], Flag(metavar="NAME", split=True)]
Run: TypeAlias = Annotated[str, Flag(metavar="RUN", position=True)]
Share: TypeAlias = Annotated[float, Flag(share=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A field of an option class, as users see it.

    Attributes:
        field: Name of the field.
        hint: Its type.
        default: Its default, or `MISSING`.
        flag: How it is given.
        text: Its help, without the last full stop.
    """

    field: str
    hint: Any
    default: Any
    flag: Flag
    text: str

    @property
    def name(self) -> str:
        """What users call it, with underscores."""
        return self.flag.name or self.field

    @property
    def names(self) -> tuple[str, ...]:
        """All names that are accepted, with underscores; its own is the first."""
        return tuple(dict.fromkeys((self.name, *self.flag.also, self.field)))

    @property
    def kinds(self) -> tuple[Any, ...]:
        """The types that a value may have."""
        return alternatives(self.hint)

    @property
    def is_list(self) -> bool:
        """Whether it takes several values."""
        return any(typing.get_origin(kind) is tuple for kind in self.kinds)

    @property
    def is_needed(self) -> bool:
        """Whether it has no default."""
        return self.default is dataclasses.MISSING

    @property
    def metavar(self) -> str:
        """What stands for the value: the choices themselves if there are only these."""
        if self.flag.metavar:
            return self.flag.metavar
        if typing.get_origin(self.hint) is typing.Literal:
            return "{" + ",".join(typing.get_args(self.hint)) + "}"
        return "PATH" if self.is_list else self.name.rpartition("_")[2].upper()

    @property
    def word(self) -> str:
        """How it is given: its flag, or its place."""
        return self.metavar if self.flag.position else "--" + dashed(self.name)

    @property
    def first(self) -> str:
        """The first sentence of its help."""
        return re.split(r"\.\s", self.text)[0]

    @property
    def usage(self) -> str:
        """How it is given, with what stands for its value."""
        return self.word if self.flag.position else f"{self.word} {self.metavar}"

    @property
    def cure(self) -> str:
        """What to do about a value that is none."""
        return f"Give {self.usage}." if self.is_needed else "Leave it out for the default."

    def check(self, value: Any) -> None:
        """Check what can be checked of a value alone.

        Raises:
            ConfigError: It cannot be used.
        """
        flag, cure = self.flag, self.cure
        fine = value != () or self.default in ((), None)
        check_value(self.name, value, fine=fine, expected="at least one", cure=cure)
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(one, str) and not flag.blank:
                check_value(self.name, one, fine=bool(one.strip()), expected="some text", cure=cure)
        if isinstance(value, int | float) and flag.least is not None:
            expected = f"at least {flag.least}"
            check_value(self.name, value, fine=value >= flag.least, expected=expected, cure=cure)
        if value is not None and flag.share:
            check_value(
                self.name,
                value,
                fine=0.0 <= value <= 1.0,
                expected="a share from 0 to 1",
                cure="For 5 percent write 0.05.",
            )


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of a command: the class declares all that the command line, YAML and help need.

    Attributes:
        example: A command line, for the top of the help.
        daily: Names of the options that `--help` shows, separated by blanks, by heading.
        needed: When options without a default are needed, by field; always if it has none.
        hidden: Names of fields, separated by blanks, that users cannot give.
    """

    example: ClassVar[str] = ""
    daily: ClassVar[Mapping[str, str]] = {}
    needed: ClassVar[Mapping[str, str]] = {}
    hidden: ClassVar[str] = ""

    def __post_init__(self) -> None:
        """Check each value; classes check combinations of them as well.

        Raises:
            ConfigError: Some cannot be used.
        """
        for option in declared(type(self)):
            value = getattr(self, option.field)
            if value != () or option.field not in self.needed:  # others may stand for it
                option.check(value)

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any], source: str) -> Self:
        """Make options from keys and values, strictly.

        Args:
            mapping: Values by key; dashes in a key are as good as underscores.
            source: Where they come from, for the error messages.

        Raises:
            ConfigError: If a key is unknown, missing or duplicated, or a value does not fit.
        """
        known = by_name(cls)
        values: dict[str, Any] = {}
        for key, value in mapping.items():
            option = known.get(underscored(str(key)))
            if option is None:
                raise _unknown(str(key), cls, source)
            if option.field in values:
                raise ConfigError(
                    f"{option.name!r} is given twice in {source}: got {key!r} as well; expected it "
                    "once. Remove one of them."
                )
            if option.flag.split:
                value = _listed(value)
            values[option.field] = fit_value(option.name, value, option.hint, source)
        values = cls._meant(values)
        needed = [option for option in declared(cls) if option.is_needed]
        needed.sort(key=lambda option: option.field == "output")  # what to read comes to mind first
        if missing := [option for option in needed if option.field not in values]:
            raise _missing(cls, missing, values, source)
        return cls(**values)

    def describe(self) -> dict[str, Any]:
        """Return the options as plain values for `_run.json`, without credentials."""
        return {one.field: to_json_value(getattr(self, one.field)) for one in declared(type(self))}

    @classmethod
    def _meant(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Return the values that are given, by field, with what they stand for as well."""
        return values

    def _check(self, name: str, fine: bool, expected: str, cure: str) -> None:
        """Raise unless the value of an option is fine."""
        check_value(name, getattr(self, name), fine=fine, expected=expected, cure=cure)


_declared: dict[type[Options], tuple[Option, ...]] = {}
"""What `declared` has returned: each command asks for it often."""


def declared(options: type[Options]) -> tuple[Option, ...]:
    """Return the options of a class that users may give, in the order of its fields."""
    if options not in _declared:
        hints = typing.get_type_hints(options, include_extras=True)
        _declared[options] = tuple(
            _read(field, *typing.get_args(hints[field.name]))
            for field in dataclasses.fields(options)
            if field.name not in options.hidden.split()
        )
    return _declared[options]


def _read(field: dataclasses.Field[Any], hint: Any, *beside: Flag | str) -> Option:
    flags = (one for one in beside if isinstance(one, Flag))
    (text,) = (one for one in beside if isinstance(one, str))
    return Option(
        field=field.name,
        hint=hint,
        default=field.default,
        flag=next(flags, Flag()),
        text=text.rstrip("."),
    )


def by_name(options: type[Options]) -> Mapping[str, Option]:
    """Return the options of a class by every name that is accepted, with underscores."""
    return {name: option for option in declared(options) for name in option.names}


def summary_of(options: type[Options]) -> str:
    """Return the first line of a class: what its command does."""
    return (options.__doc__ or "").partition("\n")[0]


def underscored(name: str) -> str:
    """Return a name as keys and fields are written."""
    return name.replace("-", "_")


def dashed(name: str) -> str:
    """Return a name as flags are written."""
    return name.replace("_", "-")


def _listed(value: object) -> object:
    """Split texts at commas, and write numbers as texts: YAML reads a list of layers as numbers."""
    items = value if isinstance(value, list | tuple) else [value]
    if not all(isinstance(item, str | int) and not isinstance(item, bool) for item in items):
        return value
    parts = [part.strip() for item in items for part in _COMMA.split(str(item))]
    parts = [part for part in parts if part] or parts[:1]  # a blank alone is left to be refused
    return [part.replace("\\,", ",") for part in parts]


def _missing(
    options: type[Options], missing: Sequence[Option], values: Mapping[str, Any], source: str
) -> ConfigError:
    when = {one.field: "" for one in missing} | {k: f", {v}" for k, v in options.needed.items()}
    *others, last = (option.word for option in missing)
    named = f"{', '.join(others)} and {last} are" if others else f"{last} is"
    texts = [option.first.partition(";")[0] for option in missing]
    wanted = " and ".join(
        f"{option.usage} ({text[0].lower()}{text[1:]}{when[option.field]})"
        for option, text in zip(missing, texts, strict=True)
    )
    return ConfigError(
        f"{named} missing: got {sorted(values) or 'nothing'} in {source}; expected {wanted}. "
        f"As in: {options.example}"
    )


def _unknown(key: str, options: type[Options], source: str) -> ConfigError:
    names = sorted(option.name for option in declared(options))
    hint = hint_for(key, options, is_key=True) or "Remove it."
    return ConfigError(
        f"unknown option in {source}: got {key!r}; expected one of {', '.join(names)}. {hint}"
    )


# What other programs call things: bert-score, sacreBLEU and COMET. A value with a blank in it is
# a hint of its own.
_ELSEWHERE = {
    "c cand cands candidate candidates hyp hyps hypotheses t translations": "candidate_column",
    "r ref refs reference references": "reference_column",
    "m model_type model_name": "model",
    "layer layers": "num_layers",
    "b bs batch_size": "max_batch_tokens",
    "gpu gpus g nthreads num_workers threads j": "workers",
    "rescale_with_baseline": "rescale",
    "baseline_path baseline_file": "baseline",
    "langs src_lang tgt_lang language_pair": "language",
    "alpha ci": "confidence",
    "seg_level segments sentence_level sl": (
        "`bertscore-beam score --output -` prints the scores of each row."
    ),
    "paired_bs paired_ar paired_bs_n t_test_alternative fail_if_drop against key": (
        "`bertscore-beam compare` tests systems and runs."
    ),
    "metric metrics": "measure",
    "i input data dataset dump file files": "judgements",
    "data dataset dump file files": "input",
    "baseline before": "against",
    "to_json to_csv html save": "output",
    "v verbose": "Leave it out: progress is shown anyway.",
    "o output": "The result goes to standard output: write > FILE, with --json for a program.",
}


def hint_for(word: str, options: type[Options], *, is_key: bool = False) -> str:
    """Return a sentence about the option that a word probably means, "" if none is near."""
    known = [option.name for option in declared(options)]
    bare = underscored(word.strip("-"))
    found = (meant for words, meant in _ELSEWHERE.items() if bare in words.split())
    meant = next((meant for meant in found if " " in meant or meant in known), "")
    if " " in meant:
        return meant
    near = meant or nearest(word, known)
    if near is None:
        return ""
    hint = f"Did you mean {near!r}?" if is_key else f"Did you mean --{dashed(near)}?"
    if near == meant and near.endswith("_column") and "input" in known:  # elsewhere it is a file
        from bertscore_beam.dump.formats import TWO_FILES  # here, since it takes time to import

        return f"{hint} It names a column of the dump. {TWO_FILES}"
    return hint
