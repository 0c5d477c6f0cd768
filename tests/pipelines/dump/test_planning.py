import json
import os
import pickle
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.dump.columns import TableFields
from bertscore_beam.dump.inputs import InputFile, expand_inputs
from bertscore_beam.dump.parquet import write_part
from bertscore_beam.dump.plan import FileReason, Plan, Resources, plan_inputs
from bertscore_beam.dump.plan_file import plan_from_bytes, plan_to_bytes
from bertscore_beam.files.paths import join
from bertscore_beam.files.read import in_parallel
from bertscore_beam.files.write import write_atomically
from bertscore_beam.records.rejects import rows_path
from bertscore_core.errors import ConfigError, InputError
from tests.support.tables import PAIRS, plan_pairs


def pairs(rows: int, candidate: str = "candidate", reference: str = "reference") -> pa.Table:
    numbers = [str(i) for i in range(rows)]
    return pa.table({candidate: pa.array(numbers, pa.string()), reference: pa.array(numbers)})


def write(path: Path, table: pa.Table, row_group_size: int | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, row_group_size=row_group_size)
    return path


def plan(*globs: object, output: str | None = None, rows: int | None = 10, **changes: Any) -> Plan:
    written = None if output is None else partial(paths_of_a_part, output)
    return plan_pairs(*globs, rows=rows, written=written, **changes)


