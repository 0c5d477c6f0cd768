"""What is known of the rows of one language in a part."""

from dataclasses import dataclass

from bertscore_core.scores import ScoreSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageRows:
    """The rows of one language in a table.

    Attributes:
        label: Label of the setting they were scored with; "" without one.
        summary: Sums over them.
    """

    label: str
    summary: ScoreSummary
