"""The file of several idf tables, and what chooses the table of a row."""

import io
import json
import zipfile
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from bertscore_beam.dump.columns import TableFields
from bertscore_beam.dump.texts import Rows
from bertscore_beam.idf.idf_tables import WHOLE, IdfKey, IdfTables, SavedIdf
from bertscore_beam.idf.owners import NO_KEY, row_keys
from bertscore_core import DocumentFrequencies, IdfError, IdfTable


def table(number: int = 5, *, tokenizer: str = "t") -> IdfTable:
    ids, counts = np.array([number], np.int32), np.array([2], np.int64)
    frequencies = DocumentFrequencies(num_documents=9, ids=ids, counts=counts)
    return IdfTable(frequencies=frequencies, tokenizer=tokenizer, max_length=8, corpus="c")


GROUPS = IdfTables(
    tables={IdfKey("zh", ("b",)): table(6), IdfKey("en", ("a\udc80",)): table(5)},
    corpus="c",
    group_columns=("testset",),
)


def same(one: IdfTables, other: IdfTables) -> bool:
    prints = [{key: kept.fingerprint for key, kept in t.tables.items()} for t in (one, other)]
    rest = [(t.corpus, t.group_columns, t.fingerprint) for t in (one, other)]
    return prints[0] == prints[1] and rest[0] == rest[1]


def test_file_of_one_table_is_that_of_the_table_itself():
    one = IdfTables.of(table())
    assert one.to_bytes() == table().to_bytes()
    assert one.fingerprint == table().fingerprint
    assert same(IdfTables.from_bytes(one.to_bytes()), one)
    assert IdfTables.from_bytes(one.to_bytes()).only("it").fingerprint == table().fingerprint


def test_file_of_several_tables_gives_them_back_whatever_their_order():
    data = GROUPS.to_bytes()
    assert same(IdfTables.from_bytes(data), GROUPS)
    turned = replace(GROUPS, tables=dict(reversed(GROUPS.tables.items())))
    assert turned.to_bytes() == data
    assert turned.fingerprint == GROUPS.fingerprint
    with pytest.raises(IdfError, match="expected one for all pairs"):
        GROUPS.only("the file")
    empty = replace(GROUPS, tables={})
    assert same(IdfTables.from_bytes(empty.to_bytes()), empty)


def test_tables_named_by_their_fingerprint_are_read_once_and_never_taken_for_others(tmp_path):
    path = tmp_path / "idf.npz"
    path.write_bytes(GROUPS.to_bytes())
    named = SavedIdf(path=str(path)).counted(GROUPS)
    assert same(named.load(), GROUPS)
    other = IdfTables.of(table())
    path.write_bytes(other.to_bytes())
    assert named.load() is named.load()
    assert same(SavedIdf(path=str(path)).counted(other).load(), other)
    with pytest.raises(IdfError, match=f"{other.fingerprint}; expected {GROUPS.fingerprint}"):
        named.load()  # read again, since a process keeps the tables of one run
    path.unlink()
    with pytest.raises(IdfError, match="cannot be read"):
        named.load()


def test_fingerprint_of_several_tables_depends_on_their_keys_and_weights():
    swapped = dict(zip(GROUPS.tables, reversed(GROUPS.tables.values()), strict=True))
    other = replace(GROUPS, tables=swapped)
    assert other.fingerprint != GROUPS.fingerprint
    renamed = replace(GROUPS, corpus="d", group_columns=("other",))
    assert renamed.fingerprint == GROUPS.fingerprint


def forge(compression: int = zipfile.ZIP_STORED, **changes: object) -> bytes:
    """Return the bytes of a set with other values in its list."""
    buffer = io.BytesIO()
    line, _, archived = GROUPS.to_bytes().partition(b"\n")
    with zipfile.ZipFile(io.BytesIO(archived)) as good:
        listed = json.loads(good.read("tables.json")) | changes
        with zipfile.ZipFile(buffer, "w", compression) as archive:
            archive.writestr("tables.json", json.dumps(listed))
            for name in ("table-00000.npz", "table-00001.npz"):
                archive.writestr(name, good.read(name))
    return line + b"\n" + buffer.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PK\x05\x06" + b"\0" * 17,
        GROUPS.to_bytes()[:-40],
        GROUPS.to_bytes()[:-300],
        GROUPS.to_bytes().replace(b"PK\x03\x04", b"PK\x03\x05"),
        GROUPS.to_bytes().replace(b"set/1", b"set/2"),
        forge(zipfile.ZIP_DEFLATED),
        forge(corpus=3),
        forge(group_columns="testset"),
        forge(group_columns=["testset", "more"]),
        forge(tables={}),
        forge(tables=[{"language": "en", "group": ["a"]}] * 2),
        forge(tables=[{"language": "en", "group": [str(n)]} for n in range(10_001)]),
        forge(tables=[{"language": "en", "group": [str(n)]} for n in range(3)]),
        forge(tables=[{"language": None, "group": ["a"]}]),
        forge(tables=[{"language": "en", "group": [1]}]),
        forge(tables=[{"group": ["a"]}]),
        forge(tables=[7]),
    ],
)
def test_hostile_bytes_are_refused(data):
    with pytest.raises(IdfError, match="idf table"):
        IdfTables.from_bytes(data, "x")


def keys_of(table, **columns):
    return row_keys(Rows(table, TableFields(reference_column="reference", **columns)))


def test_rows_of_one_group_have_one_key_whatever_the_type_of_its_columns():
    texts = pa.table({"testset": ["a", "b", None, "a"], "year": [2023, 2024, 2023, 2023]})
    found = keys_of(texts, group=("testset", "year"))
    assert found.keys == (IdfKey(group=("a", "2023")), IdfKey(group=("b", "2024")))
    assert found.codes.tolist() == [0, 1, NO_KEY, 0]
    word = pa.array(["2023"])
    years = [pa.array([2023], pa.int16()), pa.array([2023.0]), word, word.dictionary_encode()]
    years.append(word.cast(pa.large_string()))
    keys = {keys_of(pa.table({"y": year}), group=("y",)).keys for year in years}
    assert keys == {(IdfKey(group=("2023",)),)}
    without = keys_of(texts)
    assert (without.keys, without.codes.tolist()) == ((WHOLE,), [0, 0, 0, 0])


def test_value_that_is_nan_or_no_valid_text_chooses_no_table():
    offsets = pa.array([0, 1, 2], pa.int32()).buffers()[1]
    broken = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"\xffa")])
    for column in (broken, pa.array([float("nan"), 1.5])):
        codes = keys_of(pa.table({"g": column}), group=("g",)).codes
        assert codes.tolist() == [NO_KEY, 0]
    none = keys_of(pa.table({"g": pa.nulls(2)}), group=("g",))
    assert none.codes.tolist() == [NO_KEY, NO_KEY]


def test_columns_may_be_fields_of_structs():
    meta = [{"lang": "DE", "set": "a"}, {"lang": None, "set": "a"}, {"lang": "de", "set": None}]
    found = keys_of(pa.table({"meta": meta}), language="meta.lang", group=("meta.set",))
    assert found.keys == (IdfKey(language="de", group=("a",)),)
    assert found.codes.tolist() == [0, NO_KEY, NO_KEY]
