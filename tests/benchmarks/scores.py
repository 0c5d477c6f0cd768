"""Scores in one process: what moves them, how sure they are, and what finding them again costs."""

import random
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from itertools import combinations
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from torch import nn

from bertscore_beam.baseline import sum_scores
from bertscore_beam.crawl import SENTENCE_SCHEMA, host_hash, pair_neighbours, pairing_order
from bertscore_beam.dump import Rows, TableFields, part_name
from bertscore_beam.files import write_atomically
from bertscore_beam.records import (
    INDEX_FOLDER,
    NO_REASON,
    VALUES,
    EarlierRun,
    IndexedParts,
    RowScores,
    RowSetting,
    RunSettings,
    SignedRows,
    rows_file,
    rows_to_bytes,
    write_index,
)
from bertscore_beam.run import LOCK_FILE, Holder, OutputFolder, RunLock
from bertscore_beam.score import LoadedScorers, score_table
from bertscore_core import BertScorer, ScorerConfig, Signature, settle
from bertscore_core.tokens import Work
from tests.benchmarks.harness import Recorder, interleave, peak_mb
from tests.support.crawl_texts import sentences, sentences_of_hosts
from tests.support.mixed import LANGUAGES, mixed_table, of_language
from tests.support.nights import SHAPES, coverage as simulate_coverage
from tests.support.tiny_models import build_tiny_model

EMBEDDED = "all-MiniLM-L6-v2"
CALLS = {400: 17, 2048: 333, 16_384: 5000}
"""Pairs of a call, by batch budget in tokens."""
FAR = 2e-7
"""Most scores move by no more."""
PIECE_ROWS = 20_000


def company(
    recorder: Recorder,
    *,
    pairs: int = 4000,
    backends: Sequence[str] = ("openvino", "torch"),
    dtype: str = "float32",
) -> None:
    """How far scores move with the company of a pair: the other texts of its call and its batches.

    Scores the same pairs with several batch budgets, in another order and other calls each time,
    and compares the scores of each two of these runs. Half of the references are their candidates
    but for some words, so that the scores reach 1; a quarter of the texts have up to four words,
    and some are several sentences.
    """
    candidates, references = make_pairs(pairs)
    for backend in backends:
        runs = {
            budget: score_apart(candidates, references, backend, dtype, budget) for budget in CALLS
        }
        for few, many in combinations(CALLS, 2):
            apart = np.abs(runs[few] - runs[many]).max(axis=0)  # of P, R and F1
            recorder.add(
                model=EMBEDDED,
                what=f"{backend} {dtype}: batches of {few} and {many} tokens",
                n=pairs,
                largest=float(apart.max()),
                share_far=float((apart > FAR).mean()),
            )


def make_pairs(count: int) -> tuple[list[str], list[str]]:
    """Make candidates and references of many lengths."""
    chosen = random.Random(3)
    texts = sentences("en", 2 * count, seed=9)

    def vary(text: str) -> str:
        kind = chosen.random()
        if kind < 0.25:
            return " ".join(text.split()[: chosen.randint(1, 4)])
        if kind < 0.3:
            return " ".join(chosen.choices(texts, k=chosen.randint(2, 12)))
        return text

    candidates = [vary(text) for text in texts[:count]]
    references = [vary(text) for text in texts[count:]]
    for number in range(0, count, 2):
        words = candidates[number].split()
        references[number] = " ".join(words[: max(1, len(words) - chosen.randint(0, 2))])
    return candidates, references


def score_apart(
    candidates: list[str], references: list[str], backend: str, dtype: str, budget: int
) -> np.ndarray:
    """Score the pairs in calls of some size and in an order of their own. Shape (3, N), float64."""
    config = ScorerConfig(
        model=EMBEDDED, device="cpu", backend=backend, dtype=dtype, max_batch_tokens=budget
    )
    scorer = BertScorer(config)
    order = np.random.default_rng(budget).permutation(len(candidates))
    made = np.empty((3, len(candidates)))
    for first in range(0, len(order), CALLS[budget]):
        chosen = order[first : first + CALLS[budget]]
        scores = scorer.score([candidates[at] for at in chosen], [references[at] for at in chosen])
        made[:, chosen] = scores.precision, scores.recall, scores.f1
    return made


