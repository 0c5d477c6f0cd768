"""The output folder: what is damaged or missing reads as nothing."""

import pytest

from bertscore_beam.run.folder import OutputFolder


def test_what_is_written_is_read_back_and_listed_by_its_path_below(output):
    folder = OutputFolder(output)
    folder.write_all({"x/one.json": b"{}", "x/two.pq": b"123"})
    folder.write_json("said.json", {"b": 1, "a": "é"})
    assert folder.files("x") == {"one.json": 2, "two.pq": 3}
    assert folder.files("x", suffix=".pq") == {"two.pq": 3}
    said = folder.read("said.json").decode()
    assert said.startswith('{\n  "b": 1,\n  "a": "é",\n  "digest": "')
    assert folder.read_json("said.json") == {"b": 1, "a": "é"}
    assert list(folder.read_each(["x/two.pq", "x/three"])) == [b"123", None]
    folder.delete("x/one.json", "never-there")
    assert folder.files().keys() == {"x/two.pq", "said.json"}


@pytest.mark.parametrize("data", [None, b"", b"{", b"[1]", b"\xff"])
def test_damaged_json_reads_as_nothing(tmp_path, data):
    if data is not None:
        (tmp_path / "said.json").write_bytes(data)
    assert OutputFolder(str(tmp_path)).read_json("said.json") == {}
