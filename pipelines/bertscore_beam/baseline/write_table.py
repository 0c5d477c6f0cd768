"""Write the tables, and delete those that are out of date.

<model>.tsv    LAYER,P,R,F
<model>.json   its description, see `baseline.description`
<model>.png    how the scores of random pairs are distributed
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from bertscore_beam.baseline import layout
from bertscore_beam.baseline.description import describe_table
from bertscore_beam.baseline.plan import BaselineJob, BaselineModel
from bertscore_beam.baseline.records import PairsRecord, SampleRecord
from bertscore_beam.baseline.resume import list_tables
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.tables.picture import draw_distributions
from bertscore_core import IdfTable
from bertscore_core.baseline import DESCRIPTION_SUFFIX, TABLE_SUFFIX, format_baseline
from bertscore_core.moments import Moments

_PICTURE_SUFFIX = ".png"
_SUFFIXES = (TABLE_SUFFIX, _PICTURE_SUFFIX, DESCRIPTION_SUFFIX)


def write_table(
    job: BaselineJob,
    model: BaselineModel,
    sample: SampleRecord,
    pairs: PairsRecord,
    moments: Moments,
    idf: IdfTable | None,
) -> dict[str, Any]:
    """Write the three files of a language and model and return the description.

    Args:
        job: The run.
        model: The model.
        sample: The sample of the language.
        pairs: Its pairs.
        moments: The sums over their scores.
        idf: What tokens were weighed with; None for nothing.

    Raises:
        InputError: There is nothing to average, or the means are of no use.
        FolderLostError: The folder belongs to another run by now.
    """
    path = layout.table_path(pairs.language, model.name)
    stem = path.removesuffix(TABLE_SUFFIX)
    table = format_baseline(moments.baseline(path))
    title = f"{model.name}, {pairs.language}: {moments.num_pairs:,} random pairs"
    description = describe_table(job.plan, model, sample, pairs, moments, idf)
    text = json.dumps(description, indent=1, ensure_ascii=False)
    job.folder.write_all(
        {
            stem + _PICTURE_SUFFIX: draw_distributions(moments, title),
            stem + DESCRIPTION_SUFFIX: text.encode(),
            path: table.encode(),  # last: a table is never without its description
        }
    )
    return description


def delete_stale_tables(folder: OutputFolder, samples: Mapping[str, SampleRecord]) -> list[str]:
    """Delete the tables of languages that have another sample now.

    Returns:
        Those deleted, without their suffix.
    """
    stale = []
    for stem in list_tables(folder):
        sample = samples.get(stem.partition("/")[0])
        if sample is not None:
            said = json.loads(folder.read(stem + DESCRIPTION_SUFFIX))
            if said["sample"]["digest"] != sample.digest:
                stale.append(stem)
    _delete_tables(folder, stale)
    return stale


def delete_output(folder: OutputFolder) -> None:
    """Delete all that a baseline job writes, and what others are made of last."""
    _delete_tables(folder, list_tables(folder))
    for below in (
        layout.MOMENTS_FOLDER,
        layout.IDF_FOLDER,
        layout.PAIRS_FOLDER,
        layout.SAMPLE_FOLDER,
        layout.SENTENCES_FOLDER,
        layout.FETCHED_FOLDER,
        layout.FAILED_FOLDER,
    ):
        paths = [f"{below}/{name}" for name in folder.files(below)]
        records = [path for path in paths if path.endswith(".json")]
        folder.delete(*records)
        folder.delete(*(path for path in paths if not path.endswith(".json")))


def _delete_tables(folder: OutputFolder, stems: Sequence[str]) -> None:
    for suffix in _SUFFIXES:
        folder.delete(*(stem + suffix for stem in stems))
