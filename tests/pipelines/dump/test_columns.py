import pyarrow as pa
import pytest

from bertscore_beam.dump import (
    OUTPUT_COLUMNS,
    append_scores,
    check_collisions,
    check_columns,
    columns,
)
from bertscore_core.errors import ConfigError, InputError

GOOD_TEXTS = [
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.dictionary(pa.int32(), pa.string()),
    pa.dictionary(pa.int8(), pa.large_string()),
    pa.null(),
]


GOOD_LISTS = [
    pa.large_list(pa.large_string()),
    pa.list_(pa.string(), 3),
    *map(pa.list_, GOOD_TEXTS),
]


@pytest.mark.parametrize("kind", GOOD_TEXTS + GOOD_LISTS, ids=str)
def test_text_types_are_accepted_and_lists_for_references_only(kind):
    check_columns(pa.schema([("c", pa.string()), ("r", kind)]), "c", "r")
    check_columns(pa.schema([("r", kind)]), None, "r")
    if kind in GOOD_LISTS:
        with pytest.raises(InputError, match=r"candidate column 'r' holds no texts: got type"):
            check_columns(pa.schema([("r", kind)]), "r", "r")
    else:
        check_columns(pa.schema([("r", kind)]), "r", "r")


@pytest.mark.parametrize("name", OUTPUT_COLUMNS)
def test_input_with_one_of_our_columns_is_refused(name):
    with pytest.raises(ConfigError, match=rf"already has score columns: got {name}; expected none"):
        check_collisions(pa.schema([(name, pa.int8())]))
    check_collisions(pa.schema([("bertscore_other", pa.int8())]))


def test_scores_follow_the_input_in_a_fixed_order_and_keep_its_metadata():
    table = pa.table({"a": [1]}, metadata={"kept": "1", "replaced": "old"})
    scores = {
        columns.ERROR: pa.array([None], pa.string()),
        columns.F1: pa.array([0.5], pa.float32()),
        columns.SCORES["precision"]: pa.array([0.5], pa.float32()),
    }
    got = append_scores(table, scores, {"replaced": "new ü"})
    assert got.column_names == ["a", "bertscore_precision", columns.F1, columns.ERROR]
    assert got.schema.metadata == {b"kept": b"1", b"replaced": "new ü".encode()}
    assert table.column_names == ["a"]
