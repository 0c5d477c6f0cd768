"""The section about a baseline of one's own text: its commands, on 2,000 made-up sentences."""

import shlex
import subprocess
from contextlib import chdir
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.cli.main import main
from bertscore_beam.run.output import DONE
from tests.support.crawl_texts import sentences
from tests.support.crawls import description
from tests.support.dumps import read_output

PAGE = Path(__file__).resolve().parents[3] / "docs" / "baselines.md"
OWN_TEXT = "## From sentences of your own\n"
TABLE = "en/all-MiniLM-L6-v2.json"

pytestmark = [pytest.mark.job, pytest.mark.long]


def commands():
    """Yield each command of the section."""
    section = PAGE.read_text(encoding="utf-8").split(OWN_TEXT)[1].partition("\n## ")[0]
    for block in section.split("```sh\n")[1:]:
        yield from block.partition("```")[0].replace("\\\n", " ").splitlines()


def test_the_commands_of_the_section_do_what_it_says(tmp_path, capsys):
    (tmp_path / "news.txt").write_text("\n".join(sentences("en", 2_000, 8)) + "\n")
    texts = sentences("en", 2_200, 8)[2_000:]
    pairs = pa.table({"candidate": texts[:100], "reference": texts[100:]})
    pq.write_table(pairs, tmp_path / "pairs.parquet")
    with chdir(tmp_path):
        for line in commands():
            if line.startswith("bertscore-beam "):
                assert main(shlex.split(line)[1:]) == DONE
            else:
                subprocess.run(line, shell=True, check=True)  # noqa: S602 - of our own page
    said = capsys.readouterr()
    assert "verdict: agree within error" in said.out
    assert "Notice" not in said.err
    made = description(tmp_path / "first", TABLE)
    assert made["pairs"] == 500
    assert made["sample"]["overlap"]["bleu"] > 1  # sentences from a few templates
    assert made["sample"]["hosts_known"] is False
    last = made["layers"][-1]["f1"]
    assert last["standard_error"] == last["naive_error"] == pytest.approx(0.005, rel=0.5)
    for scored, table in (("scores", TABLE), ("idf-scores", TABLE.replace(".json", ".idf.json"))):
        made = description(tmp_path / "first", table)["layers"][-1]["f1"]
        rescaled = read_output(tmp_path / scored)["bertscore_f1"].to_numpy()
        sampled = np.std(rescaled, ddof=1) / np.sqrt(len(rescaled))
        error = np.hypot(sampled, made["standard_error"] / (1 - made["mean"]))
        assert abs(rescaled.mean()) <= 3 * error  # of random pairs zero is expected
