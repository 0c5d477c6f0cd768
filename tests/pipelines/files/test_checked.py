"""What is read back is what was written, or an error."""

import gzip
import json
import tracemalloc
from dataclasses import dataclass, field

import pytest

from bertscore_beam.files.checked import from_json, to_json, typed, unpacked

CONTENT = {"run": "a1", "rows": 20, "f1": 0.25, "words": {"é": ["x", None]}, "last": "0" * 32}


def flipped(data: bytes):
    """Yield the bytes with each of their bits flipped."""
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        yield bytes(damaged)


def test_what_is_packed_has_a_bound_before_it_is_unpacked():
    lines = b"\n".join(to_json({**CONTENT, "number": number}) for number in range(1000))
    assert unpacked(gzip.compress(lines)) == lines
    forged = gzip.compress(bytes(1 << 26))
    tracemalloc.start()
    with pytest.raises(ValueError, match=f"more than {100 * len(forged)} bytes in {len(forged)}"):
        unpacked(forged)
    assert tracemalloc.get_traced_memory()[1] < 1 << 25
    tracemalloc.stop()
    with pytest.raises(ValueError, match="no whole gzip data"):
        unpacked(gzip.compress(lines)[:-3])


@pytest.mark.parametrize("content", [CONTENT, {}])
@pytest.mark.parametrize("indent", [None, 2])
def test_a_flipped_bit_of_json_is_noticed(content, indent):
    data = to_json(content, indent=indent)
    assert from_json(data) == content
    assert list(json.loads(data))[-1] == "digest"
    for damaged in flipped(data):
        with pytest.raises(ValueError):  # noqa: PT011 - of several kinds
            from_json(damaged)


def test_json_without_a_digest_is_refused():
    for data in (json.dumps(CONTENT).encode(), b"{}", b'{"digest": "of a corpus"}'):
        with pytest.raises(ValueError, match="other bytes"):
            from_json(data)
    for no_object in (b"[]", b"7", b"", b"{"):
        with pytest.raises(ValueError, match=r"JSON object|Expecting"):
            from_json(no_object)


@dataclass(frozen=True, kw_only=True)
class Inner:
    word: str | None = None


@dataclass(frozen=True, kw_only=True)
class Outer:
    number: int
    share: float | None = None
    inner: dict[str, Inner] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)


def test_values_of_json_become_fields_of_their_types():
    found = typed(Outer, {"number": 3, "share": 1, "inner": {"a": {"word": "x"}}, "more": []})
    assert found == Outer(number=3, share=1, inner={"a": Inner(word="x")})


@pytest.mark.parametrize(
    "damage",
    [
        {"number": None},
        {"number": True},
        {"number": 3.0},
        {"number": "3"},
        {"share": float("nan")},
        {"share": float("inf")},
        {"share": 10**400},
        {"share": "1"},
        {"inner": []},
        {"inner": {"a": None}},
        {"inner": {"a": {"word": 7}}},
        {"names": "x"},
        {"names": [7]},
    ],
)
def test_a_value_of_another_type_is_an_error(damage):
    with pytest.raises(ValueError, match=f"no usable value of '{next(iter(damage))}'"):
        typed(Outer, {"number": 3} | damage)
    with pytest.raises(ValueError, match="no 'number'"):
        typed(Outer, {})
