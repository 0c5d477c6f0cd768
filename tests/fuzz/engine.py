"""What both atheris scripts do: find the engine, and run it from a folder of seeds."""

import contextlib
import importlib.util
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

INSTRUMENTED = ["bertscore_core", "bertscore_beam"]


def instrumented() -> AbstractContextManager[object]:
    """Let atheris see the branches of our modules that are imported meanwhile."""
    if importlib.util.find_spec("atheris") is None:
        return contextlib.nullcontext()
    import atheris

    return atheris.instrument_imports(include=INSTRUMENTED, enable_loader_override=False)


def run(check: Callable[[bytes], object], seeds: Sequence[bytes]) -> None:
    """Feed mutations of seeds to a check until it fails or the time is up.

    Flags of libFuzzer come from the command line: `-max_total_time=60` (seconds), `-runs=1000`,
    and the path of a file to try again what failed. What failed is written to `crash-*` here.
    """
    try:
        import atheris
    except ImportError:
        sys.exit(
            "atheris is not installed: got no module of that name; expected it, which there is for "
            "Linux only. Install it with 'pip install atheris'. The hypothesis tests in tests/fuzz "
            "need no more than pytest."
        )
    with tempfile.TemporaryDirectory() as corpus:
        for number, seed in enumerate(seeds):
            (Path(corpus) / f"seed-{number}").write_bytes(seed)
        flags = sys.argv[1:]
        replayed = [flag for flag in flags if not flag.startswith("-")]
        folders = [] if replayed else [corpus]
        atheris.Setup([sys.argv[0], *flags, *folders], check)
        atheris.Fuzz()
