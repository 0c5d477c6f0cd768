"""The command line of an option class: its flags, its help, and what is read from them."""

import argparse
import dataclasses
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from bertscore_beam.dump.languages import is_code
from bertscore_beam.files.paths import real_place
from bertscore_beam.options import declare
from bertscore_beam.options.run_options import RunOptions
from bertscore_beam.options.values import fit_value, is_text_name, load_yaml
from bertscore_core.errors import ConfigError

FILE_ONLY = frozenset({"beam", "beam_scoring"})
"""Options without a flag: they hold flags for Beam, which the command line takes after `--`."""

COMMON_FLAGS = {
    "json": "print one JSON document on standard output, also if the command fails",
    "quiet": "print only warnings and errors on standard error",
    "debug": "print the traceback of an error, too, with those of the workers",
}
"""Flags of every command. They say how it prints and are not options: no file has them."""

_ALL = "--help-all"
_PLACE = "place of "
_PAGES = (".html", ".htm")
_GLUED = re.compile(r"-[A-Za-z][^=]")

Read = TypeVar("Read", bound=declare.Options)


def read_options(options: type[Read], arguments: Sequence[str], prog: str) -> Read:
    """Read options from arguments: a YAML file, flags that override it, Beam's own after `--`.

    Raises:
        ConfigError: a flag or key is unknown, missing or does not fit.
    """
    own, beam = split_arguments(arguments)
    if beam and not _takes_beam(options):
        raise ConfigError(
            f"{prog} runs no Beam pipeline: got {beam[0]!r} after `--`; expected nothing. Leave it "
            "out."
        )
    flags = StrictParser(options, prog, is_full=_ALL in own).read(own)
    config = flags.pop("config", None)
    source = "the flags" if config is None else f"{config} and the flags"
    known, values = declare.by_name(options), {}
    for key, value in ({} if config is None else load_yaml(config)).items():
        option = known.get(declare.underscored(str(key)))
        if option is None or option.name not in flags:
            values[key] = value
    values |= flags
    if beam:
        before = fit_value("beam", values.get("beam", []), tuple[str, ...], source)
        values["beam"] = [*before, *beam]
    _check_output(values.get("output"), config, values.get("languages"))
    return options.from_mapping(values, source)


def _check_output(output: object, *read: object) -> None:
    """Refuse to replace a file of options by the result."""
    names = [real_place(path) for path in read if isinstance(path, str)]
    if isinstance(output, str) and real_place(output) in names:
        raise ConfigError(
            f"--output {output!r} cannot be written: got a file of options that this command "
            "reads; expected another. Choose another --output."
        )


