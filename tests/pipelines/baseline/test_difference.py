"""Two baseline tables compared: what can be, the numbers and the verdict."""

import json
import re

import numpy as np
import pytest

from bertscore_beam.baseline.table_difference import Table, compare_tables, open_side, read_table
from bertscore_beam.cli.main import perform
from bertscore_core.baseline import baseline_path, find_baseline
from bertscore_core.errors import ConfigError
from tests.support.baseline_tables import ROBERTA, compared, moments, write_made, write_rows


def test_differences_are_second_minus_first_and_the_largest_is_named(tmp_path, capsys):
    rows = ROBERTA.copy()
    rows[17] += (0.001, -0.002, 0.004)
    path = write_rows(tmp_path / "en" / "roberta-large.tsv", rows)
    (result,) = compared(capsys, "published", path)
    assert result["layers"][17]["differences"] == pytest.approx([0.001, -0.002, 0.004], abs=2e-7)
    largest = result["largest_difference"]
    assert (largest["layer"], largest["measure"]) == (17, "f1")
    assert result["verdict"].startswith("no standard errors are known")
    assert not result["is_large"]


@pytest.fixture
def made(tmp_path):
    """Return what writes a table of moments into a folder of its number."""
    return lambda number, **changes: write_made(tmp_path / str(number), moments(number, **changes))


OTHER_TEXT = "differ by more than the sampling error: other text"
UNKNOWN = "no standard errors are known"


@pytest.mark.parametrize(
    ("first", "second", "is_large", "verdict"),
    [
        ({}, {}, False, "agree within error$"),
        ({}, {"shift": 0.01}, False, OTHER_TEXT),
        ({}, {"shift": -0.05}, True, f"{OTHER_TEXT}.*by more than 0.03"),
        # An error that a description leaves open is not taken for none.
        *((one, {"pairs": 1}, True, UNKNOWN) for one in ({}, {"pairs": 1})),
    ],
)
def test_differences_are_judged_by_the_errors_of_both(
    made, capsys, first, second, is_large, verdict
):
    (result,) = compared(capsys, made(1, **first), made(2, **second))
    assert re.match(verdict, result["verdict"])
    assert result["is_large"] == is_large
    samples = (moments(1, **first), moments(2, **second))
    assert result["pairs"] == [sample.num_pairs for sample in samples]
    wanted = np.hypot(*(sample.standard_errors for sample in samples))
    for layer, errors in zip(result["layers"], wanted, strict=True):
        is_known = np.isfinite(errors).all()
        assert layer["errors"] == (pytest.approx(errors) if is_known else [None] * 3)
        ratios = pytest.approx(layer["differences"] / errors)
        assert layer["in_errors"] == (ratios if is_known else [None] * 3)


def test_errors_that_do_not_allow_for_hosts_are_said(made, capsys):
    """As in tables of given sentences, and in those of versions without a `naive_error`."""
    first, second = made(1), made(2)
    beside = second.with_suffix(".json")
    said = json.loads(beside.read_text())
    del said["sample"]
    for layer in said["layers"]:
        for measure in ("precision", "recall", "f1"):
            del layer[measure]["naive_error"]
    beside.write_text(json.dumps(said))
    (result,) = compared(capsys, first, second)
    words = "agree within error; the errors of B do not allow for sentences of one host"
    assert result["verdict"] == words
    (result,) = compared(capsys, second, second)
    assert result["verdict"] == "the same numbers"


def test_errors_of_one_table_are_used_when_the_other_has_none(made):
    known = read_table(str(made(1)))
    unknown = Table(name="b", rows=known.rows + 1e-5, errors=np.full(known.rows.shape, np.nan))
    for result in (compare_tables(known, unknown, "t"), compare_tables(unknown, known, "t")):
        errors = np.array([layer.errors for layer in result.layers])
        assert errors == pytest.approx(moments(1).standard_errors)
        assert result.verdict == "agree within error"


