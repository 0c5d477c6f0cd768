"""What BERTScore costs beside the metrics that compare words and characters.

    python -m tests.benchmarks metrics

All metrics take turns on one core, so that a change of the machine's speed meets all alike. Each
turn has pairs of its own, of the same lengths, since SacreBLEU keeps texts that it has cut into
words. The processor's time counts, not the clock's: other programs may run.
"""

import time
from collections.abc import Callable, Sequence
from statistics import median

from sacrebleu.metrics.bleu import BLEU

from bertscore_beam.dump.columns import METRICS
from bertscore_beam.metrics.table import score_rows
from bertscore_core import BertScorer, ScorerConfig
from tests.benchmarks.harness import Recorder
from tests.benchmarks.texts import mixed

MODEL = "all-MiniLM-L6-v2"

Run = Callable[[Sequence[str], Sequence[str]], object]


def metrics(record: Recorder, pairs: int = 120, rounds: int = 3) -> None:
    """Measure milliseconds of a core a pair: of SacreBLEU, of `--metrics` and of BERTScore."""
    scorer = BertScorer(ScorerConfig(model=MODEL, device="cpu", num_threads=1))
    variants: dict[str, Run] = {
        "SacreBLEU's BLEU of the corpus": lambda candidates, references: BLEU().corpus_score(
            candidates, [references]
        ),
        **{name: _rows_of(name) for name in METRICS},
        f"BERTScore, {MODEL}, float32": scorer.score,
    }
    taken: dict[str, list[float]] = {name: [] for name in variants}
    for number in range((rounds + 1) * len(variants)):
        name = list(variants)[number % len(variants)]
        taken[name].append(_seconds(variants[name], *mixed(pairs, number)))
    for name, (_, *seconds) in taken.items():  # the first also loads what is needed
        record.add(what=name, n=pairs, seconds=seconds, ms_a_pair=1000 * median(seconds) / pairs)


def _rows_of(name: str) -> Run:
    return lambda candidates, references: score_rows(
        [name], "en", candidates, [[reference] for reference in references]
    )


def _seconds(run: Run, candidates: Sequence[str], references: Sequence[str]) -> float:
    """Return the processor's seconds of a call, of all threads."""
    before = time.process_time()
    run(candidates, references)
    return time.process_time() - before
