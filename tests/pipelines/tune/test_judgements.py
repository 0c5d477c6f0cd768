"""Judgements are read and checked before any model runs."""

import json

import pandas as pd
import pyarrow.parquet as pq
import pytest

from bertscore_beam.dump import parquet_rows
from bertscore_beam.dump.parquet import open_parquet
from bertscore_beam.tune import judgements
from bertscore_core.errors import InputError
from tests.support.judgements import judgement_rows, read, write_judgements


def test_rows_are_read_in_order_with_their_groups(tmp_path):
    rows = judgement_rows()
    found = read(
        write_judgements(tmp_path / "j.parquet"),
        by="language", system_column="system", item_column="item", label_column="good",
    )  # fmt: skip
    assert found.candidates == [row["candidate"] for row in rows]
    assert [list(texts) for texts in found.references] == [[row["reference"]] for row in rows]
    assert found.people.tolist() == [row["human"] for row in rows]
    assert found.labels.tolist() == [float(row["good"]) for row in rows]
    assert [found.names[group] for group in found.groups] == [row["language"] for row in rows]
    assert found.systems.tolist() == [row["system"] for row in rows]
    assert found.items.tolist() == [row["item"] for row in rows]
    assert found.left_out == {}


def test_rows_that_cannot_be_used_are_left_out_and_counted(tmp_path):
    rows = judgement_rows()
    rows[0]["human"] = None
    rows[1]["human"] = float("nan")
    rows[2]["candidate"] = None
    rows[3]["reference"] = None
    rows[4]["language"] = None
    found = read(write_judgements(tmp_path / "j.parquet", rows), by="language", min_rows=20)
    assert found.left_out == {
        "no_group": 1, "no_score_of_people": 2, "null_candidate": 1, "null_reference": 1,
    }  # fmt: skip
    assert found.rows.tolist() == list(range(5, 60))
    assert found.candidates == [row["candidate"] for row in rows[5:]]


def test_reasoning_is_told_of_by_group_and_taken_off_as_in_score(tmp_path):
    rows = judgement_rows()
    texts = [row["candidate"] for row in rows]
    for row in rows[30:39]:
        row["candidate"] = f"<think>Hm.</think> {row['candidate']}"
    rows[39]["candidate"] = "<think>Hm."
    path = write_judgements(tmp_path / "j.parquet", rows)
    kept = read(path, by="language", min_rows=20)
    assert kept.candidates == [row["candidate"] for row in rows]
    (caveat,) = kept.caveats()
    assert caveat.startswith("The reasoning of a model is in 16.7% of the candidates: ")
    stripped = read(path, by="language", min_rows=20, strip_reasoning=True)
    assert stripped.candidates == texts[:39] + texts[40:]
    assert stripped.left_out == {"only_reasoning": 1}
    assert stripped.caveats() == ()


def test_an_empty_text_is_no_score_and_no_group_and_truth_values_are_labels(tmp_path):
    rows = judgement_rows()
    rows[0]["human"] = rows[1]["language"] = ""
    path = tmp_path / "j.csv"
    pd.DataFrame(rows).to_csv(path, index=False)
    found = read(path, by="language", label_column="good", min_rows=20)
    assert found.left_out == {"no_group": 1, "no_score_of_people": 1}
    assert found.people.tolist() == [row["human"] for row in rows[2:]]
    assert found.labels.tolist() == [float(row["good"]) for row in rows[2:]]


def test_files_may_differ_in_types(tmp_path):
    rows = judgement_rows()
    write_judgements(tmp_path / "a.parquet", rows[:30])
    as_text = [
        {**row, "reference": [row["reference"]], "human": str(row["human"])} for row in rows[30:]
    ]
    write_judgements(tmp_path / "b.parquet", as_text)
    found = read(tmp_path)
    assert found.people.tolist() == [row["human"] for row in rows]
    assert found.references == [[row["reference"]] for row in rows]


def test_a_line_that_is_no_row_is_counted_as_such(tmp_path):
    path = tmp_path / "j.jsonl"
    lines = [json.dumps(row) for row in judgement_rows()]
    path.write_text("\n".join([*lines[:50], "{", *lines[50:]]))
    found = read(path)
    assert found.left_out == {"bad_line": 1}
    assert found.rows.tolist() == [*range(50), *range(51, 61)]


def test_scores_that_count_errors_are_negated(tmp_path):
    found = read(write_judgements(tmp_path / "j.parquet"), lower_is_better=True)
    assert found.people.tolist() == [-row["human"] for row in judgement_rows()]


def test_the_digest_follows_texts_and_groups_alone(tmp_path):
    rows = judgement_rows()
    first = read(write_judgements(tmp_path / "a.parquet", rows)).texts_digest
    other = [{**row, "human": -row["human"]} for row in rows]
    assert read(write_judgements(tmp_path / "b.parquet", other)).texts_digest == first
    other[9]["candidate"] += "!"
    assert read(write_judgements(tmp_path / "c.parquet", other)).texts_digest != first


@pytest.mark.parametrize(
    ("changes", "options", "words"),
    [
        ({}, {"score_column": "humen"}, "no score column 'humen'.*Did you mean 'human'"),
        ({"human": "good"}, {}, "'human' holds texts that are not numbers: got 60 of them in 60"),
        (
            {"system": "one"},
            {"system_column": "system", "choose_by": "system_accuracy"},
            "too few systems for system_accuracy: got 1; expected at least 3",
        ),
        ({"human": 0.5}, {}, "are all the same: got 0.5 in 60 rows"),
        ({"human": None}, {}, "too few judgements: got 0 usable rows, 60 no_score_of_people"),
        ({}, {"min_rows": 61}, "too few judgements: got 60 usable rows; expected at least 61"),
        ({}, {"by": "system", "min_rows": 21}, "too few judgements in the group 'middle': got 20"),
        ({"item": "a"}, {"item_column": "item"}, "are all of one item: got it in 60 rows"),
        ({}, {"label_column": "human"}, "the column 'human' holds no labels"),
        ({"good": True}, {"label_column": "good"}, "are all the same: got 1 in 60 rows"),
        ({"candidate": 7}, {}, "the candidate column 'candidate' holds no texts"),
    ],
)
def test_judgements_that_say_nothing_are_refused(tmp_path, changes, options, words):
    rows = [{**row, **changes} for row in judgement_rows()]
    with pytest.raises(InputError, match=words):
        read(write_judgements(tmp_path / "j.parquet", rows), **options)


def test_a_file_is_opened_once_however_many_row_groups_it_has(tmp_path, monkeypatch):
    opened = []

    def noted(source, *args, **options):
        opened.append(source)
        return open_parquet(source, *args, **options)

    path = write_judgements(tmp_path / "j.parquet")
    pq.write_table(pq.read_table(path), path, row_group_size=1)
    monkeypatch.setattr(judgements, "MOST_SPLIT_ROWS", 1)
    monkeypatch.setattr(parquet_rows, "open_parquet", noted)
    assert read(path).rows.tolist() == list(range(60))
    assert opened == [str(path)]


def test_a_file_that_cannot_be_read_is_not_passed_over(tmp_path):
    write_judgements(tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes(b"not Parquet")
    with pytest.raises(InputError, match="1 of the files with judgements cannot be read"):
        read(tmp_path)
