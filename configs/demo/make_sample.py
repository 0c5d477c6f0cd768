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

import random
import sys
from collections.abc import Iterator, Mapping, Sequence
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
MULTI_REFERENCE = ("en", "de", "ar", "hi")

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

Row = dict[str, Any]


def schema(reference: pa.DataType) -> pa.Schema:
    """Return the columns of a file by the type of its references."""
    return pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            ("system", pa.dictionary(pa.int8(), pa.string())),
            ("language", pa.string()),
            ("candidate", pa.string()),
            ("reference", reference),
            ("created", pa.timestamp("ms", tz="UTC")),
            ("meta", META),
        ]
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
    single, several = schema(pa.string()), schema(pa.list_(pa.string()))
    return {
        "news-europe.parquet": pa.Table.from_pylist(europe, single),
        "news-world.parquet": pa.Table.from_pylist(world, single),
        "several-references.parquet": pa.Table.from_pylist(multi, several),
    }


def _pairs(
    languages: Mapping[str, Any],
    codes: Sequence[str],
    rng: random.Random,
    *,
    several_references: bool = False,
) -> Iterator[Row]:
    """Yield a row per segment and system, the systems of a segment beside each other."""
    for code in codes:
        language = languages[code]
        for segment, topic in enumerate(language["topics"]):
            meta = {"domain": DOMAINS[segment], "segment": segment, "note": None}
            for _ in range(FILLINGS):
                words = {slot: rng.choice(values) for slot, values in language["slots"].items()}
                reference = topic[0].format(**words)
                if several_references:
                    reference = [one.format(**words) for one in topic[: rng.randint(2, 3)]]
                for system, candidate in _candidates(language, topic, words, rng):
                    row = {"system": system, "language": code, "candidate": candidate}
                    yield {**row, "reference": reference, "meta": meta}


def _candidates(
    language: Mapping[str, Any], topic: Sequence[str], words: Mapping[str, str], rng: random.Random
) -> Iterator[tuple[str, str]]:
    """Yield what each system makes of a segment: a topic, of which the first sentence is right.

    `words` has the value of each slot, of which the language has others.
    """
    text = topic[0].format(**words)
    yield "paraphrase", topic[rng.randrange(1, len(topic))].format(**words)
    yield "careful", text if rng.randrange(3) else text.rstrip(".。।")
    units = text.split() if language["spaced"] else list(text)
    blank = " " if language["spaced"] else ""
    yield "dropped", blank.join([one for one in units if rng.randrange(DROP_EVERY)] or units[:1])
    others = {
        slot: rng.choice([value for value in values if value != words[slot]])
        for slot, values in language["slots"].items()
    }
    yield "swapped", topic[0].format(**others)
    yield "truncated", blank.join(units[: len(units) // 2])


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
