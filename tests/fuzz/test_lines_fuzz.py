"""Any bytes under the name of a text file: rows that no cut changes, or an error."""

import pytest
from hypothesis import example, given, settings, strategies as st

from tests.fuzz.oracles import read_any_text, text_seeds

SEEDS = text_seeds()


@pytest.mark.parametrize(("seed", "kind"), [(0, 0), (1, 1), (2, 2), (3, 0)])
def test_seed_itself_is_read(seed, kind):
    assert read_any_text(SEEDS[seed]).split(" ")[kind] == "read"


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Draw a seed and overwrite, insert or cut a few bytes that matter to a format."""
    data = bytearray(draw(st.sampled_from(SEEDS)))
    pieces = st.binary(min_size=1, max_size=3) | st.sampled_from(
        [b'"', b"\n", b"\r", b",", b"{", b"[", b"}", b"\\ud800", b"\xff", b"NaN", b":"]
    )
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        stop = start + draw(st.integers(0, 3))
        data[start:stop] = draw(pieces)
    return bytes(data)


@settings(max_examples=50)
@given(damaged(), st.integers(1, 100))
@example(b'\n"open\n', 1)  # no header, and the bad line is another one
def test_damaged_text_gives_the_same_rows_in_any_cut(data, size):
    assert read_any_text(data, size)
