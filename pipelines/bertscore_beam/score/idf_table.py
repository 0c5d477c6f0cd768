"""The idf table of a scoring run: loaded, counted, or reused if no file has changed."""

from collections.abc import Iterable, Iterator
from contextlib import suppress

from bertscore_beam.dump.plan import Plan, shape_digest
from bertscore_beam.files.checked import digest_of, to_line
from bertscore_beam.idf.counting import Counting
from bertscore_beam.idf.idf_tables import IdfTables, SavedIdf, load_idf, note_path
from bertscore_beam.idf.owners import num_buckets
from bertscore_beam.records.records import IDF_FILE
from bertscore_beam.records.resume import CORPUS
from bertscore_beam.records.settings import SettingsByLanguage
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.phases import Items
from bertscore_beam.run.publication import WORK_FOLDER
from bertscore_beam.score.spec import ScoreSpec
from bertscore_beam.score.steps import SplitsWithIdf
from bertscore_core.errors import IdfError


def find_idf(
    folder: OutputFolder,
    files: Iterable[str],
    run: str,
    plan: Plan,
    column: str,
    settings: SettingsByLanguage,
) -> tuple[SavedIdf, str]:
    """Find out whether the table of the corpus must be counted.

    The table is counted once over the whole corpus, never over the rest that a resumed run has to
    score. An earlier table is valid if all files have the versions that were counted. The same
    references give the same table again.

    Args:
        folder: The output folder.
        files: Its files.
        run: Identifies the run: what it stages has a name of its own, since of two runs in a store
            the first to publish deletes what it has staged.
        plan: The plan.
        column: The column of references.
        settings: How the rows of each language are scored.

    Returns:
        The tables, and their name in the run's identity: that of the corpus, by its files and rows.
    """
    label = CORPUS if plan.is_estimated else f"{CORPUS}@{shape_digest(plan.splits, column)}"
    signed = [setting.signature.format() for setting in settings.by_language.values()]
    counted = {"plan": plan.digest, "label": label, "signatures": sorted(signed)}
    made = digest_of(to_line(counted), 16)
    start = f"{WORK_FOLDER}/idf-{made}-"
    staged = (name for name in files if name.startswith(start) and name.endswith(".npz"))
    for name in (IDF_FILE, *sorted(staged)) if plan.has_versions else ():
        path = folder.path(name)
        with suppress(IdfError):  # a missing or damaged table is counted again
            tables = load_idf(path)
            _check_complete(tables, plan, settings)
            if tables.corpus == plan.digest:
                return SavedIdf(path=path, name=name, fingerprint=tables.fingerprint), label
    name = f"{start}{run}.npz"
    return SavedIdf(path=folder.path(name), name=name, must_count=True), label


def _check_complete(tables: IdfTables, plan: Plan, settings: SettingsByLanguage) -> None:
    counted = {key.language for key in tables.tables}
    for language, setting in settings.by_language.items():
        tables.check_fits(setting.tokenizer, setting.max_length, language)
        if language not in counted and (
            language in plan.census.languages or not settings.by_column
        ):
            raise IdfError(f"no idf table of language {language!r}; expected one. Count again.")


def counting_of(spec: ScoreSpec) -> Counting:
    """Return what is counted for the idf tables of a run."""
    return Counting(
        vocabularies=spec.settings.by_language,
        fields=spec.fields,
        corpus=spec.corpus,
        buckets=num_buckets(spec.start.about_rows),
    )


def with_idf(chunks: Items, saved: SavedIdf, counted: IdfTables | None) -> Iterator[SplitsWithIdf]:
    """Yield chunks of splits with the name of the tables: each process reads them once."""
    if counted is not None:
        saved = saved.counted(counted)
    return (SplitsWithIdf(chunk, saved) for chunk in chunks(None))


def tables_of_run(spec: ScoreSpec) -> tuple[IdfTables | None, str]:
    """Return the idf tables of a run, and why they must not be used; "" if they may be.

    None without idf, and without usable tables.

    Raises:
        IdfError: They are not there any more, or others are in their place.
    """
    saved = spec.idf
    if not saved.must_count:
        return saved.load(), ""
    problem = spec.folder.read_json(note_path(saved.name)).get("problem")
    return (None, problem) if problem else (load_idf(saved.path), "")
