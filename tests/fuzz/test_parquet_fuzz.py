"""Any bytes under the name of a Parquet file: rows, or an error that says what is wrong."""

import pytest
from hypothesis import example, given, settings, strategies as st

from tests.fuzz.oracles import read_everything, seed_files

SEEDS = seed_files()
OUTCOMES = {"read", "damaged", "rejected"}


@pytest.mark.parametrize("seed", range(len(SEEDS)))
def test_seed_itself_is_read(seed):
    assert read_everything(SEEDS[seed]) == "read"


@settings(max_examples=settings.default.max_examples // 2)
@given(st.binary(max_size=300))
@example(b"PAR1")
@example(b"PAR1PAR1")
@example(b"PAR1\0\0\0\0PAR1")
@example(b"PAR1\xff\xff\xff\xffPAR1")
def test_any_bytes_are_rejected(data):
    assert read_everything(data) == "rejected"


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Draw a whole file and overwrite, drop, double or cut a few bytes, often in the footer."""
    data = bytearray(draw(st.sampled_from(SEEDS)))
    footer = int.from_bytes(data[-8:-4], "little") + 8
    for _ in range(draw(st.integers(1, 3))):
        start = draw(
            st.integers(0, len(data) - 1) | st.integers(max(0, len(data) - footer), len(data) - 1)
        )
        piece = draw(st.binary(min_size=1, max_size=4))
        match draw(st.sampled_from(["overwrite", "insert", "drop", "cut", "flip"])):
            case "overwrite":
                data[start : start + len(piece)] = piece
            case "insert":
                data[start:start] = piece
            case "drop":
                del data[start : start + len(piece)]
            case "cut":
                del data[start:]
            case "flip":
                data[start] ^= 1 << (piece[0] % 8)
        if not data:
            break
    return bytes(data)


@given(damaged())
def test_damaged_file_is_read_or_refused(data):
    assert read_everything(data) in OUTCOMES


def test_damage_reaches_every_outcome():
    """Each way out is taken by some damage, so that the test above sees all of them."""
    found = set()
    for data in SEEDS:
        for start in range(4, len(data), 41):
            found.add(
                read_everything(data[:start] + bytes([data[start] ^ 0x55]) + data[start + 1 :])
            )
    assert found == OUTCOMES
