"""The packages that only `tune` needs; nothing that is slow to import is imported here."""

from importlib.util import find_spec

from bertscore_core.errors import ConfigError

EXTRA = ("scipy", "matplotlib", "sacrebleu", "rouge_score", "MeCab")
"""Packages of the extra `tune`, as they are imported; sacrebleu cuts Japanese with MeCab."""


def check_packages() -> None:
    """Check that the packages of the extra are there, before any work.

    Raises:
        ConfigError: One is missing.
    """
    missing = [name for name in EXTRA if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"tune needs packages that are not installed: got no {', '.join(missing)}; expected "
            "those of the extra 'tune'. Install it: pip install 'bertscore-beam[tune]'."
        )
