"""Pairs scored in pipelines that are not the job: the columns and scores of ScorePairs."""

import os
import re
import subprocess
import sys
from typing import Any, NamedTuple, Optional

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.io.parquetio import WriteToParquet
from apache_beam.ml.inference.base import RunInference
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pipeline import PipelineVisitor
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from apache_beam.testing import test_stream as streams  # pytest would take TestStream for a test
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.typehints.schemas import named_fields_from_element_type

from bertscore_beam import ByLanguage
from bertscore_beam.dump.columns import OUTPUT_COLUMNS, TableFields
from bertscore_beam.pairs.handler import BertScoreModelHandler
from bertscore_beam.pairs.transform import ScorePairs
from bertscore_beam.run import counters
from bertscore_core import BertScorer, ConfigError, IdfError, InputError, ScorerConfig
from tests.support.scoring import score_all_rows
from tests.support.streamed_pairs import (
    BAD,
    CONFIG,
    MEASURES,
    Attributes,
    Keep,
    kept_in,
    library,
    measured,
    pairs,
)
from tests.support.tolerances import INVARIANCE_ATOL

pytestmark = [pytest.mark.job, pytest.mark.model, pytest.mark.process]


class Pair(NamedTuple):
    id: int
    candidate: str
    reference: str


class SeveralReferences(NamedTuple):
    candidate: Optional[str]  # noqa: UP045 - Beam's schemas know no `str | None`
    reference: list[str]


def test_scores_are_the_librarys_and_the_jobs_to_the_bit(run):
    rows = pairs()
    found = run(ScorePairs(CONFIG), rows)
    np.testing.assert_array_equal(measured(found), library(rows))
    scorer = BertScorer(CONFIG)
    fields = TableFields(candidate_column="candidate", reference_column="reference")
    table = pa.Table.from_pylist(rows)
    job = score_all_rows(scorer, table, fields).table
    job = job.drop_columns(["bertscore_key"])  # by which later runs of a job find a row
    for row, expected in zip(sorted(found, key=lambda r: r["id"]), job.to_pylist(), strict=True):
        assert row == {**expected, "bertscore_best_reference": None}


def test_a_name_is_a_configuration():
    name = "all-MiniLM-L6-v2"
    wanted = ScorePairs(ScorerConfig(model=name)).signature()
    assert ScorePairs(name).signature() == wanted == BertScoreModelHandler(name).signature()


def test_dicts_keep_their_fields_and_the_columns_follow_in_order(run):
    (found,) = run(ScorePairs(CONFIG), [{"extra": (1, None), **pairs(1)[0]}])
    sometimes = ("bertscore_windows", "bertscore_signature")
    always = [n for n in OUTPUT_COLUMNS if "raw" not in n and n not in sometimes]
    assert list(found) == ["extra", "id", "candidate", "reference", *always]
    assert found["extra"] == (1, None)
    kinds = {type(found[f"bertscore_{name}"]) for name in MEASURES}
    assert kinds == {float}


@pytest.mark.long
def test_pairs_scored_one_by_one_are_equal_to_the_bit_in_other_processes(run):
    rows = pairs()
    scoring = ScorePairs(CONFIG, max_batch_size=1)
    two = ("--direct_running_mode=multi_processing", "--direct_num_workers=2")
    found = run(scoring, [Pair(**row) for row in rows], *two)
    assert sorted(row.id for row in found) == list(range(len(rows)))
    bits = measured([row._asdict() for row in found])
    np.testing.assert_array_equal(bits, measured(run(scoring, list(reversed(rows)))))


@pytest.mark.long
@pytest.mark.parametrize("share", [{"large_model": True}, {"model_copies": 2}])
def test_processes_share_models_and_their_pairs_are_counted(tmp_path, share):
    """The model is in a process of its own, of which Beam shows methods alone."""
    flags = ["--direct_running_mode=multi_processing", "--direct_num_workers=2"]
    rows = [*pairs(6), {"id": 6, **BAD["not_text"]}]
    p = beam.Pipeline(runner="FnApiRunner", options=PipelineOptions(flags))
    scoring = ScorePairs(CONFIG, max_batch_size=2, **share)
    _ = p | beam.Create(rows) | scoring | beam.ParDo(Keep(tmp_path))
    counted = p.run().metrics().query()["counters"]
    found = sorted((row for row, _, _ in kept_in(tmp_path)), key=lambda row: row["id"])
    scores = measured(found[:6])
    np.testing.assert_allclose(scores, library(rows[:6]), atol=INVARIANCE_ATOL, rtol=0)
    assert found[6]["bertscore_error"] == "not_text"
    named = {one.key.metric.name: one.committed for one in counted}
    assert (named["pairs_scored"], named["rows_rejected"]) == (6, 1)


