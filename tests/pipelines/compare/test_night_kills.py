"""night.sh over a series of nights, and killed before each of its commands and within each.

A bad night is never a measure, and a pin is neither lost nor set to a bad night. The script is the
real one. In place of the command it finds a small one that says what the real one said of two runs:
its words, and its status.
"""

import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
from contextlib import redirect_stdout
from copy import copy
from pathlib import Path

import numpy as np
import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.files.checked import from_json, to_json
from bertscore_beam.records.earlier_run import scoring_runs
from bertscore_beam.run.folder import RUN_FILE
from bertscore_beam.run.output import UNJUDGED, WORSE
from tests.support.made_runs import made_run, scored

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash"),
]

NIGHT = Path(__file__).resolve().parents[3] / "configs" / "nightly" / "night.sh"
DAYS = tuple(f"2026-11-{day}" for day in range(20, 30))
KILLED = -signal.SIGKILL

# Of a dump and a run only the quality is there, a number, and the letter of a model; 0 is a run of
# too few rows. A loss of more than LOSS is worse. The call of number CUT dies half way, and the
# script with it.
COMMAND = """\
#!/bin/sh
echo "$@" >> calls
verb=$1 day= status=0 out=
case $verb in
score) for word; do case $word in dumps/*) day=${word#dumps/} ;; esac; done
    [ -e "dumps/$day" ] || exit 2 ;;
compare) read now model < "$2/quality"; shift 2; [ "$now" -gt 0 ] || status=5
    for word; do case $word in --*) break ;; esac
        [ -e "$word/_SUCCESS" ] || exit 2
        read before other < "$word/quality"; last=$PWD/$word
        [ "$model" = "$other" ] || { echo "other settings: $word" >&2; exit 2; }
        [ $status -eq 5 ] || [ $((now + ${LOSS:-0})) -ge "$before" ] || status=4; done ;;
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
compare) sed "s|/[^ ]*/before|$last|g" "recorded/$status" ;;
report) echo "$@" > "$out" ;;
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
    """Return what the command prints of a run as good as another, a worse one, and few rows."""
    folder = tmp_path_factory.mktemp("recorded")
    f1, made = np.linspace(0.5, 0.9, 40), {}
    for status, rows, drop in ((cli.DONE, 40, 0), (WORSE, 40, 0.3), (UNJUDGED, 3, 0)):
        names = [f"{status}/now", f"{status}/before"]
        tables = scored(f1[:rows] - drop), scored(f1[:rows])
        runs = [
            made_run(folder / name, {"a": one}) for name, one in zip(names, tables, strict=True)
        ]
        words = ["compare", *runs, "--quiet", "--json", "--fail-if-drop", 0.005]
        with redirect_stdout(io.StringIO()) as said:
            assert cli.main([*map(str, words)]) == status
        made[status] = said.getvalue()
    return made


class Nights:
    """A folder of nights."""

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

    def statuses(self, *days, **variables):
        """Return how nights that follow each other end."""
        return [self.run(day, **variables)[0] for day in days]

    def accept(self, day):
        (self.folder / "pages" / f"{day}.accepted").touch()

    def pin(self, target):
        pinned = self.folder / "scores" / "pinned"
        pinned.unlink(missing_ok=True)
        pinned.symlink_to(target)

    @property
    def pinned(self):
        """The name of the run that is pinned; None if none is."""
        link = self.folder / "scores" / "pinned"
        return os.readlink(link) if link.is_symlink() else None

    def page(self, day):
        return (self.folder / "pages" / f"{day}.html").read_text()

    def verdict(self, day):
        path = self.folder / "pages" / f"{day}.json"
        return json.loads(path.read_text())["passed"] if path.exists() else "no verdict"

    def measures(self):
        """Return the runs that the last comparison was with."""
        calls = (self.folder / "calls").read_text().splitlines()
        compared = [call.split()[2:] for call in calls if call.startswith("compare")]
        return [word for word in compared[0] if word.startswith("scores/")] if compared else []


def killed_nights(tmp_path, recorded, qualities, first, accepted=()):
    """Yield folders in which a night was killed, at each place in turn."""
    begun = Nights(tmp_path / "begun", recorded, qualities)
    for day in DAYS[:first]:
        assert begun.run(day)[0] == (WORSE if day in accepted else cli.DONE)
        if day in accepted:
            begun.accept(day)
    for kind in ("AT", "CUT"):
        for place in range(1, 1000):
            nights = copy(begun)
            there = tmp_path / f"{kind}{place}"
            nights.folder = shutil.copytree(begun.folder, there, symlinks=True)
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
        assert nights.measures() == [f"scores/{DAYS[1]}", "scores/pinned"]
        assert nights.pinned == DAYS[0]
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
        assert nights.pinned in (None, DAYS[0])
        assert nights.pinned or nights.verdict(DAYS[1]) == "no verdict"
        assert nights.run(DAYS[2])[0] == cli.DONE
        assert nights.pinned == DAYS[0]
        assert nights.run(DAYS[1])[0] == cli.DONE
        assert nights.run(DAYS[2])[0] == cli.DONE
        assert nights.measures() == [f"scores/{DAYS[1]}", "scores/pinned"]
        assert nights.pinned == DAYS[0]


@pytest.mark.long
def test_an_accepted_night_is_pinned_wherever_the_next_one_was_killed(tmp_path, recorded):
    found = set()
    for nights in killed_nights(tmp_path, recorded, "55333", 3, accepted=DAYS[2:3]):
        found.add(nights.pinned)
        assert nights.run(DAYS[3 + len(found) % 2])[0] == cli.DONE
        assert nights.pinned == DAYS[2]
        assert nights.measures()[0] == f"scores/{DAYS[2]}"
    assert found == {DAYS[0], DAYS[2]}


@pytest.mark.long
def test_a_verdict_goes_with_the_scores_that_it_is_about(tmp_path, recorded):
    """A night that was good is scored again, from another dump, and killed."""
    for place in range(1, 1000):
        nights = Nights(tmp_path / str(place), recorded, "553")
        assert nights.statuses(*DAYS[:2]) == [0, 0]
        (nights.folder / "dumps" / DAYS[1]).write_text("3")
        status, _ = nights.run(DAYS[1], AT=str(place))
        assert nights.run(DAYS[2])[0] == WORSE
        if status != KILLED:
            break
    assert place > 40


def test_a_worse_night_is_a_measure_when_it_is_accepted(tmp_path, recorded):
    nights = Nights(tmp_path / "nights", recorded, "5333")
    assert nights.statuses(*DAYS[:3]) == [0, 4, 4]
    nights.accept(DAYS[1])
    assert nights.run(DAYS[2])[0] == cli.DONE
    assert nights.verdict(DAYS[2]) is True
    assert nights.run(DAYS[3])[0] == cli.DONE


def test_the_first_night_that_passes_a_comparison_pins_the_run_before_it(tmp_path, recorded):
    nights = Nights(tmp_path / "nights", recorded, "50355")
    assert nights.run(DAYS[0]) == (cli.DONE, "")
    assert nights.pinned is None
    assert "No run is pinned yet" in nights.page(DAYS[0])
    assert nights.statuses(*DAYS[1:3]) == [UNJUDGED, WORSE]
    assert nights.pinned is None
    assert nights.statuses(*DAYS[3:5]) == [cli.DONE, cli.DONE]
    assert nights.pinned == DAYS[0]
    assert f"The pinned run is {DAYS[0]} from now on" in nights.page(DAYS[3])
    assert f"The pinned run is {DAYS[0]}." in nights.page(DAYS[4])
    assert nights.measures() == [f"scores/{DAYS[3]}", "scores/pinned"]


def test_a_run_of_another_version_is_not_pinned_and_is_no_pin(tmp_path, recorded):
    runs = [made_run(tmp_path / name, {"a": scored(np.full(9, 0.5))}) for name in ("new", "old")]
    notes = from_json((runs[1] / RUN_FILE).read_bytes())
    (runs[1] / RUN_FILE).write_bytes(to_json({**notes, "format": None}))
    with redirect_stdout(io.StringIO()) as said:
        words = ["compare", *runs, "--quiet", "--json", "--fail-if-drop", 0.005]
        assert cli.main([*map(str, words)]) == UNJUDGED
    nights = Nights(tmp_path / "nights", {**recorded, UNJUDGED: said.getvalue()}, "500")
    assert nights.statuses(*DAYS[:2]) == [cli.DONE, cli.DONE]
    assert nights.pinned is None
    assert "No run is pinned yet" in nights.page(DAYS[1])
    for pinned in DAYS[:2]:  # the second is also the night before
        nights.pin(pinned)
        status, said = nights.run(DAYS[2])
        assert (status, nights.verdict(DAYS[2])) == (cli.UNUSABLE, "no verdict")
        assert f"The pinned run is {pinned}. It is of another version: {DAYS[2]} was" in said
    nights.accept(DAYS[2])
    (nights.folder / "dumps" / DAYS[3]).write_text("5")
    assert nights.run(DAYS[3])[0] == cli.DONE
    assert nights.pinned == DAYS[2]


def test_many_small_losses_are_found_since_the_script_pins_a_run(tmp_path, recorded):
    nights = Nights(tmp_path / "nights", recorded, [str(60 - day) for day in range(8)])
    assert nights.statuses(*DAYS[:8], LOSS="5") == [0, 0, 0, 0, 0, 0, WORSE, WORSE]


def test_a_night_that_cannot_be_judged_has_a_page_and_is_no_measure(tmp_path, recorded):
    nights = Nights(tmp_path / "nights", recorded, "5055")
    assert nights.run(DAYS[0])[0] == cli.DONE
    status, said = nights.run(DAYS[1])
    assert (status, nights.verdict(DAYS[1])) == (UNJUDGED, None)
    assert f"too few rows to be judged: pages/{DAYS[1]}.html" in said
    assert f"scores/{DAYS[0]}" in nights.page(DAYS[1])
    assert nights.run(DAYS[2])[0] == cli.DONE
    assert nights.measures() == [f"scores/{DAYS[0]}"]
    nights.accept(DAYS[1])
    assert nights.run(DAYS[2])[0] == cli.DONE
    assert nights.measures() == [f"scores/{DAYS[1]}"]


def test_a_pinned_night_is_once_among_those_that_scores_are_reused_from(tmp_path, recorded):
    """With the link they would not be in the order of their dates: it has none in its name."""
    nights = Nights(tmp_path / "nights", recorded, "5")
    assert nights.run(DAYS[0])[0] == cli.DONE
    scoring, *_ = (nights.folder / "calls").read_text().splitlines()
    pattern = nights.folder / scoring.partition("--reuse latest:")[2]
    for at, day in enumerate(DAYS[1:3]):
        made = {"a": scored(np.full(9, 0.5))}
        made_run(nights.folder / "scores" / day, made, started=1.7e9 - at)
    nights.pin(DAYS[1])
    runs, _ = scoring_runs(str(pattern), "--reuse latest:")
    assert [run.root.rpartition("/")[2] for run in runs] == [*DAYS[1:3]]


def test_accepting_a_night_pins_it_and_the_page_says_so(tmp_path, recorded):
    nights = Nights(tmp_path / "nights", recorded, "553332")
    assert nights.statuses(*DAYS[:4]) == [0, 0, 4, 4]
    assert nights.pinned == DAYS[0]
    nights.accept(DAYS[2])
    assert nights.statuses(*DAYS[3:6]) == [0, 0, 4]
    assert nights.pinned == DAYS[2]
    for day in DAYS[3:6]:
        assert f"The pinned run is {DAYS[2]}, which was accepted." in nights.page(day)
    nights.pin(DAYS[0])  # by hand, later: it stays
    assert nights.run(DAYS[4])[0] == WORSE
    assert nights.pinned == DAYS[0]


def test_a_pinned_night_that_is_scored_again_must_be_good_again(tmp_path, recorded):
    nights = Nights(tmp_path / "nights", recorded, "55333")
    assert nights.statuses(*DAYS[:4]) == [0, 0, 4, 4]
    nights.accept(DAYS[3])
    assert nights.run(DAYS[4])[0] == cli.DONE
    assert nights.pinned == DAYS[3]
    assert nights.measures() == [f"scores/{DAYS[3]}"]  # once
    assert nights.run(DAYS[3])[0] == WORSE  # it is accepted no more
    status, said = nights.run(DAYS[4])
    assert status == cli.UNUSABLE
    assert f"scores/pinned is scores/{DAYS[3]}, which has no good verdict: run" in said
    nights.accept(DAYS[3])
    assert nights.run(DAYS[4])[0] == cli.DONE


def gone(nights):
    shutil.rmtree(nights.folder / "scores" / DAYS[0])


def unlinked(nights):
    (nights.folder / "scores" / "pinned").unlink()


def of_another_model(nights):
    (nights.folder / "scores" / DAYS[0] / "quality").write_text("5 b")


def without_verdict(nights):
    (nights.folder / "pages" / f"{DAYS[0]}.json").unlink()


PIN_FAULTS = {
    gone: "The run that scores/pinned leads to is gone.",
    unlinked: f"scores/pinned is gone: scores/{DAYS[2]} was compared with it.",
    of_another_model: f"The pinned run is {DAYS[0]}. The message above says why {DAYS[3]} cannot",
    without_verdict: f"scores/pinned is scores/{DAYS[0]}, which has no good verdict: run",
}


@pytest.mark.parametrize(
    ("fault", "words"), PIN_FAULTS.items(), ids=[fault.__name__ for fault in PIN_FAULTS]
)
def test_a_pin_that_cannot_be_used_ends_the_night_with_two_cures(tmp_path, recorded, fault, words):
    nights = Nights(tmp_path / "nights", recorded, "55555")
    assert nights.statuses(*DAYS[:3]) == [0, 0, 0]
    fault(nights)
    pinned = nights.pinned
    status, said = nights.run(DAYS[3])
    assert status == cli.UNUSABLE
    assert words in said
    assert (nights.pinned, nights.verdict(DAYS[3])) == (pinned, "no verdict")
    assert not (nights.folder / "pages" / f"{DAYS[3]}.html").exists()
    for begin, run_again, then in (("ln -sfn", DAYS[3], DAYS[2]), ("touch", DAYS[4], DAYS[3])):
        cured = copy(nights)
        cured.folder = shutil.copytree(nights.folder, tmp_path / run_again, symlinks=True)
        command = re.search(rf"\(({begin} .*?)\)", said)[1]
        subprocess.run(shlex.split(command), check=True, cwd=cured.folder)
        assert cured.run(run_again)[0] == cli.DONE
        assert cured.pinned == then


def test_a_pin_that_is_no_link_is_used_and_never_replaced(tmp_path, recorded):
    nights = Nights(tmp_path / "nights", recorded, "5535")
    assert nights.run(DAYS[0])[0] == cli.DONE
    shutil.copytree(nights.folder / "scores" / DAYS[0], nights.folder / "scores" / "pinned")
    assert nights.statuses(*DAYS[1:3]) == [cli.DONE, WORSE]
    assert nights.measures() == [f"scores/{DAYS[1]}", "scores/pinned"]
    assert "The pinned run is scores/pinned." in nights.page(DAYS[1])
    nights.accept(DAYS[2])
    status, said = nights.run(DAYS[3])
    assert status == cli.UNUSABLE
    assert f"scores/{DAYS[2]} was accepted, but scores/pinned is not a link: rename it." in said
    assert sorted(os.listdir(nights.folder / "scores" / "pinned")) == ["_SUCCESS", "quality"]
    (nights.folder / "scores" / "pinned").rename(nights.folder / "scores" / "of-before")
    assert nights.run(DAYS[3])[0] == cli.DONE
    assert nights.pinned == DAYS[2]


def test_a_change_of_the_model_is_accepted_like_a_loss(tmp_path, recorded):
    nights = Nights(tmp_path / "nights", recorded, ["5 a", "5 a", "5 b", "5 b", "4 b"])
    assert nights.statuses(*DAYS[:4]) == [0, 0, 2, 2]
    nights.accept(DAYS[2])
    assert nights.statuses(*DAYS[3:5]) == [0, 4]
    assert nights.pinned == DAYS[2]


def test_a_night_that_is_scored_again_must_be_accepted_again(tmp_path, recorded):
    nights = Nights(tmp_path / "nights", recorded, "534")
    assert nights.statuses(*DAYS[:2]) == [0, 4]
    accepted = nights.folder / "pages" / f"{DAYS[1]}.accepted"
    nights.accept(DAYS[1])
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
        nights.pin(DAYS[0])
    assert nights.run(DAYS[0], CLUSTER="doc", MISSING="0.2")[0] == cli.DONE
    calls = (nights.folder / "calls").read_text().splitlines()
    assert ["--max-missing-fraction" in call for call in calls] == [False, False]
    assert nights.run(DAYS[1], CLUSTER="a doc", MISSING="0.2")[0] == cli.DONE
    *_, compared, report = (nights.folder / "calls").read_text().splitlines()
    for call in (compared, report):
        assert "--cluster a doc" in call
        assert "--max-missing-fraction 0.2" in call
