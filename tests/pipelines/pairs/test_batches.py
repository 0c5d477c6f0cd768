"""Arrow tables are scored as the job scores them, without Beam, in any engine's process."""

import logging
import os
import pickle
import signal
import subprocess
import sys
from dataclasses import fields

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam import ScoreBatches
from bertscore_beam.cli import main as cli
from bertscore_beam.options.score_options import ScoreOptions
from bertscore_beam.pairs import batches
from bertscore_core import BertScoreError, ConfigError, IdfError, InputError
from tests.support.dumps import pair_rows, read_output, write_dump
from tests.support.jobs import run_job
from tests.support.mixed import language_entries, mixed_table
from tests.support.tolerances import INVARIANCE_ATOL

pytestmark = pytest.mark.job

MEASURES = ("bertscore_precision", "bertscore_recall", "bertscore_f1")


def measured(table):
    return np.stack([table[name].to_numpy(zero_copy_only=False) for name in MEASURES])


@pytest.fixture(scope="module")
def night(tmp_path_factory):
    """Return a folder with a dump, its idf table, and the job's scores of it."""
    folder = tmp_path_factory.mktemp("batches")
    dump = write_dump(folder / "dump", [30])
    assert cli.main(f"idf --input {dump} --output {folder}/idf.npz".split()) == cli.DONE
    run_job(dump, output=folder / "out", idf=str(folder / "idf.npz"))
    return folder


@pytest.fixture(scope="module")
def scorer(night):
    return ScoreBatches(device="cpu", idf=str(night / "idf.npz"))


def test_a_table_gets_the_columns_and_the_scores_of_the_job(night, scorer):
    expected = read_output(night / "out")
    part = pq.read_table(next((night / "out").glob("shard*/*.parquet")), partitioning=None)
    found = scorer(pq.read_table(next((night / "dump").glob("*.parquet"))))
    notes = dict(part.schema.metadata)
    del notes[b"bertscore.settings"]  # of the rows of a part, for later runs
    assert found.schema.equals(part.schema.with_metadata(notes), check_metadata=True)
    others = [name for name in found.column_names if name not in MEASURES]
    assert found.select(others).equals(expected.select(others))
    np.testing.assert_allclose(measured(found), measured(expected), rtol=0, atol=INVARIANCE_ATOL)
    assert found.schema.metadata[b"bertscore.signature"].decode() == scorer.signature().format()


def test_rows_in_batches_have_one_schema_which_is_known_before(night, scorer, monkeypatch):
    table = pq.read_table(next((night / "dump").glob("*.parquet")))
    whole = scorer(table)
    found = list(scorer.over(table.to_batches(max_chunksize=7)))
    assert [len(batch) for batch in found] == [7, 7, 7, 7, 2]
    assert all(batch.schema.equals(scorer.schema(table.schema), True) for batch in found)
    scores = measured(pa.Table.from_batches(found))
    np.testing.assert_allclose(scores, measured(whole), rtol=0, atol=INVARIANCE_ATOL)
    monkeypatch.setattr(batches, "_BLOCK_ROWS", 7)
    np.testing.assert_array_equal(measured(scorer(table)), scores)


def test_the_schema_for_spark_takes_times(scorer):
    types = pytest.importorskip("pyspark.sql.types", reason="Spark is not installed")
    rows = types.StructType()
    for name, kind in (("candidate", "string"), ("reference", "string"), ("at", "timestamp")):
        rows = rows.add(name, kind)
    scored = scorer.spark_schema(rows)
    assert scored.fields[:3] == rows.fields
    assert scored["bertscore_f1"].dataType == types.FloatType()


def test_bad_rows_have_their_reasons_and_no_row_is_dropped(scorer):
    table = pa.table({"candidate": ["a cat", None, ""], "reference": [["a"], ["b"], ["c"]]})
    found = scorer(table)
    assert found["bertscore_error"].to_pylist() == [None, "null_candidate", "empty_candidate"]
    assert found["bertscore_f1"].to_pylist()[1] is None
    assert found["bertscore_best_reference"].to_pylist() == [0, None, 0]


def test_rows_are_scored_by_their_languages(tiny_folder, tmp_path):
    entries = language_entries(tiny_folder, tmp_path)
    scorer = ScoreBatches(device="cpu", language_column="lang", languages=entries, rescale=True)
    table = mixed_table(10)
    found = scorer(table)
    assert set(found["bertscore_signature"].to_pylist()) == set(scorer.signatures().values())
    (plain,) = scorer.over(table.to_batches())
    assert plain.schema.equals(scorer.schema(table.schema), True)
    assert plain["bertscore_signature"].to_pylist() == found["bertscore_signature"].to_pylist()
    with pytest.raises(ConfigError, match="each language has a signature"):
        scorer.signature()


