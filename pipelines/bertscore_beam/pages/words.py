"""Numbers, names and signatures as people read them."""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from bertscore_beam.dump.census import Group
from bertscore_beam.dump.columns import METRICS, shown_interval, shown_number
from bertscore_beam.run.output import escape_line, format_p
from bertscore_core.errors import SignatureError
from bertscore_core.signature import Signature

NOT_KNOWN = "–"
"""Stands where there is no number."""

ORDERED_BY = 5
"""Decimals of scores that rows and groups are ordered by. Float32 moves those behind them from one
processor to the next, by some 1e-6 before rescaling: equal rows then keep their order."""

ALL_ROWS = "all rows"
"""Stands for the name of the group of all rows."""

_OF_100 = {
    name
    for metric, column in METRICS.items()
    if metric != "rougel"
    for name in (metric, column, f"{column}_mean")
}
"""Measures that go to 100, and what groups call them: two decimals are enough."""

_SENTENCES: Mapping[str, Mapping[str, str]] = tomllib.loads(
    (Path(__file__).parent / "template" / "signature.toml").read_text(encoding="utf-8")
)


def shown_value(value: str | None) -> str:
    """Return a value of a column in one line, without characters that steer the page."""
    return "(null)" if value is None else escape_line(value)


def shown_name(name: Group) -> str:
    """Return the name of a group in one line, for a chart.

    Marks keep the directions of its values apart: in a chart nothing else does.
    """
    marked = (
        f"\N{FIRST STRONG ISOLATE}{shown_value(value)}\N{POP DIRECTIONAL ISOLATE}" for value in name
    )
    return " / ".join(marked) or ALL_ROWS


def run_names(folders: Iterable[str]) -> dict[str, str]:
    """Return what runs are called: as many of the last names of a folder as tell them apart."""
    paths = {folder: folder.rstrip("/").split("/") for folder in folders}
    most = max(map(len, paths.values()), default=0)
    for count in range(1, most + 1):
        names = {folder: "/".join(path[-count:]) for folder, path in paths.items()}
        if len({*names.values()}) == len(names):
            return names
    return {folder: folder for folder in paths}


def by_number(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return counts, the largest first, and equal ones by name."""
    return sorted(counts.items(), key=lambda count: (-count[1], count[0]))


def number(value: int | None) -> str:
    """Return a count with separators of thousands."""
    return NOT_KNOWN if value is None else f"{value:,}"


def score(value: float | None, measure: str = "f1", sign: str = "") -> str:
    """Return a score with four decimals; a difference, by "+", with its sign and five.

    One of a measure that goes to 100 has two. One of any other measure than BERTScore and the
    metrics of libraries has four digits.
    """
    return shown_number(measure, value, _decimals(measure, sign), sign, NOT_KNOWN)


def interval(ends: Sequence[float | None] | None, measure: str = "f1", sign: str = "") -> str:
    """Return an interval of scores, or by "+" of a difference, in brackets."""
    return shown_interval(measure, ends, _decimals(measure, sign), sign, NOT_KNOWN)


def _decimals(measure: str, sign: str) -> int:
    if measure in _OF_100:
        return 2
    return 5 if sign else 4


def share(part: int, whole: int) -> str:
    """Return a share in percent."""
    return NOT_KNOWN if not whole else f"{part / whole:.2%}"


def probability(value: float | None) -> str:
    """Return a p value."""
    return format_p(value, NOT_KNOWN)


def size(num_bytes: int) -> str:
    """Return a size in bytes with two or three digits."""
    amount, units = float(num_bytes), ["bytes", "kB", "MB", "GB", "TB"]
    while amount >= 1000 and len(units) > 1:
        amount, units = amount / 1000, units[1:]
    return f"{amount:,.0f} {units[0]}" if amount >= 10 else f"{amount:.3g} {units[0]}"


def signature_sentences(text: str) -> tuple[tuple[str, str, str], ...]:
    """Return the fields of a signature in words: name, value, sentence.

    A signature that cannot be read gives no field.
    """
    try:
        fields = Signature.parse(text).fields()
    except SignatureError:
        return ()
    return tuple((name, value, _sentence(name, value)) for name, value in fields.items())


def _sentence(name: str, value: str) -> str:
    if name == "batch_tokens" and value.startswith("packed-"):
        return f"Batches of texts without padding had {value.removeprefix('packed-')} tokens."
    own = _SENTENCES.get(name, {"": f"{name} was {{}}."})
    return own.get(value, own[""]).format(value)
