"""Load a scorer: the one that options ask for, once a process."""

import gc
import logging
import os
import time
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from bertscore_beam.dump.languages import codes_first, language_name
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.listing import list_files
from bertscore_beam.files.paths import join
from bertscore_beam.files.read import exists, is_file, read_bytes
from bertscore_beam.options.declare import Options
from bertscore_beam.options.language_map import OTHERS
from bertscore_beam.options.row_options import EncoderOptions, RowOptions, TextOptions
from bertscore_beam.options.run_options import RunOptions
from bertscore_beam.run import activity
from bertscore_beam.run.folder import RUN_FILE, SUCCESS_FILE, OutputFolder
from bertscore_beam.run.output import event
from bertscore_beam.run.pool import ask
from bertscore_beam.run.publication import successful_run
from bertscore_core import baseline as tables
from bertscore_core.errors import BertScoreError, ConfigError, listed
from bertscore_core.model.resolve import ModelFiles, resolve_model
from bertscore_core.registry import (
    EMBEDDED_MODEL,
    TunedLayer,
    find_layer,
    find_model_spec,
    model_for_language,
    parse_layers,
)
from bertscore_core.scorer_config import ScorerConfig, Vocabulary, WorkerSettings, model_part

if TYPE_CHECKING:
    from bertscore_core.config import Settings
    from bertscore_core.model.device import DeviceQueue
    from bertscore_core.scorer import BertScorer

logger = logging.getLogger(__name__)

Settled = TypeVar("Settled")


def load_scorer(setting: WorkerSettings, queue: "DeviceQueue | None" = None) -> "BertScorer":
    """Load the scorer of a setting on a worker.

    Raises:
        ConfigError: This worker's backend has another version than the signature names.
    """
    started = time.monotonic()
    with activity.report_status("loading the model"):
        from bertscore_core.scorer import BertScorer  # here, since it takes seconds

        scorer = BertScorer(setting.config, queue=queue)
    own_backend, backend = scorer.settings.backend_version, setting.signature.backend
    if own_backend != backend:
        raise ConfigError(
            f"this worker runs the encoder on {own_backend}, and the job's scores are signed "
            f"{backend}; expected the same. Install the same version on launcher and workers, or "
            "choose torch (--backend torch)."
        )
    logger.info(
        event(
            "model_loaded",
            model=scorer.settings.files.name,
            device=scorer.encoder.device,
            backend=own_backend,
            seconds=round(time.monotonic() - started, 3),
        )
    )
    return scorer


def threads_in_environment() -> int | None:
    """Return the threads that `OMP_NUM_THREADS` gives a process; None without a usable number.

    It may be a list such as `4,2`, one number for each level of nested loops: the first counts.
    """
    threads = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(threads) if threads.isdecimal() and int(threads) > 0 else None


@cache
def freeze_gc() -> None:
    """Take what is loaded by now out of the sight of the garbage collector, once a process.

    The libraries of a worker are 600,000 objects. Now and then the collector would look at all of
    them, which holds up every thread for some 0.4 seconds, and a GPU with them. For processes that
    score and end, not for those of users: a cycle that becomes garbage later is not found.
    """
    gc.collect()
    gc.freeze()


def check_models(options: RunOptions) -> None:
    """Look for the models that options name, before torch and Beam take their seconds.

    Models of the registry that `models` names are left to the job: it may go on without them.

    Raises:
        UnknownModelError: One is nowhere.
        UnknownLanguageError: The language has no default model.
        ModelLoadError: The files of one cannot be used.
    """
    names = [name for name in getattr(options, "models", ()) if find_model_spec(name) is None]
    if isinstance(options, TextOptions):
        names.append(_model_name(options) or EMBEDDED_MODEL)
    for name in names:
        if name != EMBEDDED_MODEL:  # its digest would take a tenth of a second
            _model_files(options, name)


# From the options of a job to settings that all of its workers share, on the launcher.
#
# `threads` are those of each worker of this machine, as `Runner.threads` has them; None stands for
# workers elsewhere, of which nothing is known.


