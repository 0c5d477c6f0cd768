"""The idf table of a scoring run: loaded, counted, or reused if no file has changed."""

import uuid
from contextlib import suppress
from dataclasses import dataclass

import apache_beam as beam

from bertscore_beam.dump.plan import Plan, shape_digest
from bertscore_beam.dump.splits import RowGroupSplits
from bertscore_beam.files.checked import digest_of
from bertscore_beam.idf.count_phases import save_idf
from bertscore_beam.idf.counting import Counting, Vocabulary
from bertscore_beam.idf.idf_tables import IdfTables, SavedIdf, load_idf
from bertscore_beam.idf.owners import num_buckets
from bertscore_beam.idf.transforms import CountDocumentFrequencies
from bertscore_beam.records.records import IDF_FILE
from bertscore_beam.records.settings import SettingsByLanguage
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.publication import WORK_FOLDER
from bertscore_beam.run.run_step import ReadPlan, Spread
from bertscore_beam.score.spec import PLAN, IdfTablesFile, ScoreSpec
from bertscore_beam.score.steps import SplitsWithIdf
from bertscore_core.errors import IdfError


def find_idf(
    folder: OutputFolder, plan: Plan, column: str, settings: SettingsByLanguage
) -> IdfTablesFile:
    """Find out whether the table of the corpus must be counted.

    The table is counted once over the whole corpus, never over the rest that a resumed run has to
    score. An earlier table is valid if all files have the versions that were counted. The same
    references give the same table again. The run's identity names the corpus by its files and rows.
    """
    label = f"corpus@{shape_digest(plan.splits, column)}"
    signed = [setting.signature.format() for setting in settings.by_language.values()]
    made = digest_of(repr((plan.digest, label, sorted(signed))), 16)
    staged = f"{WORK_FOLDER}/idf-{made if plan.has_versions else uuid.uuid4().hex}.npz"
    for name in (IDF_FILE, staged) if plan.has_versions else ():
        path = folder.path(name)
        with suppress(IdfError):  # a missing or damaged table is counted again
            tables = load_idf(path)
            _check_complete(tables, plan, settings)
            if tables.corpus == plan.digest:
                found = tables.fingerprint
                return IdfTablesFile(path=path, name=name, fingerprint=found, label=label)
    path = folder.path(staged)
    return IdfTablesFile(path=path, name=staged, fingerprint=None, label=label)


def _check_complete(tables: IdfTables, plan: Plan, settings: SettingsByLanguage) -> None:
    counted = {key.language for key in tables.tables}
    for language, setting in settings.by_language.items():
        tables.check_fits(setting.signature.tokenizer, setting.max_length, language)
        if language not in counted and (
            language in plan.census.languages or not settings.by_column
        ):
            raise IdfError(f"no idf table of language {language!r}; expected one. Count again.")


def idf_table(root: beam.Pipeline, spec: ScoreSpec) -> beam.PCollection[IdfTables] | None:
    """Add the steps that load the idf tables, or count them."""
    file = spec.idf
    if file.path is None:
        return None
    if file.fingerprint is not None:
        # The run's identity names the tables: others in their place must not be used.
        saved = SavedIdf(path=file.path, fingerprint=file.fingerprint)
        return root | "IdfPath" >> beam.Create([saved]) | "LoadIdf" >> beam.Map(SavedIdf.load)
    vocabularies = {
        language: Vocabulary(
            config=setting.config,
            tokenizer=setting.signature.tokenizer,
            max_length=setting.max_length,
        )
        for language, setting in spec.settings.by_language.items()
    }
    counting = Counting(
        vocabularies=vocabularies,
        fields=spec.fields,
        corpus=spec.corpus,
        buckets=num_buckets(spec.start.about_rows),
    )
    return (
        root
        | "ReadPlan" >> ReadPlan(*spec.plan(PLAN), spec.num_chunks)
        | "Spread" >> Spread()
        | "CountDocumentFrequencies" >> CountDocumentFrequencies(counting)
        | "SaveIdf" >> beam.Map(save_idf, spec.folder, file.name)
    )


@dataclass
class WithIdf(beam.PTransform):
    """Chunks of splits -> SplitsWithIdf, once the idf tables are saved.

    The tables are a side input of this quick step and not of the long one that scores. While a
    stage with a side input has work, Prism (2.77) keeps a core busy with asking whether the side
    input is ready. And the tables are read once a process instead of once a bundle.
    """

    tables: beam.PCollection[IdfTables] | None
    path: str | None

    def expand(self, chunks: beam.PCollection[RowGroupSplits]) -> beam.PCollection[SplitsWithIdf]:
        """Name the tables beside every chunk."""
        if self.tables is None:
            return chunks | "NoIdf" >> beam.Map(SplitsWithIdf).with_output_types(SplitsWithIdf)
        saved = self.tables | "NameIdf" >> beam.Map(SavedIdf.of, self.path)
        named = beam.Map(SplitsWithIdf, beam.pvalue.AsSingleton(saved)).with_output_types(
            SplitsWithIdf
        )
        return chunks | "NameTables" >> named
