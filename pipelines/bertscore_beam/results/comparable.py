"""Whether the scores of two runs may be compared: their signatures, field by field."""

from dataclasses import asdict

from bertscore_beam.results.comparison import FieldDifference, SettingsDifference
from bertscore_beam.score.finished import FinishedRun
from bertscore_core.errors import ConfigError, SignatureError
from bertscore_core.score_changes import moving_fields
from bertscore_core.signature import Signature


def noise_of(dtype: str) -> float:
    """Return how far a score may move without a reason: texts meet others in a batch.

    Args:
        dtype: The number format of its signature.
    """
    return 1e-6 if dtype == "float32" else 4e-3


def signatures_of(run: FinishedRun) -> dict[str | None, Signature]:
    """Return how the scores of a run were made, by language; under None if all were made alike.

    Raises:
        ConfigError: The run does not say.
    """
    languages = run.summary.get("languages")
    stated: dict[str | None, object] = (
        {name: about.get("signature") for name, about in languages.items()}
        if isinstance(languages, dict)
        else {None: run.summary.get("signature")}
    )
    try:
        return {
            name: Signature.parse(text) for name, text in stated.items() if isinstance(text, str)
        }
    except SignatureError as error:
        raise ConfigError(
            f"the run in {run.folder.shown!r} cannot be compared: {error} Score it again."
        ) from error


def compare_settings(run: FinishedRun, against: FinishedRun) -> SettingsDifference:
    """Return the fields in which the settings of two runs differ.

    Where both have settings by language, each language is compared with itself. A run that scores
    all rows alike is compared with every language of the other.

    Raises:
        ConfigError: A run does not say how it was scored, or the two have no language in common.
    """
    mine, theirs = signatures_of(run), signatures_of(against)
    pairs = [
        (name if name is not None else other, mine[name], theirs[other])
        for name in mine
        for other in theirs
        if name == other or name is None or other is None
    ]
    if not pairs:
        raise ConfigError(
            f"the runs cannot be compared: got {run.folder.shown!r} with scores of "
            f"{_named(mine)}, and {against.folder.shown!r} with those of {_named(theirs)}; "
            "expected a language in common. Name another run."
        )
    moving: dict[FieldDifference, None] = {}
    harmless: dict[FieldDifference, None] = {}
    for language, here, there in pairs:
        moves = moving_fields(here, there)
        before, now = asdict(there), asdict(here)
        for field, value in now.items():
            if before[field] != value:
                one = FieldDifference(
                    field=field, run=value, against=before[field], language=language
                )
                (moving if field in moves else harmless)[one] = None
    return SettingsDifference(
        moving=tuple(moving),
        harmless=tuple(harmless),
        noise=max(noise_of(one.dtype) for pair in pairs for one in pair[1:]),
    )


def check_comparable(settings: SettingsDifference, run: str, against: str) -> None:
    """Check that no field differs that moves scores.

    Raises:
        ConfigError: Some do; the message names them.
    """
    if settings.moving:
        raise ConfigError(
            f"the scores of {run!r} and {against!r} cannot be compared: they were made with other "
            f"settings. {in_words(settings.moving)}. Score one of them again with the settings of "
            "the other, or use --force to compare them all the same."
        )


def in_words(differences: tuple[FieldDifference, ...]) -> str:
    """Return fields with both values."""
    return "; ".join(
        f"{one.field}{'' if one.language is None else f' ({one.language})'}: got {one.run!r}; "
        f"expected {one.against!r}, as in the other"
        for one in differences
    )


def _named(signatures: dict[str | None, Signature]) -> str:
    return ", ".join(str(name) for name in signatures) or "no language"