def test_dataflow_has_a_process_for_each_core_so_each_computes_with_one_thread():
    class Handlers(PipelineVisitor):
        def enter_composite_transform(self, transform_node):
            if isinstance(transform_node.transform, RunInference):
                self.found = transform_node.transform._model_handler

    def threads(*flags, **options):
        # Made for another runner, since Dataflow's looks for its place on the network.
        pipeline = beam.Pipeline(runner="FnApiRunner", options=PipelineOptions([*flags]))
        visitor = Handlers()
        _ = pipeline | beam.Create([{"id": 1}]) | ScorePairs(CONFIG, **options)
        pipeline.visit(visitor)
        return visitor.found.threads

    service = "--runner=DataflowRunner"
    assert threads(service) == 1
    assert threads(service, "--experiments=no_use_multiple_sdk_containers") is None
    assert threads(service, large_model=True) is None  # one process has all cores
    assert threads("--runner=FnApiRunner") is None


@pytest.mark.long
def test_a_process_computes_with_the_threads_that_it_is_given():
    code = (
        "import os, torch\n"
        "from bertscore_beam import BertScoreModelHandler\n"
        "handler = BertScoreModelHandler('all-MiniLM-L6-v2')\n"
        "handler.threads = 1\n"
        "handler.load_model()\n"
        "print(torch.get_num_threads(), os.environ['RAYON_NUM_THREADS'])\n"
    )
    own = {name: text for name, text in os.environ.items() if not name.endswith("_NUM_THREADS")}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=own, check=True)
    assert done.stdout == "1 1\n"


def test_rows_come_out_with_the_schema_extended(run, tmp_path):
    """Writing Parquet needs the schema."""
    rows = pairs(3)
    with beam.Pipeline(runner="FnApiRunner") as p:
        scored = p | beam.Create([beam.Row(**row) for row in rows]) | ScorePairs(CONFIG)
        fields = dict(named_fields_from_element_type(scored.element_type))
        _ = scored | WriteToParquet(str(tmp_path / "all"))
    assert list(fields)[:3] == ["id", "candidate", "reference"]
    assert fields["bertscore_f1"] == Optional[np.float64]  # noqa: UP045
    assert fields["bertscore_truncated"] == Optional[bool]  # noqa: UP045
    assert "bertscore_best_reference" not in fields
    written = pq.ParquetDataset(list(tmp_path.glob("all*"))).read()
    assert written.column_names == list(fields)
    np.testing.assert_array_equal(measured(written.to_pylist()), library(rows))


def test_named_tuples_give_rows_and_several_references_the_best_one(run):
    pair = SeveralReferences("a cat sat", ["rain fell", "a cat sat", "a dog sat"])
    null = SeveralReferences(None, ["a cat"])
    scored = {row.candidate: row for row in run(ScorePairs(CONFIG), [pair, null])}
    assert scored["a cat sat"].bertscore_best_reference == 1
    assert scored["a cat sat"].bertscore_f1 == pytest.approx(1, abs=1e-5)
    assert scored["a cat sat"].reference == pair.reference
    assert scored[None].bertscore_error == "null_candidate"
    assert scored[None].bertscore_best_reference is None


def test_long_texts_are_scored_in_windows_or_not_at_all(run):
    pair = {"candidate": "a cat sat on the mat " * 5, "reference": "the cat sat"}
    settings = {"max_length": 16, "device": "cpu"}
    (found,) = run(ScorePairs(ScorerConfig(long_text="windows", **settings)), [pair])
    scorer = BertScorer(ScorerConfig(long_text="windows", empty="zero", **settings))
    expected = scorer.score([pair["candidate"]], [pair["reference"]])
    assert found["bertscore_f1"] == expected.f1[0]
    assert found["bertscore_windows"] == expected.windows[0] == 4
    assert list(found)[-2:] == ["bertscore_windows", "bertscore_error"]
    (found,) = run(ScorePairs(ScorerConfig(long_text="error", **settings)), [pair])
    assert (found["bertscore_f1"], found["bertscore_error"]) == (None, "too_long")
    assert "bertscore_windows" not in found


def test_rows_without_a_schema_come_out_as_rows(run):
    untyped = beam.Map(lambda row: row).with_output_types(Any)
    (found,) = run(untyped | ScorePairs(CONFIG), [beam.Row(**pairs(1)[0])])
    assert isinstance(found, beam.Row)
    assert found.bertscore_error is None


