"""night.sh, killed before each of its commands and within each: a bad night is never a measure.

The script is the real one. In place of the command it finds a small one that says what the real
one said of two runs: its words, and its status.
"""

import io
import json
import os
import shutil
import signal
import subprocess
from contextlib import redirect_stdout
from copy import copy
from pathlib import Path

import numpy as np
import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.run.output import WORSE
from tests.support.made_runs import made_run, scored

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash"),
]

NIGHT = Path(__file__).resolve().parents[3] / "configs" / "nightly" / "night.sh"
DAYS = ("2026-11-20", "2026-11-21", "2026-11-22", "2026-11-23")
KILLED = -signal.SIGKILL

# Of a dump and a run only the quality is there, a digit. The call of number CUT dies half way, and
# the script with it.
COMMAND = """\
#!/bin/sh
echo "$@" >> calls
verb=$1 day= status=0 out=
case $verb in
score) for word; do case $word in dumps/*) day=${word#dumps/} ;; esac; done
    [ -e "dumps/$day" ] || exit 2 ;;
compare) now=$(cat "$2/quality"); shift 2
    for word; do case $word in --*) break ;; esac
        [ -e "$word/_SUCCESS" ] || exit 2
        [ "$now" -ge "$(cat "$word/quality")" ] || status=4; done ;;
report) for word; do case $word in pages/*.html) out=$word ;; esac; done ;;
esac
if [ "$(wc -l < calls)" -eq "${CUT:-0}" ]; then
    [ $verb = compare ] && head -c 60 "recorded/$status"
    [ $verb = score ] && mkdir -p "scores/$day"
    kill -KILL $PPID
    exit 137
fi
case $verb in
score) mkdir -p "scores/$day"; cp "dumps/$day" "scores/$day/quality"; : > "scores/$day/_SUCCESS" ;;
compare) cat "recorded/$status" ;;
report) echo page > "$out" ;;
esac
exit $status
"""
# Bash calls a trap before each command of a script.
BEFORE_EACH = """\
set -T; step=0
trap 'step=$((step + 1)); [ "$step" -ne "${AT:-0}" ] || kill -KILL $$' DEBUG
. "$SCRIPT"
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Return what the real command prints of a run as good as another, and of one that is worse."""
    folder = tmp_path_factory.mktemp("recorded")
    f1 = np.linspace(0.5, 0.9, 40)
    runs = {name: {"a": scored(f1 - drop)} for name, drop in (("0", 0), ("4", 0.3), ("before", 0))}
    before = made_run(folder / "before", runs["before"])
    made = {}
    for status in (cli.DONE, WORSE):
        now = made_run(folder / str(status), runs[str(status)])
        words = ["compare", now, before, "--quiet", "--json", "--fail-if-drop", 0.005]
        with redirect_stdout(io.StringIO()) as said:
            assert cli.main([*map(str, words)]) == status
        made[status] = said.getvalue()
    return made


class Nights:
    """A folder of nights; only dumps of the quality 5 are good."""

    def __init__(self, folder, recorded, qualities):
        self.folder = folder
        for name in ("dumps", "scores", "recorded", "bin"):
            (folder / name).mkdir(parents=True)
        for status, said in recorded.items():
            (folder / "recorded" / str(status)).write_text(said)
        for day, quality in zip(DAYS, qualities, strict=False):
            (folder / "dumps" / day).write_text(quality)
        (folder / "bin" / "bertscore-beam").write_text(COMMAND)
        (folder / "bin" / "bertscore-beam").chmod(0o755)

    def run(self, day, **variables):
        (self.folder / "calls").unlink(missing_ok=True)
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        given = {**os.environ, "PATH": path, "PAUSE": "0", "SCRIPT": str(NIGHT), **variables}
        words = ["bash", "-c", BEFORE_EACH, "night.sh", day]
        done = subprocess.run(words, cwd=self.folder, env=given, capture_output=True, text=True)
        return done.returncode, done.stderr

    def measures(self):
        """Return the runs that the last comparison was with."""
        calls = (self.folder / "calls").read_text().splitlines()
        compared = [call.split()[2:] for call in calls if call.startswith("compare")]
        return [word for word in compared[0] if word.startswith("scores/")] if compared else []


def killed_nights(tmp_path, recorded, qualities, first):
    """Yield folders in which a night was killed, at each place in turn."""
    begun = Nights(tmp_path / "begun", recorded, qualities)
    for day in DAYS[:first]:
        assert begun.run(day)[0] == cli.DONE
    for kind in ("AT", "CUT"):
        for place in range(1, 1000):
            nights = copy(begun)
            nights.folder = shutil.copytree(begun.folder, tmp_path / f"{kind}{place}")
            status, _ = nights.run(DAYS[first], **{kind: str(place)})
            if status != KILLED:
                assert place > (30 if kind == "AT" else 1)
                break
            yield nights
            shutil.rmtree(nights.folder)


