"""The output folder: changes need the lock, and what is damaged or missing reads as nothing."""

import pytest

from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.lock import LOCK_FILE, FolderLostError
from tests.support.jobs import own

CHANGES = {
    "write": lambda folder: folder.write("a", b"new"),
    "write_all": lambda folder: folder.write_all({"b": b"new", "a": b"new"}),
    "write_json": lambda folder: folder.write_json("a", {}),
    "delete": lambda folder: folder.delete("a"),
    "delete_empty_folders": lambda folder: folder.delete_empty_folders(),
    "delete_temporary": lambda folder: folder.delete_temporary(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_nothing_is_changed_in_a_folder_that_was_lost(output, change):
    lost = own(output)
    own(output).write("a", b"old")
    before = lost.files()
    with pytest.raises(FolderLostError, match="belongs to another run now"):
        change(lost)
    assert lost.files() == before
    assert lost.read("a") == b"old"
    assert not lost.holds_lock()
    with pytest.raises(RuntimeError, match="no lock is held"):
        change(OutputFolder(output))
    assert lost.files() == before


def test_what_is_written_is_read_back_and_listed_by_its_path_below(output):
    folder = own(output)
    folder.write_all({"x/one.json": b"{}", "x/two.pq": b"123"})
    folder.write_json("said.json", {"b": 1, "a": "é"})
    assert folder.files("x") == {"one.json": 2, "two.pq": 3}
    assert folder.files("x", suffix=".pq") == {"two.pq": 3}
    said = folder.read("said.json").decode()
    assert said.startswith('{\n  "b": 1,\n  "a": "é",\n  "digest": "')
    assert folder.read_json("said.json") == {"b": 1, "a": "é"}
    assert list(folder.read_each(["x/two.pq", "x/three"])) == [b"123", None]
    folder.delete("x/one.json", "never-there")
    assert folder.files().keys() == {"x/two.pq", "said.json", LOCK_FILE}
    folder.release()
    assert folder.files().keys() == {"x/two.pq", "said.json"}


@pytest.mark.parametrize("data", [None, b"", b"{", b"[1]", b"\xff"])
def test_damaged_json_reads_as_nothing(tmp_path, data):
    if data is not None:
        (tmp_path / "said.json").write_bytes(data)
    assert OutputFolder(str(tmp_path)).read_json("said.json") == {}
