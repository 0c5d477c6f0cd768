"""Fixtures of the tests of pairs in somebody's pipeline."""

import uuid

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from tests.support.streamed_pairs import Keep, kept_in


@pytest.fixture
def run(tmp_path):
    """Run a transform over elements, or a source, and return what comes out."""

    def run_and_collect(transform, elements, *flags, runner=None, timed=False):
        folder = tmp_path / uuid.uuid4().hex
        folder.mkdir()
        created = beam.Create(elements, reshuffle=False) if isinstance(elements, list) else elements
        options = PipelineOptions(["--runner=FnApiRunner", *flags])
        with beam.Pipeline(runner=runner, options=options) as p:
            _ = p | "Source" >> created | "Tested" >> transform | "Keep" >> beam.ParDo(Keep(folder))
        kept = kept_in(folder)
        return kept if timed else [element for element, _, _ in kept]

    return run_and_collect
