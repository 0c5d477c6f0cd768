import contextlib
import errno
import os
import re
import socket
from pathlib import Path

import fsspec
import pyarrow.parquet as pq
import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.crawl.fetch import FetchError, FetchPolicy, fetched
from bertscore_beam.dump.inputs import InputFile, expand_inputs
from bertscore_beam.files.find import Trouble
from bertscore_beam.files.paths import absolute
from bertscore_beam.files.reach import NoFileError, UnreachedError
from bertscore_beam.files.read import open_source, read_bytes
from bertscore_core.errors import InputError
from tests.support.broken_store import broken_store
from tests.support.faults import FaultRule, Faults
from tests.support.hostile import pairs
from tests.support.powers import shut
from tests.support.s3 import s3_bucket

PATTERNS = ["in", "in/*", "in/*/*.parquet", "in/**/*.parquet", "in/**", "in/[ab]"]


def fill(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())


def split(folder: Path | str, files: list[InputFile]) -> tuple[list[str], list[str]]:
    """Return the names of files, and of what could not be listed."""
    start = absolute(f"{folder}/x")[:-1]
    fine = [f.path.removeprefix(start) for f in files if f.trouble is None]
    lost = [f.path.removeprefix(start) for f in files if f.trouble is Trouble.UNLISTED]
    assert len(fine) + len(lost) == len(files)
    return fine, lost


# --- What cannot be listed is not empty ----------------------------------------------------------


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_folder_that_may_not_be_read_is_no_empty_folder(tmp_path, pattern):
    fill(tmp_path, "in/a/x.parquet", "in/b/x.parquet")
    with shut(tmp_path / "in" / "b"):
        found = expand_inputs([f"{tmp_path}/{pattern}"])
    assert split(tmp_path, found) == (["in/a/x.parquet"], ["in/b"])
    assert "may not be read" in found[1].message


@pytest.mark.parametrize("pattern", ["in", "in/*", "in/**", "in/x.parquet", "in/b"])
def test_a_place_that_may_not_be_entered_is_not_said_to_be_missing(tmp_path, pattern):
    fill(tmp_path, "in/x.parquet", "in/b/y.parquet")
    with shut(tmp_path / "in"):
        (found,) = expand_inputs([f"{tmp_path}/{pattern}"])
    assert found.trouble is Trouble.UNLISTED
    assert "may not be read" in found.message


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("error", [errno.EIO, errno.ESTALE, errno.EACCES])
def test_an_error_of_a_disk_or_network_is_no_empty_folder(pattern, error):
    with broken_store("/in/b", error=error) as store:
        for name in ("a", "b"):
            store.pipe_file(f"/in/{name}/x.parquet", b"x")
        found = expand_inputs([f"memory://{pattern}"])
    assert split("memory://", found) == (["in/a/x.parquet"], ["in/b"])
    assert os.strerror(error) in found[1].message


@pytest.mark.process
@pytest.mark.parametrize("pattern", ["in", "in/*", "in/*/*.parquet", "in/**/*.parquet"])
def test_an_error_of_an_object_store_is_no_empty_prefix(pattern):
    faults: list[Faults] = []
    with s3_bucket(faults) as bucket:
        store = fsspec.filesystem("s3")
        for name in ("a", "b"):
            store.pipe_file(f"{bucket}/in/{name}/x.parquet", b"x")
        assert len(expand_inputs([f"{bucket}/{pattern}"])) == 2
        faults[0].set(FaultRule(rate=1.0, kinds=("403",), query="prefix=in"))
        found = expand_inputs([f"{bucket}/{pattern}"])
        faults[0].set(FaultRule())
    assert [file.trouble for file in found] == [Trouble.UNLISTED]
    assert "may not be read" in found[0].message


