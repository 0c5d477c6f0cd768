"""The plan of a run, kept in its folder: if no input has changed, none is opened to plan again."""

import json
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version

from bertscore_beam.dump.inputs import InputFile
from bertscore_beam.dump.lines import PARSER
from bertscore_beam.dump.plan import Plan
from bertscore_beam.dump.plan_file import plan_from_bytes, plan_to_bytes
from bertscore_beam.files.checked import digest_of
from bertscore_beam.run.folder import OutputFolder
from bertscore_core.errors import BertScoreError

PLANS_FOLDER = "_manifest/plans"


def kept_name(files: Sequence[InputFile], *settings: object) -> str | None:
    """Return the name of the plan of some files; None if one may change unnoticed."""
    if not all(file.version and file.trouble is None for file in files):
        return None
    known = [
        (file.path, file.size, file.version, file.root, file.input_format, file.partitions)
        for file in files
    ]
    text = json.dumps([version("bertscore-beam"), PARSER, settings, known], default=str)
    return f"{PLANS_FOLDER}/{digest_of(text)}.pq"


def read_kept(folder: OutputFolder, name: str | None, files: Sequence[InputFile]) -> Plan | None:
    """Return the plan that is kept of these files under a name; None without one.

    Whoever writes into the folder can write a plan. So no path in it is followed but those below
    the folder: files are named by their places among those of the command.
    """
    if name is None or (data := folder.read_if_there(name)) is None:
        return None
    try:
        plan = plan_from_bytes(data, name)
        splits = (
            replace(
                split,
                path=files[int(split.path)].path,
                data=split.data and folder.path(split.data),
                references=None,
            )
            for split in plan.splits
        )
        return replace(plan, splits=tuple(splits))
    except (BertScoreError, ValueError, IndexError):  # damaged: it is planned again
        return None


def keep_plan(
    folder: OutputFolder, name: str | None, plan: Plan, files: Sequence[InputFile]
) -> None:
    """Keep a plan for later runs, in the place of earlier ones, unless it is kept already.

    A plan with rejected files, or with splits that could not be counted, is not kept: they may be
    read later without a change that is seen.
    """
    earlier = [f"{PLANS_FOLDER}/{file}" for file in folder.files(PLANS_FOLDER)]
    is_whole = not plan.rejected_files and not plan.census.unread
    if name is not None and name not in earlier and is_whole:
        places = {file.path: str(place) for place, file in enumerate(files)}
        root = folder.path("").rstrip("/") + "/"
        splits = (
            replace(split, path=places[split.path], data=split.data.removeprefix(root))
            for split in plan.splits
        )
        folder.write(name, plan_to_bytes(replace(plan, splits=tuple(splits))))
    folder.delete(*(file for file in earlier if file != name))
