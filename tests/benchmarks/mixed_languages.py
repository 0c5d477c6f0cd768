"""The cost of a mixed dump: five languages in one table, against a table for each.

    python -m tests.benchmarks.mixed_languages --rows 1000 --rounds 5

The same rows are scored with the same loaded models, in turns, and the CPU seconds of the scoring
step are compared: of the one table, and of the five together.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import pyarrow as pa

from bertscore_beam.dump.columns import IdfColumns, TableFields
from bertscore_beam.score.rows import score_table
from bertscore_beam.score.scorers import LoadedScorers
from bertscore_beam.score.settings import RowSetting, RunSettings
from bertscore_core import ScorerConfig, settle
from tests.support.mixed import LANGUAGES, mixed_table, of_language
from tests.support.tiny_models import build_tiny_model

TEXTS = TableFields(candidate_column="candidate", reference_column="reference")
WITH_LANGUAGE = TableFields(
    candidate_column="candidate",
    reference_column="reference",
    idf=IdfColumns(language="lang"),
)


def setting_of(**options: object) -> RowSetting:
    """Settle a setting on the CPU."""
    config = ScorerConfig(device="cpu", backend="torch", **options)  # type: ignore[arg-type]
    settled = settle(config)
    return RowSetting(
        config=config, signature=settled.signature(), max_length=settled.tokenizer.max_length
    )


def seconds_of(
    work: list[tuple[pa.Table, TableFields, RunSettings]], scorers: LoadedScorers
) -> float:
    """Return the CPU seconds of scoring some tables."""
    started = time.process_time()
    for table, fields, settings in work:
        score_table(scorers, table, fields, settings=settings, idf=None)
    return time.process_time() - started


def main() -> None:
    """Print the CPU seconds of both ways, and their ratio."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bert = build_tiny_model("bert", Path(folder) / "bert")
        roberta = build_tiny_model("roberta", Path(folder) / "roberta")
        embedded = setting_of(model="all-MiniLM-L6-v2")
        by_language = {
            "en": embedded,
            "de": setting_of(model=str(bert), num_layers=2),
            "zh": setting_of(model=str(roberta), num_layers=2),
            "fr": setting_of(model="all-MiniLM-L6-v2", num_layers=4),
            "ja": embedded,
        }
        table = mixed_table(chosen.rows)
        one = [(table, WITH_LANGUAGE, RunSettings(by_language=by_language))]
        five = [
            (of_language(table, name), TEXTS, RunSettings.of_all_rows(by_language[name]))
            for name in LANGUAGES
        ]
        scorers = LoadedScorers()
        seconds_of(one, scorers)  # loads the models
        found = [
            (seconds_of(one, scorers), seconds_of(five, scorers)) for _ in range(chosen.rounds)
        ]
    mixed, alone = (statistics.median(column) for column in zip(*found, strict=True))
    ratios = [first / second for first, second in found]
    print(f"one table: {mixed:.2f} s; five tables: {alone:.2f} s of CPU; {chosen.rows} rows")
    print(f"ratio: median {statistics.median(ratios):.3f}, {min(ratios):.3f} to {max(ratios):.3f}")


if __name__ == "__main__":
    main()
