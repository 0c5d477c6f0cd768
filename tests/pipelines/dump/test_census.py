"""Languages and groups are counted as plain Python counts them, whatever the columns hold."""

import datetime
from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.dump import parquet_rows
from bertscore_beam.dump.census import (
    MOST_GROUPS,
    MOST_LANGUAGES,
    Census,
    GroupColumns,
    check_references,
    first_splits,
    take_census,
)
from bertscore_beam.dump.languages import language_of
from bertscore_beam.dump.parquet import open_parquet
from bertscore_beam.dump.reference_file import find_references
from bertscore_core.errors import InputError
from tests.support.text_files import plan_text

NAN, DAY = float("nan"), datetime.date(2026, 1, 1)
CODES = ["en", "EN", "de", None, "", " ", "zh-hans", "no code!", "x" * 40, "ß", "2026", "en"] * 5
BYTES = [b"en", b"\xff\xfe", None, b"\xed\xa0\x80", "ü".encode(), b"de"] * 10


def unread(raw):
    """Return the text of UTF-8 bytes, and of others the bytes."""
    try:
        return None if raw is None else raw.decode()
    except UnicodeDecodeError:
        return raw


def not_utf8():
    raw = pa.array(BYTES)
    return pa.Array.from_buffers(pa.string(), len(raw), raw.buffers(), raw.null_count)


def dictionary(kind):
    """Return codes as a dictionary with a value that no row has."""
    known = ["unused", *dict.fromkeys(code for code in CODES if code is not None)]
    indices = [None if code is None else known.index(code) for code in CODES]
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int16()), pa.array(known, kind))


LANGUAGES = {
    "string": (pa.array(CODES), CODES),
    "large": (pa.array(CODES, pa.large_string()), CODES),
    "view": (pa.array(CODES, pa.string_view()), CODES),
    "dictionary": (dictionary(pa.string()), CODES),
    "large dictionary": (dictionary(pa.large_string()), CODES),
    "not UTF-8": (not_utf8(), [unread(raw) for raw in BYTES]),
    "nulls": (pa.nulls(60), [None] * 60),
}
"""Columns, and their values."""
GROUPS = {
    **LANGUAGES,
    "integers": (pa.array([0, None, 2] * 20, pa.int8()), [0, None, 2] * 20),
    "numbers": (pa.array([2.0, 0.5, NAN, -0.0, 1e300] * 12), [2, 0.5, None, 0, 10**300] * 12),
    "flags": (pa.array([True, None] * 30), ["true", None] * 30),
    "dates": (pa.array([DAY, None] * 30), [str(DAY), None] * 30),
}


