"""What must be equal for two runs to share an output folder, and the refusal where it is not."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from bertscore_core.errors import SignatureError
from bertscore_core.signature import Signature
from pipelines.io.files import mask_credentials
from pipelines.manifest import RUN_FILE, PartRecord, read_run
from pipelines.scoring import TableFields


def job_identity(signature: Signature, fields: TableFields) -> dict[str, str]:
    """Return everything that must be equal for two runs to share an output folder."""
    return {
        **asdict(signature),
        "candidate_column": fields.candidate_column,
        "reference_column": fields.reference_column,
    }


def identity_digest(identity: dict[str, str]) -> str:
    """Digest of a job's identity. 16 hexadecimal digits."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]


def check_same_command(output: str, identity: Mapping[str, str]) -> None:
    """Check that an output folder holds nothing of another command, which none may overwrite.

    Args:
        output: The folder.
        identity: As for `check_same_run`; that of a scoring job names no command.

    Raises:
        SignatureError: If it does.
    """
    try:
        before = (read_run(output) or {}).get("identity")
    except SignatureError:  # a damaged file says nothing
        return
    if not isinstance(before, dict):
        return
    there, here = (run.get("command", "score") for run in (before, identity))
    if there != here:
        raise SignatureError(
            f"{mask_credentials(output)!r} holds the output of `{there}`: expected a new folder, "
            f"or one of `{here}`. Choose another --output."
        )


def check_same_job(records: Iterable[PartRecord], job_digest: str) -> None:
    """Check that the parts were made as this run would make them, should the run's file be missing.

    Raises:
        SignatureError: If one was made otherwise.
    """
    other = [record.part_name for record in records if record.job_digest != job_digest]
    if other:
        raise SignatureError(
            f"the output folder holds scores made otherwise: got {len(other)} such parts, as "
            f"{other[0]!r}; expected none. Choose another --output, or use --overwrite to replace "
            "them."
        )


_HINTS = {
    "idf": " (corpus@ stands for the input files by name and rows: with --idf corpus any change of "
    "them moves every score)",
    "backend": " (--backend; for openvino that version must be installed)",
}
"""What is said to a difference in a field."""


def check_same_run(previous_run: Mapping[str, Any] | None, identity: Mapping[str, str]) -> None:
    """Check that scores in the output folder were made as this run would make them.

    Args:
        previous_run: What `read_run` returned.
        identity: Settings of this run that must be equal, by name.

    Raises:
        SignatureError: If they were made otherwise; the message names what differs.
    """
    if previous_run is None:
        return
    before = previous_run.get("identity")
    if not isinstance(before, dict):
        raise SignatureError(
            f"{RUN_FILE} of the output folder does not say how its scores were made: got no "
            "identity; expected what an earlier run wrote. Choose another --output, or use "
            "--overwrite to start afresh."
        )
    names = sorted(before.keys() | identity.keys())
    lines = [
        f"  {name}: {before.get(name)!r} there, {identity.get(name)!r} now" + _HINTS.get(name, "")
        for name in names
        if before.get(name) != identity.get(name)
    ]
    if lines:
        raise SignatureError(
            "the output folder holds scores made otherwise: got these differences\n"
            + "\n".join(lines)
            + "\nexpected none. To go on with that run, give its settings again; or choose another "
            "--output; or use --overwrite to replace the scores."
        )
