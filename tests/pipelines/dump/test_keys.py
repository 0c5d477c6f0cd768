"""Every type of Arrow that may choose rows: one key for all options, or one refusal.

Each is tried plain, as a dictionary and as runs of equal values, with no row, one and all.
"""

import datetime
import uuid
from decimal import Decimal
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from bertscore_beam.compare.compare import compare_runs
from bertscore_beam.compare.compare_options import CompareOptions
from bertscore_beam.dump.census import GroupColumns, groups_of
from bertscore_beam.dump.columns import TableFields, check_choosing_columns
from bertscore_beam.dump.keys import combined, keys_of
from bertscore_beam.dump.languages import language_of
from bertscore_beam.dump.paths import Column, column_of
from bertscore_beam.dump.reference_file import find_references, load, with_references
from bertscore_beam.dump.splits import Split
from bertscore_beam.dump.texts import Rows, languages_of
from bertscore_beam.idf.owners import keyed_rows, row_keys
from bertscore_core.errors import InputError
from tests.support.made_runs import made_run, scored

SECOND = 1_767_322_800  # 2026-01-02T03:00:00Z
DAY, EARLIER = datetime.date(2026, 1, 2), datetime.date(1969, 12, 31)
UNITS = ("s", "ms", "us", "ns")
ZONES = ("UTC", "Europe/Paris", "+05:30", "No/Such")
AN_ID = "12345678-9abc-def0-0123-456789abcdef"


def moments(unit: str, zone: str | None = None) -> pa.Array:
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    midnight = (SECOND - 3 * 3600) * per_second
    later = SECOND * per_second + per_second // 2
    return pa.array([midnight, None, later], pa.int64()).view(pa.timestamp(unit, zone))


def moment_texts(unit: str, zone: str = "") -> list[str | None]:
    half = "" if unit == "s" else ".5"
    return [f"2026-01-02T00:00:00{zone}", None, f"2026-01-02T03:00:00{half}{zone}"]


