"""Pairs of windows and streams are scored as they come."""

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from apache_beam.testing import test_stream as streams  # pytest would take TestStream for a test
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from bertscore_beam.pairs import ScorePairs
from tests.support.streamed_pairs import CONFIG, library, measured, pairs
from tests.support.tolerances import INVARIANCE_ATOL

pytestmark = [pytest.mark.job, pytest.mark.model, pytest.mark.process]


def test_windows_are_kept_and_a_batch_bears_the_end_of_its_window(run):
    in_time = beam.Map(lambda row: TimestampedValue(row, 10 * row["id"]))
    windowed = in_time | beam.WindowInto(FixedWindows(60)) | ScorePairs(CONFIG)
    found = run(windowed, pairs(), timed=True)
    assert sorted((row["id"], end) for row, _, end in found) == [
        (number, pytest.approx(60 * (number // 6 + 1), abs=1e-3)) for number in range(12)
    ]
    assert all(timestamp == end for _, timestamp, end in found)


@pytest.mark.parametrize("wait", [None, 5])
def test_stream_is_scored_as_it_comes(run, wait):
    """Of Beam's own runners only this one plays test streams."""
    rows = pairs()
    timed = [TimestampedValue(row, 10 * row["id"]) for row in rows]
    stream = streams.TestStream().advance_watermark_to(0).add_elements(timed[:2])
    stream = stream.advance_processing_time(30).add_elements(timed[2:7]).advance_watermark_to(65)
    stream = stream.add_elements(timed[7:]).advance_processing_time(30)
    scoring = beam.WindowInto(FixedWindows(60)) | ScorePairs(CONFIG, max_batch_duration_secs=wait)
    source = stream.advance_watermark_to_infinity()
    found = run(scoring, source, "--streaming", runner=BundleBasedDirectRunner(), timed=True)
    assert sorted((row["id"], round(end)) for row, _, end in found) == [
        (number, 60 * (number // 6 + 1)) for number in range(12)
    ]
    scores = measured([row for row, _, _ in found])
    np.testing.assert_allclose(scores, library(rows), atol=INVARIANCE_ATOL, rtol=0)
