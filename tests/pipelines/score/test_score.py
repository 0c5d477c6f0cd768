"""The scoring job end to end: equal to scoring directly, whatever the shards and workers."""

from dataclasses import replace

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.idf.idf_tables import load_idf
from bertscore_beam.options.score_options import ScoreOptions
from bertscore_core import BertScorer, ConfigError, ScorerConfig, Signature
from tests.support import jobs
from tests.support.dumps import pair_rows, read_output, rich_table, write_dump
from tests.support.tolerances import INVARIANCE_ATOL

pytestmark = pytest.mark.job


MEASURES = ("precision", "recall", "f1")
BASELINE = "LAYER,P,R,F\n" + "".join(f"{n},0.3,0.31,0.29\n" for n in range(7))


def direct(count: int, config: ScorerConfig) -> np.ndarray:
    """Score the rows of a dump without the pipeline. Shape (3, count)."""
    rows = pair_rows(count)
    scores = BertScorer(config).score(rows["candidate"], rows["reference"])
    return np.stack([getattr(scores, name) for name in MEASURES])


def measured(table: pa.Table) -> np.ndarray:
    return np.stack([table[f"bertscore_{name}"].to_numpy() for name in MEASURES])


@pytest.mark.parametrize(
    ("shards", "idf", "rescale"),
    [
        ([60], "none", False),
        ([25, 1, 34], "corpus", False),
        ([10, 10, 10, 10, 10, 5, 5], "corpus", True),
        ([59, 0, 1], "none", True),
    ],
)
def test_pipeline_matches_direct_scoring(tmp_path, shards, idf, rescale):
    (tmp_path / "baseline.csv").write_text(BASELINE)
    dump = write_dump(tmp_path / "dump", shards)
    rescaled = {"rescale": True, "baseline": str(tmp_path / "baseline.csv")} if rescale else {}
    batches = {"max_batch_tokens": 64 * len(shards)}
    summary = jobs.run_options(
        jobs.job_options(dump, tmp_path / "out", idf=idf, **rescaled, **batches)
    )
    output = read_output(tmp_path / "out")
    expected = direct(60, ScorerConfig(idf=idf == "corpus", **rescaled))
    assert output["id"].to_pylist() == list(range(60))
    np.testing.assert_allclose(measured(output), expected, atol=INVARIANCE_ATOL * 2, rtol=0)
    assert np.ptp(expected[2]) > 0.1
    assert summary["success"]
    assert (summary["rows"], summary["scored"]) == (60, 60)
    assert summary["f1"] == pytest.approx(expected[2].mean(), abs=1e-6)
    assert (tmp_path / "out" / "_SUCCESS").exists()


@pytest.fixture(scope="module")
def in_memory(tmp_path_factory):
    """Return a dump of 60 rows and its output, scored in one process with idf."""
    folder = tmp_path_factory.mktemp("in-memory")
    dump = write_dump(folder / "dump", [25, 1, 34])
    jobs.run_options(jobs.job_options(dump, folder / "out", idf="corpus"))
    return dump, read_output(folder / "out")


@pytest.mark.usefixtures("children")
def test_other_processes_give_the_same_parts(tmp_path, in_memory):
    dump, expected = in_memory
    words = jobs.score_arguments(
        dump, tmp_path, "--idf", "corpus", "--split-rows", 20, "--device", "cpu"
    )
    assert cli.main([*words, "--workers", "2"]) == cli.DONE
    output = read_output(tmp_path / "out")
    assert output.select(["id", "candidate"]).equals(expected.select(["id", "candidate"]))
    np.testing.assert_allclose(measured(output), measured(expected), atol=INVARIANCE_ATOL, rtol=0)


def test_columns_pass_through_and_several_references_are_scored(tmp_path):
    pq.write_table(rich_table(), tmp_path / "rich.parquet")
    jobs.run_options(jobs.job_options(tmp_path / "rich.parquet", tmp_path / "out"))
    output = read_output(tmp_path / "out")
    given = pq.ParquetFile(tmp_path / "rich.parquet").read()
    assert output.select(given.column_names).equals(given)
    assert output.schema.field("system").type == given.schema.field("system").type
    metadata = output.schema.metadata
    assert metadata[b"made_by"] == b"a test"
    signature = Signature.parse(metadata[b"bertscore.signature"].decode())
    assert signature.model == "all-MiniLM-L6-v2"
    assert metadata[b"bertscore.hash"].decode() == signature.upstream_hash()
    tokens = ("candidate_tokens", "reference_tokens", "text_tokens", "unknown")
    names = (*MEASURES, "best_reference", *tokens, "truncated")
    added = output.column_names[len(given.column_names) :]
    assert added == [f"bertscore_{name}" for name in (*names, "error", "key")]
    assert output.schema.field("bertscore_f1").type == pa.float32()
    assert set(output["bertscore_best_reference"].to_pylist()) == {0}