def test_a_process_loads_a_model_once(caplog, monkeypatch):
    monkeypatch.setattr(batches, "_SCORERS", {})
    table = pa.table(pair_rows(3))
    with caplog.at_level(logging.INFO, logger="bertscore_beam.run.loading"):
        scorers = [ScoreBatches(device="cpu") for _ in range(2)]
        scored = scorers[0](table)
        assert scored.equals(pickle.loads(pickle.dumps(scorers[1]))(table))  # noqa: S301 - our own
        scorers[0](table)
    assert sum("model_loaded" in record.message for record in caplog.records) == 1


@pytest.mark.long
def test_a_process_forked_after_scoring_scores_with_one_thread():
    code = (
        "import os, torch, pyarrow as pa\n"
        "from bertscore_beam import ScoreBatches\n"
        "table = pa.table({'candidate': ['a cat'], 'reference': ['a cat']})\n"
        "for threads, expected in ((1, 1), (2, 2), (2, 1)):\n"  # the parent scores before the third
        "    scorer = ScoreBatches(device='cpu', num_threads=threads)\n"
        "    scorer.schema(table.schema)\n"
        "    if not (child := os.fork()):\n"
        "        scorer(table)\n"
        "        os._exit(torch.get_num_threads() != expected)\n"
        "    assert os.waitpid(child, 0)[1] == 0, (threads, expected)\n"
        "    if expected == 2:\n"
        "        scorer(table)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], start_new_session=True) as process:
        try:
            assert process.wait(timeout=100) == 0
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def test_another_process_needs_no_beam_and_takes_the_threads_it_is_given(tmp_path):
    scorer = ScoreBatches(device="cpu", num_threads=3)
    (tmp_path / "scorer.pickle").write_bytes(pickle.dumps(scorer))
    code = (
        "import pickle, sys, pyarrow as pa, torch\n"
        "scorer = pickle.load(open(sys.argv[1], 'rb'))\n"
        "table = scorer(pa.table({'candidate': ['a cat'], 'reference': ['a cat']}))\n"
        "print(round(table['bertscore_f1'][0].as_py(), 5), torch.get_num_threads())\n"
        "assert not [name for name in sys.modules if name.startswith('apache_beam')]\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "scorer.pickle")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "1.0 3\n"


def test_every_option_of_the_job_is_taken_or_refused_by_name():
    taken = """model language language_column languages num_layers revision max_length long_text
    empty idf idf_group rescale baseline allow_shared_baseline model_memory dtype device backend
    registry attention max_batch_tokens allow_pickle_weights candidate_column reference_column
    strip_reasoning"""
    assert set(batches.OPTIONS) == set(taken.split())
    for name in {one.name for one in fields(ScoreOptions)} - set(batches.OPTIONS):
        with pytest.raises(ConfigError, match=f"does not take {name!r}"):
            ScoreBatches(**{name: 1})


KNOWN = ", ".join(sorted(batches.OPTIONS))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"modle": "x"}, f"got 'modle'; expected one of {KNOWN}. Did you mean 'model'"),
        ({"idf": "corpus"}, "no process sees all rows"),
        ({"candidate_column": ("a", "b")}, "rows have one candidate here"),
        ({"language_column": "lang"}, "languages are missing"),
        ({"num_threads": 0}, "num_threads is 0; expected at least 1"),
        ({"num_threads": "2"}, "num_threads cannot be used: got '2'; expected a whole number"),
        ({"idf": "./no-such-table.npz"}, "cannot be read"),
        ({"rescale": True}, "--rescale needs a baseline"),
        ({"num_layers": 99}, "99"),
    ],
)
def test_what_cannot_work_is_said_when_it_is_made(options, message):
    with pytest.raises(BertScoreError, match=message):
        ScoreBatches(device="cpu", **options)


def test_a_table_that_cannot_be_scored_is_refused_before_a_model_is_loaded(scorer, night):
    with pytest.raises(InputError, match="no candidate column 'candidate'"):
        scorer(pa.table({"candidates": ["a"], "reference": ["b"]}))
    with pytest.raises(InputError, match="got dict; expected a pyarrow"):
        scorer({"candidate": ["a"], "reference": ["b"]})
    with pytest.raises(ConfigError, match="already has score columns"):
        scorer(scorer(pa.table(pair_rows(1))))
    with pytest.raises(IdfError):
        ScoreBatches(device="cpu", idf=str(night / "idf.npz"), max_length=40)
