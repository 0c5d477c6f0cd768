"""What a tracker keeps of a night of night.sh: scores by system and language, and signatures."""

import json
import re
import sys

day = sys.argv[1]
with open(f"scores/{day}/_summary.json") as summary, open(f"pages/{day}.json") as verdict:
    night, passed = json.load(summary), json.load(verdict)["passed"]
numbers = {} if passed is None else {"passed": float(passed)}  # None: too few rows to judge
wanted = re.compile("(precision|recall|f1)(_low|_high)?|metric_[a-z]+")
for group in night["groups"]["shown"]:  # the first 100
    name = "/".join(re.sub(r"[^\w. -]", "_", str(value)) for value in group["group"].values())
    kept = {key: value for key, value in group.items() if wanted.fullmatch(key)}
    numbers |= {f"{key}/{name}": value for key, value in kept.items() if value is not None}
made = {**(night["languages"] or {"bertscore": night}), **night["metrics"]}
signatures = {
    f"signature/{name.replace('+', 'p')}": how["signature"]
    for name, how in made.items()
    if "signature" in how
}