def formats(
    recorder: Recorder,
    *,
    files: Sequence[str] = ("configs/demo/sample/news-europe.parquet",),
    language: str = "",
    pairs: int = 15_000,
    stacks: Sequence[int] = (1, 4),
) -> None:
    """How far F1 in float16 and bfloat16 is from F1 in float32, on torch.

    Scores distinct pairs of the columns `candidate` and `reference`, all or those where `lang` is
    the language, with the model's layers once, and several times over, to see how errors grow.
    """
    found: dict[tuple[str, str], None] = {}
    for file in files:
        kept = [("lang", "=", language)] if language else None
        table = pq.read_table(file, columns=["candidate", "reference"], filters=kept)
        texts = zip(*(column.to_pylist() for column in table.columns), strict=True)
        found |= {pair: None for pair in texts if all(pair)}
    chosen = random.Random(0).sample(list(found), min(pairs, len(found)))
    candidates, references = zip(*chosen, strict=True)
    for stack in stacks:
        f1 = {}
        for dtype in ("float32", "float16", "bfloat16"):
            config = ScorerConfig(model=EMBEDDED, device="cpu", backend="torch", dtype=dtype)
            scorer = BertScorer(config)
            layers = scorer.encoder.model.encoder
            layers.layer = nn.ModuleList([*layers.layer] * stack)
            f1[dtype] = scorer.score(candidates, references).f1
            apart = f1[dtype].astype(np.float64) - f1["float32"]
            recorder.add(
                model=EMBEDDED,
                what=f"{dtype}, {len(layers.layer)} layers",
                n=len(chosen),
                largest=float(np.abs(apart).max()),
                mean=float(np.abs(apart).mean()),
                bias=float(apart.mean()),
            )


def host_errors(
    recorder: Recorder, *, samples: int = 200, pairs: int = 120, sentences: int = 8
) -> None:
    """Whether the standard error of a baseline covers: many samples of other hosts, really scored.

    Makes samples of English sentences, no host in two of them, whose hosts have topics and so many
    sentences each; pairs each at random and scores the pairs. Of every layer: the standard
    deviation of the samples' mean F1 over the mean of the errors that they claim, which is 1 if the
    claim is right, the same for the naive error, and the standard error of these ratios.
    """
    scorer = BertScorer(ScorerConfig(model=EMBEDDED, all_layers=True, empty="null", device="cpu"))
    hosts = round(2 * pairs / sentences)
    made = [
        sum_scores(
            scorer, paired(sentences_of_hosts(hosts, sentences, seed=sample), sample), Work()
        )
        for sample in range(samples)
    ]
    spread = np.std([moments.means[:, 2] for moments in made], axis=0, ddof=1)
    errors = np.mean([moments.standard_errors[:, 2] for moments in made], axis=0)
    naive = np.mean([moments.naive_errors[:, 2] for moments in made], axis=0)
    for layer in range(len(spread)):
        recorder.add(
            model=EMBEDDED,
            what=f"{samples} samples of {hosts} hosts, layer {layer}",
            n=made[0].num_pairs,
            spread_in_errors=float(spread[layer] / errors[layer]),
            spread_in_naive_errors=float(spread[layer] / naive[layer]),
            relative_error=float(1 / np.sqrt(2 * (samples - 1))),
        )


def coverage(
    recorder: Recorder,
    *,
    samples: int = 4000,
    rows: Sequence[int] = (10, 30, 100, 1000),
    shapes: Sequence[str] = tuple(SHAPES),
) -> None:
    """How often intervals of 95% hold the true mean, tests reject it, and warnings say so.

    For scores and differences that are normal, skewed, or 0 now and then. Sign flips are tested on
    a thousand samples.
    """
    for shape in shapes:
        for number in rows:
            shares = simulate_coverage(shape, number, samples, resamples=499)
            recorder.add(model="none", what=f"{shape}, {number} rows", n=samples, **asdict(shares))


def paired(hosts: list[list[str]], sample: int) -> pa.Table:
    """Return the random pairs of a sample."""
    rows = [(text, f"{sample} {host}") for host, texts in enumerate(hosts) for text in texts]
    order = partial(pairing_order, sample, "en")
    table = pa.table(
        {
            "text": [text for text, _ in rows],
            "order": [order(text) for text, _ in rows],
            "host": [host_hash(host) for _, host in rows],
        },
        schema=SENTENCE_SCHEMA,
    )
    return pair_neighbours(table)[0]


def idf_baseline(recorder: Recorder, *, pairs: int = 1_000) -> None:
    """What random pairs with idf weights score if they are rescaled with a table without them.

    Scores random pairs of made-up English sentences without and with idf weights, which are counted
    over these sentences, and rescales the second with the mean of the first. Of every layer: the
    mean, which is 0 for a table that fits, and its standard error. The sentences have no host, and
    both scores are of the same pairs, so that the error is that of their differences.
    """
    scorer = BertScorer(ScorerConfig(model=EMBEDDED, all_layers=True, idf=True, device="cpu"))
    texts = sentences("en", 2 * pairs, seed=4)
    sides = scorer.tokenize(texts[:pairs], texts[pairs:])
    plain, weighted = (
        scorer.score_tokenized(sides, scorer.token_weights(idf)).raw_f1.astype(np.float64)
        for idf in (None, scorer.count_idf(texts))
    )
    for layer in range(len(plain)):
        shifts = (weighted[layer] - plain[layer]) / (1 - plain[layer].mean())
        recorder.add(
            model=EMBEDDED,
            what=f"layer {layer}",
            n=pairs,
            mean=float(shifts.mean()),
            standard_error=float(shifts.std(ddof=1) / np.sqrt(pairs)),
        )


