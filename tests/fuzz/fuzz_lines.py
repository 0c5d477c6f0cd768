"""Damage text files for as long as told: `python -m tests.fuzz.fuzz_lines -max_total_time=60`."""

from tests.fuzz.engine import instrumented, run

with instrumented():
    from tests.fuzz.oracles import read_any_text, text_seeds

if __name__ == "__main__":
    run(read_any_text, text_seeds())
