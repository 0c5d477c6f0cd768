"""Describe a table: its errors, its checks, and where it comes from.

The description is the JSON file beside the table. It is the same for the same input.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from bertscore_beam.baseline.certainty import describe_certainty
from bertscore_beam.baseline.checks import check_moments
from bertscore_beam.baseline.plan import BaselineModel, BaselinePlan
from bertscore_beam.baseline.records import PairsRecord, SampleRecord
from bertscore_beam.crawl.overlap import Overlap, describe_overlap
from bertscore_core import IdfTable
from bertscore_core.moments import Moments

FORMAT = 2
"""Version 1 had `jackknife_error`, and its `standard_error` is `naive_error` now."""
MEASURES = ("precision", "recall", "f1")


def describe_table(
    plan: BaselinePlan,
    model: BaselineModel,
    sample: SampleRecord,
    pairs: PairsRecord,
    moments: Moments,
    idf: IdfTable | None,
) -> dict[str, Any]:
    """Describe a table in plain values."""
    options = plan.options
    signature = model.signature
    if idf is not None:
        signature = replace(signature, idf=idf.fingerprint)
    return {
        "format": FORMAT,
        "language": pairs.language,
        "model": model.name,
        "pairs": moments.num_pairs,
        "pairs_wanted": options.pairs,
        "pairs_without_tokens": pairs.rows - moments.num_pairs,
        "signature": signature.format(),
        "layers": describe_layers(moments),
        "checks": [asdict(check) for check in check_moments(moments)],
        "sample": {
            "seed": options.seed,
            "sentences": sample.found,
            "digest": sample.digest,
            "pairs_digest": pairs.digest,
            "overlap": describe_overlap(
                Overlap.merge(part.overlap for part in pairs.parts), pairs.language
            ),
            "hosts_known": moments.knows_hosts,
            "effective_hosts": _number(moments.effective_hosts),
            "same_host_pairs": sum(part.same_host for part in pairs.parts),
            "sentences_per_page": options.sentences_per_page,
            "sentences_per_host": sample.host_cap,
            "words": _summed(part.words for part in pairs.parts),
            "characters": _summed(part.characters for part in pairs.parts),
            "min_words": options.words.least,
            "max_words": options.words.most,
        },
        "source": {
            "name": plan.source.shown,
            "listing": sample.listing,
            "filters": None if options.sentences else json.loads(plan.identity["filters"]),
            "language_check": describe_certainty(plan.source, pairs.language, sample.counts),
            "files_listed": sample.listed,
            "first_files": sample.first_files,
            "max_files": sample.max_files,
            "retries": sample.retries,
            "records": sample.records,
            "records_broken": sample.records_broken,
            "counts": dict(sample.counts),
            "failed": [dict(note) for note in sample.failed],
            "files": [asdict(file) for file in sample.files],
        },
    }


def describe_layers(moments: Moments) -> list[dict[str, Any]]:
    """Return mean, errors and spread of every layer and measure."""
    means, errors = moments.means, moments.standard_errors
    naive, spread = moments.naive_errors, moments.deviations
    return [
        {"layer": layer}
        | {
            measure: {
                "mean": float(means[layer, index]),
                "standard_error": _number(errors[layer, index]),
                "naive_error": _number(naive[layer, index]),
                "standard_deviation": _number(spread[layer, index]),
            }
            for index, measure in enumerate(MEASURES)
        }
        | {
            "precision_minus_recall": {
                "mean": float(moments.gaps[layer]),
                "standard_error": _number(moments.gap_errors[layer]),
            },
            # F1 has no bound where precision and recall have opposite signs: it counts as 1 or -1.
            "f1_clipped": int(moments.clipped[layer]),
        }
        for layer in range(len(means))
    ]


def _summed(counts: Iterable[Mapping[int, int]]) -> dict[str, int]:
    total: Counter[int] = Counter()
    for count in counts:
        total.update(count)
    return {str(key): total[key] for key in sorted(total)}


def _number(value: Any) -> float | None:
    """Return a number, None where it is not defined: JSON knows no NaN."""
    return float(value) if np.isfinite(value) else None
