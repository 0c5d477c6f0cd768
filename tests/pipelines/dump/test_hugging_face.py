"""Reading a dataset through `hf://`: the real client against a server on loopback."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.hub import REPOSITORY, hub
from tests.support.text_files import to_csv, to_jsonl

pytestmark = [pytest.mark.process, pytest.mark.long]

ROOT = Path(__file__).parents[3]
TOKEN = "hf_secret_of_the_test"
# In a process of its own: the client reads its environment once.
READ = """
import json, sys
from bertscore_beam.dump import read_split
from tests.support.text_files import plan_text

plan = plan_text(sys.argv[1], sys.argv[2], rows=20)
read = [(split, read_split(split)) for split in plan.splits]
print(json.dumps({
    "splits": [(s.input_name, s.row_offset, bool(s.file_version)) for s, _ in read],
    "rows": [row for _, rows in read for row in rows.to_pylist()],
}))
"""


def read_through(
    endpoint: str, path: str, folder: Path, token: str = TOKEN
) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {
        "HF_ENDPOINT": endpoint,
        "HF_HUB_OFFLINE": "0",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_TOKEN": token,
        "PYTHONPATH": str(ROOT),
    }
    source = f"hf://datasets/{REPOSITORY}/{path}"
    command = [sys.executable, "-c", READ, source, str(folder / path.replace("/", "_"))]
    return subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )


def test_private_dataset_is_listed_cut_and_read_with_its_partitions(tmp_path):
    rows = [{"candidate": f"a {n}", "reference": f"the {n}"} for n in range(50)]
    cells = [["candidate", "reference"], ["ein Hund", "der\nHund"]]
    files = {
        "README.md": b"about",
        "data/a.jsonl": to_jsonl(rows),
        "data/lang=de/b.csv.gz": gzip.compress(to_csv(cells)),
        "other/c.jsonl": to_jsonl(rows),
    }
    with hub(files, TOKEN) as endpoint:
        found = [read_through(endpoint, path, tmp_path) for path in ("data", "data/**/*.gz")]
        refused = read_through(endpoint, "data", tmp_path / "refused", token="hf_wrong")
    whole, packed = (json.loads(one.stdout) for one in found)
    german = {"candidate": "ein Hund", "reference": "der\nHund", "lang": "de"}
    assert whole["rows"] == [*rows, german]
    assert whole["splits"] == [
        *(["a.jsonl", row, True] for row in (0, 16, 33)),
        ["lang=de/b.csv.gz", 0, True],
    ]
    assert packed["rows"] == [german]
    assert refused.returncode != 0
    assert "hf_wrong" not in refused.stdout + refused.stderr
