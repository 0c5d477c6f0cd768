"""Other metrics on the same rows, kept in the folder beside the scores."""

import hashlib
import io
from collections.abc import Mapping

import numpy as np

from bertscore_beam.run.folder import MANIFEST_FOLDER
from bertscore_beam.tune.judgements import Judgements
from bertscore_beam.tune.lexical import LEXICAL_METRICS, LexicalMetrics
from bertscore_beam.tune.plan import TuneJob
from bertscore_core import known_languages
from bertscore_core.agreement.inputs import Doubles

METRIC_NAMES: Mapping[str, str] = dict(
    zip(("bleu", "chrf", "ter", "rouge-l"), LEXICAL_METRICS, strict=True)
)
"""The name of each metric by the name that the option gives it."""
OTHERS_FOLDER = f"{MANIFEST_FOLDER}/metrics"


def other_scores(job: TuneJob) -> dict[str, Doubles]:
    """Score the judgements with the other metrics that are asked for, each row on its own.

    Returns:
        Scores by the metric's name, higher for better texts. Shape (N,) each.
    """
    options, judgements = job.plan.options, job.plan.judgements
    wanted = [METRIC_NAMES[name] for name in options.chosen_metrics]
    languages = languages_of_rows(judgements, options.language)
    paths = [_path(judgements, languages, name) for name in wanted]
    kept = job.folder.read_if_there(*paths)
    missing = [name for name, data in zip(wanted, kept, strict=True) if data is None]
    if missing:
        job.say(f"Scoring {len(judgements):,} judgements with {', '.join(missing)} ...")
    found = {}
    for name, path, data in zip(wanted, paths, kept, strict=True):
        if data is None:
            buffer = io.BytesIO()
            np.save(buffer, _scores(judgements, languages, name))
            data = buffer.getvalue()
            job.folder.write(path, data)
        found[name] = np.load(io.BytesIO(data), allow_pickle=False)
    return found


def languages_of_rows(judgements: Judgements, language: str | None) -> tuple[str, ...]:
    """Return the language of each group: words are cut by it.

    Args:
        judgements: The rows.
        language: The language of all texts. None to take the name of a group: a code such as zh, or
            a direction of translation such as en-zh. "" for other names.
    """
    if language is not None:
        return (language,) * len(judgements.names)
    return tuple(map(_language_of, judgements.names))


def _language_of(name: str) -> str:
    codes = known_languages()
    if name.lower() in codes:
        return name
    source, _, target = name.lower().partition("-")
    return target if source in codes and target in codes else ""


def _path(judgements: Judgements, languages: tuple[str, ...], name: str) -> str:
    how = [LexicalMetrics(language, (name,)).signatures for language in languages]
    digest = hashlib.sha256(repr((judgements.texts_digest, how)).encode()).hexdigest()[:16]
    return f"{OTHERS_FOLDER}/{digest}.npy"


def _scores(judgements: Judgements, languages: tuple[str, ...], name: str) -> Doubles:
    """Return the scores of a metric. Shape (N,)."""
    values = np.full(len(judgements), np.nan)
    for group, language in enumerate(languages):
        rows = judgements.of_group(group)
        (values[rows],) = LexicalMetrics(language, (name,)).scores(
            [judgements.candidates[row] for row in rows],
            [judgements.references[row] for row in rows],
        )
    return values
