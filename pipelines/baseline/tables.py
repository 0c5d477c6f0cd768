"""From sums over random pairs to a table, and to everything that says what it is worth.

<model>.tsv    LAYER,P,R,F
<model>.json   the same with errors, checks, and where it comes from; below: the description
<model>.png    how the scores of random pairs are distributed
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bertscore_core.baseline import format_baseline
from bertscore_core.moments import GROUPS, Moments
from pipelines.baseline import layout
from pipelines.baseline.collect import SampleRecord
from pipelines.baseline.folder import list_tables
from pipelines.baseline.picture import draw_distributions
from pipelines.baseline.prepare import BaselineJob, BaselineModel, masked_source, table_path
from pipelines.baseline.score import PairsRecord
from pipelines.io.files import delete_many, join, list_files, read_bytes, write_atomically

FORMAT = 1
MEASURES = ("precision", "recall", "f1")
FEW_PAIRS = 1_000
"""Below this many pairs the checks say too little to be made."""
CHECKS = (
    "precision equals recall",
    "f1 is a little below the mean of both",
    "an eighth of the pairs says the same",
    "groups differ as much as single pairs say",
)

_LARGEST_GAP = 4.0
"""Standard errors that a difference of expectation zero may have: beyond them 1 in 16,000."""
_JACKKNIFE_RANGE = (0.6, 1.6)
"""Where the median ratio of jackknife to naive error lies for independent pairs. Of 64 groups one
layer's ratio has a standard deviation of 9%."""
_LARGEST_MEAN_DROP = 0.02
"""Most that F1 lies below the mean of precision and recall; published tables have at most 0.009."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Something that holds for a sound baseline.

    Attributes:
        name: What is looked at.
        passed: Whether it holds; None where that was not looked at.
        found: What was found, or why it was not looked at.
        expected: What was expected.
    """

    name: str
    passed: bool | None
    found: str
    expected: str


def write_table(
    job: BaselineJob,
    model: BaselineModel,
    sample: SampleRecord,
    pairs: PairsRecord,
    moments: Moments,
) -> dict[str, Any]:
    """Write the three files of a language and model and return the description.

    Raises:
        InputError: there is nothing to average, or the means are of no use.
    """
    path = join(job.output, table_path(pairs.language, model.name))
    stem = path.removesuffix(".tsv")
    table = format_baseline(moments.baseline(table_path(pairs.language, model.name)))
    title = f"{model.name}, {pairs.language}: {moments.num_pairs:,} random pairs"
    description = describe(job, model, sample, pairs, moments)
    text = json.dumps(description, indent=1, ensure_ascii=False)
    write_atomically(f"{stem}.png", draw_distributions(moments, title))
    write_atomically(f"{stem}.json", text.encode())
    write_atomically(path, table.encode())
    return description


def drop_stale_tables(output: str, samples: Mapping[str, SampleRecord]) -> list[str]:
    """Delete the tables of languages that rest on another sample than they have now.

    Returns:
        Those deleted.
    """
    stale = []
    for stem in list_tables(output):
        sample = samples.get(stem.partition("/")[0])
        if sample is not None:
            said = json.loads(read_bytes(join(output, f"{stem}.json")))
            if said["sample"]["digest"] != sample.digest:
                stale.append(stem)
    _delete_tables(output, stale)
    return stale


def clear_output(output: str) -> None:
    """Delete all that a baseline job writes, what others rest on last."""
    _delete_tables(output, list_tables(output))
    for folder in (
        layout.MOMENTS_FOLDER,
        layout.PAIRS_FOLDER,
        layout.SAMPLE_FOLDER,
        layout.SENTENCES_FOLDER,
        layout.FAILED_FOLDER,
    ):
        place = join(output, folder)
        names = list(list_files(place))
        records = [name for name in names if name.endswith(".json")]
        for some in (records, [name for name in names if name not in set(records)]):
            delete_many([join(place, name) for name in some])


def _delete_tables(output: str, stems: Sequence[str]) -> None:
    for ending in (".tsv", ".png", ".json"):
        delete_many([join(output, stem + ending) for stem in stems])


def describe(
    job: BaselineJob,
    model: BaselineModel,
    sample: SampleRecord,
    pairs: PairsRecord,
    moments: Moments,
) -> dict[str, Any]:
    """Say what a table is and where it comes from, in plain values; the same for the same input."""
    options = job.options
    return {
        "format": FORMAT,
        "language": pairs.language,
        "model": model.name,
        "pairs": moments.num_pairs,
        "pairs_wanted": options.pairs,
        "pairs_without_tokens": pairs.rows - moments.num_pairs,
        "signature": model.signature.format(),
        "layers": describe_layers(moments),
        "checks": [asdict(check) for check in check_moments(moments)],
        "nested": describe_nested(moments),
        "sample": {
            "seed": options.seed,
            "sentences": sample.found,
            "digest": sample.digest,
            "pairs_digest": pairs.digest,
            "same_host_pairs": sum(part.same_host for part in pairs.parts),
            "sentences_per_page": options.sentences_per_page,
            "sentences_per_host": sample.host_cap,
            "words": _summed(part.words for part in pairs.parts),
            "characters": _summed(part.characters for part in pairs.parts),
        },
        "source": {
            "name": masked_source(job),
            "listing": sample.listing,
            "filters": None if options.sentences else json.loads(job.identity["filters"]),
            "files_listed": sample.listed,
            "first_files": sample.first_files,
            "max_files": sample.max_files,
            "retries": sample.retries,
            "counts": dict(sample.counts),
            "failed": [dict(note) for note in sample.failed],
            "files": [asdict(file) for file in sample.files],
        },
    }


