"""A file is bad alone, whatever reading it raises; a column that no step needs decides nothing."""

import base64
import datetime
import io
import random
from dataclasses import replace
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest
from aiohttp import ClientPayloadError
from botocore.exceptions import ClientError, ResponseStreamingError

from bertscore_beam.dump.lines import LINE_COLUMN, LINE_TYPE, PARSER, PARSER_KEY
from bertscore_beam.dump.parquet import open_parquet, write_part
from bertscore_beam.dump.plan import Imports, Plan, Resources
from bertscore_beam.dump.plan_file import plan_from_bytes, plan_to_bytes
from bertscore_beam.dump.read_rows import read_split
from bertscore_beam.dump.reading import reading
from bertscore_beam.dump.text.text_source import INPUT_FOLDER, open_text
from bertscore_beam.files.reach import UnreachedError
from bertscore_beam.files.read import RemoteFile
from bertscore_beam.options.score_options import ScoreOptions
from bertscore_core.errors import ConfigError, InputError
from tests.pipelines.dump.text.convert import text_file
from tests.support.tables import PAIRS, plan_pairs, same
from tests.support.text_files import plan_text, read_plan, to_jsonl, write_text

TABLE = pa.table({"candidate": ["a", "b"], "reference": ["c", "d"], "note": ["x", "y"]})
LISTS = TABLE.append_column("lists", pa.array([["a"], ["b", "c"]]))


class OwnKeys(pe.KmsClient):
    """Wraps no key: a test's secret is none."""

    def wrap_key(self, key, _):
        return base64.b64encode(key)

    def unwrap_key(self, key, _):
        return base64.b64decode(key)


def encrypted(path: Path, table: pa.Table, columns: list[str], *, footer: bool) -> Path:
    how = pe.EncryptionConfiguration(
        footer_key="f", column_keys={"c": columns}, plaintext_footer=not footer
    )
    keys = pe.CryptoFactory(lambda _: OwnKeys())
    properties = keys.file_encryption_properties(pe.KmsConnectionConfig(), how)
    with pq.ParquetWriter(path, table.schema, encryption_properties=properties) as writer:
        writer.write_table(table)
    return path


def beside_good(path: Path, **changes) -> Plan:
    """Plan a file beside a good one, which is always planned and read."""
    good = path.with_name("good.parquet")
    pq.write_table(LISTS, good)
    plan = plan_pairs(path, good, **changes)
    reads = {Path(split.path).name: read_split(split) for split in plan.splits}
    assert reads["good.parquet"].num_rows == len(LISTS)
    return plan


def raise_while_reading(folder: Path, error: Exception) -> None:
    pq.write_table(TABLE, folder / "a.parquet")
    with open_parquet(str(folder / "a.parquet")):
        raise error


# --- Encrypted files -----------------------------------------------------------------------------


@pytest.mark.parametrize("footer", [True, False])
@pytest.mark.parametrize("column", ["candidate", "reference", "lists.list.element"])
def test_what_is_encrypted_is_found_when_planning_and_not_called_damaged(tmp_path, footer, column):
    fields = replace(PAIRS, candidate_column="lists") if "lists" in column else PAIRS
    path = encrypted(tmp_path / "e.parquet", LISTS, [column], footer=footer)
    (rejected,) = beside_good(path, fields=fields).rejected_files
    assert "cannot be read here: got" in rejected.message
    assert "encrypt" in rejected.message
    assert "damaged" not in rejected.message


def test_an_encrypted_column_that_the_run_does_not_name_is_left_out(tmp_path):
    plan = beside_good(encrypted(tmp_path / "e.parquet", TABLE, ["note"], footer=False))
    assert plan.rejected_files == ()
    assert "'note' (encrypted)" in plan.notes[0]
    assert read_split(plan.splits[0]).to_pylist() == TABLE.drop_columns("note").to_pylist()


# --- Types that Arrow does not know --------------------------------------------------------------


