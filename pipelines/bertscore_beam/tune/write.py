"""Write the results of a run: tables, a picture, rows to look at, and the file of layers."""

import csv
import io
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.stats import rankdata

from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.write import write_atomically
from bertscore_beam.run.folder import SUMMARY_FILE
from bertscore_beam.scorer import read_layers
from bertscore_beam.tune.judgements import Judgements
from bertscore_beam.tune.picture import draw_layers
from bertscore_beam.tune.plan import TuneJob
from bertscore_beam.tune.results import ALL_ROWS, POOR, AgreementRow, Recommendation, Results
from bertscore_core.agreement.inputs import Doubles
from bertscore_core.layer_file import TunedLayer, format_layers, with_layers

TABLE, PARQUET = "agreement.csv", "agreement.parquet"
PICTURE, DIFFERENCES = "layers.png", "differences.csv"
RESULT_FILES = (TABLE, PARQUET, PICTURE, DIFFERENCES)
CORRELATIONS = ("pearson", "spearman", "kendall")


def write_results(job: TuneJob, results: Results) -> None:
    """Write everything that a run has found into its folder; the summary last.

    Raises:
        FolderLostError: The folder belongs to another run by now.
    """
    rows = [asdict(row) for row in results.rows]
    job.folder.write(TABLE, _csv(rows, [field.name for field in fields(AgreementRow)]))
    job.folder.write(PARQUET, _parquet(rows))
    job.folder.write(PICTURE, draw_layers(results, job.plan.options.statistic))
    texts = differences(job.plan.judgements, results, job.plan.options.differences)
    if texts:
        job.folder.write(DIFFERENCES, _csv(texts, list(texts[0])))
    written = _write_layers(job, results)
    job.folder.write_json(SUMMARY_FILE, _summary(job, results, written))


def _csv(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def _parquet(rows: list[dict[str, Any]]) -> bytes:
    types = {"layer": pa.int32(), "rows": pa.int64(), "not_below_best": pa.bool_()}
    numbers = ("value", "low", "high", "p_below_best", "p_williams")
    types |= dict.fromkeys(numbers, pa.float64())
    schema = pa.schema(
        [(field.name, types.get(field.name, pa.string())) for field in fields(AgreementRow)]
    )
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema), buffer)
    return buffer.getvalue()


def _summary(job: TuneJob, results: Results, registry: str | None) -> dict[str, Any]:
    judgements = job.plan.judgements
    return {
        "statistic": job.plan.options.statistic,
        "rows": len(judgements),
        "left_out": dict(judgements.left_out),
        "unscored": results.unscored,
        "groups": {
            name or ALL_ROWS: len(judgements.of_group(number))
            for number, name in enumerate(judgements.names)
        },
        "recommended": [asdict(one) for one in results.recommended],
        "signatures": {model.name: model.signature.format() for model in job.plan.models},
        "registry": registry,
        "seconds": round(time.time() - job.started, 1),
        "warnings": _warnings(job, results),
        "agreement": [asdict(row) for row in results.rows],
    }


def _warnings(job: TuneJob, results: Results) -> list[str]:
    """Return what a reader must not overlook."""
    words = []
    judgements = job.plan.judgements
    if judgements.left_out:
        counts = ", ".join(f"{many:,} {why}" for why, many in judgements.left_out.items())
        words.append(f"Judgements were left out: {counts}.")
    if results.unscored:
        words.append(
            f"{results.unscored:,} judgements have no score of some setting and were left out of "
            "all."
        )
    words += [_undecided(one) for one in results.recommended if is_undecided(one)]
    if job.plan.options.statistic in CORRELATIONS:
        words += [
            f"Agreement is poor in {row.group}: {row.statistic} {row.value:.3f} at best."
            for row in best_rows(results.rows, job.plan.options.statistic)
            if row.value < POOR
        ]
    return words


def is_undecided(one: Recommendation) -> bool:
    """Tell whether the recommended layer is not significantly above the one it would replace."""
    return one.default != one.layer and one.default in one.not_below


def _undecided(one: Recommendation) -> str:
    return (
        f"Layer {one.layer} of {one.model} is not significantly above the registry's layer "
        f"{one.default}: these judgements are no reason to change it."
    )


def best_rows(rows: Sequence[AgreementRow], statistic: str) -> list[AgreementRow]:
    """Return the best setting of BERTScore in each group."""
    found: dict[str, AgreementRow] = {}
    for row in rows:
        if row.statistic == statistic and row.layer is not None and np.isfinite(row.value):
            best = found.setdefault(row.group, row)
            found[row.group] = row if row.value > best.value else best
    return list(found.values())


def _write_layers(job: TuneJob, results: Results) -> str | None:
    """Write the recommended layers to the file of `--registry`; layers of other models stay."""
    path = job.plan.options.registry
    if path is None:
        return None
    new = [_tuned(job, one) for one in results.recommended]
    write_atomically(path, format_layers(with_layers(read_layers(path) or [], new)))
    return mask_credentials(path)


def _tuned(job: TuneJob, one: Recommendation) -> TunedLayer:
    options, judgements = job.plan.options, job.plan.judgements
    return TunedLayer(
        model=one.model,
        weights=one.weights,
        num_layers=one.layer,
        source={
            "judgements": [mask_credentials(path) for path in options.judgements],
            "score_column": options.score_column or options.label_column,
            "rows": len(judgements),
            "groups": [name for name in judgements.names if name],
            "statistic": one.statistic,
            "measure": "f1",
            "idf": one.idf,
            "value": round(one.value, 4),
            "interval": [round(one.low, 4), round(one.high, 4)],
        },
    )


def differences(judgements: Judgements, results: Results, most: int) -> list[dict[str, Any]]:
    """Return the rows on which people and F1, or F1 and BLEU, differ most, with their texts.

    Ranks are shares of the rows of a group with a lower score. F1 is that of the first recommended
    layer.
    """
    people = judgements.people if judgements.people is not None else judgements.labels
    if not most or not results.recommended or people is None:
        return []
    sides, first = results.compared, results.recommended[0]
    wanted = {"model": first.model, "layer": first.layer, "measure": "f1", "matching": "greedy"}
    columns = {"people": people, "f1": sides.scores[sides.find(**wanted, idf=first.idf)[0]]}
    for number in sides.find(model="BLEU", layer=None):
        columns["bleu"] = sides.scores[number]
    ranks = {name: _ranks(judgements, values, sides.complete) for name, values in columns.items()}
    found = []
    for left, right in (("people", "f1"), ("f1", "bleu")):
        if right not in ranks:
            continue
        gaps = np.nan_to_num(ranks[left] - ranks[right])
        found += [
            {
                "compared": f"{left} and {right}",
                "group": judgements.names[judgements.groups[row]],
                "row": int(judgements.rows[row]),
                **{name: float(values[row]) for name, values in columns.items()},
                **{f"rank_{name}": round(float(one[row]), 3) for name, one in ranks.items()},
                "candidate": judgements.candidates[row],
                "references": " | ".join(judgements.references[row]),
            }
            for row in np.argsort(-np.abs(gaps), kind="stable")[:most]
        ]
    return found


def _ranks(judgements: Judgements, values: Doubles, complete: Any) -> Doubles:
    """Return the share of the rows of a row's group that are below it; NaN if it has no score."""
    ranks = np.full(len(values), np.nan)
    for group in range(len(judgements.names)):
        rows = judgements.of_group(group)
        rows = rows[complete[rows]]
        ranks[rows] = (rankdata(values[rows]) - 0.5) / max(len(rows), 1)
    return ranks
