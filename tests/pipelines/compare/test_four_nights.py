"""Four nights of 12,000 rows: what is shown first is what the verdict rests on.

On the second night a tenth of the answers is other text of the same quality; on the third one cell,
a system in a language, is cut as well; on the fourth one input is missing.
"""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytestmark = [pytest.mark.process, pytest.mark.long]

ROOT = Path(__file__).resolve().parents[3]
DAYS = ("2026-11-20", "2026-11-21", "2026-11-22", "2026-11-23")
SYSTEMS = ("llm-c", "llm-d", "llm-e", "mt-a", "mt-b")
LANGUAGES = ("de", "en", "zh")
CELL_ROWS = 800
CUT, GONE = ("llm-e", "de"), ("mt-b", "zh")
"""Of CUT 30% of the answers lose their end on the third night; GONE has no file on the fourth."""
WORDS = {
    "de": "die Stadt hat gestern einen neuen Park am Fluss für alle Kinder eröffnet und gefeiert",
    "en": "the city opened a large new park near the river yesterday and invited every family",
    "zh": "这座 城市 昨天 在 河边 为 所有 孩子 开放 了 一个 新 的 公园 并 庆祝",
}


def texts(language: str, number: int) -> tuple[str, list[str]]:
    """Return the reference of a segment, and good answers to it: one word is another each time."""
    draw = random.Random(f"{language} {number}")
    words = [*draw.sample(WORDS[language].split(), 9), str(number)]
    answers = []
    for _ in range(6):
        answer = [*words]
        answer[draw.randrange(9)] = draw.choice(WORDS[language].split())
        answers.append(answer)
    space = "" if language == "zh" else " "
    return space.join(words), [space.join(answer) for answer in answers]