def scorer_config(options: TextOptions, threads: int | None) -> ScorerConfig:
    """Return how to score, or how to tokenize, from the options of a job.

    Raises:
        ConfigError: The file of a baseline or of layers cannot be read, or does not fit.
    """
    config = ScorerConfig(
        model=options.model,
        language=options.language,
        max_length=options.max_length,
        long_text=options.long_text,
        revision=options.revision,
    )
    if not isinstance(options, RowOptions):
        return config
    baseline = None
    if options.baseline is not None:
        baseline = tables.read_baseline(
            options.baseline,
            language=options.language,
            model=lambda: _model_files(options, _model_name(options)).name,
            idf=options.idf != "none",
            files=STORED_TABLES,
        )
    return replace(
        with_scoring(config, options, threads),
        num_layers=_layer(options),
        empty=options.empty,
        references="mean" if options.compares_samples else "best",
        strip_reasoning=options.strip_reasoning,
        idf=options.idf != "none",
        rescale=options.rescale,
        baseline=baseline,
    )


def with_scoring(
    config: ScorerConfig, options: EncoderOptions, threads: int | None
) -> ScorerConfig:
    """Return the config with the options that all scoring commands share.

    Raises:
        ConfigError: The batches, and so the scores, would depend on the unknown device of remote
            workers.
    """
    config = replace(
        config,
        dtype=options.dtype,
        device=_worker_device(options, threads),
        backend=options.backend,
        attention=options.attention,
        max_batch_tokens=options.max_batch_tokens,
        num_threads=threads,
        allow_pickle_weights=options.allow_pickle_weights,
    )
    return for_unseen_workers(config) if threads is None else config


def for_unseen_workers(config: ScorerConfig) -> ScorerConfig:
    """Choose the backend for workers whose device is not known.

    The signature names the backend, so all workers must use the same one: torch runs on every
    device.
    """
    if config.backend == "auto" and config.device != "cpu":
        return replace(config, backend="torch")
    return config


def settle_workers(
    config: ScorerConfig, threads: int | None, settled: "dict[ScorerConfig, Settings] | None" = None
) -> "Settings":
    """Settle a config on the launcher: all workers get the `config` of what it returns.

    Args:
        config: The config.
        threads: Of each worker; see above.
        settled: What was settled before, each model once, for all configs that share it.

    Raises:
        BertScoreError: The model, the layer or the device cannot be used.
    """
    # Here, since they import torch: it takes seconds.
    from bertscore_core.config import settle, share_model
    from bertscore_core.model.encoder import resolve_device

    model, settled = model_part(config), {} if settled is None else settled
    if model in settled:
        return share_model(settled[model], config)
    settings = settled[model] = settle(config)
    if threads is not None:
        resolve_device(config.device)
    return settings


def settle_each(
    languages: Iterable[str],
    settle: Callable[[str], Settled],
    skipped: Container[type[BertScoreError]] = (),
) -> tuple[dict[str, Settled], dict[str, BertScoreError]]:
    """Settle languages one by one, or all rows under "". Another process may do it.

    Args:
        languages: The languages.
        settle: Returns the setting of one.
        skipped: Types of the errors of a language with which the others can go on.

    Returns:
        The settings, and the errors of the languages that have none.

    Raises:
        BertScoreError: A language cannot be settled. The error has the same type, and names it.
    """
    settled: dict[str, Settled] = {}
    errors: dict[str, BertScoreError] = {}
    for language in languages:
        try:
            settled[language] = settle(language)
        except BertScoreError as error:
            if not language:
                raise
            if type(error) not in skipped:
                raise type(error)(f"language {language!r}: {error}") from error
            errors[language] = error
    return settled, errors


def nothing_settled(
    column: str | None, languages: Iterable[str], errors: Mapping[str, BertScoreError]
) -> ConfigError:
    """Return the error for a column of languages of which none is settled, with the first error."""
    shown = listed(map(language_name, codes_first(languages))) or "no rows"
    why = "".join(f" The first: {error}" for error in [*errors.values()][:1])
    return ConfigError(
        f"no language of the column {column!r} has a setting: got {shown}; "
        f"expected codes that are in --languages (also {OTHERS!r}) or that the registry knows. "
        f"Check --language-column and --languages.{why}"
    )


