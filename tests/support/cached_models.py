"""Models in a cache of the Hugging Face hub, as after a download."""

import shutil
from pathlib import Path

import pytest


def cache_model(folder: Path, name: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a model into a cache of its own, and have this process use that cache, offline.

    Args:
        folder: The model.
        name: Its hub id.
        root: Where the cache is made.
        monkeypatch: Undoes the change.

    Returns:
        The snapshot.
    """
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(root))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    place = root / f"models--{name.replace('/', '--')}"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text("abc")
    return shutil.copytree(folder, place / "snapshots" / "abc")
