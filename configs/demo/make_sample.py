"""Make the demo sample: Parquet files of candidate/reference pairs, from rules.

The sentences come from ``sentences.yaml`` beside this script. Each language and topic is filled
twice with words drawn by a seeded generator, and five made-up systems "translate" the result:

* ``paraphrase`` says the same in other words;
* ``careful`` repeats the reference, now and then with the final mark missing;
* ``dropped`` loses about a quarter of the words (of the characters, where words are not spaced);
* ``swapped`` is fluent but names another person, place, day or number;
* ``truncated`` stops halfway.

Some rows of a sixth, ``oddities``, hold what real dumps contain too: a missing candidate, an empty
one, invisible characters. Running the script again gives the same files, byte for byte with the
pyarrow of constraints.txt::

    python configs/demo/make_sample.py [FOLDER]
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

HERE = Path(__file__).resolve().parent
SEED = 20240229
FILLINGS = 2  # how often each topic is filled with other words
DROP_EVERY = 4  # the `dropped` system loses one word (or character) in this many
ROW_GROUP_ROWS = 60  # small on purpose: the demo shall have several splits to share out
FIRST_DAY = datetime(2024, 2, 29, 12, 0, tzinfo=UTC)
DOMAINS = ("weather", "culture", "transport", "business")

EUROPE = ("en", "de", "fr", "es", "it", "pt")
WORLD = ("ru", "el", "zh", "ja", "ko", "ar", "hi", "th")
MULTI_REFERENCE = ("en", "de", "zh", "ar")

# What real dumps contain too: (candidate, reference, why it is here).
ODDITIES: tuple[tuple[str | None, str, str], ...] = (
    (None, "The ferry was cancelled because of strong wind.", "null candidate"),
    ("", "The ferry was cancelled because of strong wind.", "empty candidate"),
    (" \t\n", "The ferry was cancelled because of strong wind.", "only white space"),
    ("The cafe\u0301 re-opened today.", "The caf\u00e9 reopened today.", "combining accent"),
    ("Well done \U0001f44f\U0001f3fd!", "Well done! \U0001f389", "emoji outside the BMP"),
    ("zero\u200bwidth and no\u00a0break", "zero width and no break", "invisible characters"),
    ("Price: \u20ac12.50 (\u00a310.70)", "Price: 12.50 euros (10.70 pounds)", "currency signs"),
    ("\u202bשלום עולם\u202c", "שלום עולם", "direction marks"),
)

META = pa.struct([("domain", pa.string()), ("segment", pa.int32()), ("note", pa.string())])
COMMON_FIELDS = (
    pa.field("id", pa.int64(), nullable=False),
    pa.field("system", pa.dictionary(pa.int8(), pa.string())),
    pa.field("language", pa.string()),
    pa.field("candidate", pa.string()),
)
LAST_FIELDS = (pa.field("created", pa.timestamp("ms", tz="UTC")), pa.field("meta", META))
SINGLE_SCHEMA = pa.schema([*COMMON_FIELDS, pa.field("reference", pa.string()), *LAST_FIELDS])
MULTI_SCHEMA = pa.schema(
    [*COMMON_FIELDS, pa.field("reference", pa.list_(pa.string())), *LAST_FIELDS]
)

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """The sentences of one language.

    Attributes:
        code: ISO 639-1 code.
        spaced: Whether white space separates words.
        slots: Slot name -> the values it may take.
        topics: For each topic its sentences, the reference first.
    """

    code: str
    spaced: bool
    slots: Mapping[str, Sequence[str]]
    topics: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One topic with its slots filled: what every system was asked to say."""

    language: Language
    topic: int
    filling: Mapping[str, str]

    def say(self, variant: int) -> str:
        """Return the segment in the words of one of the topic's sentences."""
        return self.language.topics[self.topic][variant].format(**self.filling)


def paraphrase(segment: Segment, rng: random.Random) -> str:
    """Say the same in other words."""
    return segment.say(rng.randrange(1, len(segment.language.topics[segment.topic])))


def careful(segment: Segment, rng: random.Random) -> str:
    """Repeat the reference, every third time without its final mark."""
    text = segment.say(0)
    return text if rng.randrange(3) else text.rstrip(".。।")