@pytest.mark.long
def test_a_bad_night_is_no_measure_wherever_it_was_killed(tmp_path, recorded):
    for nights in killed_nights(tmp_path, recorded, "5533", 2):
        assert nights.run(DAYS[3])[0] == WORSE
        assert nights.measures() == [f"scores/{DAYS[1]}"]
        assert nights.run(DAYS[2])[0] == WORSE
        assert nights.run(DAYS[3])[0] == WORSE


@pytest.mark.long
def test_the_first_night_is_no_measure_until_it_has_its_verdict(tmp_path, recorded):
    found = set()
    for nights in killed_nights(tmp_path, recorded, "53", 0):
        was_scored = (nights.folder / "scores" / DAYS[0] / "_SUCCESS").exists()
        has_verdict = (nights.folder / "pages" / f"{DAYS[0]}.json").exists()
        status, said = nights.run(DAYS[1])
        found.add((was_scored, has_verdict, status))
        if status == cli.UNUSABLE:
            assert f"run this script again for {DAYS[0]}," in said
            assert nights.run(DAYS[0])[0] == cli.DONE
            assert nights.run(DAYS[1])[0] == WORSE
    # Without a folder before its own, the second is the first.
    assert found == {(False, False, 0), (False, False, 2), (True, False, 2), (True, True, 4)}


@pytest.mark.long
def test_a_good_night_that_was_killed_is_a_measure_when_it_was_run_again(tmp_path, recorded):
    for nights in killed_nights(tmp_path, recorded, "555", 1):
        assert nights.run(DAYS[2])[0] == cli.DONE
        assert nights.run(DAYS[1])[0] == cli.DONE
        assert nights.run(DAYS[2])[0] == cli.DONE
        assert nights.measures() == [f"scores/{DAYS[1]}"]


@pytest.mark.long
def test_a_verdict_goes_with_the_scores_that_it_is_about(tmp_path, recorded):
    """A night that was good is scored again, from another dump, and killed."""
    for place in range(1, 1000):
        nights = Nights(tmp_path / str(place), recorded, "553")
        assert [nights.run(day)[0] for day in DAYS[:2]] == [0, 0]
        (nights.folder / "dumps" / DAYS[1]).write_text("3")
        status, _ = nights.run(DAYS[1], AT=str(place))
        assert nights.run(DAYS[2])[0] == WORSE
        if status != KILLED:
            break
    assert place > 40


def test_a_worse_night_is_a_measure_when_it_is_accepted(tmp_path, recorded):
    nights = Nights(tmp_path / "nights", recorded, "5333")
    assert [nights.run(day)[0] for day in DAYS[:3]] == [0, 4, 4]
    (nights.folder / "pages" / f"{DAYS[1]}.accepted").touch()
    assert nights.run(DAYS[2])[0] == cli.DONE
    assert json.loads((nights.folder / "pages" / f"{DAYS[2]}.json").read_text())["passed"]
    assert nights.run(DAYS[3])[0] == cli.DONE


def test_a_night_that_is_scored_again_must_be_accepted_again(tmp_path, recorded):
    nights = Nights(tmp_path / "nights", recorded, "534")
    assert [nights.run(day)[0] for day in DAYS[:2]] == [0, 4]
    accepted = nights.folder / "pages" / f"{DAYS[1]}.accepted"
    accepted.touch()
    (nights.folder / "dumps" / DAYS[1]).write_text("2")
    assert nights.run(DAYS[1])[0] == WORSE
    assert not accepted.exists()
    assert nights.run(DAYS[2])[0] == WORSE
    assert nights.measures() == [f"scores/{DAYS[0]}"]


def test_a_good_night_that_is_not_whole_ends_the_next_without_a_verdict(tmp_path, recorded):
    nights = Nights(tmp_path / "nights", recorded, "53")
    assert nights.run(DAYS[0])[0] == cli.DONE
    (nights.folder / "scores" / DAYS[0] / "_SUCCESS").unlink()
    assert nights.run(DAYS[1])[0] == cli.UNUSABLE
    assert nights.measures() == [f"scores/{DAYS[0]}"]
    assert not (nights.folder / "pages" / f"{DAYS[1]}.json").exists()


@pytest.mark.parametrize("pinned", [False, True])
def test_clusters_and_the_share_of_missing_rows_reach_both_commands(tmp_path, recorded, pinned):
    nights = Nights(tmp_path / "nights", recorded, "55")
    if pinned:
        (nights.folder / "scores" / "pinned").symlink_to(DAYS[0])
    assert nights.run(DAYS[0], CLUSTER="doc", MISSING="0.2")[0] == cli.DONE
    calls = (nights.folder / "calls").read_text().splitlines()
    assert ["--max-missing-fraction" in call for call in calls] == [False, False]
    assert nights.run(DAYS[1], CLUSTER="a doc", MISSING="0.2")[0] == cli.DONE
    *_, compared, report = (nights.folder / "calls").read_text().splitlines()
    for call in (compared, report):
        assert "--cluster a doc" in call
        assert "--max-missing-fraction 0.2" in call
