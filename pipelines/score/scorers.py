"""The scorers that a worker has loaded."""

from bertscore_core import BertScorer
from pipelines.score.settings import RowSetting
from pipelines.scorer import load_scorer


class LoadedScorers:
    """The model of RunInference: a scorer for each setting, loaded when it is first needed."""

    def __init__(self) -> None:
        """Begin without any."""
        self._scorers: dict[str, BertScorer] = {}

    def __call__(self, setting: RowSetting) -> BertScorer:
        """Return the scorer of a setting.

        Raises:
            ConfigError: This worker's backend has another version than the signature names.
        """
        name = setting.signature.format()
        if name not in self._scorers:
            self._scorers[name] = load_scorer(setting.config, setting.signature.backend)
        return self._scorers[name]
