"""Options of all jobs: frozen, checked when they are made, read from YAML and flags."""

import re
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, TypeAlias, TypeVar

from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.paths import is_missing
from bertscore_beam.files.reach import is_web
from bertscore_beam.options.declare import Flag, Options
from bertscore_beam.options.row_options import TextOptions
from bertscore_beam.options.values import check_value

STANDARD = "-"
"""Standard input and output, as other programs write them; a file of this name is ./-."""
_FILE = re.compile(
    r"\.(csv|tsv|jsonl|parquet|pq|json|ndjson|txt|xlsx|html|md|gz|zst|arrow|feather|npz)$", re.I
)
"""Names that nobody gives a folder."""

InputFormat: TypeAlias = Annotated[
    Literal["auto", "parquet", "jsonl", "csv", "tsv", "tsv-raw"],
    "Format of the files: `auto` goes by their names (.parquet, .jsonl, .ndjson, "
    ".json, .csv, .tsv; of text also with .gz or .zst); `tsv-raw` is a TSV in which quotes are "
    "ordinary characters.",
]


T = TypeVar("T")
Output: TypeAlias = Annotated[T, Flag(metavar="PATH", short="-o"), "Where the result is written."]


@dataclass(frozen=True, kw_only=True)
class RunOptions(Options):
    """Options of every command that runs a job."""

    may_detach: ClassVar[bool] = False
    may_write: ClassVar[tuple[str, ...] | None] = ()
    """Endings of files that the output may be in place of a folder; None if it is a file."""
    may_print: ClassVar[bool] = False
    """Whether the output may be standard output."""

    output: Output[str | None]
    workers: Annotated[
        int | Literal["auto"],
        Flag(least=1),
        "Number of worker processes; `auto` takes one for each GPU of this machine that scores "
        "here, and 1 where there is none.",
    ] = "auto"
    restarts: Annotated[
        int | None,
        Flag(least=0),
        "How many deaths of worker processes of this machine a run survives. After each one a new "
        "process tries again what the dead one was working on. By default 1. Most other runners "
        "replace their workers themselves.",
    ] = None
    threads: Annotated[
        int | None,
        Flag(least=1),
        "Threads of each worker process. By default the workers of this machine share its cores. "
        "Those of Dataflow have one, as there is a process for each core; with the experiment "
        "no_use_multiple_sdk_containers they have all, like those of other runners.",
    ] = None
    overwrite: Annotated[bool, "Replace results that were made with other settings."] = False
    dry_run: Annotated[bool, "Check everything, print the plan and stop."] = False
    keep_job: Annotated[
        bool,
        "Never cancel a job: neither when this command is interrupted, nor that of an earlier "
        "command that is still at work on the output. This command then ends with status 1.",
    ] = False
    beam: Annotated[
        tuple[str, ...], Flag(metavar="OPTION"), "Options for Beam, as Beam spells them."
    ] = ()

    def __post_init__(self) -> None:
        """Check the output as well."""
        super().__post_init__()
        output = self.output or ""
        check_value(
            "output",
            mask_credentials(output),
            fine=not is_web(output),
            expected="a place that can be written to",
            cure="Use a local folder, s3:// or gs://; http is for reading only.",
        )
        check_value(
            "output",
            output,
            fine=output != STANDARD or self.may_print,
            expected="a place that can be written to",
            cure="Only `score` prints its result. Give a name, or ./- if that is the name.",
        )
        if self.may_write is None:
            return
        *others, last = (f".{ending}" for ending in self.may_write or [""])
        files = f", or a file {', '.join(others)} or {last}" if others else ""
        name = mask_credentials(output)
        check_value(
            "output",
            name,
            fine=self.output_ending in ("", *self.may_write),
            expected=f"a folder{files}",
            cure=f"Choose {'one of them' if files else 'another name'}, or write {name}/ if that "
            "is to be the name of a folder.",
        )

    def check_input(self) -> None:
        """Refuse a local path that is not there now: before Beam and the model take their seconds.

        Raises:
            InputError: Nothing is there.
        """
        from bertscore_beam.dump.inputs import expand_inputs  # here, since it takes time to import

        for name in ("input", "judgements"):
            for path in filter(is_missing, getattr(self, name, ())):
                expand_inputs([path], input_format=getattr(self, "input_format", "auto"))

    def check_packages(self) -> None:
        """Raise `ConfigError` if a package that only this job needs is missing."""

    @property
    def output_ending(self) -> str:
        """The ending of the output if that is the name of a file, in small letters; "" if not."""
        found = _FILE.search(self.output or "")
        return "" if found is None else found[1].lower()

    @property
    def first_note(self) -> str:
        """What is said before the run is planned; "" for nothing."""
        return ""


@dataclass(frozen=True, kw_only=True)
class DumpOptions(TextOptions, RunOptions):
    """Options of every command that reads a dump."""

    input: Annotated[tuple[str, ...], Flag(short="-i"), "Files, folders or globs to read."]
    input_format: InputFormat = "auto"
    split_rows: Annotated[
        int | Literal["auto"],
        Flag(least=1),
        "Most rows in a split; about as many where a file is cut without being read. `auto` takes "
        "500 to 20,000, so that every worker gets several splits; a folder with an earlier run "
        "keeps the number of that run.",
    ] = "auto"
    # Nobody scores an empty dump on purpose: it means that something upstream is broken.
    min_rows: Annotated[
        int,
        Flag(least=0),
        "Fewest rows of input with which the job can succeed; 0 accepts an empty input.",
    ] = 1
