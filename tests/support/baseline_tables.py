"""Baseline tables with and without their descriptions, and their comparison as JSON."""

import json

import numpy as np

from bertscore_beam.baseline.baseline_tables import describe_layers
from bertscore_beam.cli.main import perform
from bertscore_beam.cli.show import OutputMode, printing
from bertscore_core.baseline import Baseline, baseline_path, find_baseline, format_baseline
from bertscore_core.stats.moments import HOST_BUCKETS, Moments

ROBERTA = find_baseline("en", "roberta-large").rows


def moments(seed: int, shift: float = 0.0, pairs: int = 2000, rows: int = 4) -> Moments:
    """Return the sums over scores of random pairs whose mean rises from layer to layer."""
    rng = np.random.default_rng(seed)
    both = rng.normal(0, 0.03, (rows, pairs, 1)) + np.linspace(0.5, 0.8, rows)[:, None, None]
    scores = both + shift + rng.normal(0, 0.01, (rows, pairs, 3))
    return Moments.of(scores.astype(np.float32), rng.integers(0, HOST_BUCKETS, (pairs, 2)))


def write_rows(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(format_baseline(Baseline(name="custom", rows=np.asarray(rows))))
    return path


def write_made(folder, found: Moments, language="en", model="roberta-large"):
    """Write a table and the description beside it, as the baseline job does."""
    path = write_rows(folder / baseline_path(language, model), found.means)
    description = {
        "language": language,
        "model": model,
        "pairs": found.num_pairs,
        "layers": describe_layers(found),
        "sample": {"hosts_known": found.knows_hosts},
    }
    path.with_suffix(".json").write_text(json.dumps(description))
    return path


def compared(capsys, *arguments):
    with printing(OutputMode(json=True)):
        assert perform(["baseline", "compare", *map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)
