"""Records cross to the step that packs them compressed, and none is lost or doubled."""

import gzip
from functools import reduce

from hypothesis import given, strategies as st

from bertscore_beam.score import conclude
from bertscore_beam.score.conclude import CompressLines

lines = st.lists(st.binary(min_size=1).filter(lambda line: not {10, 13} & set(line)), max_size=9)


@given(st.lists(st.tuples(lines, st.booleans()), max_size=5))
def test_all_lines_come_out_however_they_were_added_and_merged(added):
    combine = CompressLines()
    accumulators = []
    for some, is_sent in added:
        one = reduce(combine.add_input, some, combine.create_accumulator())
        accumulators.append(combine.compact(one) if is_sent else one)
    merged = combine.merge_accumulators(accumulators)
    found = gzip.decompress(combine.extract_output(merged)).split(b"\n")
    assert found.pop() == b""
    assert sorted(found) == sorted(line for some, _ in added for line in some)


def test_few_lines_wait_in_memory(monkeypatch):
    monkeypatch.setattr(conclude, "_LINES_AT_ONCE", 3)
    combine = CompressLines()
    accumulator = combine.create_accumulator()
    waiting = []
    for number in range(8):
        accumulator = combine.add_input(accumulator, b"%d" % number)
        waiting.append(len(accumulator[1]))
    assert waiting == [1, 2, 0, 1, 2, 0, 1, 2]
    assert gzip.decompress(combine.extract_output(accumulator)).split() == [
        b"%d" % number for number in range(8)
    ]