def mixed_languages(recorder: Recorder, *, rows: int = 1000, rounds: int = 5) -> None:
    """The cost of a mixed dump: five languages in one table, against a table for each.

    The same rows are scored with the same loaded models, in turns; seconds are the processor's in
    the scoring step, of the one table and of the five together.
    """
    texts = {"candidate_column": "candidate", "reference_column": "reference"}
    with TemporaryDirectory() as folder:
        bert, roberta = (
            str(build_tiny_model(family, Path(folder, family))) for family in ("bert", "roberta")
        )
        by_language = {
            "en": setting_of(model=EMBEDDED),
            "de": setting_of(model=bert, num_layers=2),
            "zh": setting_of(model=roberta, num_layers=2),
            "fr": setting_of(model=EMBEDDED, num_layers=4),
            "ja": setting_of(model=EMBEDDED),
        }
        table, scorers = mixed_table(rows), LoadedScorers()
        with_language = TableFields(**texts, language="lang")
        work = {
            "one table": [(table, with_language, RunSettings(by_language=by_language))],
            "five tables": [
                (
                    of_language(table, name),
                    TableFields(**texts),
                    RunSettings.of_all_rows(by_language[name]),
                )
                for name in LANGUAGES
            ],
        }

        def score(tables: list[tuple[pa.Table, TableFields, RunSettings]]) -> float:
            started = time.process_time()
            for rows_of_it, fields, settings in tables:
                score_table(scorers, Rows(rows_of_it, fields), settings=settings, idf=None)
            return time.process_time() - started

        score(work["one table"])  # loads the models
        seconds = interleave({what: partial(score, of) for what, of in work.items()}, rounds)
    for what, taken in seconds.items():
        ratio = median(seconds["five tables"]) / median(taken)
        recorder.add(what=what, n=rows, seconds=taken, ratio=ratio)


def setting_of(**options: object) -> RowSetting:
    """Settle a setting on the CPU."""
    config = ScorerConfig(device="cpu", backend="torch", **options)  # type: ignore[arg-type]
    settled = settle(config)
    return RowSetting(
        config=config, signature=settled.signature(), max_length=settled.tokenizer.max_length
    )


def index(recorder: Recorder, *, rows: int = 10_000_000) -> None:
    """What the index of a run costs, without a model: to build it, and to look rows up in it.

    Random digests in pieces of 20,000 rows, their index, look-ups of 20,000 rows that are in it and
    of 20,000 that are not, each twice; the processor's seconds and the growth of the peak memory.
    """
    signature = BertScorer(EMBEDDED).signature()
    names = [part_name("dump.parquet", start) for start in range(0, rows, PIECE_ROWS)]
    with TemporaryDirectory() as folder:
        holder = Holder.here()
        write_atomically(f"{folder}/{LOCK_FILE}", holder.to_json())
        output = OutputFolder(folder, RunLock(folder, holder.run))
        for number, name in enumerate(names):
            output.write(rows_file(name), rows_to_bytes(made_up(number, signature)))
        memory, started = peak_mb(), time.process_time()
        write_index(output, IndexedParts.of((name, "x", PIECE_ROWS) for name in names))
        recorder.add(
            what="build",
            n=rows,
            seconds=[time.process_time() - started],
            more_memory_mb=peak_mb() - memory,
            bytes_a_row=sum(output.files(INDEX_FOLDER).values()) / rows,
        )
        known = np.concatenate([made_up(n, signature).digests[:200] for n in range(len(names))])
        known = known[np.random.default_rng(0).permutation(len(known))][:PIECE_ROWS]
        strange = made_up(len(names) + 1, signature).digests
        earlier = EarlierRun(output.root)
        for what, digests in (("hits", known), ("misses", strange)) * 2:
            memory, started = peak_mb(), time.process_time()
            numbers = np.arange(len(digests))
            signed = SignedRows.of(len(digests), [(numbers, signature)])
            hits = earlier.find("other.parquet", numbers, digests, signed).found.sum()
            seconds = time.process_time() - started
            recorder.add(
                what=what,
                n=len(digests),
                seconds=[seconds],
                hits=int(hits),
                microseconds_a_row=seconds / len(digests) * 1e6,
                more_memory_mb=peak_mb() - memory,
            )


def made_up(seed: int, signature: Signature) -> RowScores:
    """Return a piece of random digests and scores."""
    generator = np.random.default_rng(seed)
    values = np.zeros(PIECE_ROWS, dtype=VALUES)
    values["raw_f1"] = generator.random(PIECE_ROWS, dtype=np.float32)
    values["reason"] = NO_REASON
    return RowScores(
        digests=generator.integers(0, 2**64, (PIECE_ROWS, 2), dtype=np.uint64),
        values=values,
        signed=SignedRows.of(PIECE_ROWS, [(np.arange(PIECE_ROWS), signature)]),
        reasons=(),
    )
