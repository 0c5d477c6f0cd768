"""How certain it is that the sentences of a table are in its language."""

from collections.abc import Mapping
from typing import Any

from bertscore_beam.baseline.source import Source
from bertscore_beam.crawl.detection import CLOSE_LANGUAGES
from bertscore_beam.crawl.filters import DETECTORS_DISAGREE
from bertscore_beam.crawl.sentences import DETECTORS_AGREE, OF_VARIANT, REJECTED

UNCERTAIN_SHARE = 0.1
"""Share of the sentences on which two detectors disagree above which a table is called uncertain.
Those sentences are left out, but where many are in doubt, the ones that are kept are so, too."""


def describe_certainty(
    source: Source, language: str, counts: Mapping[str, int]
) -> dict[str, Any] | None:
    """Describe how the language of the sentences was detected; None if they were given.

    Args:
        source: Where the sentences come from.
        language: Their language.
        counts: What became of the sentences of all files.

    Returns:
        `detectors`: those asked. `disagreement`: the share of the sentences on which two disagreed,
        None if one was asked or there was no sentence. `uncertain`: whether too many were in doubt,
        or a second detector was missing. `traditional` for Chinese: the share of traditional
        characters' sentences among those that can be told.
    """
    if source.is_given:
        return None
    close, installed = language in CLOSE_LANGUAGES, source.rules.detectors
    agreed, disagreed = counts.get(DETECTORS_AGREE, 0), counts.get(REJECTED + DETECTORS_DISAGREE, 0)
    share = _share(disagreed, agreed)
    described = {
        "detectors": list(installed[:2] if close else installed[:1]),
        "close_to_others": close,
        "disagreement": share,
        "uncertain": close and (len(installed) < 2 or (share or 0.0) > UNCERTAIN_SHARE),
    }
    if language != "zh":
        return described
    variants = (counts.get(OF_VARIANT + name, 0) for name in ("traditional", "simplified"))
    return described | {"traditional": _share(*variants)}


def _share(part: int, rest: int) -> float | None:
    """Return the share of a part, None if there is nothing."""
    return round(part / (part + rest), 4) if part + rest else None
