"""Splits as a table: what is put in comes out, however it is asked for."""

import pickle
from dataclasses import replace

from hypothesis import given, strategies as st

from bertscore_beam.dump import Split, Splits

_NUMBERS = st.integers(0, 2**62)
_TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
_FIELDS = {
    **dict.fromkeys(("path", "input_name", "file_version", "data", "partitions"), _TEXTS),
    **dict.fromkeys(("file_size", "row_offset"), _NUMBERS),
    **dict.fromkeys(("file_rows", "num_rows"), st.none() | _NUMBERS),
}
SPLITS = st.lists(st.builds(Split, **_FIELDS, utc_times=st.booleans()), max_size=12)


@given(splits=SPLITS)
def test_splits_come_out_as_they_went_in(splits):
    table = Splits.of(iter(splits))
    assert list(table) == splits
    assert len(table) == len(splits)
    assert table == tuple(splits)
    assert table == Splits.of(splits)
    assert Splits.of(table) is table
    assert pickle.loads(pickle.dumps(table)) == splits  # noqa: S301 - our own
    assert [table[place] for place in range(-len(splits), len(splits))] == splits * 2


@given(splits=SPLITS, drawn=st.data())
def test_some_splits_keep_their_order(splits, drawn):
    table = Splits.of(splits)
    chosen = drawn.draw(st.lists(st.booleans(), min_size=len(splits), max_size=len(splits)))
    assert table.where(chosen) == [one for one, yes in zip(splits, chosen, strict=True) if yes]
    part = drawn.draw(st.slices(len(splits)))
    assert table[part] == splits[part]
    paths = [f"p{place}" for place in range(len(splits))]
    data = [f"d{place}" for place in range(len(splits))]
    moved = [
        replace(one, path=path, data=made)
        for one, path, made in zip(splits, paths, data, strict=True)
    ]
    assert table.with_files(paths, data) == moved