def test_elements_that_cannot_get_columns_are_refused(run):
    with pytest.raises(InputError, match="type Attributes; expected dicts"):
        run(ScorePairs(CONFIG), [Attributes("a cat", "the cat")])
    with pytest.raises(ConfigError, match="already have score columns: got bertscore_f1"):
        run(ScorePairs(CONFIG), [{**pairs(1)[0], "bertscore_f1": 0.5}])


def test_bad_pairs_come_through_with_their_reasons_and_are_counted(tmp_path):
    rows = [{"id": reason, **pair} for reason, pair in BAD.items()]
    rows += [{"id": "null_candidate", "reference": "x"}, {**pairs(1)[0], "id": None}]
    p = beam.Pipeline(runner="FnApiRunner")
    _ = p | beam.Create(rows) | ScorePairs(CONFIG) | beam.ParDo(Keep(tmp_path))
    result = p.run()
    found = [element for element, _, _ in kept_in(tmp_path)]
    assert len(found) == len(rows)
    for row in found:
        assert row["bertscore_error"] == row["id"]
        assert (row["bertscore_f1"] is None) == (row["id"] is not None)
    counted = {
        counter.key.metric.name: counter.committed
        for counter in result.metrics().query()["counters"]
        if counter.key.metric.namespace == counters.NAMESPACE
    }
    assert counted["pairs_scored"] == 1
    assert counted["num_inferences"] == len(rows)
    assert counted["reason_null_candidate"] == 2
    assert counted["reason_not_text"] == 1


def test_empty_sides_may_be_left_without_scores(run):
    row = {"candidate": " ", "reference": "a cat"}
    (zero,) = run(ScorePairs(CONFIG), [row])
    (null,) = run(ScorePairs(CONFIG, empty="null"), [row])
    assert (zero["bertscore_f1"], null["bertscore_f1"]) == (0.0, None)
    assert zero["bertscore_error"] == null["bertscore_error"] == "empty_candidate"
    assert null["bertscore_candidate_tokens"] == 2


def test_rescaling_needs_the_baselines_file_on_the_launcher_alone(run, tmp_path):
    path = tmp_path / "baseline.csv"
    path.write_text("LAYER,P,R,F\n" + "".join(f"{n},0.5,0.4,0.3\n" for n in range(7)))
    rows = pairs(4)
    expected = library(rows, rescale=True, baseline=str(path))
    config = ScorerConfig(device="cpu", rescale=True, baseline=str(path), empty="zero")
    signed = BertScorer(config).signature()
    scoring = ScorePairs(config)
    path.unlink()
    found = run(scoring, rows)
    np.testing.assert_array_equal(measured(found), expected)
    raw = [row["bertscore_raw_f1"] for row in sorted(found, key=lambda row: row["id"])]
    np.testing.assert_array_equal(np.array(raw, np.float32), library(rows)[2])
    assert scoring.signature() == signed


@pytest.mark.parametrize(
    ("config", "others", "message"),
    [
        ({"idf": True}, {}, "idf needs a table.*`bertscore-beam idf`"),
        ({"all_layers": True}, {}, "got all_layers"),
        ({"model": "no/such-model"}, {}, "no/such-model"),
        ({"num_layers": 99}, {}, "99"),
        ({"rescale": True}, {}, "rescaling needs a language or a baseline"),
        ({}, {"empty": "drop"}, "'drop'; expected one of reference, zero, null"),
        ({"empty": "zero"}, {"empty": "null"}, "empty='null', and 'zero' in the config"),
        ({}, {"min_batch_size": 9, "max_batch_size": 8}, "batches of 9 to 8 pairs"),
        ({}, {"max_batch_size": 0}, "batches of 0 to 0 pairs"),
        ({}, {"model_copys": 2}, "model_copys.*Did you mean.*model_copies"),
    ],
)
def test_what_cannot_work_is_said_when_it_is_built(config, others, message):
    with pytest.raises(ConfigError, match=message):
        ScorePairs(ScorerConfig(device="cpu", **config), **others)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (beam.Row(candidates="a", reference="b"), "no candidate field 'candidate'.*'candidates'?"),
        (beam.Row(candidate=["a"], reference="b"), "'candidate' holds no texts"),
        (beam.Row(candidate="a", reference=2), "'reference' holds no texts"),
        (beam.Row(candidate="a", reference="b", bertscore_f1=0.5), "have score columns.*_f1"),
    ],
)
def test_schema_that_cannot_be_scored_is_refused_when_the_pipeline_is_built(row, message):
    p = beam.Pipeline(runner="FnApiRunner")
    with pytest.raises((InputError, ConfigError), match=message):
        _ = p | beam.Create([row]) | ScorePairs(CONFIG)


