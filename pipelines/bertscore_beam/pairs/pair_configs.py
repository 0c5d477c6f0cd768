"""The configurations of pairs: one for all of them, or one for each language.

They are settled twice. Where the pipeline is built everything is checked that can be; each worker
settles them again, and reads the weight files: the signature of a result is that of its worker.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from bertscore_beam.idf.idf_tables import IdfTables, load_idf
from bertscore_beam.options.language_map import by_code
from bertscore_beam.records.settings import EVERY_LANGUAGE, SettingsByLanguage, check_own_baselines
from bertscore_beam.run.loading import for_unseen_workers, settle_each, settle_workers
from bertscore_beam.score.loaded_scorers import ModelMemory
from bertscore_core.config import Settings
from bertscore_core.errors import ConfigError
from bertscore_core.idf import IdfTable
from bertscore_core.scorer_config import ScorerConfig, as_config

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


def settings_here(
    configs: Mapping[str, ScorerConfig], idf: IdfTables | str | None
) -> tuple[SettingsByLanguage, IdfTables | None]:
    """Return the settings of pairs, signed as this process scores, and their idf tables.

    Reads the weight files.

    Raises:
        IdfError: An idf table cannot be read, is missing, or belongs to another tokenizer.
    """
    tables = load_idf(idf) if isinstance(idf, str) else idf
    settled = _settled(configs, tables)
    settings = SettingsByLanguage(
        by_language={language: own.for_workers() for language, own in settled.items()},
        rescaled=any(config.rescale for config in configs.values()),
    )
    return settings, tables


def settle_pairs(
    config: ConfigLike | ByLanguage, *, empty: str | None, idf: IdfTables | str | None
) -> dict[str, ScorerConfig]:
    """Check configurations, and settle what could differ between workers.

    Returns:
        The configuration of each language; the sole one is under `EVERY_LANGUAGE`.
    """
    given: Mapping[str, ConfigLike] = (
        by_code(config.configs, "configs", example="{'en': 'roberta-large'}")
        if isinstance(config, ByLanguage)
        else {EVERY_LANGUAGE: config}
    )
    configs = {
        language: _for_workers(as_config(stated), language, empty, has_idf=idf is not None)
        for language, stated in given.items()
    }
    for name in ("rescale", "strip_reasoning"):
        if len({getattr(stated, name) for stated in configs.values()}) > 1:
            raise ConfigError(
                f"{name} is set for some languages and not for others: got both; expected one of "
                f"them, since their scores are in one column. Set {name} for all, or for none."
            )
    settled = _settled(configs, idf)
    if isinstance(config, ByLanguage) and not config.allow_shared_baseline:
        check_own_baselines({name: own.config for name, own in settled.items()})
    return {language: settings.config for language, settings in settled.items()}


def _for_workers(
    config: ScorerConfig, language: str, empty: str | None, *, has_idf: bool
) -> ScorerConfig:
    if config.all_layers:
        raise ConfigError(
            "a pair has one score here: got all_layers; expected a single layer. Give num_layers."
        )
    if config.idf and not has_idf:
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
    if None not in (config.empty, empty) and config.empty != empty:
        raise ConfigError(
            f"the rule for empty texts is given twice: got empty={empty!r}, and {config.empty!r} "
            "in the configuration; expected one. Leave one of them out."
        )
    return for_unseen_workers(
        replace(
            config,
            language=config.language or language or None,  # it chooses what is left out
            empty=empty or config.empty or "zero",
            idf=has_idf,
        )
    )


def _settled(
    configs: Mapping[str, ScorerConfig], idf: IdfTables | str | None
) -> dict[str, Settings]:
    """Settle configurations, each model once, and check that idf tables fit if they are known."""
    models: dict[ScorerConfig, Settings] = {}

    def settle(language: str) -> Settings:
        settings = settle_workers(configs[language], None, models)
        if isinstance(idf, IdfTables):
            table, tokenizer = idf.for_language(language).only("the idf"), settings.tokenizer
            table.check_fits(tokenizer.fingerprint, tokenizer.max_length)
        return settings

    return settle_each(configs, settle)[0]
