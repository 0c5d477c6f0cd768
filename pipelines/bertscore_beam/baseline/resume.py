"""What an output folder holds already, and whether a run may continue in it."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from bertscore_beam.baseline import layout
from bertscore_beam.baseline.plan import BaselineModel, BaselinePlan
from bertscore_beam.files.folders import HIDDEN_PREFIXES
from bertscore_beam.run.folder import OutputFolder, read_run
from bertscore_beam.run.identity import check_same_command, check_same_run
from bertscore_beam.run.neighbours import check_stands_alone
from bertscore_core.baseline import DESCRIPTION_SUFFIX, TABLE_SUFFIX, read_made_with
from bertscore_core.errors import SignatureError

_DATA = tuple(
    f"{folder}/"
    for folder in (
        layout.FETCHED_FOLDER,
        layout.SENTENCES_FOLDER,
        layout.SAMPLE_FOLDER,
        layout.PAIRS_FOLDER,
        layout.MOMENTS_FOLDER,
    )
)


def check_folder(plan: BaselinePlan, folder: OutputFolder) -> dict[str, Any]:
    """Check that a run may continue in its output folder: nothing in it would be lost.

    With `overwrite` only the output of another command is refused.

    Returns:
        What the earlier run wrote about itself; nothing if it made nothing else, such as a mistyped
        command.

    Raises:
        ConfigError: The folder holds another run's folder, or is inside one.
        SignatureError: The folder is another command's, was begun by another version or with other
            settings, or holds tables of more pairs, or of other weights under the same name.
    """
    names = folder.files()
    check_stands_alone(folder.root, names)
    check_same_command(folder, plan.identity)
    if plan.options.overwrite:
        return _run_to_overwrite(folder)
    if not _holds_data(names):
        return {}
    before = read_run(folder)
    _check_layout(folder, before)
    check_same_run(before, plan.identity)
    described = {stem: folder.read_json(stem + DESCRIPTION_SUFFIX) for stem in _tables(names)}
    for language in plan.source.languages:
        of_language = [said for stem, said in described.items() if stem.startswith(f"{language}/")]
        _check_pairs(folder, language, plan.options.pairs, of_language)
        for model in plan.models:
            _check_weights(model, layout.table_path(language, model.name), described)
    return before or {}


def _check_layout(folder: OutputFolder, before: Mapping[str, Any] | None) -> None:
    """Check that a folder was not written by a version that named its files otherwise.

    Raises:
        SignatureError: It was.
    """
    identity = (before or {}).get("identity")
    if isinstance(identity, dict) and identity.get("layout", "1") != layout.LAYOUT:
        raise SignatureError(
            f"{folder.shown!r} was begun by another version of this program, which laid out "
            f"sentences in another way: got layout {identity.get('layout', '1')}; expected "
            f"{layout.LAYOUT}. Choose another --output, or use --overwrite to start again: the "
            "files are read once more."
        )


def list_tables(folder: OutputFolder) -> list[str]:
    """Return the tables that have a description, without their suffix."""
    return _tables(folder.files())


def _tables(names: Mapping[str, int]) -> list[str]:
    shown = [name for name in names if not name.startswith(HIDDEN_PREFIXES)]
    stems = [name.removesuffix(TABLE_SUFFIX) for name in shown if name.endswith(TABLE_SUFFIX)]
    return [stem for stem in stems if f"{stem}{DESCRIPTION_SUFFIX}" in names]


def _holds_data(names: Mapping[str, int]) -> bool:
    """Tell whether there is anything to lose; sentences without a record count for nothing."""
    unfinished = f"{layout.SENTENCES_FOLDER}/"
    return bool(_tables(names)) or any(
        name.startswith(_DATA) and (not name.startswith(unfinished) or name.endswith(".json"))
        for name in names
    )


def _run_to_overwrite(folder: OutputFolder) -> dict[str, Any]:
    """Return what the earlier run wrote about itself; a damaged file can be overwritten."""
    try:
        return read_run(folder) or {}
    except SignatureError:
        return {}


def _check_pairs(
    folder: OutputFolder, language: str, wanted: int, described: Iterable[Mapping[str, Any]]
) -> None:
    """Check that no table or sum of more pairs would be replaced by one of fewer."""
    there = max([_scored_pairs(folder, language), *map(_pairs_of, described)])
    if there > wanted:
        raise SignatureError(
            f"the tables of {language} are of more pairs than are asked for: got {there:,} there, "
            f"{wanted:,} now; expected at least as many, since the new tables replace them. Choose "
            f"another --output, give --pairs {there} again, or use --overwrite to replace them."
        )


def _pairs_of(description: Mapping[str, Any]) -> int:
    """Return the pairs that a table was made from, and those that gave no score."""
    numbers = (description.get("pairs"), description.get("pairs_without_tokens"))
    return sum(number for number in numbers if isinstance(number, int))


def _scored_pairs(folder: OutputFolder, language: str) -> int:
    """Return the pairs of a language if any are scored, with or without a table."""
    sample = folder.read_json(layout.sample_record_path(language))
    pairs = folder.read_json(layout.pairs_record_path(language))
    if not pairs or pairs.get("sample") != sample.get("digest"):
        return 0
    scored = folder.files(f"{layout.MOMENTS_FOLDER}/{language}")
    found = sample.get("found")
    return found // 2 if scored and isinstance(found, int) else 0


def _check_weights(
    model: BaselineModel, table: str, described: Mapping[str, Mapping[str, Any]]
) -> None:
    """Check that a table would not be replaced by one of another model with the same name."""
    description = described.get(table.removesuffix(TABLE_SUFFIX), {})
    made, now = read_made_with(json.dumps(description)), model.signature
    if made is None or made.weights == now.weights:
        return
    raise SignatureError(
        f"{table} was made by another model of that name: got weights {made.weights} there, "
        f"{now.weights} now; expected the same. Choose another --output, or use --overwrite to "
        "replace the table."
    )
