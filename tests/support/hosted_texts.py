"""Made-up English sentences of hosts, each with a topic of its own; the same for the same seed."""

import random

from tests.support.crawl_texts import GRAMMARS


def sentences_of_hosts(hosts: int, of_each: int, seed: int) -> list[list[str]]:
    """Return the distinct sentences of each host.

    A host writes about one person and one place, so that its sentences resemble each other. They
    differ in what is done, when, and in the order of the words. Two hosts may have one topic, and
    then also the same sentences.

    Args:
        hosts: Number of hosts.
        of_each: Sentences of each host, up to 1,000.
        seed: Decides the topics and the sentences.
    """
    generator = random.Random(f"hosts {seed}")
    grammar = GRAMMARS["en"]
    who, where, when, does = (grammar[name] for name in ("who", "where", "when", "does"))
    ways = [(order, a, b) for order in grammar["orders"] for a in when for b in does]
    result = []
    for _ in range(hosts):
        person, place = generator.choice(who), generator.choice(where)
        made = (
            order.format(when=a, who=person, does=b, where=place)
            for order, a, b in generator.sample(ways, of_each)
        )
        result.append([text[0].upper() + text[1:] for text in made])
    return result