def times(kind: pa.DataType, per_second: int) -> pa.Array:
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    return pa.array([0, None, 3661 * per_second + per_second // 2], width).view(kind)


NUMBERS = ["0", None, "7"]
HALVES = ["-1.5", None, "7"]
TEXTS = ["", None, "ü"]
PRICES = [Decimal("-1.50"), None, Decimal("7.00")]

KEYS: dict[str, tuple[pa.Array, list[str | None]]] = {
    "null": (pa.nulls(3), [None] * 3),
    "bool": (pa.array([True, None, False]), ["true", None, "false"]),
    **{
        str(kind): (pa.array([0, None, 7], kind), NUMBERS)
        for kind in (
            *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
            *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        )
    },
    **{
        str(kind): (pa.array([-1.5, None, 7.0], kind), HALVES)
        for kind in (pa.float16(), pa.float32(), pa.float64())
    },
    "NaN": (pa.array([float("nan"), -0.0, 0.1]), [None, "0", "0.1"]),
    "half NaN": (
        pa.array([float("nan"), -0.0, 0.1], pa.float16()),
        [None, "0", "0.0999755859375"],
    ),
    **{
        str(kind): (pa.array(PRICES, kind), HALVES)
        for kind in (
            *(pa.decimal32(9, 2), pa.decimal64(18, 2)),
            *(pa.decimal128(38, 2), pa.decimal256(76, 2)),
        )
    },
    "an integer of Snowflake": (
        pa.array([Decimal(10**37), None, Decimal(70)], pa.decimal128(38, 0)),
        [f"1{'0' * 37}", None, "70"],
    ),
    "long decimal": (
        pa.array([Decimal("0.000000000001"), Decimal(0), Decimal("1e20")], pa.decimal128(38, 12)),
        ["0.000000000001", "0", "100000000000000000000"],
    ),
    "decimal of thousands": (
        pa.array([Decimal("1000"), None, Decimal("0")], pa.decimal128(9, -3)),
        ["1000", None, "0"],
    ),
    **{
        str(kind): (pa.array([DAY, None, EARLIER], kind), ["2026-01-02", None, "1969-12-31"])
        for kind in (pa.date32(), pa.date64())
    },
    "time32[s]": (times(pa.time32("s"), 1), ["00:00:00", None, "01:01:01"]),
    "time32[ms]": (times(pa.time32("ms"), 10**3), ["00:00:00", None, "01:01:01.5"]),
    "time64[us]": (times(pa.time64("us"), 10**6), ["00:00:00", None, "01:01:01.5"]),
    "time64[ns]": (times(pa.time64("ns"), 10**9), ["00:00:00", None, "01:01:01.5"]),
    **{
        f"timestamp[{unit}]": (moments(unit), moment_texts(unit)) for unit in UNITS
    },
    **{
        f"timestamp[{unit}, {zone}]": (moments(unit, zone), moment_texts(unit, "Z"))
        for unit, zone in zip(UNITS, ZONES, strict=True)
    },
    "NaT of numpy": (
        pa.array([-(2**63), 0, None], pa.int64()).view(pa.timestamp("us")),
        [None, "1970-01-01T00:00:00", None],
    ),
    "far": (
        pa.array([2**62, None, -(2**62)], pa.int64()).view(pa.timestamp("s", "UTC")),
        ["146138514283-06-19T07:45:04Z", None, "-146138510344-07-14T16:14:56Z"],
    ),
    **{
        str(kind): (pa.array(["", None, "ü"], kind), TEXTS)
        for kind in (pa.string(), pa.large_string(), pa.string_view())
    },
    **{
        str(kind): (pa.array([b"", None, "ü".encode()], kind), TEXTS)
        for kind in (pa.binary(), pa.large_binary(), pa.binary_view())
    },
    "not UTF-8": (pa.array([b"\xff", None, b"\xed\xa0\x80"]), [None] * 3),
    "uuid": (
        pa.array([uuid.UUID(AN_ID).bytes, None, bytes(16)], pa.uuid()),
        [AN_ID, None, "00000000-0000-0000-0000-000000000000"],
    ),
    "arrow.json": (
        pa.ExtensionArray.from_storage(pa.json_(), pa.array(["1", None, '"a"'])),
        ["1", None, '"a"'],
    ),
}  # fmt: skip

TEXT_TYPES = {"null", "string", "large_string", "string_view", "binary", "large_binary"}
TEXT_TYPES |= {"binary_view", "not UTF-8", "arrow.json"}
NUMBERED = pa.array([1, 2, 3], pa.int8())
REFUSED: dict[str, pa.Array] = {
    "duration": pa.array([1, None, 2], pa.duration("s")),
    "interval": pa.array([(1, 2, 3)] * 3, pa.month_day_nano_interval()),
    "bytes of one length": pa.array([b"ab"] * 3, pa.binary(2)),
    "list": pa.array([["a"]] * 3),
    "large_list": pa.array([[1]] * 3, pa.large_list(pa.int8())),
    "list of one length": pa.array([[1]] * 3, pa.list_(pa.int8(), 1)),
    "list_view": pa.array([[1]] * 3, pa.list_view(pa.int8())),
    "large_list_view": pa.array([[1]] * 3, pa.large_list_view(pa.int8())),
    "map": pa.array([[("k", 1)]] * 3, pa.map_(pa.string(), pa.int8())),
    "struct": pa.array([{"a": 1}] * 3),
    "sparse_union": pa.UnionArray.from_sparse(pa.array([0] * 3, pa.int8()), [NUMBERED]),
    "dense_union": pa.UnionArray.from_dense(
        pa.array([0] * 3, pa.int8()), pa.array([0, 1, 2], pa.int32()), [NUMBERED]
    ),
    "arrow.bool8": pa.ExtensionArray.from_storage(pa.bool8(), NUMBERED),
    "arrow.opaque": pa.ExtensionArray.from_storage(pa.opaque(pa.int8(), "t", "v"), NUMBERED),
}

ALL = {name: values for name, (values, _) in KEYS.items()} | REFUSED
NOT_OF_PYTHON = {"INTERVAL_MONTHS", "INTERVAL_DAY_TIME"}  # pyarrow cannot make these


def as_dictionary(values: pa.Array) -> pa.Array:
    """Return the same values, from a dictionary that also has the first one where no row is."""
    more = pa.concat_arrays([values.slice(0, 1), values])
    return pa.DictionaryArray.from_arrays(pa.array([1, 2, 3], pa.int8()), more)


def as_dictionary_beside_nulls(values: pa.Array) -> pa.Array:
    """Return the same values, with the nulls among the places and not in the dictionary."""
    there = values.is_valid().to_pylist()
    places = pa.array([row if there[row] else None for row in range(len(values))], pa.uint16())
    return pa.DictionaryArray.from_arrays(places, values, ordered=True)  # as an enum of Polars


def as_runs(values: pa.Array) -> pa.Array:
    """Return the same values as runs, cut out of longer ones."""
    return pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 4], pa.int16()), values).slice(1)