@pytest.mark.process
def test_what_a_store_cannot_tell_just_now_is_not_taken_for_nothing():
    """Neither a folder whose name is a pattern, too, nor the log of a table above the input."""
    faults: list[Faults] = []
    with s3_bucket(faults) as bucket:
        for name in ("in[1]/x.parquet", "in1/x.parquet", "t/a/x.parquet", "t/_delta_log/0.json"):
            with fsspec.open(f"{bucket}/{name}", "wb") as sink:
                sink.write(b"x")
        assert split(bucket, expand_inputs([f"{bucket}/in[1]"])) == (["in[1]/x.parquet"], [])
        assert "Delta" in refusal(f"{bucket}/t/a")

        def set_fault(kind: str, start: str) -> None:
            faults[0].set(FaultRule(rate=1.0, kinds=(kind,), query=f"prefix={start}"))

        set_fault("501", "in[1]")
        assert split(bucket, expand_inputs([f"{bucket}/in[1]"])) == ([], ["in[1]"])
        set_fault("501", "t/_delta_log")
        with pytest.raises(UnreachedError, match="_delta_log"):
            expand_inputs([f"{bucket}/t/a"])
        set_fault("403", "t/_delta_log")
        assert split(bucket, expand_inputs([f"{bucket}/t/a"])) == (["t/a/x.parquet"], [])


def test_a_hidden_folder_that_may_not_be_read_is_nobodys_business(tmp_path):
    fill(tmp_path, "x.parquet", ".Trash/y.parquet", "_tmp/z.parquet")
    with shut(tmp_path / ".Trash", tmp_path / "_tmp"):
        assert split(tmp_path, expand_inputs([str(tmp_path)])) == (["x.parquet"], [])


def test_a_folder_that_a_pattern_does_not_ask_for_is_not_looked_at(tmp_path):
    fill(tmp_path, "day-1/x.parquet", "day-2/x.parquet", "other/x.parquet")
    with shut(tmp_path / "other"):
        found = expand_inputs([f"{tmp_path}/day-*/*.parquet"])
    assert split(tmp_path, found) == (["day-1/x.parquet", "day-2/x.parquet"], [])


# --- Links ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", ["in", "in/*", "in/*/*.parquet", "in/**/*.parquet"])
def test_a_folder_behind_a_link_is_part_of_the_input(tmp_path, pattern):
    fill(tmp_path, "data/x.parquet", "in/a/y.parquet")
    (tmp_path / "in" / "linked").symlink_to("../data")
    found = expand_inputs([f"{tmp_path}/{pattern}"])
    assert split(tmp_path, found) == (["in/a/y.parquet", "in/linked/x.parquet"], [])


@pytest.mark.parametrize("pattern", ["in", "in/*", "in/**/*.parquet"])
def test_links_that_lead_back_end_and_no_file_counts_twice(tmp_path, pattern, caplog):
    fill(tmp_path, "in/a/x.parquet", "in/b/y.parquet")
    for folder in ("a", "b"):
        for target in ("..", "../a", "../b", "."):
            name = f"to-{target.strip('./') or len(target)}"
            (tmp_path / "in" / folder / name).symlink_to(target)
    (tmp_path / "in" / "b" / "same.parquet").symlink_to("y.parquet")
    found = expand_inputs([f"{tmp_path}/{pattern}"])
    assert split(tmp_path, found) == (["in/a/x.parquet", "in/b/y.parquet"], [])
    assert "each file is scored once" in caplog.text


def test_a_folder_and_a_link_to_it_are_one_input_under_its_own_name(tmp_path):
    fill(tmp_path, "2026-11-20/x.parquet")
    (tmp_path / "0-latest").symlink_to("2026-11-20")
    found = expand_inputs([f"{tmp_path}/0-latest", f"{tmp_path}/2026-11-20"])
    assert split(tmp_path, found) == (["2026-11-20/x.parquet"], [])
    assert split(tmp_path, expand_inputs([f"{tmp_path}/0-latest"])) == (["0-latest/x.parquet"], [])


