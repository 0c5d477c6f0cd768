"""Delta tables as an input: the current files of the table, as deltalake writes them."""

import datetime
import json
import sys
from decimal import Decimal
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from bertscore_beam.cli import main as cli
from bertscore_beam.dump.columns import TableFields
from bertscore_beam.dump.inputs import expand_inputs
from bertscore_beam.dump.plan import plan_inputs
from bertscore_beam.dump.read_rows import read_split
from bertscore_beam.dump.reference_file import find_references
from bertscore_core.errors import ConfigError, InputError
from tests.support.dumps import pair_rows, read_output
from tests.support.jobs import run_job, score_arguments
from tests.support.s3 import s3_bucket

NAIVE, UTC = pa.timestamp("us"), pa.timestamp("us", "UTC")
PRICE = pa.decimal128(10, 2)
LOG = "_delta_log/{:020}.json"
CHECKPOINT = "_delta_log/{:020}.checkpoint.parquet"


def write(folder: Path | str, ids: range, **more: object) -> None:
    """Write rows, numbered in column `id`, to a table, by default after those that it has."""
    rows = pair_rows(len(ids), ids.start)
    table = pa.table({**rows, "id": list(ids)} | dict(more.pop("columns", {})))
    write_deltalake(str(folder), table, **{"mode": "append", **more})


def read_tables(folder: Path | str) -> list[pa.Table]:
    """Return the rows that are read of each file of a table."""
    found = expand_inputs([str(folder)])
    wanted = TableFields(candidate_column="candidate", reference_column="reference")
    plan = plan_inputs(found, fields=wanted, target_rows=1000)
    assert plan.rejected_files == ()
    return [read_split(split) for split in plan.splits]


def read(folder: Path | str) -> list[dict]:
    """Return the rows that are read of a table."""
    rows = [row for table in read_tables(folder) for row in table.to_pylist()]
    return sorted(rows, key=lambda row: row["id"])


def ids(folder: Path | str) -> list[int]:
    return [row["id"] for row in read(folder)]


def commit(folder: Path, *actions: dict) -> None:
    """Add a version to a table by hand."""
    number = len([*(folder / "_delta_log").glob("*.json")])
    (folder / LOG.format(number)).write_text("\n".join(map(json.dumps, actions)))


def first_actions(folder: Path) -> dict[str, dict]:
    lines = (folder / LOG.format(0)).read_text().splitlines()
    return {name: action for line in lines for name, action in json.loads(line).items()}


def test_rows_are_those_of_the_table_after_each_change(tmp_path):
    write(tmp_path / "t", range(6))
    assert ids(tmp_path / "t") == [*range(6)]
    write(tmp_path / "t", range(6, 9))
    assert ids(tmp_path / "t") == [*range(9)]
    DeltaTable(tmp_path / "t").delete("id = 7")
    assert ids(tmp_path / "t") == [0, 1, 2, 3, 4, 5, 6, 8]
    DeltaTable(tmp_path / "t").optimize.compact()
    assert ids(tmp_path / "t") == [0, 1, 2, 3, 4, 5, 6, 8]
    write(tmp_path / "t", range(20, 23), mode="overwrite")
    assert ids(tmp_path / "t") == [20, 21, 22]
    files = [*(tmp_path / "t").glob("*.parquet")]
    assert len(files) == 5  # nothing was vacuumed
    (file,) = expand_inputs([str(tmp_path / "t")])
    assert (file.table.folder, file.table.version) == (f"{tmp_path}/t/", 4)
    assert ids(file.path) == [20, 21, 22]


def test_an_old_checkpoint_and_versions_after_it_are_read(tmp_path):
    write(tmp_path, range(2))
    write(tmp_path, range(2, 4))
    DeltaTable(tmp_path).create_checkpoint()
    (tmp_path / LOG.format(0)).unlink()  # as a table loses what is older than its checkpoint
    write(tmp_path, range(4, 6))
    DeltaTable(tmp_path).delete("id = 0")
    assert ids(tmp_path) == [1, 2, 3, 4, 5]


