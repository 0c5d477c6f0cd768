"""How far a run has come, told from what its output folder holds."""

import re
from collections.abc import Mapping
from enum import StrEnum

from bertscore_beam.records import IDF_FILE
from bertscore_beam.run import RUN_FILE

_PART = re.compile(r"(?!_).*/part-\d{12,}\.parquet")


class Stage(StrEnum):
    """Stages of a run, in order.

    PLANNING ends when the run has written down what it will do, COUNTING when the idf table is
    there, SCORING when all parts are, FINISHING when the process ends.
    """

    PLANNING = "planning"
    COUNTING = "counting"
    SCORING = "scoring"
    FINISHING = "finishing"


STAGES = tuple(Stage)


def part_names(versions: Mapping[str, str]) -> list[str]:
    """Return the parts among the files of an output folder, in order."""
    return sorted(name for name in versions if _PART.fullmatch(name))


def stage_of(before: Mapping[str, str], now: Mapping[str, str], num_parts: int) -> Stage:
    """Tell the stage of a run.

    Args:
        before: Files and their versions when the command was started.
        now: The same now.
        num_parts: Parts of a whole output.
    """
    if RUN_FILE not in now or now[RUN_FILE] == before.get(RUN_FILE):
        return Stage.PLANNING
    if IDF_FILE not in now:
        return Stage.COUNTING
    return Stage.SCORING if len(part_names(now)) < num_parts else Stage.FINISHING


def stages_ahead(before: Mapping[str, str], num_parts: int) -> list[Stage]:
    """Return the stages a run will go through that finds these files."""
    ahead = [Stage.PLANNING]
    if IDF_FILE not in before:
        ahead.append(Stage.COUNTING)
    if len(part_names(before)) < num_parts:
        ahead.append(Stage.SCORING)
    return [*ahead, Stage.FINISHING]
