"""Jobs over listings that end before the folder does: no row and no file is lost."""

import pytest

from bertscore_beam.cli import main as cli
from tests.support.cloud_storage import cloud_storage, end_listings_at
from tests.support.dumps import write_dump

pytestmark = [pytest.mark.job, pytest.mark.model, pytest.mark.process]

COMMANDS = {
    "score": ("score", "--input", "gs://bucket/in", "--idf", "corpus"),
    "idf": ("idf", "--input", "gs://bucket/in/*.parquet", "--model", "{model}"),
    "tune": ("tune", "--judgements", "gs://bucket/in", "--score-column", "id"),
    "baseline": ("baseline", "--sentences", "en=gs://bucket/in", "--models", "all-MiniLM-L6-v2"),
    "pages": ("baseline", "--wet", "gs://bucket/in/*", "--models", "{model}", "--languages", "en"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_ends_if_its_input_is_cut_off(name, tiny_folder, tmp_path, capsys, monkeypatch):
    end_listings_at(2, monkeypatch)
    words = [word.format(model=tiny_folder("bert")) for word in COMMANDS[name]]
    with cloud_storage("bucket") as (store, _):
        for path in write_dump(tmp_path / "dump", [4, 4, 4]).iterdir():
            store.put("bucket", f"in/{path.name}", path.read_bytes())
        assert cli.main([*words, "--output", str(tmp_path / "out")]) == cli.UNUSABLE
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith(
        "bertscore-beam: the listing of 'gs://bucket/in' may be cut off: got 2 names"
    )
    assert not (tmp_path / "out").exists()