PARTITIONS = {
    "text": pa.array(["a b", "x/y:%=\u00e9\"'", "", "\u2028n\n"]),
    "day": pa.array([datetime.date(2026, 1, 1), None, datetime.date(1969, 12, 31)] * 2)[:4],
    "at": pa.array([datetime.datetime(2026, 1, 1, 12, microsecond=120), None] * 2, NAIVE),
    "at_utc": pa.array([datetime.datetime(1960, 1, 1, 12, microsecond=1), None] * 2, UTC),
    "double": pa.array([0.1, None, 1e20, float("nan")]),
    "single": pa.array([0.1, None, 1e20, float("-inf")], pa.float32()),
    "price": pa.array([Decimal("1.50"), None, Decimal("12345678.90"), Decimal(0)], PRICE),
    "good": pa.array([True, None, False, True]),
    "small": pa.array([1, None, -5, 2**31 - 1], pa.int32()),
    "_n": pa.array([1, None, -5, 2**62]),
}


@pytest.mark.parametrize("name", PARTITIONS)
def test_partition_columns_are_those_of_the_reader_of_the_table(tmp_path, name):
    folder = tmp_path / "of=us" / "t"
    write(folder, range(4), columns={name: PARTITIONS[name]}, partition_by=[name])
    own = DeltaTable(folder).to_pyarrow_table().sort_by("id")
    found = pa.concat_tables(read_tables(folder)).sort_by("id")
    assert found.schema.field(name).type == own.schema.field(name).type
    # Equal, with NaN, which no comparison of Arrow takes for itself.
    assert repr(found[name].to_pylist()) == repr(own[name].to_pylist())
    assert found["of"].to_pylist() == ["us"] * 4


def widen(folder: Path, name: str, kind: object, **change: object) -> None:
    """Change the type of a column in the log of a table, as Spark does."""
    metadata = first_actions(folder)["metaData"]
    schema = json.loads(metadata["schemaString"])
    (field,) = (field for field in schema["fields"] if field["name"] == name)
    field |= {"type": kind, "metadata": {"delta.typeChanges": [{"toType": "long", **change}]}}
    metadata["schemaString"] = json.dumps(schema)
    named = {"readerFeatures": ["typeWidening"], "writerFeatures": ["typeWidening"]}
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, **named}
    commit(folder, {"protocol": protocol}, {"metaData": metadata})


def test_files_from_before_a_type_was_widened_have_the_type_of_the_table(tmp_path):
    folder = tmp_path / "t"
    write(folder, range(2), columns={"n": pa.array([1, None], pa.int32())})
    old = first_actions(folder)["add"]
    widen(folder, "n", "long", fromType="integer")
    later = {**pair_rows(1, 2), "id": [2], "n": [2**40]}
    pq.write_table(pa.table(later), folder / "later.parquet")
    size = (folder / "later.parquet").stat().st_size
    commit(folder, {"add": {**old, "path": "later.parquet", "size": size, "stats": None}})
    tables = read_tables(folder)
    assert [table.schema.field("n").type for table in tables] == [pa.int64()] * 2
    assert [(row["id"], row["n"]) for row in read(folder)] == [(0, 1), (1, None), (2, 2**40)]

    write(tmp_path / "nested", range(2), columns={"s": [{"n": 1}] * 2})
    inner = {"name": "n", "type": "long", "nullable": True, "metadata": {}}
    widen(tmp_path / "nested", "s", {"type": "struct", "fields": [inner]}, fromType="integer")
    assert (
        "got the column 's' of type struct<n: int64>, in which a type was widened; expected"
        in refusal(tmp_path / "nested")
    )


@pytest.mark.process
def test_a_table_in_a_store_is_read_with_the_credentials_of_its_files(tmp_path):
    write(tmp_path / "t", range(3), columns={"lang": ["a", "b", "b"]}, partition_by=["lang"])
    write(tmp_path / "t", range(3, 5), columns={"lang": ["a", "b"]}, mode="overwrite")
    with s3_bucket() as bucket:
        fs = fsspec.filesystem("s3")
        fs.put(f"{tmp_path}/t", f"{bucket}/t", recursive=True)
        assert [(row["id"], row["lang"]) for row in read(f"{bucket}/t")] == [(3, "a"), (4, "b")]


DELETED = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 1}


