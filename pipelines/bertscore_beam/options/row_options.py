"""Options of how rows are scored, wherever: in jobs, in tables of other engines, one by one."""

import dataclasses
import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

from bertscore_beam.dump.columns import CANDIDATE, TableFields
from bertscore_beam.dump.languages import NO_LANGUAGE, is_code
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.options.declare import Columns, Flag, Options
from bertscore_beam.options.language_map import (
    LanguageMap,
    MaxLength,
    Revision,
    find_language,
    language_map,
)
from bertscore_beam.options.values import check_value
from bertscore_core.errors import ConfigError

DEVICE = re.compile(r"auto|cpu|mps|cuda(:\d+)?")
ACCELERATOR = re.compile(r"type:[\w-]+;count:[1-9]\d*(;[\w.-]+(:[\w.-]+)?)*")
IDF_WORDS = ("none", "corpus")

StripReasoning: TypeAlias = Annotated[
    bool,
    "Take the reasoning of a model, such as <think>...</think>, off the candidates before they are "
    "scored. The output has the texts as they were.",
]


@dataclass(frozen=True, kw_only=True)
class TextOptions(Options):
    """Options of how texts become tokens, and which references idf counts."""

    model: Annotated[
        str | None,
        Flag(short="-m"),
        "Hub id, local folder or registry name; by default the model for the language, or the "
        "embedded model if no language is given.",
    ] = None
    language: Annotated[
        str | None,
        Flag(also=("lang",)),
        "Language of the texts; it chooses the model and the baseline.",
    ] = None
    language_column: Annotated[
        str | None,
        "Column of language codes, such as en or zh. Each row is scored with the model, layer, "
        "baseline and idf table of its language.",
    ] = None
    languages: Annotated[
        LanguageMap | None,
        Flag(metavar="FILE"),
        "What each language is scored with, as a mapping of language codes to model, num_layers, "
        "revision, max_length and baseline, or the path of a YAML file with one; `*` is for every "
        "language that is not named. By default the registry's choice for each language.",
    ] = None
    reference_column: Annotated[
        str,
        "Column of the references: a text or a list of texts in each row. A dotted path "
        "(`response.text`) leads into nested columns.",
    ] = "reference"
    idf_key: Annotated[
        Columns,
        "Columns that identify a reference. Rows that are equal in them count once for idf, such "
        "as those of several systems on one test set.",
    ] = ()
    idf_group: Annotated[
        Columns,
        "Columns that name the test set of a row. Each test set has its own idf table, and keys "
        "are compared within it.",
    ] = ()
    max_length: MaxLength = None
    long_text: Annotated[
        Literal["truncate", "error", "windows"],
        "What is done with a longer text: `truncate` cuts it; `error` rejects its row for the "
        "reason `too_long`; `windows` scores all of it, in overlapping windows of `max_length` "
        "tokens.",
    ] = "truncate"
    revision: Revision = None

    def __post_init__(self) -> None:
        """Check combinations of options as well."""
        super().__post_init__()
        columns = (*self.idf_key, *self.idf_group)
        check_value(
            "idf_key and idf_group",
            columns,
            fine=len(set(columns)) == len(columns),
            expected="each column once",
            cure="Keys are compared within their group: leave its columns out of the key.",
        )
        self._check_languages()

    def _check_languages(self) -> None:
        if self.language_column is None:
            self._check(
                "languages",
                self.languages is None,
                "it only together with --language-column",
                "Add --language-column NAME, or leave it out.",
            )
            return
        self._check(
            "language",
            self.language is None,
            "none together with --language-column, which gives each row its own",
            "Leave one of the two out.",
        )
        for name in ("num_layers", "revision"):
            if self.model is None and getattr(self, name, None) is not None:
                self._check(
                    name,
                    False,
                    "it only together with --model, since each model has its own",
                    "Give it for each language in --languages, or leave it out.",
                )

    @property
    def table_fields(self) -> TableFields:
        """The columns of texts, and those that say how rows are scored and counted."""
        return TableFields(
            reference_column=self.reference_column,
            key=self.idf_key,
            group=self.idf_group,
            language=self.language_column,
        )

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any], source: str) -> Self:
        """Make options from keys and values; see `RunOptions.from_mapping`."""
        values = dict(mapping)
        if values.get("languages") is not None:
            values["languages"] = language_map(values["languages"], source)
        return super().from_mapping(values, source)

    def by_language(self, languages: Iterable[str]) -> dict[str, Self]:
        """Return the options for the rows of some languages; those of all rows under "".

        What is no code, and what the mapping has no entry for, is left out.
        """
        if self.language_column is None:
            return {NO_LANGUAGE: self}
        found = {}
        names = {f.name for f in dataclasses.fields(self)}  # counting idf needs no layer
        for language in filter(is_code, languages):
            if (entry := find_language(self.languages, language)) is not None:
                own = {name: value for name, value in entry.given().items() if name in names}
                found[language] = dataclasses.replace(
                    self, language=language, language_column=None, languages=None, **own
                )
        return found