def write(path, columns, rows=60, **options):
    """Write a file of pairs with further columns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = {"candidate": ["a cat"] * rows, "reference": ["the cat"] * rows}
    pq.write_table(pa.table({**texts, **columns}), path, **options)
    return path.parent


def written(folder, column):
    """Write a column to two files: one of small row groups, one of a single one.

    It is there by its name, within structs of which some are null, and under a dotted name.
    """
    is_view = pa.types.is_string_view(column.type)  # Arrow cannot write one in a struct
    inner = pa.StructArray.from_arrays([column.cast("string") if is_view else column], ["code"])
    missing = pa.array([n % 10 == 9 for n in range(60)])
    outer = pa.StructArray.from_arrays([inner], ["in"], mask=missing)
    columns = {"code": column, "x": outer, "a.b": column}
    # Arrow cannot read a dictionary in a struct out of several row groups at once.
    for number, size in enumerate((7 if pa.types.is_dictionary(column.type) else 3, 60)):
        write(folder / f"week={number}" / "a.parquet", columns, row_group_size=size)
    return plan_text(folder, folder / "out", 7).splits


@pytest.mark.parametrize("name", GROUPS)
def test_languages_and_groups_are_counted_as_one_by_one(tmp_path, name):
    column, values = GROUPS[name]
    splits = written(tmp_path, column)
    assert len(splits) > 2 * 60 / 7
    if name in LANGUAGES:
        expected = Counter(map(language_of, values * 2))
        for path in ("code", "a.b"):
            assert take_census(splits, path, ()) == Census(languages=expected)
        some = [None if n % 10 == 9 else value for n, value in enumerate(values)] * 2
        expected = Counter(map(language_of, some))
        assert take_census(splits, "x.in.code", ()).languages == expected
    texts = {None if value is None or isinstance(value, bytes) else str(value) for value in values}
    for by, number in {
        (): 0,
        ("code",): len(texts),
        ("x.in.code",): len(texts | {None}),
        ("a.b", "week"): 2 * len(texts),
        ("week", "code", "a.b"): 2 * len(texts),
    }.items():
        found = take_census(splits, "week", by)
        assert found == Census(languages={"0": 60, "1": 60}, num_groups=number)


def test_a_file_is_opened_once_however_many_row_groups_it_has(tmp_path, monkeypatch):
    opened = []

    def noted(source, *args, **options):
        opened.append(source)
        return open_parquet(source, *args, **options)

    for number in range(2):
        write(tmp_path / f"{number}.parquet", {"id": range(60)}, row_group_size=1)
    pq.write_table(pa.table({"id": range(60), "ideal": ["a"] * 60}), tmp_path / "gold.parquet")
    references = find_references(str(tmp_path / "gold.parquet"), "id", "ideal", (), ())
    splits = plan_text(tmp_path / "[01].parquet", tmp_path / "out", 1).splits
    assert len(splits) == 120
    monkeypatch.setattr(parquet_rows, "open_parquet", noted)
    assert take_census(splits, None, ["id"]).num_groups == 60
    assert sorted(opened) == [str(tmp_path / "0.parquet"), str(tmp_path / "1.parquet")]
    assert check_references(splits, references) == ""
    assert len(opened) == 4


def test_columns_that_cannot_be_counted_are_refused(tmp_path):
    columns = {"id": range(60), "list": [["a"]] * 60, "s": [{"a": 1}] * 60}
    columns["span"] = pa.array([1] * 60, pa.duration("s"))
    splits = plan_text(write(tmp_path / "a.parquet", columns), tmp_path / "out", 7).splits
    groups = GroupColumns(("id", "s.a", "lisst"))
    known = pq.read_schema(tmp_path / "a.parquet")
    groups.look(known, "a.parquet")
    assert groups.found == {"id", "s.a"}
    with pytest.raises(InputError, match=r"^no group column 'lisst': .+ Name the right one \(--by"):
        groups.check()
    schema = pa.schema([*pa.table({"x": [1]}).schema, pa.field("lisst", pa.string())])
    groups.look(schema, "b.parquet")  # one file is enough
    groups.check()
    for name in ("list", "s", "span"):
        with pytest.raises(InputError, match=rf"^a\.parquet: the column '{name}' cannot be used"):
            take_census(splits, None, [name])
        with pytest.raises(InputError, match=rf"^a\.parquet: the column '{name}' cannot be used"):
            GroupColumns(("id", name)).look(known, "a.parquet")


def test_of_many_files_the_first_split_of_twenty_is_looked_at_for_groups(tmp_path):
    for number in range(22):
        write(tmp_path / f"{number:02}.parquet", {"id": range(60)}, row_group_size=20)
    splits = plan_text(tmp_path, tmp_path / "out", 20).splits
    found = [(split.input_name, split.row_offset) for split in first_splits(splits)]
    assert found == [(f"{number:02}.parquet", 0) for number in range(20)]
    assert len(first_splits(splits[:4])) == 2


def test_too_many_are_refused_also_where_no_file_has_too_many(tmp_path):
    half = (MOST_LANGUAGES // 2, MOST_GROUPS // 2)
    for number in range(3):
        ids = pa.array(range(number * half[1], (number + 1) * half[1]))
        codes = [f"l{number * half[0] + n % half[0]}" for n in range(half[1])]
        write(tmp_path / f"{number}.parquet", {"id": ids, "lang": codes}, rows=half[1])
    splits = plan_text(tmp_path, tmp_path / "out", 2000).splits
    two = [split for split in splits if split.input_name != "2.parquet"]
    found = take_census(two, "lang", ["id"])
    assert (len(found.languages), found.num_groups) == (MOST_LANGUAGES, MOST_GROUPS)
    with pytest.raises(
        InputError, match=r"'id' has the most values \(values seen so far: 'id' 1\d,"
    ):
        take_census(splits, None, ["id"])
    for by in ((), ("id",)):
        with pytest.raises(InputError, match="'lang' holds no languages: got more than 1,000 dist"):
            take_census(splits, "lang", by)


def test_splits_that_cannot_be_read_are_left_out_and_counted(tmp_path, monkeypatch):
    folder = write(tmp_path / "a.parquet", {"lang": ["en"] * 60}, row_group_size=20)
    write(tmp_path / "b.parquet", {"lang": ["de"] * 60}, row_group_size=60)
    splits = plan_text(folder, folder / "out", 7).splits
    changed = [
        replace(split, file_size=1) if split.path.endswith("b.parquet") else split
        for split in splits
    ]
    assert take_census(changed, "lang", ()) == Census(languages={"en": 60}, unread=9)
    data = bytearray((folder / "a.parquet").read_bytes())
    group = pq.ParquetFile(folder / "a.parquet").metadata.row_group(1).column(2)
    data[group.dictionary_page_offset : group.dictionary_page_offset + 20] = b"\xff" * 20
    (folder / "a.parquet").write_bytes(data)
    splits = [replace(split, file_version="") for split in splits]
    found = take_census(splits, "lang", ["lang"])
    assert found == Census(languages={"en": 40, "de": 60}, num_groups=2, unread=3)
