"""The command that compares baseline tables: what it takes and prints."""

import pytest

from bertscore_beam.baseline.table_difference import compare_sides, open_side
from bertscore_beam.cli.main import perform
from bertscore_core.errors import ConfigError
from tests.support.baseline_tables import compared, moments, write_made, write_rows


def test_without_a_common_table_it_is_said_where_the_published_ones_are_listed(tmp_path):
    write_made(tmp_path, moments(1), "xx", "roberta-large")
    write_made(tmp_path, moments(1), "en", "one")
    words = "`bertscore-beam models` lists the published tables"
    for sides in ([str(tmp_path), "published"], ["published", str(tmp_path)]):
        with pytest.raises(ConfigError, match=words):
            perform(["baseline", "compare", *sides])


def test_two_tables_are_compared_whatever_they_are_of(tmp_path, capsys):
    first = write_rows(tmp_path / "a.tsv", [[0.5, 0.5, 0.4]])
    second = write_rows(tmp_path / "b.tsv", [[0.5, 0.5, 0.6]])
    (found,) = compared(capsys, first, second)
    assert found["title"] == "two tables"
    assert found["layers"][0]["differences"] == pytest.approx([0, 0, 0.2])
    assert found["spearman"] is None


def test_folders_are_compared_table_by_table_where_both_have_one(tmp_path, capsys):
    names = [("en", "roberta-large"), ("en", "microsoft/deberta-large"), ("de", "some/model")]
    for language, model in names:
        write_made(tmp_path / "a", moments(1), language, model)
    for language, model in [*names[:2], ("fr", "some/model")]:
        write_made(tmp_path / "b", moments(2), language, model)
    # What the job keeps for itself are no tables.
    write_rows(tmp_path / "a" / "_sample" / "en.tsv", [[0.1, 0.1, 0.1]])
    write_rows(tmp_path / "b" / "_sample" / "en.tsv", [[0.1, 0.1, 0.1]])
    found = compared(capsys, tmp_path / "a", tmp_path / "b")
    assert [one["title"] for one in found] == ["en/microsoft/deberta-large", "en/roberta-large"]
    (only,) = compared(capsys, tmp_path / "a", tmp_path / "b", "--model", "roberta-large")
    assert only["title"] == "en/roberta-large"
    assert compared(capsys, tmp_path / "a", tmp_path / "b", "--language", "EN") == found


def test_what_is_printed_names_both_sides_and_says_what_it_comes_to(tmp_path, ran):
    first = write_made(tmp_path / "a", moments(1))
    second = write_made(tmp_path / "b", moments(2, shift=0.01))
    shown = ran(["baseline", "compare", str(first), str(second)]).out
    assert f"A: {first} (2,000 pairs)" in shown
    assert f"B: {second} (2,000 pairs)" in shown
    means = moments(1).means[:, 2], moments(2, shift=0.01).means[:, 2]
    heading, *lines = [line.split("\t") for line in shown.splitlines() if "\t" in line]
    assert (heading[0], heading[5], len(heading)) == ("layer", "F1: B-A", len(lines[0]))
    assert [line[0] for line in lines] == ["0", "1", "2", "3"]
    for line, one, other in zip(lines, *means, strict=True):
        assert [float(cell) for cell in line[1:3]] == pytest.approx([one, other], abs=1e-6)
        assert float(line[5]) == pytest.approx(other - one, abs=2e-6)
    assert "Spearman over layers: 1.0000" in shown
    assert "verdict: differ by more than the sampling error" in shown


def test_published_against_published_is_every_table_and_no_difference():
    side = open_side("published")
    found = compare_sides(side, side)
    assert len(found) == len(side.tables) > 60
    assert {one.verdict for one in found} == {"the same numbers"}