def table_with(folder: Path, *features: str, **add: object) -> None:
    """Write a table with features in its protocol, its file added again in another way if given."""
    write(folder, range(3))
    old = first_actions(folder)
    named = {"readerFeatures": features, "writerFeatures": features}
    made = {**old["add"], **add}
    gone = {"path": old["add"]["path"], "deletionTimestamp": 1, "dataChange": True}
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, **named}
    changes = [{"remove": gone}, {"add": made}] if add else []
    commit(folder, {"protocol": protocol}, *changes)


def refusal(folder: Path) -> str:
    with pytest.raises(InputError) as error:
        expand_inputs([str(folder)])
    return str(error.value)


def test_what_files_alone_do_not_say_is_refused_by_name(tmp_path):
    vector = {**DELETED, "sizeInBytes": 36, "cardinality": 1}
    table_with(tmp_path / "dv", "deletionVectors", deletionVector=vector)
    assert "got deletion vectors, or features that hide whether it has any; expected" in refusal(
        tmp_path / "dv"
    )

    write(tmp_path / "mapped", range(3))
    metadata = first_actions(tmp_path / "mapped")["metaData"]
    metadata["configuration"] = {"delta.columnMapping.mode": "name"}
    schema = json.loads(metadata["schemaString"])
    for number, field in enumerate(schema["fields"]):
        named = {"id": number, "physicalName": f"col-{number}"}
        field["metadata"] = {f"delta.columnMapping.{key}": value for key, value in named.items()}
    metadata["schemaString"] = json.dumps(schema)
    mapped = {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}
    commit(tmp_path / "mapped", mapped, {"metaData": metadata})
    assert "got column mapping by name; expected" in refusal(tmp_path / "mapped")

    table_with(tmp_path / "variant", "variantType")
    assert "got the features variantType; expected" in refusal(tmp_path / "variant")
    table_with(tmp_path / "new", "fromTheFuture")
    assert "fromTheFuture" in refusal(tmp_path / "new")
    for number, path in enumerate(("file:///a.parquet", "dbfs:/a.parquet", "../a.parquet")):
        table_with(tmp_path / f"clone{number}", path=path)
        assert "got files of another table" in refusal(tmp_path / f"clone{number}")

    harmless = {"unused": ["deletionVectors"], "others": ["vacuumProtocolCheck", "typeWidening"]}
    for name, features in harmless.items():
        table_with(tmp_path / name, *features)
        assert ids(tmp_path / name) == [0, 1, 2]


def test_the_log_comes_before_a_column_of_the_file(tmp_path):
    write(tmp_path, range(3), columns={"lang": ["de"] * 3}, partition_by=["lang"])
    (file,) = tmp_path.rglob("lang=*/*.parquet")
    table = pq.ParquetFile(file).read()
    pq.write_table(table.add_column(0, "lang", pa.array([1, 2, 3])), file)
    assert [row["lang"] for row in read(tmp_path)] == ["de"] * 3


def test_partition_columns_that_deltalake_does_not_tell_are_an_error(tmp_path, monkeypatch):
    write(tmp_path, range(2), columns={"lang": ["de", "en"]}, partition_by=["lang"])
    actions = DeltaTable.get_add_actions

    def renamed(table, **more):  # as deltalake 1.0 names it
        found = pa.table(actions(table, **more))
        return found.rename_columns({"partition": "partition_values"})

    monkeypatch.setattr(DeltaTable, "get_add_actions", renamed)
    assert "got partition columns [] from the package deltalake; expected ['lang']" in refusal(
        tmp_path
    )


def test_an_empty_checkpoint_does_not_count(tmp_path):
    for number in range(3):
        write(tmp_path, range(number, number + 1))
    DeltaTable(tmp_path).create_checkpoint()
    write(tmp_path, range(3, 4))
    (tmp_path / CHECKPOINT.format(3)).write_bytes(b"")
    assert ids(tmp_path) == [0, 1, 2, 3]
    (tmp_path / "_delta_log" / "_last_checkpoint").unlink()
    assert ids(tmp_path) == [0, 1, 2, 3]


def test_a_hint_that_nests_deep_is_as_one_that_is_damaged(tmp_path):
    write(tmp_path, range(3))
    DeltaTable(tmp_path).create_checkpoint()
    (tmp_path / "_delta_log" / "_last_checkpoint").write_text("[" * 100_000)
    assert ids(tmp_path) == [0, 1, 2]


