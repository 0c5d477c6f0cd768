"""Damage Parquet files for as long as told: `python -m tests.fuzz.fuzz_parquet -max_total_time=60`.

Coverage is that of our own Python code and of the outcome; Arrow itself is not instrumented.
"""

from tests.fuzz.engine import instrumented, run

with instrumented():
    from tests.fuzz.oracles import read_everything, seed_files

if __name__ == "__main__":
    run(read_everything, seed_files())
