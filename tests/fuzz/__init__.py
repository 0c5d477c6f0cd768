"""Fuzzing: quick with hypothesis in the test suite, for as long as you like with atheris.

python -m tests.fuzz.fuzz_parquet -max_total_time=60
python -m tests.fuzz.fuzz_texts -max_total_time=60
"""