def test_a_link_that_leads_nowhere_is_a_file_that_cannot_be_read(tmp_path):
    fill(tmp_path, "x.parquet")
    (tmp_path / "gone.parquet").symlink_to("nowhere")
    (tmp_path / "gone.txt").symlink_to("nowhere")
    assert split(tmp_path, expand_inputs([str(tmp_path)])) == (["gone.parquet", "x.parquet"], [])


def test_output_inside_the_input_by_way_of_a_link_is_not_read_again(tmp_path):
    fill(tmp_path, "in/x.parquet", "elsewhere/x.parquet/part-0.parquet")
    (tmp_path / "in" / "out").symlink_to("../elsewhere")
    for output in ("in/out", "elsewhere"):
        found = expand_inputs([f"{tmp_path}/in"], exclude=f"{tmp_path}/{output}")
        assert split(tmp_path, found) == (["in/x.parquet"], [])


# --- What is no file -----------------------------------------------------------------------------


@pytest.fixture
def odd_folder(tmp_path: Path) -> Path:
    """A good file beside a FIFO, a socket and a device by way of a link."""
    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(pairs(), folder / "good.parquet")
    os.mkfifo(folder / "fifo.parquet")
    (folder / "null.parquet").symlink_to("/dev/null")
    before = os.getcwd()
    os.chdir(folder)  # the path of a socket is limited to some 100 bytes
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket.parquet")
    os.chdir(before)
    return folder


@pytest.mark.parametrize("pattern", ["", "/*", "/**/*.parquet"])
def test_fifos_sockets_and_devices_are_found_as_what_they_are(odd_folder, pattern):
    found = expand_inputs([f"{odd_folder}{pattern}"])
    kinds = {Path(f.path).stem: (f.trouble, f.message) for f in found}
    assert set(kinds) == {"fifo", "good", "null", "socket"}
    assert kinds["good"] == (None, "")
    for name, words in (("fifo", "a FIFO"), ("socket", "a socket"), ("null", "a device")):
        assert kinds[name][0] is Trouble.NO_FILE
        assert words in kinds[name][1]


def test_a_fifo_is_never_opened(odd_folder, tmp_path):
    fifo = odd_folder / "fifo.parquet"
    for read in (open_source, read_bytes):
        with pytest.raises(NoFileError, match="a FIFO"):
            read(str(fifo))
    policy = FetchPolicy(attempts=3, pause=0)
    with pytest.raises(FetchError, match="a FIFO") as caught, fetched(str(fifo), policy):
        pass
    assert caught.value.permanent
    assert "after 1 attempt;" in str(caught.value)


# --- What is said --------------------------------------------------------------------------------


def test_missing_holding_nothing_no_pattern_and_shut_are_messages_of_their_own(tmp_path, capsys):
    fill(tmp_path, "in/a.txt", "in/b/c.txt", "in/README", "shut/x.parquet")
    (tmp_path / "empty").mkdir()
    for place, words in {
        "nowhere": r"/nowhere' does not exist; expected",
        "in/*.parquet": r"nothing matches '.*/\*.parquet'; expected",
        "in": r"holds no \*.parquet or .*\*.tsv \(2 .txt, 1 without a suffix\); expected",
        "empty": r"/empty' exists and holds no .*\*.tsv \(no file at all\)",
        "in/a**/x.parquet": "is not a valid pattern",
    }.items():
        with pytest.raises(InputError, match=words):
            expand_inputs([f"{tmp_path}/{place}"])
    flags = ["score", "--input", f"{tmp_path}/shut", "--output", f"{tmp_path}/out"]
    with shut(tmp_path / "shut"):
        assert cli.main(flags) == cli.BROKEN
    assert "may not be read" in capsys.readouterr().err


# --- A table is no folder of files ---------------------------------------------------------------