def paths_of_a_part(output: str, part: str) -> list[str]:
    return [join(output, name) for name in (part, rows_path(part))]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Three files in two folders, 65 rows in all."""
    folder = tmp_path / "in"
    write(folder / "a.parquet", pairs(25), 10)
    write(folder / "sub dir" / "b.parquet", pairs(40))
    write(folder / "sub dir" / "none.parquet", pairs(0))
    return folder


def test_what_is_held_of_a_file_until_all_are_planned_does_not_grow_with_its_columns(
    tmp_path, monkeypatch
):
    held = []

    def noted(*args):
        for outcome in in_parallel(*args):
            held.append(len(pickle.dumps(outcome)))
            yield outcome

    write(tmp_path / "a.parquet", pairs(1))
    more = {f"n{number:03}": [1] for number in range(300)}
    write(tmp_path / "b.parquet", pa.table({**pairs(1).to_pydict(), **more}))
    monkeypatch.setattr("bertscore_beam.dump.plan.in_parallel", noted)
    assert len(plan(tmp_path).splits) == 2
    assert held[1] < held[0] + 300


def test_a_column_that_only_a_rejected_file_has_is_dropped_too(tmp_path):
    write(tmp_path / "a.parquet", pairs(1))
    write(tmp_path / "b.parquet", pa.table({"candidate": ["a"], "extra": [1]}))
    found = plan(tmp_path, resources=Resources(drop=["extra"]))
    assert [file.path for file in found.rejected_files] == [str(tmp_path / "b.parquet")]


@pytest.mark.parametrize("folder", [b"plain\xff", b"dt=\xff", b"\xff=1"])
@pytest.mark.parametrize("suffix", ["parquet", "jsonl"])
def test_folders_whose_names_are_not_utf8_are_rejected_by_name(corpus, folder, suffix):
    bad = corpus / os.fsdecode(folder)
    bad.mkdir()
    (bad / f"x.{suffix}").write_bytes((corpus / "a.parquet").read_bytes())
    for glob in (corpus, corpus / "*"):
        got = plan(glob)
        assert got.num_rows == 65
        (rejected,) = got.rejected_files
        assert rejected.reason == FileReason.BAD_NAME
        assert f"{ascii(bad.name)[1:-1]}/x.{suffix}' is not valid UTF-8" in rejected.message
        assert rejected.path.encode()
    # The search cannot begin there: partition columns and records take the whole path.
    for place in (bad, bad / f"x.{suffix}", bad / "*"):
        with pytest.raises(ConfigError, match=r"udcff.* cannot be used: it is not valid UTF-8"):
            plan(corpus / "a.parquet", place)


def test_names_count_from_where_the_search_began_and_not_from_what_was_found(corpus):
    before = {split.part_name for split in plan(corpus / "**/*.parquet").splits}
    (corpus / "a.parquet").unlink()  # the deepest common folder of the rest is "sub dir"
    after = {split.part_name for split in plan(corpus / "**/*.parquet").splits}
    assert after == {name for name in before if name.startswith("sub dir/")} != set()


def test_bad_files_are_rejected_with_what_helps_and_the_plan_comes_back_from_its_file(corpus):
    write(corpus / "columns.parquet", pairs(3, candidate="candidates"))
    (corpus / "gone.parquet").symlink_to(corpus / "nowhere")
    (corpus / os.fsdecode(b"name\xff.parquet")).write_bytes(b"")
    got = plan(corpus / "*")
    rejected = {Path(file.path).name: file for file in got.rejected_files}
    expected = {
        "columns.parquet": (FileReason.BAD_COLUMNS, "Did you mean 'candidates'?"),
        "gone.parquet": (FileReason.UNREADABLE, "No such file"),
        "name\\udcff.parquet": (FileReason.BAD_NAME, "is not valid UTF-8"),
    }
    assert rejected.keys() == expected.keys()
    for name, (reason, words) in expected.items():
        assert rejected[name].reason == reason
        assert words in rejected[name].message
    assert got.num_rows == 65
    for original in (got, replace(got, rejected_files=())):
        assert plan_from_bytes(plan_to_bytes(original), "plan.parquet") == original


def test_all_files_bad_is_an_error_with_the_first_few(tmp_path):
    for number in range(5):
        (tmp_path / f"{number}.parquet").write_bytes(b"nothing")
    words = r"(?s)inputs can be scored: got 5 file\(s\), all of them bad.*2\.parquet.*and 2 more"
    with pytest.raises(InputError, match=words) as caught:
        plan(tmp_path)
    assert "3.parquet" not in str(caught.value)


def test_digest_changes_with_name_content_version_and_columns(corpus):
    first, other = corpus / "a.parquet", corpus / "c.parquet"
    columns = ("candidate", "reference"), ("reference", "candidate"), (None, "reference")
    digests = [
        plan(corpus, fields=TableFields(candidate_column=one, reference_column=two)).digest
        for one, two in columns
    ]
    for change in (
        lambda: os.utime(first, (1, 1)),
        lambda: (write(first, pairs(26), 10), os.utime(first, (1, 1))),
        lambda: first.rename(other),
        other.unlink,
    ):
        change()
        digests.append(plan(corpus).digest)
    assert len(set(digests)) == len(digests) == 7


def test_a_flipped_bit_of_a_plan_is_noticed_or_changes_nothing(corpus):
    made = plan(corpus)
    data = plan_to_bytes(made)
    noticed = 0
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            assert plan_from_bytes(bytes(damaged), "p") == made, bit
        except InputError:
            noticed += 1
    assert noticed > 7 * len(data)


def other_format() -> bytes:
    metadata = {"bertscore.plan": json.dumps({"format": 99})}
    return write_part(pa.table({"path": ["x"]}, metadata=metadata))


@pytest.mark.parametrize("data", [b"", b"PAR1 nonsense", write_part(pairs(1)), other_format()])
def test_what_is_no_plan_is_an_error_that_names_the_file(data):
    with pytest.raises(InputError, match=r"'s3://o/plan.parquet' is not a plan of this version"):
        plan_from_bytes(data, "s3://o/plan.parquet")


def test_credentials_do_not_stand_in_rejects():
    file = InputFile(path="memory://in/x.parquet?token=hunter2", size=0, root="memory://in")
    write_atomically(file.path, b"nothing")
    with pytest.raises(InputError) as caught:
        plan_inputs([file], fields=PAIRS, target_rows=1, target_bytes=1)
    assert "token=***" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_file_whose_rejects_have_too_long_a_key_is_rejected(corpus):
    """Its rejected rows have the longest key of all where the input has a short name."""
    with pytest.raises(InputError, match=r"its part-0{12}\.pq has a key of 1028 bytes"):
        plan(corpus / "a.parquet", output="s3://bucket/" + "p" * 960)
    assert plan(corpus / "a.parquet", output="s3://bucket/" + "p" * 952).num_files == 1


def test_local_paths_leave_room_for_the_temporary_name(corpus):
    """A temporary file beside a list of rejected rows is the longest of all that is written."""
    names = "/".join(18 * ["d" * 200])

    def output_of(size: int) -> str:
        written = f"{corpus}/{names}///_rejects/rows/{32 * '0'}/.bertscore-tmp-{32 * '0'}"
        room = size - len(written)
        return f"{corpus}/{names}/{'e' * (room // 2)}/{'f' * (room - room // 2)}"

    with pytest.raises(InputError, match="takes 4096 bytes; expected less than 4096"):
        plan(corpus / "a.parquet", output=output_of(4096))
    assert plan(corpus / "a.parquet", output=output_of(4095)).num_files == 1
    with pytest.raises(InputError, match="a folder for its parts has a name of 256 bytes"):
        plan(corpus / "a.parquet", output=f"{corpus}/{'g' * 256}")


def test_a_file_whose_path_is_too_long_to_be_opened_is_rejected(corpus, monkeypatch):
    monkeypatch.chdir(corpus)
    while len(os.getcwd()) < 3850:
        os.mkdir(200 * "d")
        os.chdir(200 * "d")
    Path(f"{247 * 'x'}.parquet").touch()
    (rejected,) = plan(corpus).rejected_files
    assert rejected.reason == FileReason.BAD_NAME
    assert "too long for this system" in rejected.message


def test_a_text_that_changes_after_it_was_found_is_no_bad_file(tmp_path):
    for name in ("changed.tsv", "kept.tsv"):
        (tmp_path / name).write_text("candidate\treference\na\tb\n")
    found = expand_inputs([str(tmp_path)])
    write_atomically(str(tmp_path / "changed.tsv"), b"candidate\treference\nc\td\n")
    (rejected,) = plan_inputs(found, fields=PAIRS, target_rows=10).rejected_files
    assert (rejected.input_name, rejected.reason) == ("changed.tsv", FileReason.UNREADABLE)
    assert "has changed since it was planned" in rejected.message
