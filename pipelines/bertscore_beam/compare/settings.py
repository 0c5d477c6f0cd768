"""Whether the scores of two runs may be compared: their signatures, field by field."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from bertscore_beam.metrics.table import format_signatures
from bertscore_beam.records.finished import FinishedRun, MetricSummary
from bertscore_core.errors import ConfigError, SignatureError
from bertscore_core.signature import Signature, moving_fields
from bertscore_core.specification import NOISE


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldDifference:
    """A field of the signatures in which two runs differ, with both values.

    `language` is the one whose scores it concerns; None in runs that score all rows alike.
    """

    field: str
    run: str
    against: str
    language: str | None = None

    @property
    def name(self) -> str:
        """The field, with the language where there is one."""
        return self.field if self.language is None else f"{self.field} ({self.language})"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsDifference:
    """How the settings of two runs differ.

    Attributes:
        moving: Fields that move scores, so that the scores cannot be compared.
        harmless: Fields that differ and move no score.
        noise: How far a score before rescaling may move without a reason, in the number formats of
            the runs.
    """

    moving: tuple[FieldDifference, ...] = ()
    harmless: tuple[FieldDifference, ...] = ()
    noise: float


def noise_of(dtype: str) -> float:
    """Return how far a score of a number format may move without a reason: with its batch."""
    return NOISE if dtype == "float32" else 4e-3


def stated_signatures(run: FinishedRun) -> dict[str | None, str]:
    """Return how the scores of a run were made, by language; under None if all were made alike."""
    summary = run.summary
    stated: dict[str | None, str | None] = {
        name: about.signature for name, about in summary.languages.items()
    }
    if not stated:
        stated = {None: summary.signature}
    return {name: text for name, text in stated.items() if text is not None}


def _signatures_of(run: FinishedRun) -> dict[str | None, Signature]:
    try:
        return {name: Signature.parse(text) for name, text in stated_signatures(run).items()}
    except SignatureError as error:
        raise ConfigError(
            f"the run in {run.folder.shown!r} cannot be compared: {error} Score it again."
        ) from error


def check_same_metrics(run: FinishedRun, against: FinishedRun, measures: Sequence[str]) -> None:
    """Check that metrics of two runs were made alike.

    Raises:
        ConfigError: They were not.
    """
    for name in measures:
        got, expected = (
            one.summary.metrics.get(name, MetricSummary()).sentence_signature
            for one in (run, against)
        )
        if isinstance(got, dict) and isinstance(expected, dict):  # by language
            differs = any(got[at] != expected[at] for at in {*got} & {*expected})
        else:
            differs = got != expected
        if differs:
            raise ConfigError(
                f"{name} of {run.folder.shown!r} and {against.folder.shown!r} cannot be compared: "
                f"got the signatures {_stated(got)!r} and {_stated(expected)!r}; expected the "
                "same. Score one of them again, or use --force."
            )


def _stated(signature: object) -> str:
    return format_signatures(signature) if isinstance(signature, (str, dict)) else "none"


def compare_settings(run: FinishedRun, against: FinishedRun) -> SettingsDifference:
    """Return the fields in which the settings of two runs differ.

    Where both have settings by language, each language is compared with itself. A run that scores
    all rows alike is compared with every language of the other.

    Raises:
        ConfigError: A run does not say how it was scored, or the two have no language in common.
    """
    mine, theirs = _signatures_of(run), _signatures_of(against)
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
    for language, run_signature, against_signature in pairs:
        moves = moving_fields(run_signature, against_signature)
        before, now = asdict(against_signature), asdict(run_signature)
        for field, value in now.items():
            if before[field] != value:
                difference = FieldDifference(
                    field=field, run=value, against=before[field], language=language
                )
                (moving if field in moves else harmless)[difference] = None
    return SettingsDifference(
        moving=tuple(moving),
        harmless=tuple(harmless),
        noise=max(noise_of(difference.dtype) for pair in pairs for difference in pair[1:]),
    )


def check_comparable(settings: SettingsDifference, run: str, against: str) -> None:
    """Check that no field differs that moves scores."""
    if settings.moving:
        raise ConfigError(
            f"the scores of {run!r} and {against!r} cannot be compared: they were made with other "
            f"settings. {describe_differences(settings.moving)}. Score one of them again with the "
            "settings of the other, or use --force to compare them anyway."
        )


def describe_differences(differences: tuple[FieldDifference, ...]) -> str:
    """Return fields with both values."""
    return "; ".join(
        f"{field.name}: got {field.run!r}; expected {field.against!r}, as in the other"
        for field in differences
    )


def _named(signatures: dict[str | None, Signature]) -> str:
    return ", ".join(str(name) for name in signatures) or "no language"