def test_int128_of_polars_is_left_out_and_the_rest_is_read(tmp_path):
    path = tmp_path / "p.parquet"
    frame = pl.DataFrame(
        {
            **TABLE.to_pydict(),
            "big": pl.Series([2**100, -1], dtype=pl.Int128),
            "day": [datetime.date(2026, 1, 1), None],
        }
    )
    frame.write_parquet(path)
    plan = beside_good(path)
    assert "'big' (Int128)" in plan.notes[0]
    table = next(map(read_split, plan_pairs(path).splits))
    assert table.to_pylist() == frame.drop("big").to_dicts()
    assert not table.schema.metadata
    with pytest.raises(InputError, match=r"types that would be lost: got 'big' \(Int128\)"):
        plan_pairs(path, resources=Resources(group_by=["big"]))


def test_a_type_that_cannot_be_read_is_not_called_damage(tmp_path):
    with pytest.raises(InputError, match="cannot be read here: got 'a type'"):
        raise_while_reading(tmp_path, pa.ArrowNotImplementedError("a type"))


# --- Whatever a file holds -----------------------------------------------------------------------


def made_of_text(path: Path, place: dict, parser: str = PARSER) -> Path:
    lines = {"byte": 0, "line": 1, "reason": None, "message": None, "dropped": None} | place
    lines = pa.array([lines] * len(TABLE), LINE_TYPE)
    table = TABLE.append_column(LINE_COLUMN, lines)
    pq.write_table(table.replace_schema_metadata({PARSER_KEY: parser}), path)
    return path


FORGED = {
    "a reason of a later version": {"reason": "new_reason"},
    "a null among names": {"dropped": ["a", None]},
}


@pytest.mark.parametrize("kind", FORGED)
def test_what_an_import_never_writes_fails_its_file_alone(tmp_path, kind):
    (split,) = plan_pairs(made_of_text(tmp_path / "f.parquet", FORGED[kind])).splits
    with pytest.raises(InputError, match="cannot be read as Parquet: got"):
        read_split(split)


def test_a_forged_import_is_named_and_not_the_text_that_it_was_made_of(tmp_path):
    (split,) = plan_pairs(made_of_text(tmp_path / "f.parquet", {"reason": "new_reason"})).splits
    data = tmp_path / INPUT_FOLDER / "x.parquet"
    data.parent.mkdir(parents=True)
    data.write_bytes(write_part(pq.read_table(split.path)))
    with pytest.raises(InputError, match=r"_input/x\.parquet' cannot be read as Parquet: got"):
        read_split(replace(split, data=str(data)))


@pytest.mark.parametrize("error", [TypeError("a"), AttributeError("a"), RecursionError("a")])
def test_any_error_about_the_content_is_the_fault_of_the_file(tmp_path, error):
    with pytest.raises(InputError, match="expected a whole, undamaged Parquet file"):
        raise_while_reading(tmp_path, error)


@pytest.mark.parametrize(
    "error",
    [
        PermissionError(13, "no"),
        ConnectionError("gone"),
        OSError("it ends early"),
        MemoryError(),
        pa.lib.ArrowMemoryError("malloc of size 64 failed"),
    ],
)
def test_what_prevents_reading_a_file_now_is_no_fault_of_it(tmp_path, error):
    with pytest.raises(type(error) if isinstance(error, OSError) else OSError):
        raise_while_reading(tmp_path, error)


@pytest.mark.parametrize(
    "error",
    [
        ClientError({}, "GetObject"),
        ResponseStreamingError(error="gone"),
        ClientPayloadError("gone: <ContentLengthError: 400>"),
    ],
)
def test_what_prevents_reading_a_file_of_a_store_is_no_fault_of_it(error):
    """Also where Arrow stands between the store and the reader."""

    def read(start: int, stop: int) -> bytes:
        raise error

    source = RemoteFile("s3://b/x", read, 100)
    named = pytest.raises(UnreachedError, match=r"^'s3://b/x' cannot be reached: got [^<]*\.$")
    with named, reading("s3://b/x"):
        pq.ParquetFile(source)


@pytest.mark.parametrize("error", [TypeError("ours"), AssertionError("ours")])
def test_a_fault_of_ours_is_not_told_as_one_of_a_file_of_text(tmp_path, error):
    path = write_text(tmp_path / "a.jsonl", to_jsonl(TABLE.to_pylist()))
    with pytest.raises(type(error)), open_text(text_file(path)):
        raise error


