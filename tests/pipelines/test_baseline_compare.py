"""Two baseline tables against each other: the numbers, the words, and what is refused."""

import io
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from bertscore_core.baseline import Baseline, baseline_path, find_baseline, format_baseline
from bertscore_core.errors import ConfigError
from bertscore_core.moments import Moments
from pipelines import cli
from pipelines.baseline.compare import (
    compare_command,
    compare_sides,
    compare_tables,
    rank_correlation,
)
from pipelines.baseline.sides import Table, open_side, read_table
from pipelines.baseline.tables import describe_layers
from pipelines.io.files import write_atomically

ROBERTA = find_baseline("en", "roberta-large").rows


def moments(seed: int, shift: float = 0.0, pairs: int = 2000, rows: int = 4) -> Moments:
    """Return the sums over scores of random pairs whose mean rises from layer to layer."""
    rng = np.random.default_rng(seed)
    both = rng.normal(0, 0.03, (rows, pairs, 1)) + np.linspace(0.5, 0.8, rows)[:, None, None]
    scores = both + shift + rng.normal(0, 0.01, (rows, pairs, 3))
    return Moments.of(scores.astype(np.float32), rng.integers(0, 64, pairs))


def write_rows(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(format_baseline(Baseline(name="custom", rows=np.asarray(rows))))
    return path


def write_made(folder, found: Moments, language="en", model="roberta-large"):
    """Write a table and the description beside it, as the baseline job does."""
    path = write_rows(folder / baseline_path(language, model), found.means)
    description = {
        "language": language,
        "model": model,
        "pairs": found.num_pairs,
        "layers": describe_layers(found),
    }
    path.with_suffix("").with_name(path.name.removesuffix(".tsv") + ".json").write_text(
        json.dumps(description)
    )
    return path


def compared(capsys, *arguments):
    assert compare_command([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_published_table_against_itself_has_no_difference(capsys, tmp_path):
    path = write_rows(tmp_path / "en" / "roberta-large.tsv", ROBERTA)
    (found,) = compared(capsys, path, "published")
    assert found["title"] == "en/roberta-large"
    assert found["names"] == [str(path), "published en/roberta-large"]
    assert found["verdict"] == "the same numbers"
    assert found["spearman"] == pytest.approx(1.0)
    assert len(found["layers"]) == len(ROBERTA) == 25
    differences = np.array([layer["differences"] for layer in found["layers"]])
    assert np.abs(differences).max() < 1e-7
    assert found["pairs"] == [None, None]


def test_differences_are_second_minus_first_and_the_largest_is_named(tmp_path, capsys):
    rows = ROBERTA.copy()
    rows[17] += (0.001, -0.002, 0.004)
    path = write_rows(tmp_path / "en" / "roberta-large.tsv", rows)
    (found,) = compared(capsys, "published", path)
    assert found["layers"][17]["differences"] == pytest.approx([0.001, -0.002, 0.004], abs=2e-7)
    assert found["largest_difference"] | {"difference": 0} == {
        "layer": 17,
        "measure": "f1",
        "difference": 0,
    }
    assert found["verdict"].startswith("no standard errors are known")
    assert not found["is_large"]


def test_samples_of_one_distribution_agree_within_error(tmp_path, capsys):
    first = write_made(tmp_path / "a", moments(1))
    second = write_made(tmp_path / "b", moments(2))
    (found,) = compared(capsys, first, second)
    assert found["verdict"] == "agree within error"
    assert found["pairs"] == [2000, 2000]
    one, other = moments(1).standard_errors, moments(2).standard_errors
    for layer in found["layers"]:
        wanted = np.hypot(one, other)[layer["layer"]]
        assert layer["errors"] == pytest.approx(wanted)
        assert layer["in_errors"] == pytest.approx(layer["differences"] / wanted)


def test_other_text_differs_more_than_sampling_error(tmp_path, capsys):
    first = write_made(tmp_path / "a", moments(1))
    second = write_made(tmp_path / "b", moments(2, shift=0.01))
    (found,) = compared(capsys, first, second)
    assert found["verdict"].startswith("differ more than sampling error says: other text")
    assert not found["is_large"]
    third = write_made(tmp_path / "c", moments(3, shift=-0.05))
    (found,) = compared(capsys, first, third)
    assert found["is_large"]
    assert "beyond 0.03" in found["verdict"]


def test_precision_alone_may_be_what_differs(tmp_path):
    table = read_table(str(write_made(tmp_path, moments(1))))
    rows = table.rows.copy()
    rows[2, 0] += 0.02
    changed = Table(name="other", rows=rows, errors=table.errors)
    found = compare_tables(table, changed, "t")
    assert found.largest[:2] == (2, "precision")
    assert found.verdict.startswith("differ more")


def test_errors_of_one_table_are_used_when_the_other_has_none(tmp_path):
    known = read_table(str(write_made(tmp_path, moments(1))))
    unknown = Table(name="b", rows=known.rows + 1e-5, errors=np.full(known.rows.shape, np.nan))
    for found in (compare_tables(known, unknown, "t"), compare_tables(unknown, known, "t")):
        errors = np.array([row.errors for row in found.rows])
        assert errors == pytest.approx(moments(1).standard_errors)
        assert found.verdict == "agree within error"


def test_a_table_of_one_pair_has_no_errors(tmp_path, capsys):
    path = write_made(tmp_path, moments(1, pairs=1))
    (found,) = compared(capsys, path, write_made(tmp_path / "b", moments(2, pairs=1)))
    assert found["layers"][0]["errors"] == [None, None, None]
    assert found["layers"][0]["in_errors"] == [None, None, None]


def test_an_error_that_one_description_leaves_open_is_not_taken_for_none(tmp_path, capsys):
    path = write_made(tmp_path, moments(1))
    (found,) = compared(capsys, path, write_made(tmp_path / "b", moments(2, pairs=1)))
    assert found["layers"][0]["errors"] == [None, None, None]
    assert found["verdict"].startswith("no standard errors are known")


@pytest.mark.parametrize("describe", [True, False])
def test_tables_of_two_languages_are_said_to_be_that(tmp_path, capsys, describe):
    paths = [
        write_made(tmp_path, moments(seed, shift=-seed / 20), language)
        for seed, language in ((1, "en"), (2, "zh"))
    ]
    if not describe:
        (paths[0].parent / "roberta-large.json").unlink()
    (found,) = compared(capsys, *paths)
    assert found["title"] == "two tables: A is en, B is zh"
    assert found["verdict"] == "differ more than sampling error says: A is en, B is zh"
    other = write_made(tmp_path, moments(1), "en", "other")
    (found,) = compared(capsys, paths[1], other)
    assert found["title"] == "two tables: A is zh/roberta-large, B is en/other"


def test_without_a_common_table_it_is_said_what_is_published_for_the_model(tmp_path):
    write_made(tmp_path, moments(1), "xx", "roberta-large")
    write_made(tmp_path, moments(1), "en", "one")
    words = r"published table for one: none; for roberta-large: en\. Name"
    for sides in ([str(tmp_path), "published"], ["published", str(tmp_path)]):
        with pytest.raises(ConfigError, match=words):
            compare_command(sides)


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


def test_a_folder_in_memory_works_like_one_on_disk(capsys):
    text = format_baseline(find_baseline("zh", "bert-base-chinese")).encode()
    write_atomically("memory://compare/out/zh/bert-base-chinese.tsv", text)
    (found,) = compared(capsys, "memory://compare/out", "published")
    assert found["title"] == "zh/bert-base-chinese"
    assert found["verdict"] == "the same numbers"


@pytest.mark.parametrize("model", ["roberta-large", "microsoft/deberta-base"])
def test_a_lone_table_is_told_by_its_path(tmp_path, capsys, monkeypatch, model):
    rows = find_baseline("en", model).rows
    path = write_rows(tmp_path / baseline_path("en", model), rows)
    (found,) = compared(capsys, path, "published")
    assert found["title"] == f"en/{model}"
    monkeypatch.chdir(path.parent)
    (found,) = compared(capsys, path.name, "published")
    assert found["title"] == f"en/{model}"


def test_a_lone_table_is_told_by_its_description_before_its_path(tmp_path, capsys):
    found = moments(1, rows=25)
    path = write_made(tmp_path, found)
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for suffix in (".tsv", ".json"):
        path.with_suffix(suffix).rename(moved / f"mine{suffix}")
    (shown,) = compared(capsys, moved / "mine.tsv", "published")
    assert shown["title"] == "en/roberta-large"


def test_a_lone_table_is_told_by_flags_before_all_else(tmp_path, capsys):
    path = write_rows(tmp_path / "mine.tsv", ROBERTA)
    flags = ["--language", "en", "--model", "FacebookAI/roberta-large"]
    (found,) = compared(capsys, path, "published", *flags)
    assert found["verdict"] == "the same numbers"
    path = write_rows(tmp_path / "roberta-large.tsv", ROBERTA)
    (found,) = compared(capsys, path, "published", "--language", "en")
    assert found["verdict"] == "the same numbers"


def test_a_lone_table_that_nothing_fits_is_refused_with_what_there_is(tmp_path):
    path = write_rows(tmp_path / "xx" / "mine.tsv", ROBERTA)
    with pytest.raises(ConfigError, match=r"xx/mine.*published.*--language and --model"):
        compare_command([str(path), "published"])


def test_folders_without_a_common_table_are_refused_with_what_each_has(tmp_path):
    write_made(tmp_path / "a", moments(1), "en", "one")
    write_made(tmp_path / "b", moments(1), "de", "two")
    with pytest.raises(ConfigError, match=r"first has en/one; the second de/two"):
        compare_command([str(tmp_path / "a"), str(tmp_path / "b")])


def test_a_language_or_model_that_a_folder_lacks_is_refused(tmp_path):
    write_made(tmp_path, moments(1), "en", "one")
    with pytest.raises(ConfigError, match=r"no table for de and one: it has en/one"):
        open_side(str(tmp_path), "de", "one")


@pytest.mark.parametrize("name", ["nothing", "empty", "flat"])
def test_a_place_without_tables_is_refused(tmp_path, name):
    (tmp_path / "empty").mkdir()
    write_rows(tmp_path / "flat" / "model.tsv", ROBERTA)
    with pytest.raises(ConfigError, match=r"no baseline tables at .*expected a table, a folder"):
        compare_command([str(tmp_path / name), "published"])


def test_credentials_in_an_address_are_not_shown():
    with pytest.raises(ConfigError) as caught:
        open_side("memory://someone:hush@nowhere/x")
    assert "hush" not in str(caught.value)


def test_tables_of_different_depth_are_refused(tmp_path):
    path = write_rows(tmp_path / "en" / "roberta-large.tsv", ROBERTA[:13])
    with pytest.raises(ConfigError, match=r"layers 0 to 12, published .* 0 to 24"):
        compare_command([str(path), "published"])


@pytest.mark.parametrize(
    "content", [b"", b"LAYER\tP\tR\tF\n", b"\xff\xfe", b"LAYER,P,R,F\n0,1,x,2"]
)
def test_a_file_that_is_no_table_is_refused(tmp_path, content):
    path = tmp_path / "mine.tsv"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"mine\.tsv is not a baseline table"):
        compare_command([str(path), "published"])


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


def test_what_is_printed_names_both_sides_and_says_what_it_comes_to(tmp_path, capsys):
    first = write_made(tmp_path / "a", moments(1))
    second = write_made(tmp_path / "b", moments(2, shift=0.01))
    assert cli.main(["baseline", "compare", str(first), str(second)]) == cli.DONE
    shown = capsys.readouterr().out
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
    assert "verdict: differ more than sampling error says" in shown


def test_published_tables_of_two_languages_differ_by_more_than_is_expected():
    first, second = (
        open_side("published", language, "bert-base-multilingual-cased")
        for language in ("cs", "lv")
    )
    (one,), (other,) = first.tables.values(), second.tables.values()
    found = compare_tables(one(), other(), "two languages")
    assert found.is_large
    assert "no standard errors are known" in found.verdict
    assert found.spearman is not None
    assert 0.9 < found.spearman < 1


def test_published_against_published_is_every_table_and_no_difference():
    side = open_side("published")
    found = compare_sides(side, side)
    assert len(found) == len(side.tables) > 60
    assert {one.verdict for one in found} == {"the same numbers"}


def test_a_picture_of_one_comparison_is_written_and_always_the_same(tmp_path, capsys):
    path = write_rows(tmp_path / "en" / "roberta-large.tsv", ROBERTA + 0.001)
    pictures = [tmp_path / "new" / "a.png", tmp_path / "b.png"]
    for picture in pictures:
        compared(capsys, path, "published", "--picture", picture)
    first, again = (picture.read_bytes() for picture in pictures)
    assert first == again
    image = Image.open(io.BytesIO(first))
    image.load()
    assert image.format == "PNG"
    assert 800 <= image.width <= 1800


def test_a_picture_of_several_comparisons_is_refused(tmp_path):
    picture = tmp_path / "a.png"
    flags = ["--language", "cs", "--picture", str(picture)]
    with pytest.raises(ConfigError, match=r"one comparison: got 4, cs/bert.*--language"):
        compare_command(["published", "published", *flags])
    assert not picture.exists()


def test_a_picture_is_a_png():
    with pytest.raises(ConfigError, match=r"ends in \.png"):
        compare_command(["published", "published", "--picture", "a.svg"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["published"], "required: B"),
        (["published", "published", "--langage", "en"], "--language"),
        (["published", "published", "third"], "unknown argument 'third'"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        compare_command(arguments)


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=1, max_size=12))
def test_rank_correlation_equals_its_definition(pairs):
    first, second = (np.array(side, dtype=np.float64) for side in zip(*pairs, strict=True))

    def ranks(values):
        return [
            sum(other < value for other in values)
            + (sum(other == value for other in values) + 1) / 2
            for value in values
        ]

    found = rank_correlation(first, second)
    one, other = ranks(first), ranks(second)
    if len(set(one)) == 1 or len(set(other)) == 1:
        assert found is None
    else:
        assert found == pytest.approx(np.corrcoef(one, other)[0, 1])
        assert -1 <= round(found, 12) <= 1
        assert not math.isnan(found)
