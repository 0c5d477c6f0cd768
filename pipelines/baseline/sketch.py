"""The pipelines of a baseline job, without a plan; see `pipelines.sketch`."""

from collections.abc import Iterator
from functools import partial

from bertscore_core import ScorerConfig
from pipelines.baseline.options import BaselineOptions
from pipelines.baseline.score import create_and, spread_and
from pipelines.blueprint import Sketch
from pipelines.commoncrawl.fetch import FetchPolicy
from pipelines.transforms.hints import with_accelerator
from pipelines.transforms.moments import ScorePairParts
from pipelines.transforms.pairs import PairSentences
from pipelines.transforms.sample import TakeSample
from pipelines.transforms.sentences import ExtractSentences, ExtractSettings


def sketch_baseline(options: BaselineOptions) -> Iterator[Sketch]:
    """Yield the pipelines of `bertscore-beam baseline`, in their order.

    Reading and sampling come again while a language lacks sentences, pairing once for every
    language, and scoring once for every model.
    """
    settings = ExtractSettings(
        output=options.output,
        seed=options.seed,
        page_cap=options.sentences_per_page,
        policy=FetchPolicy(),
    )
    sample = TakeSample(
        output=options.output, count=2 * options.pairs, host_cap=options.sentences_per_host
    )
    pair = PairSentences(output=options.output, seed=options.seed, plans={})
    score = ScorePairParts(config=ScorerConfig(), backend="", output=options.output)
    steps = (("read", ExtractSentences(settings)), ("sample", sample), ("pair", pair))
    for name, transform in steps:
        yield Sketch(name=name, options=options, build=partial(create_and, [], transform))
    score = with_accelerator(score, options.accelerator)
    scoring = options.for_scoring
    yield Sketch(name="score", options=scoring, build=partial(spread_and, [], score))
