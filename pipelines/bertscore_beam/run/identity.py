"""The identity of a run: the settings that two runs of one output folder must share."""

from collections.abc import Mapping
from typing import Any

from bertscore_beam.files.checked import digest_of, to_line
from bertscore_beam.run.folder import RUN_FILE, OutputFolder, read_run
from bertscore_core.errors import SignatureError


def identity_digest(identity: dict[str, str]) -> str:
    """Return the digest of a job's identity: 16 hexadecimal digits."""
    return digest_of(to_line(identity), 16)


def read_same_command(
    folder: OutputFolder, identity: Mapping[str, str], *, may_be_damaged: bool
) -> dict[str, Any] | None:
    """Read `_run.json`, and check that it is of the same command, even with --overwrite.

    Returns:
        None if there is none, or if it is damaged and may be.

    Raises:
        SignatureError: It is of another command, or damaged.
    """
    try:
        run = read_run(folder)
    except SignatureError:
        if may_be_damaged:
            return None
        raise
    before = (run or {}).get("identity")
    if isinstance(before, dict):
        earlier, command = (settings.get("command", "score") for settings in (before, identity))
        if earlier != command:
            raise SignatureError(
                f"{folder.shown!r} holds the output of `{earlier}`: expected a new folder, "
                f"or one of `{command}`. Choose another --output."
            )
    return run


_HINTS = {
    "idf": " (corpus@ is a digest of the input files' names and rows: with --idf corpus any change "
    "of them changes every score)",
    "sampling": " (version of the rule that takes the sample; samples of two rules do not mix)",
    "layout": " (of sentences; another version of this program began the folder)",
    "long_text": " (--long-text; None is the default, truncate)",
    "references": " (mean is what `select` writes, None what `score` does)",
    "backend": " (--backend; for openvino that version must be installed)",
}
"""Explanations of a difference, by field."""


def read_same_run(
    folder: OutputFolder, identity: Mapping[str, str], *, replaces: bool
) -> dict[str, Any] | None:
    """Read `_run.json`, and check that this run may continue what is there, or replaces it.

    Raises:
        SignatureError: As of `read_same_command`, and of `check_same_run` if nothing is replaced.
    """
    run = read_same_command(folder, identity, may_be_damaged=replaces)
    if not replaces:
        check_same_run(run, identity)
    return run


def check_same_run(previous_run: Mapping[str, Any] | None, identity: Mapping[str, str]) -> None:
    """Check that the scores in the output folder were made with the settings of this run.

    Raises:
        SignatureError: They were made with other settings; the message names the differences.
    """
    if previous_run is None:
        return
    before = previous_run.get("identity")
    if not isinstance(before, dict):
        raise SignatureError(
            f"{RUN_FILE} of the output folder does not say how its scores were made: got no "
            "identity; expected what an earlier run wrote. Choose another --output, or use "
            "--overwrite to start again."
        )
    names = sorted(before.keys() | identity.keys())
    lines = [
        f"  {name}: {before.get(name)!r} there, {identity.get(name)!r} now" + _HINTS.get(name, "")
        for name in names
        if before.get(name) != identity.get(name)
    ]
    if lines:
        raise SignatureError(
            "the output folder holds scores made with other settings: got these differences\n"
            + "\n".join(lines)
            + "\nexpected none. To continue that run, give its settings again; or choose another "
            "--output; or use --overwrite to replace the scores."
        )