def test_a_panic_of_deltalake_is_an_error_of_the_table(tmp_path, monkeypatch):
    class PanicException(BaseException):
        """As pyo3 makes it."""

    def panic(table):
        raise PanicException("index out of bounds")

    write(tmp_path, range(3))
    monkeypatch.setattr(DeltaTable, "get_add_actions", panic)
    assert "cannot be read here: got index out of bounds; expected a log" in refusal(tmp_path)


def test_a_table_without_rows_is_an_error(tmp_path):
    write(tmp_path, range(3))
    DeltaTable(tmp_path).delete()
    assert f"the Delta table '{tmp_path}/' has no file at version 1; expected" in refusal(tmp_path)


def test_a_file_that_the_table_has_not_any_more_is_refused_beside_it(tmp_path):
    write(tmp_path, range(3))
    (old,) = expand_inputs([str(tmp_path)])
    write(tmp_path, range(3, 6), mode="overwrite")
    with pytest.raises(InputError, match="got a file that is not part of the table now; expected"):
        expand_inputs([str(tmp_path), old.path])


def test_a_file_that_the_table_links_to_is_read_as_one_of_the_table(tmp_path):
    write(tmp_path / "t", range(3), columns={"lang": ["de"] * 3}, partition_by=["lang"])
    (file,) = tmp_path.rglob("lang=*/*.parquet")
    outside = file.rename(tmp_path / "outside.parquet")
    file.symlink_to(outside)
    (found,) = expand_inputs([str(outside), str(tmp_path / "t")])
    assert (found.path, found.table.folder) == (str(file), f"{tmp_path}/t/")


def test_a_table_is_no_file_of_references(tmp_path):
    write(tmp_path, range(3))
    with pytest.raises(InputError, match="is not one file: got a folder or a pattern; expected"):
        find_references(str(tmp_path), "id", "reference", ["id", "reference"], ())


def test_a_file_that_the_log_names_and_nobody_has_is_an_error(tmp_path):
    write(tmp_path, range(3))
    (file,) = expand_inputs([str(tmp_path)])
    Path(file.path).unlink()
    assert f"got no file '{file.path}', which its log names" in refusal(tmp_path)


def test_a_log_that_cannot_be_read_is_an_error_with_the_place_of_the_table(tmp_path):
    write(tmp_path, range(3))
    (tmp_path / LOG.format(0)).write_text("{")
    words = refusal(tmp_path)
    assert f"the Delta table '{tmp_path}/' cannot be read here: got" in words
    assert "bertscore-delta-" not in words


def test_without_the_package_the_extra_is_named(tmp_path, monkeypatch):
    write(tmp_path, range(3))
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(ConfigError, match=r"package deltalake; .*pip install '\.\[delta\]'"):
        expand_inputs([str(tmp_path)])


def scored_ids(output: Path) -> list[int]:
    found = [path for path in output.rglob("part-0*.parquet") if path.is_file()]
    parts = [path for path in found if not path.relative_to(output).parts[0].startswith("_")]
    return sorted(i for part in parts for i in pq.ParquetFile(part).read(["id"])["id"].to_pylist())


