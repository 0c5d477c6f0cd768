"""Make a small sample of each experiment's data, from rules.

The columns are those that the configs beside this script name, so that they run on both. What is
said are the English sentences of the demo; what a system or a writer does to them is drawn by a
seeded generator, and so is what people say of it. The sample shows that the experiments run. It is
no evidence about any model.

    python configs/experiments/make_sample.py [FOLDER]
"""

import random
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import yaml

SEED = 20_200_101
FOLDER = "build/experiments"
DIRECTIONS = ("cs-en", "de-en")
ITEMS = 24  # of each direction
MT_SYSTEMS = (0.02, 0.1, 0.2, 0.35, 0.5)  # share of the words that each drops
IMAGES = 20
CAPTION_SYSTEMS = tuple(number / 20 for number in range(12))
PAIRS = 60
DEMO = Path(__file__).parents[1] / "demo" / "sentences.yaml"
ENGLISH = yaml.safe_load(DEMO.read_text(encoding="utf-8"))["en"]

Rows = Iterator[dict[str, Any]]
Meaning = tuple[list[str], dict[str, str]]
"""Several ways to say one thing, and the words for their slots."""


def meaning(rng: random.Random) -> Meaning:
    """Draw what a sentence is about."""
    slots = ENGLISH["slots"].items()
    return rng.choice(ENGLISH["topics"]), {slot: rng.choice(words) for slot, words in slots}


def sentence(rng: random.Random, said: Meaning) -> str:
    """Say a meaning in one of its ways."""
    return str(rng.choice(said[0])).format(**said[1])


def damaged(rng: random.Random, text: str, share: float) -> tuple[str, float]:
    """Drop words; return the text and the share of the words that are gone."""
    words = text.split()
    kept = [word for word in words if rng.random() >= share] or words[:1]
    return " ".join(kept), 1 - len(kept) / len(words)


def judged(rng: random.Random, damage: float) -> float:
    """Return what people say of a text on a scale of 0 to 100."""
    return round(min(100.0, max(0.0, 95 - 110 * damage + rng.gauss(0, 8))), 1)


def translations(rng: random.Random) -> Rows:
    """Yield outputs of translation systems with a reference and a direct assessment each."""
    for direction in DIRECTIONS:
        for item in range(ITEMS):
            reference = sentence(rng, meaning(rng))
            for number, share in enumerate(MT_SYSTEMS):
                candidate, damage = damaged(rng, reference, share)
                yield {
                    "direction": direction,
                    "item": f"{direction}:{item}",
                    "system": f"system-{number}",
                    "candidate": candidate,
                    "reference": reference,
                    "score": judged(rng, damage),
                }


def captions(rng: random.Random) -> Rows:
    """Yield captions with five references, and the two numbers of each system by people."""
    images = [meaning(rng) for _ in range(IMAGES)]
    references = [[sentence(rng, said) for _ in range(5)] for said in images]
    for number, share in enumerate(CAPTION_SYSTEMS):
        m1, m2 = (round(judged(rng, share) / scale, 1) for scale in (3, 3.5))
        for said, own in zip(images, references, strict=True):
            candidate, _ = damaged(rng, sentence(rng, said), share)
            row = {"system": f"system-{number:02}", "candidate": candidate, "references": own}
            yield {**row, "m1": m1, "m2": m2}


def pairs(columns: tuple[str, str, str], rng: random.Random) -> Rows:
    """Yield two texts and their label: every other pair says the same, in other words.

    The others say something else; those of PAWS say it in nearly the same words.
    """
    first, second, label = columns
    for number in range(PAIRS):
        said, other, same = meaning(rng), meaning(rng), number % 2 == 0
        told = said if same else (said[0] if first == "sentence1" else other[0], other[1])
        yield {first: sentence(rng, said), second: sentence(rng, told), label: int(same)}


PAWS = partial(pairs, ("sentence1", "sentence2", "label"))
SAMPLES: Mapping[str, Callable[[random.Random], Rows]] = {
    "wmt.parquet": translations,
    "coco.parquet": captions,
    "qqp.tsv": partial(pairs, ("question1", "question2", "is_duplicate")),
    "paws_qqp.tsv": PAWS,
    "paws_wiki.tsv": PAWS,
}


def write_samples(folder: Path) -> None:
    """Write one file for each experiment into a folder; the same files each time."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in SAMPLES.items():
        rng = random.Random(f"{SEED} {name}")  # noqa: S311  made-up data
        table = pa.Table.from_pylist(list(make(rng)))
        if name.endswith(".parquet"):
            pq.write_table(table, folder / name)
        else:
            pa_csv.write_csv(table, folder / name, pa_csv.WriteOptions(delimiter="\t"))


if __name__ == "__main__":
    write_samples(Path(sys.argv[1] if len(sys.argv) > 1 else FOLDER))