@pytest.mark.parametrize("model", ["roberta-large", "microsoft/deberta-base"])
def test_a_published_table_is_told_by_its_path_and_does_not_differ(
    tmp_path, capsys, monkeypatch, model
):
    rows = find_baseline("en", model).rows
    path = write_rows(tmp_path / baseline_path("en", model), rows)
    (result,) = compared(capsys, path, "published")
    assert result["title"] == f"en/{model}"
    assert result["names"] == [str(path), f"published en/{model}"]
    assert (result["verdict"], result["pairs"]) == ("the same numbers", [None, None])
    assert result["spearman"] == pytest.approx(1.0)
    differences = np.array([layer["differences"] for layer in result["layers"]])
    assert differences.shape == rows.shape
    assert np.abs(differences).max() < 1e-7
    monkeypatch.chdir(path.parent)
    (result,) = compared(capsys, path.name, "published")
    assert result["title"] == f"en/{model}"


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_tables_that_differ_by_one_in_the_seventh_decimal_are_the_same(steps):
    for first in np.round(np.random.default_rng(4).uniform(0.2, 0.99, (200, 2, 3)), 7):
        tables = [
            Table(name="a", rows=np.round(rows, 7), errors=np.full((2, 3), np.nan))
            for rows in (first, first + steps * 1e-7)
        ]
        for result in (compare_tables(*tables, "t"), compare_tables(*tables[::-1], "t")):
            assert (result.verdict == "the same numbers") == (steps < 2)
            largest = result.largest_difference
            assert (largest.layer, largest.measure) == (0, "precision")


def test_a_difference_of_the_limit_is_not_large():
    for first in np.round(np.random.default_rng(4).uniform(0.2, 0.9, (200, 2, 3)), 7):
        a, b, c = (
            Table(name="t", rows=np.round(first + by, 7), errors=np.full((2, 3), np.nan))
            for by in (0, 0.03, 0.0300001)
        )
        assert not compare_tables(a, b, "t").is_large
        assert compare_tables(a, c, "t").is_large


def test_a_lone_table_is_told_by_flags_or_its_description_before_its_path(tmp_path, capsys):
    path = write_rows(tmp_path / "mine.tsv", ROBERTA)
    flags = ["--language", "en", "--model", "FacebookAI/roberta-large"]
    (result,) = compared(capsys, path, "published", *flags)
    assert result["verdict"] == "the same numbers"
    path = write_made(tmp_path, moments(1, rows=25))
    for suffix in (".tsv", ".json"):
        path.with_suffix(suffix).rename(tmp_path / f"other{suffix}")
    (result,) = compared(capsys, tmp_path / "other.tsv", "published")
    assert result["title"] == "en/roberta-large"


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Stand in a folder with tables of two languages, one alone, and none."""
    monkeypatch.chdir(tmp_path)
    write_made(tmp_path / "a", moments(1), "en", "one")
    write_made(tmp_path / "b", moments(1), "de", "two")
    write_rows(tmp_path / "mine.tsv", ROBERTA)
    write_rows(tmp_path / "en" / "roberta-large.tsv", ROBERTA[:13])
    (tmp_path / "empty").mkdir()
    write_rows(tmp_path / "flat" / "model.tsv", ROBERTA)
    for number, content in enumerate(NO_TABLES):
        (tmp_path / f"no-{number}.tsv").write_bytes(content)


NO_TABLES = (b"", b"LAYER\tP\tR\tF\n", b"\xff\xfe", b"LAYER,P,R,F\n0,1,x,2")
NOWHERE = "no baseline tables at .*expected a table, a folder"


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ("a", "b", "first has en/one; the second de/two"),
        ("mine.tsv", "published", "mine.*published.*--language and --model"),
        ("en/roberta-large.tsv", "published", r"layers 0 to 12, published .* 0 to 24"),
        *((place, "published", NOWHERE) for place in ("nothing", "empty", "flat")),
        *((f"no-{n}.tsv", "published", "tsv is not a baseline table") for n in range(4)),
    ],
)
def test_what_cannot_be_compared_is_refused_with_what_each_side_has(places, first, second, words):
    with pytest.raises(ConfigError, match=words):
        perform(["baseline", "compare", first, second])


def test_a_language_or_model_that_a_folder_lacks_is_refused(places):
    with pytest.raises(ConfigError, match=r"no table for de and one: it has en/one"):
        open_side("a", "de", "one")


def test_credentials_in_an_address_are_not_shown():
    with pytest.raises(ConfigError) as caught:
        open_side("memory://someone:hush@nowhere/x")
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"layers": [{"precision": 1}]}', '"x"'])
def test_a_damaged_description_is_refused(made, content):
    path = made(1)
    path.with_suffix(".json").write_text(content)
    with pytest.raises(ConfigError, match=r"roberta-large\.json does not describe"):
        read_table(str(path))


def test_the_description_of_another_table_is_refused(made):
    path = made(1)
    write_rows(path, moments(2).means)
    with pytest.raises(ConfigError, match="describes another table"):
        read_table(str(path))
