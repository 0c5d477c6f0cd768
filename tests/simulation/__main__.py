"""Play seeds, and show what happened."""

import argparse
import sys
import time
from collections import Counter

from tests.simulation.play import play


def main() -> int:
    """Play the seeds that are asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("seed", type=int, help="the first seed")
    parser.add_argument("count", type=int, nargs="?", default=0, help="how many; none: its trace")
    parser.add_argument("--late", action="store_true", help="writes may come long after")
    arguments = parser.parse_args()
    began, failed, ended = time.monotonic(), 0, Counter[str]()
    for seed in range(arguments.seed, arguments.seed + max(1, arguments.count)):
        played = play(seed, late=arguments.late)
        if not arguments.count:
            print("\n".join(played.trace))
        for words in played.found:
            print(f"seed {seed}, {played.kind}: {words}", flush=True)
        failed += bool(played.found)
        ended.update(played.ended.values())
    print(f"{failed} failed, {time.monotonic() - began:.1f} s, {dict(ended)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