def split_arguments(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split arguments at the first `--` into ours and Beam's."""
    given = list(arguments)
    cut = given.index("--") if "--" in given else len(given)
    return given[:cut], given[cut + 1 :]


def _takes_beam(options: type[declare.Options]) -> bool:
    return "beam" in declare.by_name(options)


class StrictParser(argparse.ArgumentParser):
    """The flags of an option class; it raises `ConfigError` where argparse would end the process.

    The help shows the daily options, each in a sentence, or all of them in full.
    """

    def __init__(self, options: type[declare.Options], prog: str, *, is_full: bool = False) -> None:
        self._options, self._is_full = options, is_full
        self._places = [place for place in declare.declared(options) if place.flag.position]
        beam = "\nBeam's own options go after `--`, as in: -- --runner=DataflowRunner"
        beam = beam if _takes_beam(options) else ""
        super().__init__(
            prog=prog,
            usage=argparse.SUPPRESS,
            description=f"{declare.summary_of(options)}\n\nexample:\n  {options.example}",
            epilog=f"`{prog} {_ALL}` explains all {len(declare.declared(options))} options.{beam}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
            add_help=False,
        )
        known = declare.by_name(options)
        daily = " ".join(options.daily.values()).split()
        others = [
            option.name
            for option in declare.declared(options)
            if option.name not in (*daily, *FILE_ONLY)
        ]
        for heading, names in {**options.daily, "all others": " ".join(others)}.items():
            group = self.add_argument_group(heading)
            for name in names.split():
                self._add(group, known[name], is_shown=is_full or name in daily)
        self._add_common(self.add_argument_group("how it prints"))

    def _add(self, group: Any, option: declare.Option, *, is_shown: bool) -> None:
        """Add an option by its own name; its other names work, too, and help does not show them."""
        shown = argparse.SUPPRESS
        if is_shown:
            shown = _help(
                option, self._options.needed.get(option.field, "needed"), is_full=self._is_full
            )
        flag = "--" + declare.dashed(option.name)
        if option.flag.position:
            nargs = "*" if option.is_list else "?"
            place = _PLACE + option.name
            group.add_argument(place, nargs=nargs, metavar=option.metavar, help=shown)
            shown = argparse.SUPPRESS
        short = [option.flag.short] if option.flag.short else []
        if option.hint is bool:  # help shows the switch that changes the default
            for names, value in (([*short, flag], True), (["--no-" + flag[2:]], False)):
                text = argparse.SUPPRESS if value is bool(option.default) else shown
                how = {"dest": option.name, "action": "store_const", "const": value}
                group.add_argument(*names, **how, help=text)
            return
        how = {
            "dest": option.name,
            "type": _reader(option),
            "nargs": option.flag.nargs or ("+" if option.is_list else None),
            "action": "extend" if option.is_list else "store",
            "metavar": option.metavar,
        }
        one = group.add_mutually_exclusive_group() if option.flag.dash else group
        one.add_argument(*short, flag, **how, help=shown)
        if dash := option.flag.dash:
            given = {"dest": option.name, "action": "store_const", "const": "-"}
            one.add_argument(dash, **given, help=argparse.SUPPRESS)
        for other in option.names[1:]:
            group.add_argument("--" + declare.dashed(other), **how, help=argparse.SUPPRESS)

    def _add_common(self, group: Any) -> None:
        if issubclass(self._options, RunOptions):
            group.add_argument(
                "--config", metavar="FILE", help="YAML file of options; flags override it"
            )
        for name, text in COMMON_FLAGS.items():
            short = ["-q"] if name == "quiet" else []
            group.add_argument(*short, f"--{name}", action="store_true", default=None, help=text)
        group.add_argument(
            "-h", "--help", _ALL, action="help", help="print the daily options, or all"
        )

    def error(self, message: str) -> NoReturn:
        """Raise instead of ending the process."""
        named = re.search(r"--([\w-]+)", message)
        option = declare.by_name(self._options).get(declare.underscored(named[1]) if named else "")
        means = f" {option.first}." if option else ""
        if share := re.search(r"'(\d+)%'", message):
            means += f" For {share[1]} percent write {int(share[1]) / 100:g}."
        raise ConfigError(f"{message}.{means} `{self.prog} --help-all` lists the flags.")

    def read(self, arguments: Sequence[str]) -> dict[str, Any]:
        """Return what arguments give, by the names of the options.

        Raises:
            ConfigError: One is unknown or does not fit.
        """
        for word in arguments:
            if _GLUED.match(word):  # argparse would read `-overwrite` as `-o verwrite`
                raise self._unknown(word)
        parsed, unknown = self.parse_known_intermixed_args(arguments)
        if unknown:
            flags = [word for word in unknown if word.startswith("-")]
            raise self._unknown(*(flags or unknown), given=vars(parsed))
        values = {name: value for name, value in vars(parsed).items() if value is not None}
        for place in self._places:
            words: Any = values.pop(_PLACE + place.name, None) or []
            if place.is_list and words:
                values[place.name] = [*words, *values.get(place.name, [])]
            elif words and place.name in values:  # given by its flag as well
                raise self._unknown(words)
            elif words:
                values[place.name] = words
        return {name: value for name, value in values.items() if name not in COMMON_FLAGS}

    def _apart(self, word: str) -> str:
        """Return short flags that stand together, or one with its value, apart; "" for others."""
        short = {option.flag.short: option for option in declare.declared(self._options)}
        switches = {"-q", *(name for name, option in short.items() if option.hint is bool)}
        letters = [f"-{letter}" for letter in word[1:]] if word.startswith("-") else []
        if letters and switches.issuperset(letters):
            return " ".join(dict.fromkeys(letters))
        is_number = word[:2] in short.keys() - switches and (
            word[2:].isdecimal() or word[2:] == "-"
        )
        return f"{word[:2]} {word[2:]}" if is_number else ""

    def _unknown(self, word: str, *others: str, given: Mapping[str, Any] = {}) -> ConfigError:
        known, hint = declare.by_name(self._options), ""
        if glued := self._apart(word):
            hint = f"Write short flags apart: {glued}."
        elif "candidates" in known and is_text_name(word) and not word.startswith("-"):
            wanted = {"-c": "candidates input", "-r": "references"}
            free = [
                flag for flag, names in wanted.items() if not any(map(given.get, names.split()))
            ]
            words = zip(free, (word, *others, "REFERENCES.txt"), strict=False)
            hint = "Files with one text per line go after their flags: "
            hint += " ".join(f"{flag} {name}" for flag, name in words) + "."
            hint = hint if free else "Leave it out: candidates and references are given."
        elif word.startswith("-"):
            word = word.partition("=")[0]
            hint = declare.hint_for(word, self._options)
        elif word == "help":
            pass  # what follows names --help-all
        elif not known:
            hint = f"It prints all there is; to search it: {self.prog} | grep {word}"
        elif word.endswith(_PAGES) and "output" in known and {"row", "against"} & known.keys():
            hint = f"What is written goes after the flag: --output {word}."
        else:
            hint = _after_its_flag(known, [word, *others], given)
        hint = hint or f"`{self.prog} --help-all` lists the flags."
        beam = " Beam's own options go after `--`." if _takes_beam(self._options) else ""
        return ConfigError(
            f"unknown argument {word!r}: expected one of this command's flags. {hint}{beam}"
        )


def _after_its_flag(known: Collection[str], words: Sequence[str], given: Mapping[str, Any]) -> str:
    """Return the flag after which words go, that of the first option here that is known."""
    output = "" if given.get("output") else " --output FOLDER"
    is_read = f"What to read goes after the flag: --input {words[0]}{output}."
    language = f"A language goes after the flag: --language {words[0]}."
    table = f"The table goes after the flag: --baseline {words[0]}."
    hints = {
        "row": "Rows of a run go after the flag --row; texts go after theirs: -c TEXT -r TEXT.",
        "against": f"Another run goes after the flag: --against {words[0]}.",
        "input": "" if given.get("candidates") else is_read,
        "judgements": f"What to read goes after the flag: --judgements {words[0]}.",
        "by": f"Columns of groups go after the flag: --by {' '.join(words)}.",
        "baseline": "" if given.get("baseline") else table,
        "language": language if is_code(words[0].lower()) else "",
    }
    return next((hint for name, hint in hints.items() if name in known), "")


def _help(option: declare.Option, needed: str, *, is_full: bool) -> str:
    """Return the help of an option: its first sentence, or all of it, and its default."""
    text, default = option.text if is_full else option.first, option.default
    if option.is_needed and not option.flag.position:
        text += f" ({needed})"
    elif default is True:
        text = f"Do not {text[0].lower()}{text[1:]}"
    elif default not in (None, (), dataclasses.MISSING) and default is not False:
        text += f" (default: {' '.join(default) if isinstance(default, tuple) else default})"
    return text.replace("%", "%%").replace("`", "'")


def _reader(option: declare.Option) -> Any:
    if float in option.kinds:
        return float
    if int not in option.kinds:
        return None
    has_words = any(kind not in (int, type(None)) for kind in option.kinds)
    return (lambda text: int(text) if text.isdecimal() else text) if has_words else int