def test_fields_may_have_other_names(run):
    row = {"hypothesis": "a cat", "truth": ["a cat"]}
    (found,) = run(ScorePairs(CONFIG, candidate_field="hypothesis", reference_field="truth"), [row])
    assert found["bertscore_f1"] == pytest.approx(1, abs=1e-5)


# Pairs of windows and streams are scored as they come.


@pytest.mark.parametrize("wait", [None, 5])
def test_stream_is_scored_as_it_comes_and_windows_are_kept(run, wait):
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
    # A batch bears the end of its window, or the time at which it was complete.
    assert wait or all(timestamp == end for _, timestamp, end in found)
    scores = measured([row for row, _, _ in found])
    np.testing.assert_allclose(scores, library(rows), atol=INVARIANCE_ATOL, rtol=0)


# Pairs of several languages in somebody's pipeline.

SHALLOW = ScorerConfig(model="all-MiniLM-L6-v2", num_layers=3, device="cpu")
DEEP = ScorerConfig(model="all-MiniLM-L6-v2", device="cpu")
CONFIGS = {"EN": DEEP, "de": SHALLOW}
LANGUAGES = ["en", "DE", "zh", None, 7, "en"]
REASONS = [None, None, "language_without_setting", "null_language", "unknown_language", None]


def test_each_pair_is_scored_by_its_language(run):
    rows = [row | {"lang": lang} for row, lang in zip(pairs(6), LANGUAGES, strict=True)]
    transform = ScorePairs(ByLanguage(field="lang", configs=CONFIGS))
    found = sorted(run(transform, rows), key=lambda row: row["id"])
    for row, given, reason in zip(found, rows, REASONS, strict=True):
        language = None if reason else given["lang"].lower()
        signature = None if reason else transform.signatures()[language].format()
        assert row.items() >= given.items()
        assert (row["bertscore_error"], row["bertscore_signature"]) == (reason, signature)
        layers = {"de": SHALLOW.num_layers}.get(language)
        score = None if reason else float(library([given], num_layers=layers)[2, 0])
        assert row["bertscore_f1"] == (score and pytest.approx(score, abs=INVARIANCE_ATOL))


def test_a_misspelt_field_of_languages_is_an_error():
    """Else a whole run would have no scores, and `null_language` as the reason of every row."""
    handler = BertScoreModelHandler(ByLanguage(field="lnag", configs=CONFIGS))
    model = handler.load_model()
    batch = [{"candidate": "a cat", "reference": "the cat", "lang": "en"}] * 512
    found = handler.run_inference(batch, model)
    assert {one.inference.error for one in found} == {"null_language"}
    with pytest.raises(InputError, match="no element has the language field 'lnag'"):
        handler.run_inference(batch, model)


def test_a_mapping_is_checked_when_the_transform_is_built(tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("LAYER,P,R,F\n" + "".join(f"{n},0.1,0.1,0.1\n" for n in range(7)))
    rescaled = ScorerConfig(model="all-MiniLM-L6-v2", rescale=True, baseline=str(table))
    wrong = {
        "same baseline": {"en": rescaled, "de": rescaled},
        "rescale is set for some languages": {"en": rescaled, "de": DEEP},
        "strip_reasoning is set for some": {"en": ScorerConfig(strip_reasoning=True), "de": DEEP},
        "language 'de'": {"en": DEEP, "de": ScorerConfig(model="no-such-model")},
        "language 'en' is named twice in configs": {"en": DEEP, "EN": DEEP},
        "got '*'; expected language codes such as en or zh-cn. C": {"*": DEEP},
        "the languages in configs do not fit: got {}; expected": {},
    }
    for words, configs in wrong.items():
        with pytest.raises(ConfigError, match=re.escape(words)):
            ScorePairs(ByLanguage(field="lang", configs=configs))
    of_all = BertScorer(DEEP).count_idf(["the cat"])
    with pytest.raises(IdfError, match="language 'en': the idf holds no idf table for this lang"):
        ScorePairs(ByLanguage(field="lang", configs=CONFIGS), idf=of_all)
    shared = {"en": rescaled, "de": rescaled}
    ScorePairs(ByLanguage(field="lang", configs=shared, allow_shared_baseline=True))