def describe_unknown_device(
    options: EncoderOptions, threads: int | None, setting: WorkerSettings
) -> str | None:
    """Say which backend was taken since the workers' device is not known, and what `cpu` changes.

    Returns:
        A sentence or two; None if the device or the backend was given.
    """
    is_chosen = options.device != "auto" or options.backend != "auto"
    if threads is not None or is_chosen or options.accelerator is not None:
        return None
    config = setting.config
    unseen = f"{config.backend}, which runs on every device: that of the workers is not known here"
    on_cpu = ask(_settled_backend, replace(config, device="cpu", backend="auto"))
    if on_cpu == config.backend:
        return f"{unseen}. With --device cpu it is the same."
    return (
        f"{unseen}. If they have no GPU, give --device cpu: it takes {on_cpu}, several times as "
        "fast there; scores move by some 4e-7, and the signature names it."
    )


def _settled_backend(config: ScorerConfig) -> str:
    from bertscore_core.config import settle

    return settle(config).backend


def vocabulary_of(config: ScorerConfig) -> Vocabulary:
    """Return the tokens of a configuration, of which neither layer nor backend need be known.

    Raises:
        BertScoreError: The model is not known, or its tokenizer cannot be used.
    """
    from bertscore_core.config import settle_tokenizer

    tokenizer = settle_tokenizer(config)
    return Vocabulary(
        config=config, tokenizer=tokenizer.fingerprint, max_length=tokenizer.max_length
    )


def _model_name(options: TextOptions) -> str | None:
    if options.model is not None or options.language is None:
        return options.model
    return model_for_language(options.language)


def _model_files(options: Options, name: str | None) -> ModelFiles:
    return resolve_model(
        name,
        revision=getattr(options, "revision", None),
        allow_pickle_weights=getattr(options, "allow_pickle_weights", False),
    )


def _layer(options: RowOptions) -> int | None:
    """Return the layer that was asked for, by its number or by a file; None for neither."""
    if options.num_layers is not None or options.registry is None:
        return options.num_layers
    shown = mask_credentials(options.registry)
    rows = read_layers(options.registry)
    if rows is None:
        raise ConfigError(
            f"there is no file of layers {shown!r}; expected what `bertscore-beam tune --registry "
            "FILE` writes. Check --registry."
        )
    model = _model_files(options, _model_name(options))
    return find_layer(rows, model.name, model.weights_digest(), shown).num_layers


def read_layers(path: str) -> list[TunedLayer] | None:
    """Read a file of layers; None if there is none.

    Raises:
        ConfigError: It is not such a file.
        OSError: It cannot be reached.
    """
    try:
        data = read_bytes(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except IsADirectoryError:
        data = b""
    return parse_layers(data, mask_credentials(path))


def _tables_of_run(path: str) -> list[str]:
    """List the tables below a folder; if it is that of a baseline run, this must be done."""
    names = [] if is_file(path) else list(list_files(path, suffix=tables.TABLE_SUFFIX))
    if names and exists(join(path, RUN_FILE)) and successful_run(OutputFolder(path)) is None:
        raise ConfigError(
            f"the baseline run in {mask_credentials(path)!r} is not done, or not for every "
            f"language: got no {SUCCESS_FILE} of it; expected one. Run its command again, or give "
            "the path of a table in it."
        )
    return names


STORED_TABLES = tables.TableFiles(names=_tables_of_run, read=read_bytes, shown=mask_credentials)
"""Files of tables on any file system."""


def _worker_device(options: EncoderOptions, threads: int | None) -> str:
    if options.device != "auto" or threads is not None:
        return options.device
    if options.accelerator is not None:
        return "cuda"
    if options.dtype != "float32":
        raise ConfigError(
            f"dtype {options.dtype} needs to know the workers' device: got device auto on a remote "
            "runner; expected cuda or cpu, which decides how large the batches are, and with them "
            "the third digit of scores in this format. Give --device cuda, or --device cpu."
        )
    return options.device