@dataclass(frozen=True, kw_only=True)
class EncoderOptions(Options):
    """Options of an encoder on a device."""

    dtype: Annotated[
        Literal["auto", "float32", "bfloat16", "float16"],
        "Number format of the encoder. `auto` takes float32 on a CPU, and on a GPU what is fast "
        "and holds the model's numbers: float16 for BERT, RoBERTa and similar models, bfloat16 for "
        "others (float32 where the GPU lacks it). In 16 bits a baseline can be wrong by up to "
        "2e-4, which is more than its standard error says: make a baseline in the number format in "
        "which you will score.",
    ] = "float32"
    device: Annotated[str, "Where the encoder runs: `auto`, `cpu`, `mps`, `cuda` or `cuda:N`."] = (
        "auto"
    )
    accelerator: Annotated[
        str | None,
        "GPU to ask a remote runner for, only for the step that scores, in the form of Beam's "
        "resource hint: `type:nvidia-l4;count:1;install-nvidia-driver:5xx`.",
    ] = None
    backend: Annotated[
        Literal["auto", "torch", "openvino"],
        "What runs the encoder: `torch`; `openvino` (CPU only, needs the extra of that name); or "
        "`auto`, which takes OpenVINO on CPUs and architectures where it is known to work well, "
        "and torch elsewhere. Where the devices of the workers are not known in advance, `auto` "
        "takes torch, unless the device is `cpu`.",
    ] = "auto"
    attention: Annotated[
        Literal["auto", "sdpa"],
        "How torch computes attention. `auto` lays texts end to end on a GPU, without padding, for "
        "models that allow it; `sdpa` pads them.",
    ] = "auto"
    max_batch_tokens: Annotated[
        int | None,
        Flag(least=1),
        "Most padded tokens in one forward pass; by default it depends on the device.",
    ] = None
    allow_pickle_weights: Annotated[
        bool,
        "Load weights that are not in the safetensors format. Such files can run code when they "
        "are loaded.",
    ] = False

    def __post_init__(self) -> None:
        """Check the device and the accelerator as well."""
        super().__post_init__()
        self._check(
            "device",
            DEVICE.fullmatch(self.device) is not None,
            "auto, cpu, mps, cuda or cuda:N",
            "Leave it out to use a GPU when there is one.",
        )
        # A runner ignores a resource hint that it does not understand, and then gives no GPU.
        self._check(
            "accelerator",
            self.accelerator is None or ACCELERATOR.fullmatch(self.accelerator) is not None,
            "type:NAME;count:NUMBER, and further words of the runner after semicolons",
            "For one L4 on Dataflow write 'type:nvidia-l4;count:1;install-nvidia-driver:5xx'.",
        )


