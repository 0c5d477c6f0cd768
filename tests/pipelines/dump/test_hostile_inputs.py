"""Whatever is in the dump: a clear error, or a row with a reason, and everything else is scored.

One job over all bad files, one over all hostile rows. Where else the same is looked at closely:

==============================================  ====================================================
bytes of files                                  test_read_split, tests/fuzz/test_files_fuzz
columns that are missing, mistyped, ours        test_columns, test_planning
nulls, empty and blank texts, lists of them     test_score (test_awkward_rows...), test_scoring
special tokens in texts (`[SEP]`, `</s>`, ...)  core/test_parity: goldens literal_* and mask_first
thousands of files                              test_remote_splits
names, on each kind of file system              test_files, test_splits
==============================================  ====================================================
"""

import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_core import BertScorer, InputError, ScorerConfig, score
from tests.support.dumps import read_output
from tests.support.hostile import BAD_FILES, LIST_KINDS, TEXT_KINDS, not_utf8, pairs
from tests.support.jobs import run_job
from tests.support.tables import plan_pairs
from tests.support.tolerances import INVARIANCE_ATOL

MEASURES = ("bertscore_precision", "bertscore_recall", "bertscore_f1")


@pytest.fixture(scope="module")
def tiny(tiny_folder) -> dict[str, object]:
    """Return the options of a tiny model."""
    return {"model": str(tiny_folder("bert")), "num_layers": 2}


# --- Files -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bad_dump(tmp_path_factory) -> Path:
    """Return a folder with one good file and every bad one."""
    folder = tmp_path_factory.mktemp("bad")
    pq.write_table(pairs(), folder / "good.parquet")
    for name, make, _, _ in BAD_FILES:
        make(folder / f"{name}.parquet")
    return folder


@pytest.mark.parametrize(
    ("name", "reason", "message"), [(name, *rest) for name, _, *rest in BAD_FILES]
)
def test_bad_file_is_rejected_with_its_reason_and_what_helps(bad_dump, name, reason, message):
    rejected = plan_pairs(bad_dump).rejected_files
    (found,) = (file for file in rejected if Path(file.path).stem == name)
    assert found.reason == reason
    assert message in found.message
    assert len(found.message) < 500
    with pytest.raises(InputError, match="none of the inputs can be scored: got 1 file"):
        plan_pairs(bad_dump / f"{name}.parquet")


# --- Rows --------------------------------------------------------------------------------------