def write_night(folder: Path, night: int) -> None:
    """Write the dump of a night: a file for each system and language."""
    dump = folder / "dumps" / DAYS[night]
    dump.mkdir(parents=True)
    for language in LANGUAGES:
        segments = [texts(language, number) for number in range(CELL_ROWS)]
        for system in SYSTEMS:
            if night == 3 and (system, language) == GONE:
                continue
            rows = []
            for number, (reference, answers) in enumerate(segments):
                draw = random.Random(f"{system} {language} {number}")
                answer = draw.choice(answers)
                for later in range(1, night + 1):
                    if random.Random(f"{system} {language} {number} {later}").random() < 0.1:
                        answer = draw.choice(answers)
                if night == 2 and (system, language) == CUT and draw.random() < 0.3:
                    answer = answer[: len(answer) * 3 // 4]
                row = {"id": number, "system": system, "lang": language}
                rows.append({**row, "reference": reference, "candidate": answer})
            pq.write_table(pa.Table.from_pylist(rows), dump / f"{system}-{language}.parquet")


def command(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """Run a command in the folder of the nights, with one stream for all that it prints."""
    paths = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    given = {"KEY": "id system lang", "BY": "system lang", "PAUSE": "0"}
    return subprocess.run(
        [*map(str, words)],
        cwd=folder,
        env={**os.environ, "PATH": paths, **given},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=400,
    )


@pytest.fixture(scope="module")
def nights(tmp_path_factory):
    """Return a folder with four nights, and the logs of these."""
    folder = tmp_path_factory.mktemp("nights")
    how = "model: all-MiniLM-L6-v2\nnum_layers: 1\nworkers: 2\nmin_rows: 100\n"
    (folder / "night.yaml").write_text(how)
    logs = []
    for night, day in enumerate(DAYS):
        write_night(folder, night)
        done = command(folder, "sh", ROOT / "configs" / "nightly" / "night.sh", day)
        logs.append((done.returncode, done.stdout.splitlines()))
    return folder, logs


def test_the_evidence_of_a_failed_night_is_of_the_group_that_failed(nights):
    folder, logs = nights
    assert [status for status, _ in logs] == [0, 0, 4, 4], logs
    found = json.loads((folder / "pages" / f"{DAYS[2]}.json").read_text())
    runs = (f"scores/{DAYS[2]}", f"scores/{DAYS[1]}")
    how = ("--key", "id", "system", "lang", "--by", "system", "lang", "--fail-if-drop", 0.005)
    how += ("--quiet",)
    shown = command(folder, "bertscore-beam", "compare", *runs, *how).stdout.splitlines()
    cells = [line.split("\t") for line in shown]
    table = next(at for at, row in enumerate(cells) if row[0] == "change")
    rows = cells[table + 1 : table + 11]
    assert [row[3:5] for row in rows] == [[*CUT]] * 10
    assert all(float(row[0]) < 0 for row in rows)
    assert f"--row={'-'.join(CUT)}.parquet:" in shown[-1]
    (one, pinned) = found["comparisons"]
    for compared in (one, pinned):
        failed = [group["group"] for group in compared["groups"] if group["gate"]["failures"]]
        assert failed == [[*CUT]]
        assert [row["group"] for row in compared["moved"][:10]] == [[*CUT]] * 10
        assert f"{'-'.join(CUT)}.parquet:" in compared["explain"]
    # Elsewhere rows have fallen as far: a tenth of all answers is another.
    assert sum(group["counts"]["down"] for group in one["groups"]) > 2 * 278
    fallen = (folder / "pages" / f"{DAYS[2]}.html").read_text().partition('id="fallen"')[2]
    fallen = fallen.partition('id="risen"')[0]
    assert fallen.count(f"{'-'.join(CUT)}.parquet:") == fallen.count(".parquet:") == 20


def test_the_log_of_a_night_is_short_and_begins_with_what_matters(nights):
    _, logs = nights
    for status, lines in logs:
        assert len(lines) <= 30, "\n".join(lines)
        assert sum("unknown to the model" in line for line in lines) == 0  # the page says it
        if status:
            first = "\n".join(lines[:10])
            assert "the group" in first
            assert "-0.0" in first or "rows lost: " in first
    _, failed = logs[2]
    first = "\n".join(failed[:10])
    assert "llm-e / de did not pass the gate: it is lower by more than 0.005: " in first
    assert "fell: -0." in first
    assert "bertscore-beam explain " in "\n".join(failed[:12])


def test_lost_rows_are_called_so_with_their_group_number_and_input(nights):
    folder, logs = nights
    said = f"{CELL_ROWS} of mt-b-zh.parquet, an input that is not in this run"
    log = logs[3][1]
    assert f"rows lost: mt-b / zh {CELL_ROWS}: {said}" in log
    assert not any("judged" in line for line in log)  # it has failed
    first = [line for line in log[:10] if "the group mt-b / zh did not pass the gate" in line]
    assert f"rows lost: {CELL_ROWS} that" in first[0]
    assert said in first[0]
    page = (folder / "pages" / f"{DAYS[3]}.html").read_text()
    answer = page.partition('aria-label="Answer"')[2].partition("</section>")[0]
    assert "<strong>Rows lost</strong>: the gate is not passed" in answer
    assert 'class="lost">rows lost<' in answer
    assert "worse" not in answer
    assert "cannot be judged" not in answer
    assert "mt-b-zh.parquet" in answer
    assert "too few rows" not in answer
    found = json.loads((folder / "pages" / f"{DAYS[3]}.json").read_text())
    (lost,) = [one for one in found["comparisons"][0]["groups"] if one["gate"]["failures"]]
    assert (lost["group"], lost["result"]["interval"], lost["caveats"]) == ([*GONE], None, [])
    assert lost["lost"] == [{"input_name": "mt-b-zh.parquet", "rows": CELL_ROWS, "is_gone": True}]


def test_a_caveat_is_said_once_on_a_page_and_not_of_a_quiet_command(nights):
    folder, _ = nights
    page = (folder / "pages" / f"{DAYS[1]}.html").read_text()
    notices = page.partition('<ul class="notices">')[2].partition("</ul>")[0]
    assert notices.count("unknown to the model") + notices.count("does not know") == 1
    assert "All zh groups have more than 5% of tokens unknown" in notices