@dataclass(frozen=True, kw_only=True)
class RowOptions(EncoderOptions, TextOptions):
    """Options of how rows are scored."""

    compares_samples: ClassVar[bool] = False
    """Whether the references of a candidate are the others of its row."""

    candidate_column: Annotated[
        tuple[str, ...],
        Flag(metavar="COLUMN"),
        "Column of the candidates, by name or by a path into nested columns, such as "
        "choices[0].message.content. With a list of texts in each row, or with the names of "
        "several columns, each candidate becomes a row.",
    ] = ("candidate",)
    num_layers: Annotated[
        int | None,
        Flag(short="-l", metavar="N", least=0),
        "Layer whose embeddings are compared; by default the registry's for the model.",
    ] = None
    registry: Annotated[
        str | None,
        "File of layers that `bertscore-beam tune` wrote: the layer of a model is taken from it, "
        "unless `num_layers` says another.",
    ] = None
    idf: Annotated[
        str, "`none`; `corpus` to count over all references first; or the path of a saved table."
    ] = "none"
    rescale: Annotated[
        bool, "Rescale the scores with the baseline for the language, model and layer."
    ] = False
    baseline: Annotated[
        str | None,
        "Table to rescale with instead of a published one; or a folder of tables, as "
        "`bertscore-beam baseline` makes it, where language, model and layer choose the table.",
    ] = None
    allow_shared_baseline: Annotated[
        bool,
        "Allow that several languages of one run are rescaled with the same table. Their rescaled "
        "scores then cannot be compared with each other.",
    ] = False
    model_memory: Annotated[
        int | None,
        Flag(least=1),
        "Most bytes of model weights that a worker keeps loaded, in a run with several models; the "
        "one that was used longest ago goes first. By default half the memory of the device, "
        "divided by the workers of this machine.",
    ] = None
    empty: Annotated[
        Literal["zero", "null", "reference"],
        "Score of a pair with an empty candidate or reference: `zero` for 0 before rescaling, "
        "whatever the model; `null` for none; `reference` for the score of the reference "
        "implementation, which is 0 for BERT and similar models. The reason is always written.",
    ] = "zero"
    strip_reasoning: StripReasoning = False

    def __post_init__(self) -> None:
        """Check combinations of options as well."""
        super().__post_init__()
        others: set[str] = set() if self.compares_samples else {self.reference_column}
        if len(self.candidate_column) > 1:  # they are not columns of the output
            others |= {*self.idf_key, *self.idf_group, str(self.language_column)}
        check_value(
            "candidate_column",
            self.candidate_column if len(self.candidate_column) != 1 else self.candidate_column[0],
            fine=len(set(self.candidate_column)) == len(self.candidate_column)
            and others.isdisjoint(self.candidate_column),
            expected="a column that is not also the reference column or a key; of several columns "
            "each once",
            cure="Texts compared with themselves all score 1.",
        )
        self._check_idf()
        self._check_rescale()

    @property
    def table_fields(self) -> TableFields:
        """The columns of texts, and those that say how rows are scored and counted."""
        names, fields = self.candidate_column, super().table_fields
        several = names if len(names) > 1 else ()
        return dataclasses.replace(
            fields,
            candidate_column=CANDIDATE if several else names[0],
            reference_column=names[0] if self.compares_samples else fields.reference_column,
            compares_samples=self.compares_samples,
            several=several,
            strip_reasoning=self.strip_reasoning,
        )

    def _check_idf(self) -> None:
        near = difflib.get_close_matches(self.idf, IDF_WORDS, n=1)
        self._check(  # a word that is not known and does not look like a path is likely a typo
            "idf",
            self.idf in IDF_WORDS or "/" in self.idf or "." in self.idf,
            "'none', 'corpus' or the path of a table saved by `bertscore-beam idf`",
            f"Did you mean {near[0]!r}?" if near else "Write a file of this folder as ./name.",
        )
        self._check(
            "idf_key",
            self.idf == "corpus" or not self.idf_key,
            "a key only together with --idf corpus",
            "A saved table was counted before: give the key to `bertscore-beam idf`.",
        )
        self._check(
            "idf_group",
            self.idf != "none" or not self.idf_group,
            "groups only together with idf",
            "Add --idf corpus, or leave --idf-group out.",
        )

    def _check_rescale(self) -> None:
        by_language = self.language is not None or self.language_column is not None
        if self.rescale and not by_language and self.baseline is None:
            raise ConfigError(
                "--rescale needs a baseline: got neither a language, which chooses a published "
                "one, nor a table of your own; expected one of them. Add --language CODE or "
                "--baseline PATH."
            )
        entries = (self.languages or {}).items()
        given = {f"baseline of {language}": entry.baseline for language, entry in entries}
        for name, baseline in {"baseline": self.baseline, **given}.items():
            check_value(
                name,
                mask_credentials(baseline or ""),
                fine=self.rescale or baseline is None,
                expected="a baseline only together with rescale",
                cure="Add --rescale, or leave it out.",
            )