def describe_layers(moments: Moments) -> list[dict[str, Any]]:
    """Return mean, errors and spread of every layer and measure."""
    means, errors = moments.means, moments.standard_errors
    jackknife, spread = moments.jackknife_errors, moments.deviations
    return [
        {"layer": layer}
        | {
            measure: {
                "mean": float(means[layer, index]),
                "standard_error": _number(errors[layer, index]),
                "jackknife_error": _number(jackknife[layer, index]),
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


def describe_nested(moments: Moments) -> list[dict[str, Any]]:
    """Return the F1 that parts of the pairs give, each a part of the next."""
    parts = [moments.nested(groups) for groups in (1, 8, GROUPS)]
    return [
        {
            "pairs": part.num_pairs,
            "f1": part.means[:, 2].tolist(),
            "standard_error": [_number(error) for error in part.standard_errors[:, 2]],
        }
        for part in parts
        if part.num_pairs
    ]


def check_moments(moments: Moments) -> list[Check]:
    """Check what holds for the scores of independent random pairs.

    Random pairs are exchangeable, so precision and recall have one expectation; a part of them
    estimates what all of them do; and groups of them differ as much as their spread says.

    Returns:
        A check for each, made or not.
    """
    if moments.num_pairs < FEW_PAIRS:
        reason = f"too few pairs: {moments.num_pairs:,}"
        return [_not_made(name, reason) for name in CHECKS]
    # One layer's difference may be exactly zero, as that of tokens' own embeddings alone.
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = np.nan_to_num(np.abs(moments.gaps) / moments.gap_errors).max()
        ratios = moments.jackknife_errors / moments.standard_errors
    means = moments.means
    drop = (means[:, :2].mean(axis=1) - means[:, 2]).max()
    lift = (means[:, 2] - means[:, :2].mean(axis=1)).max()
    checks = [
        Check(
            name=CHECKS[0],
            passed=bool(gap <= _LARGEST_GAP),
            found=f"{gap:.1f} standard errors apart at most",
            expected=f"at most {_LARGEST_GAP:g}",
        ),
        Check(
            name=CHECKS[1],
            passed=bool(lift <= 1e-6 and drop <= _LARGEST_MEAN_DROP),
            found=f"{drop:.4f} below their mean at most, {max(lift, 0.0):.1g} above it",
            expected=f"at most {_LARGEST_MEAN_DROP:g} below, never above",
        ),
    ]
    part = moments.nested(8)
    if 0 < part.num_pairs < moments.num_pairs:
        share = np.sqrt(1 / part.num_pairs - 1 / moments.num_pairs)
        with np.errstate(divide="ignore", invalid="ignore"):
            away = np.abs(part.means - means) / (moments.deviations * share)
        away = np.nan_to_num(away).max()
        checks.append(
            Check(
                name=CHECKS[2],
                passed=bool(away <= _LARGEST_GAP),
                found=f"{away:.1f} standard errors away at most",
                expected=f"at most {_LARGEST_GAP:g}",
            )
        )
    else:
        checks.append(_not_made(CHECKS[2], "no pair, or every one, is in that part"))
    ratios = ratios[np.isfinite(ratios)]
    if len(ratios):
        ratio = float(np.median(ratios))
        low, high = _JACKKNIFE_RANGE
        checks.append(
            Check(
                name=CHECKS[3],
                passed=low <= ratio <= high,
                found=f"jackknife error {ratio:.2f} of the naive one in the median",
                expected=f"{low:g} to {high:g}",
            )
        )
    else:
        checks.append(_not_made(CHECKS[3], "no layer has an error of both kinds"))
    return checks


def _not_made(name: str, reason: str) -> Check:
    return Check(
        name=name,
        passed=None,
        found=f"not looked at: {reason}",
        expected=f"at least {FEW_PAIRS:,} pairs that differ",
    )


def _summed(counts: Iterable[Mapping[int, int]]) -> dict[str, int]:
    total: Counter[int] = Counter()
    for count in counts:
        total.update(count)
    return {str(key): total[key] for key in sorted(total)}


def _number(value: Any) -> float | None:
    """Return a number, None where it is not defined: JSON knows no NaN."""
    return float(value) if np.isfinite(value) else None