@pytest.mark.job
@pytest.mark.model
def test_a_run_goes_on_with_a_table_that_has_changed_and_says_so(tmp_path, capsys):
    dump, output = tmp_path / "t", tmp_path / "out"
    write(dump, range(4), columns={"lang": ["de", "en"] * 2}, partition_by=["lang"])
    other = tmp_path / "other"
    other.mkdir()
    for number in (100, 101):
        rows = {**pair_rows(1, number), "id": [number], "lang": ["de"]}
        pq.write_table(pa.table(rows), other / f"{number}.parquet")
    inputs = [str(dump), str(other)]
    words = ["score", "--input", *inputs, "--output", str(output), "--by", "lang"]
    assert cli.main(words) == cli.DONE
    assert f"The Delta table '{dump}/' is read at version 0." in capsys.readouterr().err
    write(dump, range(4, 6), columns={"lang": ["de", None]})
    assert cli.main(words) == cli.DONE
    assert "is read at version 1, before at 0." in capsys.readouterr().err
    rows = read_output(output).to_pylist()
    assert sorted((row["id"], row["lang"]) for row in rows)[3:] == [
        *((3, "en"), (4, "de"), (5, None), (100, "de"), (101, "de"))
    ]
    assert json.loads((output / "_run.json").read_text())["tables"] == {
        f"{dump}/": {"id": str(DeltaTable(dump).metadata().id), "version": 1, "names": "t/"}
    }

    DeltaTable(dump).delete("id = 0")
    DeltaTable(dump).optimize.compact()
    unused = {"retention_hours": 0, "enforce_retention_duration": False, "dry_run": False}
    assert DeltaTable(dump).vacuum(**unused)
    (other / "101.parquet").rename(tmp_path / "101")  # of no table: was that meant?
    assert cli.main(words) == cli.TOO_MANY_REJECTS
    assert scored_ids(output) == [0, 1, 2, 3, 4, 5, 100, 101]
    (tmp_path / "101").rename(other / "101.parquet")
    assert cli.main(words) == cli.DONE
    assert scored_ids(output) == [1, 2, 3, 4, 5, 100, 101]


@pytest.mark.job
@pytest.mark.usefixtures("tiny_jobs")
def test_files_that_leave_a_table_leave_the_folder_of_a_run_that_had_lost_others(tmp_path):
    (tmp_path / "other").mkdir()
    lost = tmp_path / "other" / "x.parquet"
    pq.write_table(pa.table({**pair_rows(1, 7), "id": [7]}), lost)
    write(tmp_path / "t", range(3))
    words = score_arguments(tmp_path / "t", tmp_path, "--input", tmp_path / "t", tmp_path / "other")
    assert cli.main([*words, "--min-rows", "9"]) == cli.TOO_MANY_REJECTS  # so there is no success
    other = pa.table({**pair_rows(1, 8), "id": [8]})
    pq.write_table(other, lost.with_name("y.parquet"))
    lost.rename(tmp_path / "kept")
    assert cli.main(words) == cli.TOO_MANY_REJECTS
    (tmp_path / "kept").rename(lost)
    DeltaTable(tmp_path / "t").delete("id = 0")
    assert cli.main(words) == cli.DONE
    assert scored_ids(tmp_path / "out") == [1, 2, 7, 8]


@pytest.mark.job
@pytest.mark.model
def test_scores_of_a_plain_file_in_the_folder_of_a_table_are_not_deleted(tmp_path, capsys):
    dump, output = tmp_path / "t", tmp_path / "out"
    write(dump, range(3))
    pq.write_table(pa.table({**pair_rows(1, 7), "id": [7]}), dump / "plain.parquet")
    run_job(dump / "plain.parquet", output=output, backend="torch")
    words = ["score", "--input", str(dump), "--output", str(output), "--backend", "torch"]
    assert cli.main(words) == cli.TOO_MANY_REJECTS
    assert "of inputs that are no longer given, such as 'plain.parquet/" in capsys.readouterr().err
    assert scored_ids(output) == [7]
    assert cli.main([*words, "--overwrite"]) == cli.DONE
    assert scored_ids(output) == [0, 1, 2]


@pytest.mark.job
@pytest.mark.usefixtures("tiny_jobs")
def test_scores_of_inputs_beside_a_table_stay_when_the_table_is_given_alone(tmp_path, capsys):
    """Names of inputs then begin at another folder: `other/...` could be of the table."""
    write(tmp_path / "t", range(3))
    (tmp_path / "other").mkdir()
    rows = pa.table({**pair_rows(1, 7), "id": [7]})
    pq.write_table(rows, tmp_path / "other" / "plain.parquet")
    words = score_arguments(tmp_path / "t", tmp_path)
    assert cli.main([*words, "--input", str(tmp_path / "t"), str(tmp_path / "other")]) == cli.DONE
    assert scored_ids(tmp_path / "out") == [0, 1, 2, 7]
    assert cli.main(words) == cli.TOO_MANY_REJECTS
    assert "of inputs that are no longer given, such as" in capsys.readouterr().err
    assert scored_ids(tmp_path / "out") == [0, 1, 2, 7]
