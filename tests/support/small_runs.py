"""A smallest run of each kind, without a model: all that they write is real, the encoder is not.

The stand-in for the encoder looks each token up in a table of random vectors. So scores are a
function of the texts, and a run takes less than a second.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from bertscore_core.baseline import Baseline, format_baseline
from bertscore_core.model import Encoder, EncoderOptions, ModelFiles
from tests.support.crawl_texts import sentences
from tests.support.dumps import pair_rows, write_dump
from tests.support.judgements import judgement_rows, write_judgements
from tests.support.text_files import to_jsonl, write_text
from tests.support.tiny_models import build_tiny_model

_WIDTH = 8

Words = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallRun:
    """A command that writes into a folder.

    Attributes:
        words: The command.
        earlier: What has been run in that folder before, if anything; its output makes way.
        once: Whether the command is refused when its result is there.
    """

    words: Words
    earlier: Words = ()
    once: bool = False


def looked_up(files: ModelFiles, options: EncoderOptions) -> Encoder:
    """Stand in for `load_encoder`."""
    layers = files.depth + 1 if options.all_layers else 1
    shape = (layers, files.config["vocab_size"], _WIDTH)
    vectors = torch.randn(shape, generator=torch.Generator().manual_seed(1))

    def start(ids: Tensor, mask: Tensor) -> Any:
        return lambda: vectors[:, ids]

    return Encoder(
        model=None,
        forward=start,
        device=torch.device("cpu"),
        hidden_size=_WIDTH,
        num_outputs=layers,
    )


def small_runs(folder: Path, out: str) -> tuple[Words, Mapping[str, SmallRun]]:
    """Write the inputs below a folder.

    Args:
        folder: The folder.
        out: Where the runs write: a folder in it, or in a store.

    Returns:
        A command that makes a run which others take scores from, and the runs by their kind.
    """
    model = build_tiny_model("bert", folder / "bert")
    dump = write_dump(folder / "dump", [4, 2], row_group_size=2)
    texts = folder / "texts"
    for name, start, rows in (("a", 0, 4), ("b", 4, 2)):
        write_text(texts / f"{name}.jsonl", to_jsonl(pa.table(pair_rows(rows, start)).to_pylist()))
    (folder / "en.txt").write_text("\n".join(sentences("en", 60, 8)) + "\n")
    judgements = write_judgements(folder / "judgements.parquet", judgement_rows(3))
    for name, shift in (("one", 0.0), ("two", 0.1)):
        rows = np.linspace(0.2, 0.5, 12).reshape(4, 3) + shift
        (folder / f"{name}.tsv").write_text(format_baseline(Baseline(name="custom", rows=rows)))
    before = folder / "before"
    encoder = ("--device", "cpu", "--backend", "torch")
    scored = ("--model", model, *encoder, "--num-layers", 2)
    weighted = ("score", "--input", dump, *scored)
    weighted += ("--idf", "corpus", "--idf-key", "id", "--group-by", "id")
    score = ("score", "--input", texts, *scored, "--output", out, "--split-rows")
    full = (*weighted, "--output", out, "--split-rows", 2, "--reuse", before, "--overwrite")
    idf = ("idf", "--input", texts, "--model", model, "--idf-key", "id", "--split-rows", 2)
    baseline = ("baseline", "--sentences", f"en={folder / 'en.txt'}", "--models", model)
    baseline += ("--pairs", 20, "--idf", *encoder, "--output", out, "--overwrite", "--seed")
    tune = ("tune", "--judgements", judgements, "--score-column", "human", "--by", "language")
    tune += ("--models", model, *encoder, "--metrics", "bleu", "--resamples", 100)
    tune += ("--min-rows", 3)
    tune += ("--output", out, "--registry", f"{out}/layers.json", "--layers")
    rescale = ("rescale", before, "--output", out, "--overwrite", "--baseline")
    return _words(*weighted, "--output", before, "--split-rows", 3), {
        "score": SmallRun(words=_words(*score, 2), earlier=_words(*score, 1)),
        "score with idf, key, groups and reuse": SmallRun(
            words=_words(*full), earlier=_words(*full, "--num-layers", 1)
        ),
        "idf": SmallRun(words=_words(*idf, "--output", f"{out}/table.npz"), once=True),
        "baseline": SmallRun(words=_words(*baseline, 1), earlier=_words(*baseline, 2)),
        "tune": SmallRun(words=_words(*tune, 1, 2), earlier=_words(*tune, 1)),
        "rescale": SmallRun(
            words=_words(*rescale, folder / "one.tsv"), earlier=_words(*rescale, folder / "two.tsv")
        ),
    }


def _words(*words: object) -> Words:
    return (*map(str, words), "--quiet")
