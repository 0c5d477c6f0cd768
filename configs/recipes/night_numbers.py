"""What a tracker keeps of a night of night.sh: scores by system and language, the verdict."""

import json
import re
import sys
from pathlib import Path

day = sys.argv[1]
night = json.loads(Path(f"scores/{day}/_summary.json").read_text())
page, verdict = Path(f"pages/{day}.html"), Path(f"pages/{day}.json")
# null: too few rows to judge (status 5), or not compared, since `score` failed a gate (status 3)
passed = json.loads(verdict.read_text())["passed"] if verdict.exists() else None
numbers = {} if passed is None else {"passed": float(passed)}
wanted = re.compile("(precision|recall|f1)(_low|_high)?|metric_[a-z]+")
for group in night["groups"]["shown"] if night["groups"] else ():  # the first 100
    name = "/".join(re.sub(r"[^\w. -]", "_", str(value)) for value in group["group"].values())
    numbers |= {f"{k}/{name}": v for k, v in group.items() if wanted.fullmatch(k) and v is not None}
made = {**(night["languages"] or {"bertscore": night}), **(night["metrics"] or {})}
words = {f"signature/{name.replace('+', 'p')}": how["signature"] for name, how in made.items()}
words |= {"passed": json.dumps(passed), "success": json.dumps(night["success"])}
