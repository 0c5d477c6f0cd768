"""Metrics as an option names them: those of libraries, and functions as package.module:name."""

import re

from bertscore_beam.dump.columns import METRIC_COLUMNS, METRICS, SCORES
from bertscore_beam.options.values import check_value

_FUNCTION = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


class MetricOptions:
    """Options with other metrics, named in `metrics`, and a column of sources for functions."""

    metrics: tuple[str, ...]
    source_column: str | None

    @property
    def chosen_metrics(self) -> tuple[str, ...]:
        """The metrics to compute."""
        return self.metrics

    @property
    def own_metrics(self) -> tuple[str, ...]:
        """Those that are functions of one's own, as package.module:name."""
        return tuple(name for name in self.chosen_metrics if ":" in name)

    @property
    def library_metrics(self) -> tuple[str, ...]:
        """The others."""
        return tuple(name for name in self.chosen_metrics if ":" not in name)

    @property
    def first_note(self) -> str:
        """Says that functions are imported, which may take long; "" if there are none."""
        return f"Importing {', '.join(self.own_metrics)} ..." if self.own_metrics else ""

    def _check_metric_names(self, more: str = "") -> None:
        """Check the names, and that a column of sources is given to a function.

        `more` says what else may be given in the place of names.

        Raises:
            ConfigError: They cannot be used.
        """
        names, functions = self.chosen_metrics, self.own_metrics
        check_value(
            "metrics",
            list(names),
            fine={*self.library_metrics} <= {*METRICS} and all(map(_FUNCTION.fullmatch, functions)),
            expected=f"names of {', '.join(METRICS)}, or functions as package.module:name{more}",
            cure="METEOR and CIDEr are not among them: they need Java, or a corpus of captions.",
        )
        shown = [name.rpartition(":")[2].casefold() for name in names]
        columns = (column.removeprefix("metric_") for column in METRIC_COLUMNS)
        ours = {*SCORES, *METRICS, *columns}  # in small letters
        taken = [
            metric
            for metric, name in zip(names, shown, strict=True)
            if shown.count(name) > 1 or (":" in metric and name in ours)
        ]
        check_value(
            "metrics",
            taken,
            fine=not taken,
            expected="names that no other metric or measure has, in whatever case",
            cure="Give each once, or give the function another name.",
        )
        check_value(
            "source_column",
            self.source_column,
            fine=self.source_column is None or bool(functions),
            expected="one only together with a function in --metrics that takes sources",
            cure="Leave it out.",
        )
