import pytest

from tests.benchmarks.overhead import steady_seconds


def test_one_worker_is_timed_from_the_end_of_its_first_part():
    # The first part takes long (start-up); between parts a second goes by with reading and writing.
    parts = [(100.0, 10, 50.0), (105.0, 10, 4.0), (110.0, 10, 4.0)]
    assert steady_seconds(parts, 1, rows=20) == pytest.approx(10.0)


def test_two_workers_are_timed_while_both_are_at_work():
    # The second worker starts at 4 and the first has nothing left from 12 on: 8 rows in 4 s.
    parts = [(2.0, 4, 2.0), (4.0, 4, 2.0), (6.0, 4, 2.0), (8.0, 4, 4.0), (8.0, 4, 2.0)]
    parts += [(10.0, 4, 2.0), (12.0, 4, 2.0), (12.0, 4, 4.0), (16.0, 4, 4.0)]
    assert steady_seconds(parts, 2, rows=12) == pytest.approx(4.0)


def test_too_few_parts_are_refused():
    with pytest.raises(SystemExit, match="too few"):
        steady_seconds([(1.0, 4, 1.0)], 1, rows=4)