def as_runs_of_a_dictionary(values: pa.Array) -> pa.Array:
    ends = pa.array([1, 2, 3], pa.int32())
    return pa.RunEndEncodedArray.from_arrays(ends, as_dictionary(values))


FORMS = (
    *(lambda values: values, as_dictionary, as_dictionary_beside_nulls),
    *(as_runs, as_runs_of_a_dictionary),
)


def columns_of(values: pa.Array) -> list[pa.ChunkedArray]:
    """Return three values in every form: no row, without and with a chunk, one row, and all."""
    return [
        pa.chunked_array(chunks, form.type)
        for form in (one(values) for one in FORMS)
        for chunks in (
            [],
            [form.slice(0, 0)],
            [form.slice(0, 1)],
            [form.slice(0, 2), form.slice(2)],
        )
    ]


def table_of(column: pa.ChunkedArray) -> pa.Table:
    return pa.table({"x": column, "reference": pa.array(["a text"] * len(column), pa.string())})


def can_be_written(values: pa.Array) -> bool:
    try:
        pq.write_table(pa.table({"x": values}), pa.BufferOutputStream())
    except (pa.ArrowException, OSError):
        return False
    return True


def test_every_type_is_tried():
    tried = {values.type.id for values in ALL.values()}
    tried |= {form(pa.array([1, 2, 3])).type.id for form in FORMS}
    known = {name: getattr(pa.lib, name) for name in dir(pa.lib) if name.startswith("Type_")}
    left = {name.removeprefix("Type_") for name, number in known.items() if number not in tried}
    assert left == NOT_OF_PYTHON


@pytest.mark.parametrize("name", KEYS)
def test_groups_keys_and_idf_groups_are_the_same_texts(name):
    values, texts = KEYS[name]
    for column in columns_of(values):
        table, expected = table_of(column), texts[: len(column)]
        GroupColumns(["x"]).look(table.schema, "a file")
        found = groups_of(table, ["x"])
        assert [found.groups[code] for code in found.codes.tolist()] == [(one,) for one in expected]
        assert len(found.groups) == len({*expected})
        fields = TableFields(reference_column="reference", key=("x",), group=("x",))
        check_choosing_columns(table.schema, fields.choosing)
        tables = row_keys(Rows(table, fields))
        groups = [tables.keys[code].group if code >= 0 else None for code in tables.codes.tolist()]
        assert groups == [None if one is None else (one,) for one in expected]
        alone = TableFields(reference_column="reference", key=("x",))
        split = Split(path="a", input_name="a", file_size=0, file_version="")
        keyed, owned = keyed_rows(split, "run", Rows(table, alone))
        rows = range(len(expected))
        assert keyed.positions.tolist() == [row for row in rows if expected[row] is not None]
        assert owned.without_key.tolist() == [row for row in rows if expected[row] is None]


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_keys_is_refused_in_one_line_that_names_the_cure(name):
    options = ("--key", "--cluster", "--system", "--idf-key", "--idf-group", "--join")
    for column in columns_of(REFUSED[name]):
        table = table_of(column)
        looks = {
            option: partial(check_choosing_columns, table.schema, {"x": option})
            for option in options
        }
        looks["--by"] = partial(GroupColumns(["x"]).look, table.schema, "a file")
        for option, look in looks.items():
            with pytest.raises(InputError) as refused:
                look()
            kind = Column(table.schema.field("x"), ()).type
            assert str(refused.value).removeprefix("a file: ") == (
                f"the column 'x' cannot be used for {option}: got type {kind}; "
                "expected texts, numbers, booleans, dates, times or UUIDs. Convert it to texts, or "
                "name another column."
            )
        with pytest.raises(InputError, match="'x' cannot be used for --by: got type"):
            groups_of(table, ["x"])


@pytest.mark.parametrize("name", ALL)
def test_languages_are_texts_in_any_form(name):
    texts = KEYS[name][1] if name in KEYS else []
    for column in columns_of(ALL[name]):
        table = table_of(column)
        check = partial(check_choosing_columns, table.schema, {"x": "--language-column"})
        if name not in TEXT_TYPES:
            with pytest.raises(InputError, match=r"'x' holds no texts: got .+ \(--language-col"):
                check()
            continue
        check()
        expected = [language_of(one) for one in texts[: len(column)]]
        if name == "not UTF-8":
            expected = ["?", "", "?"][: len(column)]
        assert languages_of(column_of(table, "x")) == expected