def dropped(segment: Segment, rng: random.Random) -> str:
    """Lose about one unit in DROP_EVERY, but never all of them."""
    units = _units(segment)
    kept = [unit for unit in units if rng.randrange(DROP_EVERY)]
    return _join(segment, kept or units[:1])


def swapped(segment: Segment, rng: random.Random) -> str:
    """Fill each slot with another value than the reference has."""
    other = {
        slot: rng.choice([value for value in values if value != segment.filling[slot]])
        for slot, values in segment.language.slots.items()
    }
    return Segment(language=segment.language, topic=segment.topic, filling=other).say(0)


def truncated(segment: Segment, rng: random.Random) -> str:
    """Stop halfway."""
    del rng  # every system is called in the same way
    units = _units(segment)
    return _join(segment, units[: len(units) // 2])


SYSTEMS: tuple[Callable[[Segment, random.Random], str], ...] = (
    paraphrase,
    careful,
    dropped,
    swapped,
    truncated,
)


def read_languages(path: Path = HERE / "sentences.yaml") -> dict[str, Language]:
    """Read the sentences of every language."""
    tables = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {code: Language(code=code, **table) for code, table in tables.items()}


def make_tables() -> dict[str, pa.Table]:
    """Return the files of the sample: name -> table. Ids are unique over all of them."""
    languages = read_languages()
    rng = random.Random(SEED)  # noqa: S311 - made-up data, not a secret
    europe = [*_pairs(languages, EUROPE, rng), *_odd_rows()]
    world = list(_pairs(languages, WORLD, rng))
    multi = list(_pairs(languages, MULTI_REFERENCE, rng, several_references=True))
    for number, row in enumerate([*europe, *world, *multi], start=1):
        row["id"] = number
        row["created"] = FIRST_DAY + timedelta(minutes=7 * number)
    return {
        "news-europe.parquet": pa.Table.from_pylist(europe, schema=SINGLE_SCHEMA),
        "news-world.parquet": pa.Table.from_pylist(world, schema=SINGLE_SCHEMA),
        "several-references.parquet": pa.Table.from_pylist(multi, schema=MULTI_SCHEMA),
    }


def write_sample(folder: Path) -> list[Path]:
    """Write the sample into `folder` and return the paths written."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, table in make_tables().items():
        path = folder / name
        pq.write_table(table, path, compression="zstd", row_group_size=ROW_GROUP_ROWS)
        paths.append(path)
    return paths


def _pairs(
    languages: Mapping[str, Language],
    codes: Sequence[str],
    rng: random.Random,
    *,
    several_references: bool = False,
) -> Iterator[Row]:
    """Yield a row per segment and system, the systems of a segment beside each other."""
    for segment in _segments([languages[code] for code in codes], rng):
        reference: str | list[str] = segment.say(0)
        if several_references:
            reference = [segment.say(variant) for variant in range(rng.randint(2, 3))]
        for system in SYSTEMS:
            yield {
                "system": system.__name__,
                "language": segment.language.code,
                "candidate": system(segment, rng),
                "reference": reference,
                "meta": {"domain": DOMAINS[segment.topic], "segment": segment.topic, "note": None},
            }


def _segments(languages: Sequence[Language], rng: random.Random) -> Iterator[Segment]:
    for language in languages:
        for topic in range(len(language.topics)):
            for _ in range(FILLINGS):
                filling = {slot: rng.choice(values) for slot, values in language.slots.items()}
                yield Segment(language=language, topic=topic, filling=filling)


def _odd_rows() -> Iterator[Row]:
    for candidate, reference, why in ODDITIES:
        yield {
            "system": "oddities",
            "language": "en",
            "candidate": candidate,
            "reference": reference,
            "meta": {"domain": None, "segment": None, "note": why},
        }


def _units(segment: Segment) -> list[str]:
    text = segment.say(0)
    return text.split() if segment.language.spaced else list(text)


def _join(segment: Segment, units: Sequence[str]) -> str:
    return (" " if segment.language.spaced else "").join(units)


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "sample"
    for written in write_sample(target):
        print(f"{written}: {written.stat().st_size:,} bytes")
