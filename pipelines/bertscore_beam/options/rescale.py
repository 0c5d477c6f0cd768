"""Options of `bertscore-beam rescale`."""

from dataclasses import dataclass

from bertscore_beam.options.base import RunOptions
from bertscore_beam.options.checks import check_value


@dataclass(frozen=True, kw_only=True)
class RescaleOptions(RunOptions):
    """Rescale a finished run with a baseline; no model is loaded.

    Attributes:
        run: Output folder of the run to rescale. It is only read.
        baseline: Table to rescale with; or a folder of tables, as `bertscore-beam baseline` makes
            it, where language, model and layer choose the table.
        language: Language that chooses a table of a folder; by default that of the run.
    """

    run: str
    baseline: str
    language: str | None = None

    def __post_init__(self) -> None:
        """Refuse options of other commands: there is no pipeline here."""
        super().__post_init__()
        self._check_texts("run", "baseline", "language")
        unused = {"workers": ("auto", 1), "restarts": (None,), "print_job": (False,), "beam": ((),)}
        for name, defaults in unused.items():
            value = getattr(self, name)
            check_value(
                name,
                value,
                fine=value in defaults,
                expected="nothing: a run is rescaled in this process, in seconds a million rows",
                cure="Leave it out.",
            )