@pytest.mark.parametrize("name", KEYS)
def test_rows_are_joined_to_a_file_of_any_type(name, tmp_path):
    values, texts = KEYS[name]
    named = [one for one in texts if one is not None]
    there = [values.slice(row, 1) for row, one in enumerate(texts) if one is not None]
    keys = pa.chunked_array(there, values.type) if can_be_written(values) else named
    ideal = [f"of {one}" for one in named]
    path = tmp_path / "gold.parquet"
    pq.write_table(pa.table({"x": keys, "ideal": pa.array(ideal, pa.string())}), path)
    references = find_references(str(path), "x", "ideal", ("x", "ideal"), ())
    expected = [None if one is None else f"of {one}" for one in texts]
    for column in columns_of(values):
        joined = with_references(table_of(column), references)
        assert joined["ideal"].to_pylist() == expected[: len(column)]
    assert load(references).rows.keys() >= {*named}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Return two runs with a column of each type that Parquet has; texts also as a dictionary."""
    columns = {name: values for name, (values, _) in KEYS.items() if can_be_written(values)}
    for name in ("string", "binary"):  # others are not read as dictionaries again
        columns[f"{name} as a dictionary"] = columns[name].dictionary_encode()
    folder = tmp_path_factory.mktemp("keys")
    for name, f1 in {"now": [0.5, 0.6, 0.7], "before": [0.6, 0.8, 0.9]}.items():
        rows = scored(np.array(f1), item=pa.array(["one"] * 3), **columns)
        made_run(folder / name, {"news.parquet": rows})
    return folder, [*columns]


@pytest.mark.usefixtures("few_resamples")
def test_runs_are_compared_by_keys_clusters_and_systems_of_any_type(runs):
    folder, names = runs
    assert len(names) > 40
    both = {"run": str(folder / "now"), "against": (str(folder / "before"),)}
    for name in names:
        texts = KEYS[name.removesuffix(" as a dictionary")][1]
        named = [one for one in texts if one is not None]
        if name.startswith("not UTF-8"):
            named = [None, None]  # other bytes are another key, but no text to show
        (found,) = compare_runs(CompareOptions(**both, key=(name,))).comparisons
        assert found.whole.counts.pairs == len(named)
        assert sorted(map(repr, named)) == sorted(repr(row.key[name]) for row in found.moved)
        (found,) = compare_runs(CompareOptions(**both, cluster=name)).comparisons
        assert (found.whole.counts.pairs, found.whole.result.clusters) == (3, 3)
        if len({*named} - {None}) > 1:
            how = {"key": ("item",), "systems": tuple(named), "system_column": name}
            pairs = compare_runs(CompareOptions(run=both["run"], **how)).comparisons
            assert {side for one in pairs for side in (one.run, one.against)} == {*named}
            assert {one.whole.counts.pairs for one in pairs} == {1}


def test_equal_numbers_and_moments_are_equal_keys_whatever_their_type():
    sevens = [
        *(pa.array([7], kind) for kind in (pa.int8(), pa.uint64(), pa.float16(), pa.float64())),
        *(pa.array([Decimal(7)], kind) for kind in (pa.decimal128(38, 0), pa.decimal64(9, 2))),
        *(pa.array(["7"]), pa.array([b"7"])),
    ]
    midnight = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
    zones = [
        pa.timestamp("s", "UTC"),
        pa.timestamp("ns", "Asia/Tokyo"),
        pa.timestamp("us", "+01:00"),
    ]
    for column in sevens:
        assert keys_of(column_of(pa.table({"x": column}), "x")).of_rows == ["7"]
    for kind in zones:
        column = pa.chunked_array([pa.array([midnight], kind)])
        assert keys_of(column).of_rows == ["2026-01-02T00:00:00Z"]
    days = [pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.string()]
    values = [DAY, midnight.replace(tzinfo=None), midnight, "2026-01-02"]
    found = [
        keys_of(pa.chunked_array([pa.array([value], kind)])).of_rows[0]
        for value, kind in zip(values, days, strict=True)
    ]
    assert found == ["2026-01-02", "2026-01-02T00:00:00", "2026-01-02T00:00:00Z", "2026-01-02"]


@given(st.lists(st.tuples(*[st.sampled_from(["a", "b", None])] * 3), max_size=12))
def test_combinations_are_those_of_the_rows(rows):
    columns = [
        pa.chunked_array([pa.array(column, pa.string())]) for column in zip(*rows, strict=True)
    ]
    found, codes = combined([keys_of(column) for column in columns], len(rows))
    assert [found[code] for code in codes.tolist()] == rows
    assert sorted(map(repr, found)) == sorted(map(repr, {*rows}))
