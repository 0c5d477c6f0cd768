"""Make a small sample of each experiment's data, from rules.

The columns are those of the data that the experiments are about, so that the configs beside this
script run on both. The sentences are filled from the lists below; what a system or a writer does to
them is drawn by a seeded generator, and so is what people say of it. The sample shows that the
experiments run. It is no evidence about any model.

    python configs/experiments/make_sample.py [FOLDER]
"""

import csv
import random
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

SEED = 20_200_101
FOLDER = "build/experiments"
DIRECTIONS = ("cs-en", "de-en")
ITEMS = 24  # of each direction
MT_SYSTEMS = (0.02, 0.1, 0.2, 0.35, 0.5)  # share of the words that each damages
IMAGES = 20
CAPTION_SYSTEMS = tuple(number / 20 for number in range(12))
PAIRS = 60

# Each slot has words for things that differ; words of one thing are in one list.
SUBJECTS = (
    ["the old ferry", "the aged ferry"],
    ["a young baker", "a youthful baker"],
    ["the night train", "the overnight train"],
    ["my neighbour's dog", "the dog next door"],
    ["the village choir", "the choir of the village"],
    ["a small kite", "a little kite"],
)
DEEDS = (
    ["crosses", "passes over"],
    ["watches", "looks at"],
    ["leaves", "departs from"],
    ["paints", "draws a picture of"],
    ["circles", "goes around"],
)
OBJECTS = (
    ["the frozen lake", "the lake under its ice"],
    ["the market square", "the square of the market"],
    ["a stone bridge", "a bridge made of stone"],
    ["the green hills", "the grassy hills"],
    ["an empty beach", "a deserted beach"],
)
TIMES = (
    ["before sunrise", "ahead of dawn"],
    ["in the late evening", "late in the evening"],
    ["every Sunday", "each Sunday"],
    ["while it rains", "during the rain"],
)
SLOTS = (SUBJECTS, DEEDS, OBJECTS, TIMES)
OTHER_WORDS = ("copper", "seldom", "ladder", "eleven", "quietly", "onions", "beneath", "tomorrow")

Meaning = tuple[int, ...]


def meaning(rng: random.Random) -> Meaning:
    """Draw what a sentence is about: a place in the list of each slot."""
    return tuple(rng.randrange(len(slot)) for slot in SLOTS)


def sentence(rng: random.Random, said: Meaning) -> str:
    """Say a meaning in words that are drawn."""
    words = [rng.choice(slot[place]) for slot, place in zip(SLOTS, said, strict=True)]
    return written(" ".join(words))


def written(words: str) -> str:
    """Begin with a capital letter, and end with a full stop."""
    return words[0].upper() + words[1:] + "."


def damaged(rng: random.Random, text: str, share: float) -> tuple[str, float]:
    """Drop or replace words; return the text and the share of the words that were hit."""
    words, hits = [], 0
    for word in text.split():
        if rng.random() < share:
            hits += 1
            if rng.random() < 0.5:
                words.append(rng.choice(OTHER_WORDS))
        else:
            words.append(word)
    return " ".join(words) or OTHER_WORDS[0], hits / len(text.split())


def judged(rng: random.Random, damage: float) -> float:
    """Return what people say of a text on a scale of 0 to 100."""
    return round(min(100.0, max(0.0, 95 - 110 * damage + rng.gauss(0, 8))), 1)


def translations(rng: random.Random) -> Iterable[dict[str, Any]]:
    """Yield outputs of translation systems with a reference and a direct assessment each."""
    for direction in DIRECTIONS:
        for item in range(ITEMS):
            said = meaning(rng)
            reference = sentence(rng, said)
            for number, share in enumerate(MT_SYSTEMS):
                candidate, damage = damaged(rng, sentence(rng, said), share)
                yield {
                    "direction": direction,
                    "item": f"{direction}:{item}",
                    "system": f"system-{number}",
                    "candidate": candidate,
                    "reference": reference,
                    "score": judged(rng, damage),
                }


def captions(rng: random.Random) -> Iterable[dict[str, Any]]:
    """Yield captions with five references, and the two numbers of each system by people."""
    images = [meaning(rng) for _ in range(IMAGES)]
    references = [[sentence(rng, said) for _ in range(5)] for said in images]
    for number, share in enumerate(CAPTION_SYSTEMS):
        m1, m2 = (round(judged(rng, share) / scale, 1) for scale in (3, 3.5))
        for image, said in enumerate(images):
            yield {
                "image": image,
                "system": f"system-{number:02}",
                "candidate": damaged(rng, sentence(rng, said), share)[0],
                "references": references[image],
                "m1": m1,
                "m2": m2,
            }


def questions(rng: random.Random) -> Iterable[dict[str, Any]]:
    """Yield pairs of questions, of which every other asks the same in other words."""
    for number in range(PAIRS):
        said = meaning(rng)
        same = number % 2 == 0
        other = said if same else (said[0], *meaning(rng)[1:])
        one, two = (f"Is it true? {sentence(rng, what)}" for what in (said, other))
        yield {
            "id": number,
            "qid1": 2 * number,
            "qid2": 2 * number + 1,
            "question1": one,
            "question2": two,
            "is_duplicate": int(same or said == other),
        }


def swaps(rng: random.Random) -> Iterable[dict[str, Any]]:
    """Yield pairs that share their words: paraphrases, and sentences with two things exchanged."""
    for number in range(PAIRS):
        first, second = rng.sample(SUBJECTS, 2)
        rest = [rng.choice(slot)[0] for slot in SLOTS[1:]]
        same = number % 2 == 0
        other = (
            f"{rest[2]} {first[0]} sees how {second[0]} {' '.join(rest[:2])}"
            if same
            else f"{second[0]} sees how {first[0]} {' '.join(rest)}"
        )
        yield {
            "id": number,
            "sentence1": written(f"{first[0]} sees how {second[0]} {' '.join(rest)}"),
            "sentence2": written(other),
            "label": int(same),
        }


SAMPLES: Mapping[str, Callable[[random.Random], Iterable[dict[str, Any]]]] = {
    "wmt.parquet": translations,
    "coco.parquet": captions,
    "qqp.tsv": questions,
    "paws_qqp.tsv": swaps,
    "paws_wiki.tsv": swaps,
}


def write_samples(folder: Path) -> None:
    """Write one file for each experiment into a folder; the same files each time."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in SAMPLES.items():
        rows = list(make(random.Random(f"{SEED} {name}")))  # noqa: S311  made-up data
        if name.endswith(".parquet"):
            pq.write_table(pa.Table.from_pylist(rows), folder / name)
            continue
        with (folder / name).open("w", encoding="utf-8", newline="") as file:
            table = csv.DictWriter(file, rows[0], delimiter="\t", lineterminator="\n")
            table.writeheader()
            table.writerows(rows)


if __name__ == "__main__":
    write_samples(Path(sys.argv[1] if len(sys.argv) > 1 else FOLDER))
