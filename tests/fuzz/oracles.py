"""What must hold for any input: the checks that hypothesis and atheris share."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.dump import (
    UNREADABLE,
    Plan,
    Reason,
    read_split,
    reference_texts,
    texts_from_column,
    write_part,
)
from bertscore_core import BertScorer, InputError
from tests.support.hostile import not_utf8
from tests.support.scoring import score_all_rows
from tests.support.tables import PAIRS, plan_pairs
from tests.support.text_files import plan_text, read_plan

MEASURES = ("bertscore_precision", "bertscore_recall", "bertscore_f1")
REASONS = {str(reason) for reason in Reason}


def seed_files() -> list[bytes]:
    """Return small Parquet files of many kinds, to be damaged."""
    texts = [None if i % 7 == 3 else f"text {i % 5} ü" for i in range(40)]
    lists = [None if i % 5 == 4 else texts[: i % 4] for i in range(40)]
    strings = {"candidate": texts, "reference": texts[::-1]}
    plain = pa.table(strings)
    several = pa.table(
        {
            "candidate": pa.array(texts).dictionary_encode(),
            "reference": pa.array(lists, pa.list_(pa.string())),
            "pair": pa.array([["x", None]] * 40, pa.list_(pa.string(), 2)),
            "meta": pa.array([{"k": 1, "t": ["x"]}, None] * 20),
            "number": pa.array(range(40)),
        }
    )
    broken = pa.table({"candidate": not_utf8("string"), "reference": not_utf8("large_list")})
    deltas = dict.fromkeys(strings, "DELTA_BYTE_ARRAY")
    seeds = []
    for table, options in (
        (plain, {"compression": "none", "row_group_size": 10}),
        (plain, {"compression": "zstd", "data_page_version": "2.0", "use_dictionary": False}),
        (plain.slice(0, 0), {}),
        (several, {"compression": "snappy", "row_group_size": 16}),
        (several, {"store_schema": False, "compression": "gzip", "write_page_checksum": True}),
        (broken, {"compression": "none"}),
        (plain, {"use_dictionary": False, "column_encoding": deltas}),
    ):
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, **options)
        seeds.append(bytes(sink.getvalue()))
    return seeds


def read_everything(data: bytes) -> str:
    """Plan and read a file with this content; return what became of it in a word.

    Raises:
        Exception: Anything but the errors for bad files, which is a bug.
        AssertionError: If rows are missing or an error says nothing.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.parquet"
        path.write_bytes(data)
        plan = _plan(path)
        if plan is None:
            return "rejected"
        outcome = "read"
        for split in plan.splits:
            try:
                table = read_split(split)
            except UNREADABLE as error:
                _check_message(str(error), "x.parquet")
                outcome = "damaged"
                continue
            assert table.num_rows == split.num_rows
            assert len(texts_from_column(table["candidate"])) == split.num_rows
            assert len(reference_texts(table["reference"])) == split.num_rows
            write_part(table)
        return outcome


def text_seeds() -> list[bytes]:
    """Return small text files of many kinds, to be damaged."""
    rows = b'{"candidate": "a", "reference": ["b", "c"], "n": 1.5, "o": {"x": [{}]}}\n'
    table = b'candidate,reference\r\n"a ""b"", c\n",d\r\ne,"f"\r\n'
    return [rows * 3, table, table.replace(b",", b"\t"), b"\xef\xbb\xbf" + rows + b"\n" + rows[:-1]]


def read_any_text(data: bytes, size: int = 20) -> str:
    """Plan and read a text file with this content in every format; return a word for each.

    Raises:
        Exception: Anything but the errors for bad files, which is a bug.
        AssertionError: If rows depend on the cut, or places are wrong.
    """
    outcomes = []
    with tempfile.TemporaryDirectory() as folder:
        for name in ("x.jsonl", "x.csv", "x.tsv"):
            path, out = Path(folder) / name, Path(folder) / "out"
            path.write_bytes(data)
            try:
                whole, cut = plan_text(path, out), plan_text(path, out, 3, size)
            except InputError as error:
                _check_message(str(error), "expected at least one good one")
                outcomes.append("rejected")
                continue
            (table, lines), (pieces, again) = read_plan(whole), read_plan(cut)
            assert repr(table.to_pylist()) == repr(pieces.to_pylist())
            assert lines == again
            assert len(lines) == table.num_rows
            outcomes.append("bad lines" if any(reason for _, reason in lines) else "read")
    return " ".join(outcomes)


def _plan(path: Path) -> Plan | None:
    """Plan one file, None if it is rejected."""
    try:
        return plan_pairs(path, rows=16, target_bytes=1 << 20)
    except InputError as error:
        _check_message(str(error), "expected at least one good one")
        return None


def _check_message(message: str, wanted: str) -> None:
    """Check that a message says what it must and does not go on for pages."""
    assert wanted in message
    assert len(message) < 2000


def score_any_texts(
    scorer: BertScorer, candidates: Sequence[str], references: Sequence[Sequence[str]]
) -> int:
    """Score texts as rows of a table, and return how many rows were looked at.

    Raises:
        AssertionError: If a row is lost, moved, or has neither finite scores nor a reason.
    """
    table = pa.table(
        {
            "candidate": pa.array(candidates, pa.string()),
            "reference": pa.array(references, pa.list_(pa.string())),
        }
    )
    found = score_all_rows(scorer, table, PAIRS).table
    assert found.select(table.column_names).equals(table)
    scores = np.stack([found[name].to_numpy() for name in MEASURES])
    for row, reason in enumerate(found["bertscore_error"].to_pylist()):
        assert reason is None or reason in REASONS
        finite = np.isfinite(scores[:, row])
        assert finite.all() or (reason is not None and not finite.any())
        assert (np.abs(scores[finite, row]) <= 1 + 1e-5).all()
    return len(found)
