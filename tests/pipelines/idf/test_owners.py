"""Which row of each key counts, and the estimate of how much references repeat."""

import io
import random
import zipfile
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from bertscore_beam.dump.columns import TableFields
from bertscore_beam.dump.splits import Split
from bertscore_beam.dump.texts import Rows
from bertscore_beam.idf.counting import Counting, count_from_bytes, count_to_bytes
from bertscore_beam.idf.idf_tables import MOST_TABLES, IdfKey, IdfTables
from bertscore_beam.idf.owners import KeyedRows, Owned, choose_owners, keyed_rows, num_buckets
from bertscore_beam.idf.repeats import Repeats, repeats_warning
from bertscore_core import IdfError, ScorerConfig
from bertscore_core.idf import CountedRows, DocumentFrequencies
from bertscore_core.scorer_config import Vocabulary
from tests.pipelines.records.test_records import splits_of

FIELDS = TableFields(reference_column="reference", key=("doc", "part"), group=("set",))


def split(name: str, offset: int, rows: int) -> Split:
    (whole,) = splits_of(name, rows, rows)
    return replace(whole, row_offset=offset)


def corpus(seed: int) -> dict[str, pa.Table]:
    """Return files whose rows share keys, some with other references, some that cannot count."""
    draw = random.Random(seed)
    values = {"doc": [1, 2, 3, None], "part": "ab", "set": ["x", "y", None]}
    values["reference"] = ["one", "two", None]
    return {
        name: pa.table(
            {key: [draw.choice(some) for _ in range(40)] for key, some in values.items()}
        )
        for name in ("a.parquet", "b.parquet", "sub/a.parquet")
    }


def chosen(files: dict[str, pa.Table], size: int, buckets: int, seed: int) -> dict[str, list]:
    """Return the rows to count and the conflicts, by file, of a corpus cut in a certain way."""
    by_bucket: dict[int, list[KeyedRows]] = {}
    owned: dict[str, list[Owned]] = {}
    offsets: dict[str, tuple[str, int]] = {}
    for name, table in files.items():
        for offset in range(0, len(table), size):
            rows = table.slice(offset, size)
            here = split(name, offset, len(rows))
            offsets[here.part_name] = (name, offset)
            found, alone = keyed_rows(here, "run", Rows(rows, FIELDS))
            owned.setdefault(here.part_name, []).append(alone)
            for bucket, some in found.buckets(buckets):
                by_bucket.setdefault(bucket, []).append(some)
    for parts in by_bucket.values():
        random.Random(seed).shuffle(parts)
        for _, (part_name, some) in choose_owners(parts):
            owned.setdefault(part_name, []).append(some)
    result: dict[str, list] = {name: [set(), set(), set()] for name in files}
    for part_name, parts in owned.items():
        name, offset = offsets[part_name]
        merged = Owned.merge(parts)
        for kind, rows in enumerate((merged.rows, merged.conflicts, merged.without_key)):
            result[name][kind] |= {offset + row for row in rows.tolist()}
    return result


def plainly_chosen(files: dict[str, pa.Table]) -> dict[str, list]:
    """Return the same from dictionaries."""
    first: dict[tuple, str] = {}
    result: dict[str, list] = {name: [set(), set(), set()] for name in files}
    for name in sorted(files):
        for row, values in enumerate(files[name].to_pylist()):
            if values["reference"] is None or values["set"] is None:
                continue
            if values["doc"] is None:
                result[name][0].add(row)
                result[name][2].add(row)
                continue
            key = (values["set"], values["doc"], values["part"])
            if key not in first:
                first[key] = values["reference"]
                result[name][0].add(row)
            elif first[key] != values["reference"]:
                result[name][1].add(row)
    return result


@pytest.mark.parametrize("seed", range(5))
def test_first_row_of_each_key_counts_however_the_corpus_is_cut(seed):
    files = corpus(seed)
    expected = plainly_chosen(files)
    assert all(any(kinds[kind] for kinds in expected.values()) for kind in range(3))
    for size, buckets in ((40, 1), (7, 1), (13, 5), (1, 64)):
        assert chosen(files, size, buckets, seed) == expected


def test_words_of_a_key_do_not_run_together():
    values = {"doc": ["a", "aa"], "part": ["aa", "a"], "set": ["x", "x"], "reference": ["t", "t"]}
    found, _ = keyed_rows(split("a", 0, 2), "run", Rows(pa.table(values), FIELDS))
    assert len(np.unique(found.keys, axis=0)) == 2


def test_number_of_buckets_grows_with_the_rows_and_is_bounded():
    assert [num_buckets(rows) for rows in (0, 249_999, 10**6, 10**12)] == [1, 1, 4, 4096]


def test_estimate_of_different_references_is_exact_for_few_and_near_for_many():
    few = Repeats.merge([Repeats.of([["a"], ["b", "c"], ["a"]]), Repeats.of([["b"], ["a"]])])
    assert (few.rows, few.distinct) == (5, 3)
    texts = [[f"text {number % 20_000}"] for number in range(60_000)]
    parts = [Repeats.of(texts[start : start + 7_000]) for start in range(0, 60_000, 7_000)]
    many = Repeats.merge(reversed(parts))
    assert many.rows == 60_000
    assert many.distinct == pytest.approx(20_000, rel=0.1)
    assert len(many.smallest) == 1024
    assert "60,000 rows" in repeats_warning(many.rows, many.distinct, keyed=False)
    assert repeats_warning(60_000, 50_000, keyed=False) is None
    assert repeats_warning(10, 1, keyed=False) is None


def test_count_of_more_groups_than_a_worker_can_hold_keeps_none():
    vocabulary = Vocabulary(config=ScorerConfig(model="m"), tokenizer="t", max_length=5)
    counting = Counting(vocabularies={"": vocabulary}, fields=FIELDS, corpus="c")
    table = counting.table(IdfKey(), DocumentFrequencies.zero(), CountedRows())

    def count(groups: int) -> IdfTables:
        return IdfTables(tables={IdfKey("", (str(group),)): table for group in range(groups)})

    assert len(counting.merge([count(MOST_TABLES), count(1)]).tables) == MOST_TABLES
    none = counting.merge([count(MOST_TABLES + 1)])
    assert none.tables == {}
    assert "more than 10,000 different values" in none.problem
    for more in (count(1), IdfTables(tables={})):
        both = counting.merge([more, none])
        assert (both.tables, both.problem) == ({}, none.problem)


def test_damaged_kept_count_is_refused():
    repeats = Repeats.of([["a"]])
    tables = IdfTables(tables={}, group_columns=("g",), without_table=2, repeats=repeats)
    data = count_to_bytes(tables, "x")
    counted, owned = count_from_bytes(data)
    assert (owned, counted.repeats.rows, counted.repeats.distinct) == ("x", 1, 1)
    assert counted.without_table == 2
    line, _, archived = data.partition(b"\n")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("tables.json", zipfile.ZipFile(io.BytesIO(archived)).read("tables.json"))
    forged = line + b"\n" + packed.getvalue()
    for damaged in (b"", data[:-30], data[:100], archived, b"PK" + data[2:200], forged):
        with pytest.raises(IdfError, match="damaged"):
            count_from_bytes(damaged)