SIDES = ("candidate", "reference")
MEGABYTES = 10_000_000
COUNTED = 30_000
"""Characters that make more than the 512 tokens that count, where words are short."""
ROWS = (
    # what it is, candidate, reference, reason
    ("plain", "a cat sat", "the cat sat", None),
    ("one token", "a", "a", None),
    ("one token against many", "cat", "the cat sat on the mat", None),
    ("blank", " \t\n", "the cat", "empty_candidate"),
    ("white space of all kinds", "the cat", "\u00a0\u2003\u3000\u2028\x1c\x85", "empty_reference"),
    ("nothing left of it", "\u200b\u00ad\x00\x07", "the cat", "empty_candidate"),
    ("NUL", "a\x00cat\x00", "a cat", None),
    ("control characters", "a \x01\x02\x1b[31m cat\x7f", "a cat", None),
    ("bidi controls", "\u202ea cat\u202c \u2067sat\u2069", "a cat sat", None),
    ("emoji", "\U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f600", None),
    ("emoji with modifiers", "\U0001f44b\U0001f3fd \U0001f1ee\U0001f1f3 1\ufe0f\u20e3", "hi", None),
    ("combining", "cafe\u0301 a\u0308\u0323", "caf\u00e9", None),
    ("combining marks without end", "a" + "\u0301" * 5000, "a", None),
    ("combining mark alone", "\u0301 a", "a", None),
    ("noncharacters", "a \ufffe\uffff\U0010ffff cat", "a cat", None),
    ("private use and unassigned", "a \ue000 \U000e0fff cat", "a cat", None),
    ("separator token", "a [SEP] cat [SEP]", "[CLS] a cat", None),
    ("nothing but special tokens", "[SEP]", "the cat", "only_special_tokens"),
    ("the same as the reference", "the cat", "[SEP] [CLS]", "only_special_tokens"),
    ("tokens of other models", "a </s> cat <mask> <s> <pad>", "a cat</s>", None),
    ("10 MB of words", "the cat sat on a mat " * (MEGABYTES // 21), "the cat sat", None),
    ("10 MB of other letters", "кошка сидит тут " * (MEGABYTES // 29), "кошка", None),
    ("100 kB without a space", "x" * (MEGABYTES // 100), "the cat", None),
    ("100 kB of ideographs", "猫" * (MEGABYTES // 300), "猫", None),
    ("100 kB of spaces inside", "a" + " " * (MEGABYTES // 100) + "cat", "a cat", None),
)


@pytest.fixture(scope="module")
def hostile_rows(tmp_path_factory, scorer):
    """Return the hostile rows scored by a job with the embedded model, and its seconds."""
    folder = tmp_path_factory.mktemp("rows")
    columns = {name: [row[i] for row in ROWS] for i, name in enumerate(("what", *SIDES))}
    pq.write_table(pa.table(columns), folder / "rows.parquet")
    started = time.perf_counter()
    summary = run_job(folder / "rows.parquet", output=folder / "out", max_reject_fraction=1.0)
    seconds = time.perf_counter() - started
    return summary, read_output(folder / "out"), seconds


@pytest.mark.job
def test_every_hostile_row_is_there_in_order_with_its_bytes(hostile_rows):
    summary, output, seconds = hostile_rows
    assert output["what"].to_pylist() == [row[0] for row in ROWS]
    for index, side in enumerate(SIDES, start=1):
        assert output[side].to_pylist() == [row[index] for row in ROWS]
    assert summary["rows"] == len(ROWS)
    assert summary["success"]
    assert seconds < 120  # 7 s on two cores


@pytest.mark.job
@pytest.mark.parametrize("index", range(len(ROWS)), ids=[row[0] for row in ROWS])
def test_hostile_row_has_its_reason_or_the_score_of_the_library(hostile_rows, scorer, index):
    _, output, _ = hostile_rows
    _, candidate, reference, reason = ROWS[index]
    row = {name: output[name][index].as_py() for name in (*MEASURES, "bertscore_error")}
    assert row["bertscore_error"] == reason
    if reason in ("empty_candidate", "empty_reference"):
        assert [row[name] for name in MEASURES] == [0.0] * 3
        return
    if len(candidate) >= MEGABYTES // 10:
        candidate = candidate[:COUNTED]
    direct = scorer.score([candidate], [reference])
    expected = [direct.precision[0], direct.recall[0], direct.f1[0]]
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(
        [row[name] for name in MEASURES], expected, atol=INVARIANCE_ATOL, rtol=0
    )
    assert (row["bertscore_f1"] == 0) == (reason == "only_special_tokens")


@pytest.mark.job
def test_bytes_that_are_no_utf8_reject_their_row_in_every_kind_of_column(tmp_path, tiny):
    (tmp_path / "in").mkdir()
    good = pa.array(["a cat"] * 4)
    for kind in TEXT_KINDS + LIST_KINDS:
        table = pa.table({"candidate": good, "reference": not_utf8(kind)})
        pq.write_table(table, tmp_path / "in" / f"reference {kind}.parquet")
        if kind in TEXT_KINDS:
            table = pa.table({"candidate": not_utf8(kind), "reference": good})
            pq.write_table(table, tmp_path / "in" / f"candidate {kind}.parquet")
    summary = run_job(
        tmp_path / "in", output=tmp_path / "out", idf="corpus", max_reject_fraction=1.0, **tiny
    )
    files = len(TEXT_KINDS) * 2 + len(LIST_KINDS)
    assert summary["reasons"]["invalid_utf8"] == 2 * files
    assert summary["scored"] == 2 * files
    parts = sorted((tmp_path / "out").glob("*.parquet/part-*.parquet"))
    assert len(parts) == files
    for part in parts:
        reasons = pq.ParquetFile(part).read(["bertscore_error"])["bertscore_error"].to_pylist()
        assert reasons == [None, "invalid_utf8", "invalid_utf8", None]


REFERENCES = (
    # references of a row, reason
    (["a cat"], None),
    ([], "no_references"),
    (None, "null_reference"),
    ([None], "null_reference"),
    (["a cat", None], "null_reference"),
    (["", "a cat"], None),
    (["", " "], "empty_reference"),
    (["a cat"] * 3000, None),
)


@pytest.mark.job
def test_lists_of_references(tmp_path, tiny):
    column = pa.array([references for references, _ in REFERENCES], pa.list_(pa.string()))
    table = pa.table({"candidate": ["a cat sat"] * len(column), "reference": column})
    pq.write_table(table, tmp_path / "a.parquet")
    run_job(tmp_path / "a.parquet", output=tmp_path / "out", max_reject_fraction=1.0, **tiny)
    output = read_output(tmp_path / "out")
    assert output["bertscore_error"].to_pylist() == [reason for _, reason in REFERENCES]
    best, *others = output["bertscore_f1"].to_pylist()
    assert best > 0
    scores = {None: best, "empty_reference": 0.0}
    assert others == [scores.get(reason) for _, reason in REFERENCES[1:]]


@pytest.mark.parametrize("idf", [False, True])
def test_lone_surrogates_in_python_texts_are_an_error_that_names_the_pair(tiny, idf):
    scorer = BertScorer(ScorerConfig(**tiny, idf=idf, device="cpu"))
    for candidates, references in (
        (["a", "secret \ud800"], ["b", "c"]),
        (["a", "b"], [["c"], ["d", "\udfff secret"]]),
        (["a", "b"], ["c", "word " * 99_999 + "\ud83d"]),  # far behind the maximum length
    ):
        with pytest.raises(InputError, match="pair 1 holds a lone surrogate") as caught:
            scorer.score(candidates, references)
        assert "secret" not in str(caught.value)
    with pytest.raises(InputError, match="pair 2 holds a lone surrogate"):
        scorer.count_idf(["a", "b", "\ud800"])
    with pytest.raises(InputError, match="pair 0 holds a lone surrogate"):
        score(["\ud800"], ["a"], model_type=tiny["model"], num_layers=2, idf=idf)


# --- Layouts and names -------------------------------------------------------------------------


USUAL = "two words|ü 日本 🎉|in[1]*?|50%|%2F%00|key=value|-rf|quote's \"|_hidden"
NAMES = [*USUAL.split("|"), "n" * 250, "日" * 80, "%" * 200]  # the last has 600 bytes when escaped


@pytest.mark.job
def test_files_of_any_name_are_scored(tmp_path, tiny):
    folder = tmp_path / "in [*] %20 ü"
    folder.mkdir()
    for name in NAMES:
        pq.write_table(pairs(1), folder / f"{name}")
    summary = run_job(*(folder / name for name in NAMES), output=tmp_path / "out [*] %20", **tiny)
    assert summary["success"]
    assert summary["scored"] == len(NAMES)
    parts = list((tmp_path / "out [*] %20").glob("*/part-*.parquet"))
    folders = {part.parent.name for part in parts if not part.parent.name.startswith("_")}
    assert len(folders) == len(NAMES)
    assert {"two words", "in[1]*?", "50%25", "%5Fhidden", "n" * 250, "日" * 80} <= folders
    assert all(len(name.encode()) <= 255 for name in folders)
    again = run_job(folder / "50%", output=tmp_path / "out [*] %20", **tiny)
    assert again["parts_of_earlier_runs"] == again["parts"] == 1
