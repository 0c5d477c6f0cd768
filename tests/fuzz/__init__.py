"""Fuzzing: quick in the test suite, and with many more examples in `make fuzz`."""
