"""Made-up sentences and web pages in ten languages, the same for the same seed.

Sentences are put together from parts that fit each other in grammar, so that a language detector
knows them. Every language has more than fifty thousand distinct ones.
"""

import math
import random
import tomllib
from collections.abc import Mapping
from pathlib import Path

HEADER_CODES: Mapping[str, str] = {
    **{"ar": "ara", "de": "deu", "en": "eng", "es": "spa", "fr": "fra"},
    **{"hi": "hin", "ja": "jpn", "ru": "rus", "th": "tha", "zh": "zho"},
}
"""What Common Crawl calls each language that texts can be made in."""


GRAMMARS: Mapping[str, Mapping[str, list[str]]] = {
    language: {name: lines.strip().split("\n") for name, lines in parts.items()}
    for language, parts in tomllib.loads(
        Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    ).items()
}
"""By language the parts of its sentences (when, who, does, where), how they are joined (orders),
and what a menu says."""


NAMES = ("orders", "when", "who", "does", "where")


def written(name: str) -> list[list[str]]:
    """Return the rows of a file beside the tests of crawls, whose texts are written for them."""
    file = Path(__file__).parents[1] / "pipelines" / "crawl" / name
    return [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines()[1:]]


def sentences(language: str, count: int, seed: int) -> list[str]:
    """Return so many distinct sentences, in a random order."""
    grammar = GRAMMARS[language]
    sizes = [len(grammar[name]) for name in NAMES]
    made = []
    for number in random.Random(f"{language} {seed}").sample(range(math.prod(sizes)), count):
        parts = []
        for name in NAMES:
            number, place = divmod(number, len(grammar[name]))
            parts.append(grammar[name][place])
        order, when, who, does, where = parts
        text = order.format(when=when, who=who, does=does, where=where)
        first = next(place for place, letter in enumerate(text) if letter.isalpha())
        made.append(text[:first] + text[first].upper() + text[first + 1 :])
    return made


def page_text(language: str, count: int, seed: int) -> str:
    """Return the text of a page with so many sentences and what else is on a page.

    A menu, prose in paragraphs, lists, a cookie notice in English, a line too long to be prose, and
    a footer that repeats a sentence of the page.
    """
    generator = random.Random(f"page {language} {seed}")
    prose = sentences(language, count, seed)
    menu = GRAMMARS[language]["menu"]
    lines = [*generator.sample(menu, min(len(menu), 5)), f"{generator.random():.4f}", ""]
    space = "" if language in ("ja", "zh") else " "
    start = 0
    while start < len(prose):
        stop = start + generator.randint(2, 5)
        lines.append(space.join(prose[start:stop]))
        start = stop
        if generator.random() < 0.3:
            lines += [f"{generator.choice(menu)} | {generator.choice(menu)}", "* * *"]
    if generator.random() < 0.1:
        lines.append("[(" * generator.randint(2_600, 4_000))
    if prose:
        lines += ["", space.join([prose[0], prose[-1]])]
    lines += [
        f"© {generator.randint(2004, 2026)} www.site-{seed}.example",
        "We use cookies to give you a better experience on this website.",
        *generator.sample(menu, min(len(menu), 4)),
    ]
    return "\n".join(lines) + "\n"
