"""What an output folder holds already, and whether a run may continue in it."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from bertscore_core.baseline import DESCRIPTION_SUFFIX, TABLE_SUFFIX, read_made_with
from bertscore_core.errors import SignatureError
from pipelines import manifest
from pipelines.baseline import layout
from pipelines.baseline.prepare import BaselineJob, BaselineModel, table_path
from pipelines.identity import check_same_command, check_same_run
from pipelines.io.files import join, list_files, read_bytes
from pipelines.neighbours import check_stands_alone
from pipelines.splits import HIDDEN_PREFIXES

_DATA = tuple(
    f"{folder}/"
    for folder in (
        layout.SENTENCES_FOLDER,
        layout.SAMPLE_FOLDER,
        layout.PAIRS_FOLDER,
        layout.MOMENTS_FOLDER,
    )
)


def check_folder(job: BaselineJob) -> dict[str, Any]:
    """Check that a run may continue in its output folder: nothing there would be lost.

    With `overwrite` only the output of another command is refused.

    Returns:
        What the earlier run wrote about itself; nothing if it did no more than that, like a
        mistyped command.

    Raises:
        ConfigError: the folder holds another run's folder, or is inside one.
        SignatureError: the folder is another command's, was begun with other settings, or holds
            tables of more pairs, or of other weights under the same name.
    """
    names = list_files(job.output)
    check_stands_alone(job.output, names)
    check_same_command(job.output, job.identity)
    if job.options.overwrite:
        return _run_to_overwrite(job.output)
    if not _holds_data(names):
        return {}
    before = manifest.read_run(job.output)
    check_same_run(before, job.identity)
    described = {stem: _read_json(job.output, stem + DESCRIPTION_SUFFIX) for stem in _tables(names)}
    for language in job.languages:
        of_language = [said for stem, said in described.items() if stem.startswith(f"{language}/")]
        _check_pairs(job, language, of_language)
        for model in job.models:
            _check_weights(model, table_path(language, model.name), described)
    return before or {}


def list_tables(output: str) -> list[str]:
    """Return the tables of an output folder, without their endings; a description lies beside."""
    return _tables(list_files(output))


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


def _run_to_overwrite(output: str) -> dict[str, Any]:
    """Return what the run before wrote about itself; what is damaged can be overwritten."""
    try:
        return manifest.read_run(output) or {}
    except SignatureError:
        return {}


def _check_pairs(job: BaselineJob, language: str, described: Iterable[Mapping[str, Any]]) -> None:
    """Check that no table or sum of more pairs would give way to one of fewer."""
    there = max([_scored_pairs(job.output, language), *map(_pairs_of, described)])
    wanted = job.options.pairs
    if there > wanted:
        raise SignatureError(
            f"the tables of {language} rest on more pairs than are asked for: got {there:,} there, "
            f"{wanted:,} now; expected no fewer, which would take their place. Choose another "
            f"--output, give --pairs {there} again, or use --overwrite to replace them."
        )


def _pairs_of(description: Mapping[str, Any]) -> int:
    """Return the pairs that a table was made from, with those that gave no score."""
    numbers = (description.get("pairs"), description.get("pairs_without_tokens"))
    return sum(number for number in numbers if isinstance(number, int))


def _scored_pairs(output: str, language: str) -> int:
    """Return the pairs of a language if any are scored, table or not."""
    sample = _read_json(output, layout.sample_record_path(language))
    pairs = _read_json(output, layout.pairs_record_path(language))
    if not pairs or pairs.get("sample") != sample.get("digest"):
        return 0
    scored = list_files(join(output, layout.MOMENTS_FOLDER, language))
    found = sample.get("found")
    return found // 2 if scored and isinstance(found, int) else 0


def _check_weights(
    model: BaselineModel, table: str, described: Mapping[str, Mapping[str, Any]]
) -> None:
    """Check that a table would not give way to one of another model with the same name."""
    description = described.get(table.removesuffix(TABLE_SUFFIX), {})
    made, now = read_made_with(json.dumps(description)), model.signature
    if made is None or made.weights == now.weights:
        return
    raise SignatureError(
        f"{table} was made by another model of that name: got weights {made.weights} there, "
        f"{now.weights} now; expected the same. Choose another --output, or use --overwrite to "
        "replace the table."
    )


def _read_json(output: str, name: str) -> dict[str, Any]:
    """Return what a file says; nothing if it is not there or damaged."""
    try:
        content = json.loads(read_bytes(join(output, name)))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
