"""The records of a finished run as single files, as versions without packs have left them."""

import shutil
from pathlib import Path

from bertscore_beam.records.record import record_path
from bertscore_beam.records.records import PACKS_FOLDER, read_records
from bertscore_beam.run.folder import OutputFolder


def unpack(output: Path) -> None:
    """Turn the packs of a folder into a file for each record."""
    for record in read_records(OutputFolder(str(output))).values():
        path = output / record_path(record.part_name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(record.to_json())
    shutil.rmtree(output / PACKS_FOLDER, ignore_errors=True)
