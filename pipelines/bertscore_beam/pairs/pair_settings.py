"""The settings of pairs: one for all of them, or one for each language.

They are settled twice. Where the pipeline is built everything is checked that can be; each worker
settles them again, and reads the weight files for the signatures.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from bertscore_beam.dump import is_code
from bertscore_beam.idf import IdfTables, load_idf
from bertscore_beam.records import EVERY_LANGUAGE, RowSetting, RunSettings, check_own_baselines
from bertscore_beam.run import for_unseen_workers
from bertscore_beam.score import ModelMemory
from bertscore_core import BertScoreError, ConfigError, IdfTable, ScorerConfig, Settings, settle
from bertscore_core.config import share_model
from bertscore_core.scorer_config import as_config, model_part

ConfigLike: TypeAlias = ScorerConfig | str | None
"""How to score, or the name of a model."""

Idf: TypeAlias = IdfTable | IdfTables | str | None
"""A table, the tables of languages, or the path of a file that holds either."""


@dataclass(frozen=True, kw_only=True)
class ByLanguage:
    """Score each pair by the configuration of its language.

    A pair of a language without a configuration, or of none, gets a reason and no scores.

    Attributes:
        field: Field of the language code of a pair.
        configs: How to score each language, or the name of its model; None for the registry's
            choice. What a configuration does not say comes from its language.
        allow_shared_baseline: Whether two languages may be rescaled with the same table.
        model_memory: How much memory the models of a worker may take.
    """

    field: str
    configs: Mapping[str, ConfigLike]
    allow_shared_baseline: bool = False
    model_memory: ModelMemory = dataclasses.field(
        default_factory=lambda: ModelMemory(processes=None)
    )


@dataclass(frozen=True, kw_only=True)
class PairSettings:
    """The configurations of the workers, with what could differ between workers settled.

    Attributes:
        configs: The configuration of each language; the sole one is under `EVERY_LANGUAGE`.
        backends: The backend of each, with its version, which the workers must have.
        by_field: Whether a field says the language of each pair.
    """

    configs: Mapping[str, ScorerConfig]
    backends: Mapping[str, str]
    by_field: bool

    @property
    def rescaled(self) -> bool:
        """Whether the scores are rescaled."""
        return any(config.rescale for config in self.configs.values())

    @property
    def windowed(self) -> bool:
        """Whether long texts are scored in windows."""
        return any(config.long_text == "windows" for config in self.configs.values())

    def on_worker(self) -> RunSettings:
        """Return the settings with their signatures. Reads the weight files."""
        by_language = {
            language: RowSetting(
                config=self.configs[language],
                signature=replace(settings.signature(), backend=self.backends[language]),
                max_length=settings.tokenizer.max_length,
                weight_bytes=settings.files.loaded_bytes(),
            )
            for language, settings in _settled(self.configs).items()
        }
        if not self.by_field:
            return RunSettings.of_all_rows(by_language[EVERY_LANGUAGE])
        return RunSettings(by_language=by_language, rescaled=self.rescaled)


def settle_pairs(config: ConfigLike | ByLanguage, *, empty: str | None, idf: Idf) -> PairSettings:
    """Check configurations, and settle what could differ between workers."""
    by_language: ByLanguage | None = None
    given: Mapping[str, ConfigLike]
    if isinstance(config, ByLanguage):
        by_language, given = config, _by_language(config.configs)
    else:
        given = {EVERY_LANGUAGE: config}
    configs = {
        language: _for_workers(_in_language(as_config(one), language), empty, idf)
        for language, one in given.items()
    }
    if len({one.rescale for one in configs.values()}) > 1:
        raise ConfigError(
            "some languages are rescaled and others are not: got both; expected one of them, "
            "since their scores are in one column. Set rescale for all, or for none."
        )
    settled = _settled(configs)
    if by_language and not by_language.allow_shared_baseline:
        check_own_baselines({language: one.baseline for language, one in settled.items()})
    if isinstance(idf, IdfTable):
        idf = IdfTables.of(idf)
    if isinstance(idf, IdfTables):
        check_idf(
            idf,
            {
                language: (one.tokenizer.fingerprint, one.tokenizer.max_length)
                for language, one in settled.items()
            },
        )
    return PairSettings(
        configs={
            language: replace(
                settings.config, backend=settings.backend, baseline=settings.baseline
            )  # the baseline has been read, so workers need not reach its file
            for language, settings in settled.items()
        },
        backends={language: settings.backend_version for language, settings in settled.items()},
        by_field=by_language is not None,
    )


def check_idf(tables: IdfTables, wanted: Mapping[str, tuple[str, int | None]]) -> None:
    """Check that there is one table for every language, and that it fits.

    `wanted` is the fingerprint of the tokenizer and the maximum length of each.
    """
    for language, (tokenizer, max_length) in wanted.items():
        source = f"the idf of language {language!r}" if language else "the idf"
        tables.for_language(language).only(source).check_fits(tokenizer, max_length)


def read_idf(idf: Idf) -> IdfTables | None:
    """Return idf tables as given, or read from a path."""
    if isinstance(idf, str):
        return load_idf(idf)
    return IdfTables.of(idf) if isinstance(idf, IdfTable) else idf


def _by_language(configs: Mapping[str, ConfigLike]) -> dict[str, ConfigLike]:
    by_language: dict[str, ConfigLike] = {}
    for key, config in configs.items():
        language = str(key).lower()
        if not is_code(language) or language in by_language:
            raise ConfigError(
                f"the mapping of languages cannot be used: got the key {key!r}; expected distinct "
                "language codes such as en or zh-cn."
            )
        by_language[language] = config
    if not by_language:
        raise ConfigError("the mapping of languages is empty; expected at least one language.")
    return by_language


def _in_language(config: ScorerConfig, language: str) -> ScorerConfig:
    """Return a configuration with its language, which chooses what it leaves out."""
    return replace(config, language=config.language or language or None)


def _for_workers(config: ScorerConfig, empty: str | None, idf: Idf) -> ScorerConfig:
    if config.all_layers:
        raise ConfigError(
            "a pair has one score here: got all_layers; expected a single layer. Give num_layers."
        )
    if config.idf and idf is None:
        raise ConfigError(
            "idf needs a table: got idf=True without one; expected document frequencies counted "
            "beforehand, since a stream has no end to count up to. Make a table with "
            "`bertscore-beam idf` and give its path as idf."
        )
    if config.dtype == config.device == "auto":
        raise ConfigError(
            "dtype auto needs to know the workers' device: got device auto; expected cuda or cpu, "
            "or a number format. Give one of them."
        )
    return for_unseen_workers(
        replace(config, empty=_empty_rule(config, empty), idf=idf is not None)
    )


def _empty_rule(config: ScorerConfig, empty: str | None) -> str:
    """Return the rule for empty texts; it can be given in two places."""
    if None not in (config.empty, empty) and config.empty != empty:
        raise ConfigError(
            f"the rule for empty texts is given twice: got empty={empty!r}, and {config.empty!r} "
            "in the configuration; expected one. Leave one of them out."
        )
    return empty or config.empty or "zero"


def _settled(configs: Mapping[str, ScorerConfig]) -> dict[str, Settings]:
    models: dict[ScorerConfig, Settings] = {}
    settled = {}
    for language, config in configs.items():
        model = model_part(config)
        try:
            if model in models:
                settled[language] = share_model(models[model], config)
            else:
                settled[language] = models[model] = settle(config)
        except BertScoreError as error:
            if language == EVERY_LANGUAGE:
                raise
            raise type(error)(f"language {language!r}: {error}") from error
    return settled
