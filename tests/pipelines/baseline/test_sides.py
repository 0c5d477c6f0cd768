"""What can be compared: how tables are found and named, and what is refused."""

import numpy as np
import pytest

from bertscore_beam.baseline import open_side, read_table
from bertscore_beam.cli.main import perform
from bertscore_core.baseline import baseline_path, find_baseline
from bertscore_core.errors import ConfigError
from tests.support.baseline_tables import ROBERTA, compared, moments, write_made, write_rows


@pytest.mark.parametrize("model", ["roberta-large", "microsoft/deberta-base"])
def test_a_lone_table_is_told_by_its_path(tmp_path, capsys, monkeypatch, model):
    rows = find_baseline("en", model).rows
    path = write_rows(tmp_path / baseline_path("en", model), rows)
    (result,) = compared(capsys, path, "published")
    assert result["title"] == f"en/{model}"
    monkeypatch.chdir(path.parent)
    (result,) = compared(capsys, path.name, "published")
    assert result["title"] == f"en/{model}"


def test_a_lone_table_is_told_by_its_description_before_its_path(tmp_path, capsys):
    result = moments(1, rows=25)
    path = write_made(tmp_path, result)
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for suffix in (".tsv", ".json"):
        path.with_suffix(suffix).rename(moved / f"mine{suffix}")
    (shown,) = compared(capsys, moved / "mine.tsv", "published")
    assert shown["title"] == "en/roberta-large"


def test_a_lone_table_is_told_by_flags_before_all_else(tmp_path, capsys):
    path = write_rows(tmp_path / "mine.tsv", ROBERTA)
    flags = ["--language", "en", "--model", "FacebookAI/roberta-large"]
    (result,) = compared(capsys, path, "published", *flags)
    assert result["verdict"] == "the same numbers"
    path = write_rows(tmp_path / "roberta-large.tsv", ROBERTA)
    (result,) = compared(capsys, path, "published", "--language", "en")
    assert result["verdict"] == "the same numbers"


def test_a_lone_table_that_nothing_fits_is_refused_with_what_there_is(tmp_path):
    path = write_rows(tmp_path / "xx" / "mine.tsv", ROBERTA)
    with pytest.raises(ConfigError, match=r"xx/mine.*published.*--language and --model"):
        perform(["baseline", "compare", str(path), "published"])


def test_folders_without_a_common_table_are_refused_with_what_each_has(tmp_path):
    write_made(tmp_path / "a", moments(1), "en", "one")
    write_made(tmp_path / "b", moments(1), "de", "two")
    with pytest.raises(ConfigError, match=r"first has en/one; the second de/two"):
        perform(["baseline", "compare", str(tmp_path / "a"), str(tmp_path / "b")])


def test_a_language_or_model_that_a_folder_lacks_is_refused(tmp_path):
    write_made(tmp_path, moments(1), "en", "one")
    with pytest.raises(ConfigError, match=r"no table for de and one: it has en/one"):
        open_side(str(tmp_path), "de", "one")


@pytest.mark.parametrize("name", ["nothing", "empty", "flat"])
def test_a_place_without_tables_is_refused(tmp_path, name):
    (tmp_path / "empty").mkdir()
    write_rows(tmp_path / "flat" / "model.tsv", ROBERTA)
    with pytest.raises(ConfigError, match=r"no baseline tables at .*expected a table, a folder"):
        perform(["baseline", "compare", str(tmp_path / name), "published"])


def test_credentials_in_an_address_are_not_shown():
    with pytest.raises(ConfigError) as caught:
        open_side("memory://someone:hush@nowhere/x")
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    "content", [b"", b"LAYER\tP\tR\tF\n", b"\xff\xfe", b"LAYER,P,R,F\n0,1,x,2"]
)
def test_a_file_that_is_no_table_is_refused(tmp_path, content):
    path = tmp_path / "mine.tsv"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"mine\.tsv is not a baseline table"):
        perform(["baseline", "compare", str(path), "published"])


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"layers": [{"precision": 1}]}', '"x"'])
def test_a_damaged_description_is_refused(tmp_path, content):
    path = write_made(tmp_path, moments(1))
    path.with_suffix(".json").write_text(content)
    with pytest.raises(ConfigError, match=r"roberta-large\.json does not describe"):
        read_table(str(path))


def test_the_description_of_another_table_is_refused(tmp_path):
    path = write_made(tmp_path, moments(1))
    write_rows(path, moments(2).means)
    with pytest.raises(ConfigError, match="describes another table"):
        read_table(str(path))


def test_a_table_without_a_description_has_unknown_errors(tmp_path):
    table = read_table(str(write_rows(tmp_path / "a.tsv", ROBERTA)))
    assert np.isnan(table.errors).all()
    assert table.errors.shape == ROBERTA.shape
    assert (table.pairs, table.key) == (None, None)
