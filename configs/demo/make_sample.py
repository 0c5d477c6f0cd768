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
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

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


class Segment(NamedTuple):
    """One topic with its slots filled: what every system was asked to say.

    Attributes:
        language: Whether white space separates words (`spaced`), the values that each of the
            `slots` may take, and for each of the `topics` its sentences, the reference first.
        filling: The value of each slot.
    """

    code: str
    language: Mapping[str, Any]
    topic: int
    filling: Mapping[str, str]

    def say(self, variant: int) -> str:
        """Return the segment in the words of one of the topic's sentences."""
        return str(self.language["topics"][self.topic][variant]).format(**self.filling)

    def part(self, keep: Callable[[list[str]], list[str]]) -> str:
        """Return the words of the reference that are kept; characters, where it has no words."""
        text, spaced = self.say(0), self.language["spaced"]
        return (" " if spaced else "").join(keep(text.split() if spaced else list(text)))


def paraphrase(segment: Segment, rng: random.Random) -> str:
    """Say the same in other words."""
    return segment.say(rng.randrange(1, len(segment.language["topics"][segment.topic])))


def careful(segment: Segment, rng: random.Random) -> str:
    """Repeat the reference, every third time without its final mark."""
    text = segment.say(0)
    return text if rng.randrange(3) else text.rstrip(".。।")


def dropped(segment: Segment, rng: random.Random) -> str:
    """Lose about one unit in DROP_EVERY, but never all of them."""
    return segment.part(lambda units: [u for u in units if rng.randrange(DROP_EVERY)] or units[:1])


def swapped(segment: Segment, rng: random.Random) -> str:
    """Fill each slot with another value than the reference has."""
    other = {
        slot: rng.choice([value for value in values if value != segment.filling[slot]])
        for slot, values in segment.language["slots"].items()
    }
    return segment._replace(filling=other).say(0)


def truncated(segment: Segment, rng: random.Random) -> str:
    """Stop halfway."""
    del rng  # every system is called in the same way
    return segment.part(lambda units: units[: len(units) // 2])


SYSTEMS: Sequence[Callable[[Segment, random.Random], str]] = (
    *(paraphrase, careful, dropped, swapped, truncated),
)


def make_tables() -> dict[str, pa.Table]:
    """Return the files of the sample: name -> table. Ids are unique over all of them."""
    languages = yaml.safe_load((HERE / "sentences.yaml").read_text(encoding="utf-8"))
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


def _pairs(
    languages: Mapping[str, Any],
    codes: Sequence[str],
    rng: random.Random,
    *,
    several_references: bool = False,
) -> Iterator[Row]:
    """Yield a row per segment and system, the systems of a segment beside each other."""
    for segment in _segments(languages, codes, rng):
        reference: str | list[str] = segment.say(0)
        if several_references:
            reference = [segment.say(variant) for variant in range(rng.randint(2, 3))]
        for system in SYSTEMS:
            yield {
                "system": system.__name__,
                "language": segment.code,
                "candidate": system(segment, rng),
                "reference": reference,
                "meta": {"domain": DOMAINS[segment.topic], "segment": segment.topic, "note": None},
            }


def _segments(
    languages: Mapping[str, Any], codes: Sequence[str], rng: random.Random
) -> Iterator[Segment]:
    for code in codes:
        for topic in range(len(languages[code]["topics"])):
            for _ in range(FILLINGS):
                slots = languages[code]["slots"].items()
                filling = {slot: rng.choice(values) for slot, values in slots}
                yield Segment(code, languages[code], topic, filling)


def _odd_rows() -> Iterator[Row]:
    for candidate, reference, why in ODDITIES:
        yield {
            "system": "oddities",
            "language": "en",
            "candidate": candidate,
            "reference": reference,
            "meta": {"domain": None, "segment": None, "note": why},
        }


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "sample"
    target.mkdir(parents=True, exist_ok=True)
    for name, table in make_tables().items():
        pq.write_table(table, target / name, compression="zstd", row_group_size=ROW_GROUP_ROWS)