AWKWARD = [
    # candidate, references, reason, has scores with --empty zero, and with --empty null
    ("a cat", ["the cat"], None, True, True),
    (None, ["the cat"], "null_candidate", False, False),
    ("a cat", None, "null_reference", False, False),
    ("a cat", [], "no_references", False, False),
    ("a cat", ["the cat", None], "null_reference", False, False),
    ("", ["the cat"], "empty_candidate", True, False),
    ("a cat", ["  "], "empty_reference", True, False),
    ("a cat", ["", "the cat"], None, True, True),
    (" \u200b ", ["the cat"], "empty_candidate", True, False),
]


@pytest.mark.parametrize("empty", ["zero", "null"])
def test_awkward_rows_stay_with_a_reason(tmp_path, empty):
    file = tmp_path / "awkward.parquet"
    texts = {"candidate": [row[0] for row in AWKWARD], "reference": [row[1] for row in AWKWARD]}
    pq.write_table(pa.table(texts), file)
    summary = jobs.run_options(
        jobs.job_options(file, tmp_path / "out", empty=empty, max_reject_fraction=1.0)
    )
    output = read_output(tmp_path / "out")
    assert output["bertscore_error"].to_pylist() == [row[2] for row in AWKWARD]
    has_scores = [row[3] if empty == "zero" else row[4] for row in AWKWARD]
    for name in MEASURES:
        values = output[f"bertscore_{name}"].to_pylist()
        assert [value is not None for value in values] == has_scores
    if empty == "zero":
        assert output["bertscore_f1"][5].as_py() == 0.0
    assert summary["scored"] == sum(has_scores)
    assert summary["reasons"]["null_reference"] == 2


def test_row_without_weighted_token_has_no_score(tmp_path):
    table = pa.table({"candidate": ["a cat"], "reference": ["the cat"]})
    pq.write_table(table, tmp_path / "one.parquet")
    summary = jobs.run_options(
        jobs.job_options(tmp_path / "one.parquet", tmp_path / "out", idf="corpus")
    )
    output = read_output(tmp_path / "out")
    assert output["bertscore_error"].to_pylist() == ["no_weighted_token"]
    assert output["bertscore_f1"].to_pylist() == [None]
    assert summary["f1"] is None
    assert not summary["success"]
    assert pq.read_table(tmp_path / "out" / "_rejects")["message"].to_pylist() == [None]


def test_the_rejects_say_that_it_is_the_unknown_token_that_has_no_weight(tmp_path):
    table = pa.table({"candidate": ["𓀀", "a cat"], "reference": ["the 𓂀", "a 𓃀 cat"]})
    pq.write_table(table, tmp_path / "two.parquet")
    summary = jobs.run_options(
        jobs.job_options(tmp_path / "two.parquet", tmp_path / "out", idf="corpus")
    )
    assert summary["rejected_reasons"] == {"no_weighted_token": 1}
    (message,) = pq.read_table(tmp_path / "out" / "_rejects")["message"].to_pylist()
    assert "the unknown token weighs 0" in message


def test_device_of_remote_workers_is_not_looked_for_here(tmp_path):
    chosen = jobs.job_options(
        write_dump(tmp_path / "dump", [5]), tmp_path / "out", device="cuda:77"
    )
    remote = replace(chosen, beam=("--runner=DataflowRunner",))
    assert jobs.prepare_score(remote).spec.start.rows == 5
    with pytest.raises(ConfigError, match="device 'cuda:77' cannot be used"):
        jobs.prepare_score(chosen)


def test_saved_idf_table_gives_the_scores_of_one_job_and_must_stay_as_planned(
    tmp_path, in_memory, capsys, monkeypatch
):
    dump, expected = in_memory
    table = tmp_path / "table.npz"
    assert cli.main(["idf", "--input", str(dump), "--output", str(table)]) == 0
    assert "60 references of 3 files" in capsys.readouterr().out
    monkeypatch.chdir(tmp_path)
    begun = [
        jobs.start(jobs.prepare_score(jobs.job_options(dump, tmp_path / name, idf="table.npz")))
        for name in ("out", "later")
    ]
    monkeypatch.chdir(dump)  # workers may have another working folder
    planned, changed = table.read_bytes(), replace(load_idf(str(table)).only("it"), max_length=7)
    table.write_bytes(changed.to_bytes())
    with pytest.raises(Exception, match=f"changed while the job runs: got {changed.fingerprint};"):
        jobs.run_prepared(begun[1])
    assert not list((tmp_path / "later").rglob("*.parquet"))
    table.write_bytes(planned)
    jobs.run_prepared(begun[0])
    np.testing.assert_array_equal(measured(read_output(tmp_path / "out")), measured(expected))


def test_fs_without_folders_works_from_end_to_end(tmp_path):
    """memory:// stands for any file system reached through fsspec."""
    memory = fsspec.filesystem("memory")
    dump = write_dump(tmp_path / "dump", [20])
    memory.pipe_file("/score-in/a.parquet", (dump / "shard-000.parquet").read_bytes())
    places = {"input": ("memory://score-in",), "output": "memory://score-out"}
    chosen = ScoreOptions(**places, device="cpu", workers=1, restarts=0)
    job = jobs.start(jobs.prepare_score(chosen))
    jobs.run_prepared(job)
    names = {path.removeprefix("/score-out/") for path in memory.find("/score-out")}
    assert {"_SUCCESS", "_summary.json", "a.parquet/part-000000000000.parquet"} <= names
