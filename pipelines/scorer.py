"""How to score, from the options of a job."""

from dataclasses import replace

from bertscore_core import (
    Baseline,
    BaselineNotFoundError,
    ConfigError,
    ScorerConfig,
    choose_table,
    model_for_language,
    parse_baseline,
)
from bertscore_core.baseline import CUSTOM, TABLE_SUFFIX, description_path, table_name
from bertscore_core.resolve import resolve_model
from pipelines.io.files import exists, is_file, join, list_files, mask_credentials, read_bytes
from pipelines.io.reach import reaching
from pipelines.neighbours import RUN_FILE
from pipelines.options import JobOptions, RunOptions, ScoreOptions
from pipelines.runners import is_local, threads_per_worker
from pipelines.success import SUCCESS_FILE, successful_run


def scorer_config(options: JobOptions) -> ScorerConfig:
    """Return how to score, from the options of a job.

    Raises:
        ConfigError: the baseline's file cannot be read, or is no such table.
    """
    config = ScorerConfig(
        model=options.model,
        language=options.lang,
        max_length=options.max_length,
        revision=options.revision,
        num_threads=threads_per_worker(options),
    )
    if not isinstance(options, ScoreOptions):
        return config
    baseline = None
    if options.baseline is not None:
        with reaching("baseline", options.baseline):
            baseline = _read_baseline(options, options.baseline)
    return replace(
        config,
        num_layers=options.num_layers,
        empty=options.empty,
        idf=options.idf != "none",
        rescale=options.rescale,
        baseline=baseline,
        dtype=options.dtype,
        device=worker_device(options, options.device, options.accelerator, options.dtype),
        backend=_backend(options),
        max_batch_tokens=options.max_batch_tokens,
        allow_pickle_weights=options.allow_pickle_weights,
    )


def _read_baseline(options: ScoreOptions, path: str) -> Baseline:
    """Read a table, or the one for the language and model from a folder of tables."""
    shown, name = mask_credentials(path), CUSTOM
    if not is_file(path) and (names := list_files(path, suffix=TABLE_SUFFIX)):
        if options.lang is None:
            raise BaselineNotFoundError(
                f"{shown} is a folder of baselines, and no language was given; expected one to "
                "choose a table by. Give --lang CODE, or the path of a table."
            )
        if exists(join(path, RUN_FILE)) and successful_run(path) is None:
            raise ConfigError(
                f"the baseline run in {shown!r} is not done, or not for every language: got no "
                f"{SUCCESS_FILE} of it; expected one. Run its command again, or give the path of "
                "a table in it."
            )
        files = resolve_model(
            options.model or model_for_language(options.lang),
            revision=options.revision,
            allow_pickle_weights=options.allow_pickle_weights,
        )
        below = choose_table(names, options.lang, files.name)
        path, name = join(path, below), table_name(below)
    try:
        text = read_bytes(path).decode()
    except IsADirectoryError as error:
        raise ConfigError(
            f"the folder of baselines {shown!r} holds no tables: got no file that ends in "
            f"{TABLE_SUFFIX}; expected LANGUAGE/MODEL{TABLE_SUFFIX}. Check --baseline, or make "
            "them with `bertscore-beam baseline`."
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"baseline {shown!r} cannot be read ({type(error).__name__}); expected a LAYER,P,R,F "
            "table, or a folder of them as LANGUAGE/MODEL.tsv. Check --baseline."
        ) from error
    beside = description_path(path)
    description = read_bytes(beside) if is_file(beside) else None
    return parse_baseline(text, mask_credentials(path), name=name, description=description)


def worker_device(options: RunOptions, device: str, accelerator: str | None, dtype: str) -> str:
    """Return the device of the workers, which decides the batches.

    Args:
        options: Of the job.
        device: Device asked for.
        accelerator: GPU that a remote runner is asked for.
        dtype: Number format of the matrix products.

    Raises:
        ConfigError: the batches, and with them the scores, would depend on what remote workers
            turn out to have.
    """
    if device != "auto" or is_local(options):
        return device
    if accelerator is not None:
        return "cuda"
    if dtype != "float32":
        raise ConfigError(
            f"dtype {dtype} needs to know the workers' device: got device auto on a remote runner; "
            "expected cuda or cpu, which decides how large the batches are, and with them the "
            "third digit of scores in this format. Give --device cuda, or --device cpu."
        )
    return device


def _backend(options: ScoreOptions) -> str:
    """Return the backend asked for; `auto` is torch where the workers' device cannot be seen."""
    far = not is_local(options) and options.device != "cpu"
    return "torch" if far and options.backend == "auto" else options.backend