FILES = {"Delta": "lang=en/new.parquet", "Hudi": "lang=en/new.parquet"}
FILES["Iceberg"] = "data/lang=en/new.parquet"
MARKS = {
    "Delta": ["_delta_log/00000000000000000000.json"],
    "Hudi": [".hoodie/hoodie.properties", "{folder}/.hoodie_partition_metadata"],
    "Iceberg": ["metadata/v1.metadata.json"],
}
"""Of a table with files in a folder."""
WAYS = {
    "Delta": "the folder of the table itself",
    "Hudi": "format('hudi')",
    "Iceberg": "plan_files()",
}


def refusal(path: str) -> str:
    """Return why a path is refused; "" if it is not."""
    try:
        expand_inputs([path])
    except InputError as error:
        return str(error)
    return ""


def table_of(kind: str, file: str) -> list[str]:
    """Return the names of a table's files, of which one holds rows."""
    folder = file.rpartition("/")[0]
    return [f"t/{file}", *(f"t/{mark.format(folder=folder)}" for mark in MARKS[kind])]


@pytest.mark.parametrize("kind", MARKS)
@pytest.mark.parametrize("store", ["disk", pytest.param("S3", marks=pytest.mark.process)])
def test_files_of_a_table_are_read_only_if_they_are_named(tmp_path, kind, store):
    file, *marks = table_of(kind, FILES[kind])
    plain = ("plain/x.parquet", "plain/metadata/notes.json", "only/_delta_log/0.json")
    names = (file, *marks, *plain)
    with s3_bucket() if store == "S3" else contextlib.nullcontext(str(tmp_path)) as root:
        for name in names:
            with fsspec.open(f"{root}/{name}", "wb", auto_mkdir=True) as sink:
                sink.write(b"x")
        above, name = f"{root}/{file}".rsplit("/", 1)
        outer = above.rsplit("/", 1)[0]
        globs = [f"{root}/{path}" for path in ("**", "*", "t/**/*.parquet", "**/new.parquet")]
        globs += [f"{root}/t"] if kind != "Delta" else []  # that one is read: test_delta.py
        for path in (*globs, above, f"{above}/*", f"{outer}/*/*.parquet", f"{outer}/lang=*"):
            assert re.search(rf"/t/.*' is of a {kind} table: got", refusal(path)), path
            assert WAYS[kind] in refusal(path)
        assert not refusal(f"{root}/{file}")
        (found,) = expand_inputs([f"{root}/plain"])
        assert found.path == f"{root}/plain/x.parquet"


@pytest.mark.parametrize("kind", MARKS)
@pytest.mark.parametrize("below", ["2024", "2024/01/02", "data/abc", "sub"])
def test_a_folder_within_a_table_is_refused_whatever_its_name(tmp_path, kind, below):
    for name in table_of(kind, f"{below}/x.parquet"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    for path in (f"t/{below}", f"t/{below}/*.parquet", f"t/{below}/**"):
        refused = refusal(f"{tmp_path}/{path}")
        assert re.search(rf"/t/.*' is of a {kind} table: got", refused), path


def test_a_folder_of_metadata_that_may_not_be_read_hides_no_file_beside_it(tmp_path):
    (tmp_path / "in" / "metadata").mkdir(parents=True)
    (tmp_path / "in" / "a.parquet").write_bytes(b"x")
    with shut(tmp_path / "in" / "metadata"):
        found = expand_inputs([f"{tmp_path}/in/*.parquet"])
    assert [(file.path, file.trouble) for file in found] == [(f"{tmp_path}/in/a.parquet", None)]


@pytest.mark.process
def test_an_empty_object_beside_a_folder_of_its_name_is_said_to_be_that():
    with s3_bucket() as bucket:
        for name in ("both", "both/a.parquet", "alone"):
            fsspec.filesystem("s3").pipe_file(f"{bucket}/{name}", b"" if "/" not in name else b"x")
        found, alone = (expand_inputs([f"{bucket}/{name}"])[0] for name in ("both", "alone"))
        assert found.trouble is Trouble.NO_FILE
        assert f"Give the folder: {bucket}/both/" in found.message
        assert alone.trouble is None
        assert len(expand_inputs([f"{bucket}/both/"])) == 1