@pytest.mark.parametrize("words", ["Unknown column 'decrypted'", "no such file: crypt.parquet"])
def test_a_name_does_not_make_a_file_an_encrypted_one(tmp_path, words):
    with pytest.raises(InputError, match="expected a whole, undamaged Parquet file"):
        raise_while_reading(tmp_path, pa.ArrowInvalid(words))


@pytest.mark.parametrize("seed", range(3))
def test_flipped_bits_end_as_an_error_of_the_file_or_as_rows(tmp_path, seed):
    chance, sink = random.Random(seed), io.BytesIO()
    path = made_of_text(tmp_path / "f.parquet", {"dropped": ["a"]})
    sound = path.read_bytes()
    for _ in range(60):
        data = bytearray(sound)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(4, len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(data)
        try:
            for split in plan_pairs(path).splits:
                read_split(split)
        except InputError as error:
            sink.write(str(error).encode())
    assert sink.getvalue()


def test_a_page_of_an_input_that_does_not_fit_its_checksum_is_damaged(tmp_path):
    path, text = tmp_path / "p.parquet", b"a text that stands in a page"
    table = TABLE.set_column(0, "candidate", pa.array([text.decode(), "b"]))
    options = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    pq.write_table(table, path, write_page_checksum=True, **options)
    (split,) = plan_pairs(path).splits
    assert read_split(split).equals(table)
    path.write_bytes(path.read_bytes().replace(text, text.upper()))
    (split,) = plan_pairs(path).splits
    with pytest.raises(InputError, match="CRC checksum verification failed"):
        read_split(split)


# --- Columns to drop -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["p.parquet", "d.jsonl", "dt=1/p.parquet"])
def test_dropped_columns_are_in_no_output_and_change_how_a_file_is_read(tmp_path, name):
    path = tmp_path / name
    if path.suffix == ".jsonl":
        write_text(path, to_jsonl(TABLE.to_pylist()))
    else:
        path.parent.mkdir(exist_ok=True)
        pq.write_table(TABLE, path)
    drop = ["dt" if "dt" in name else "note"]
    options = {"imports": Imports(folder=str(tmp_path / "out"), are_made=True)}
    whole = plan_text(path, tmp_path / "out")
    resources = Resources(drop=drop, **options)
    plan = plan_pairs(path, resources=resources)
    left = [column for column in read_plan(whole)[0].column_names if column not in drop]
    assert read_plan(plan)[0].column_names == left
    assert same(read_plan(plan)[0], read_plan(whole)[0].drop_columns(drop))
    assert plan.digest != whole.digest
    assert {split.reading for split in plan.splits}.isdisjoint(
        split.reading for split in whole.splits
    )
    assert plan.notes == ()
    with pytest.raises(InputError, match="no column to drop: got 'nope'"):
        plan_pairs(path, resources=replace(resources, drop=["nope"]))


def test_a_dropped_column_may_be_of_any_type_or_have_one_of_our_names(tmp_path):
    ours = TABLE.append_column("bertscore_f1", pa.array([1.0, 2.0]))
    ours = ours.append_column("null_list", pa.array([[1.0], None], pa.list_(pa.float64(), 1)))
    pq.write_table(ours, tmp_path / "p.parquet")
    resources = Resources(drop=["bertscore_f1", "null_list"])
    (split,) = plan_pairs(tmp_path / "p.parquet", resources=resources).splits
    assert read_split(split).equals(TABLE)
    again = plan_from_bytes(
        plan_to_bytes(plan_pairs(tmp_path / "p.parquet", resources=resources)), "p"
    )
    assert list(again.splits) == [split]


@pytest.mark.parametrize("drop", ["candidate", "reference", "lang", "r"])
def test_a_column_that_the_run_names_cannot_be_dropped(drop):
    columns = {"group_by": ("lang",), "reference_column": "r.text" if drop == "r" else "reference"}
    with pytest.raises(ConfigError, match="drop"):
        ScoreOptions(input=("i",), output="o", drop_columns=(drop,), **columns)
