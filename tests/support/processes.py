"""Processes below a process, read from /proc."""

from pathlib import Path


def descendants(process: int) -> list[int]:
    """Return the processes a process started, and theirs; none for one that is gone."""
    children: list[int] = []
    try:
        for task in Path(f"/proc/{process}/task").iterdir():
            children += map(int, (task / "children").read_text().split())
    except OSError:
        return []
    return children + [below for child in children for below in descendants(child)]


def beam_workers(process: int) -> list[int]:
    """Return the Beam worker processes below a process, without the shells that started them."""
    found = []
    for child in descendants(process):
        try:
            words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"apache_beam.runners.worker.sdk_worker_main" in words:
            found.append(child)
    return found
