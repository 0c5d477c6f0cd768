"""The stage in which files of text become Parquet."""

from collections.abc import Sequence
from functools import partial

import apache_beam as beam

from bertscore_beam.dump.text.imports import IMPORTS_FOLDER, TextFile
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.import_text import ImportTexts
from bertscore_beam.run.progress import Amounts
from bertscore_beam.run.run_step import RunStep, Spread
from bertscore_beam.run.runner import Runner
from bertscore_beam.run.stage import Stage


def import_stage(texts: Sequence[TextFile], runner: Runner, folder: OutputFolder) -> Stage:
    """Return the stage that imports files of text into the folder of a run."""
    number = len(texts)
    files = "1 file" if number == 1 else f"{number:,} files"
    return Stage(
        name="import",
        runner=runner,
        build=partial(_build, texts=texts, folder=folder),
        words=f"turning {files} of text into Parquet",
        folder=IMPORTS_FOLDER,
        amounts=Amounts(
            (text.footer.removeprefix(f"{IMPORTS_FOLDER}/"), text.size) for text in texts
        ),
        unit="bytes of text",
    )


def _build(root: beam.Pipeline, *, texts: Sequence[TextFile], folder: OutputFolder) -> None:
    _ = (
        root
        | "Texts" >> beam.Create(texts)
        | "SpreadTexts" >> Spread()
        | "ImportTexts" >> beam.ParDo(RunStep(ImportTexts(folder)))
    )
