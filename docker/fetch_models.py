"""Fetch models of the Hugging Face hub into the cache below HF_HOME, while an image is built.

    python fetch_models.py [NAME | NAME@REVISION]...

It uses nothing of the package, so that a change of our code does not download gigabytes again.
"""

import sys
from pathlib import Path

from huggingface_hub import snapshot_download

# As in bertscore_core/model/resolve.py; weights that can run code when read are never baked in.
PATTERNS = ["*.safetensors", "*.safetensors.index.json", "*.json", "*.txt", "*.model"]


def fetch(model: str) -> Path:
    """Fetch one model and return its folder.

    Args:
        model: Name on the hub, with `@REVISION` for another revision than the newest.

    Raises:
        FileNotFoundError: the model has no weights that are safetensors.
    """
    name, _, revision = model.partition("@")
    folder = Path(snapshot_download(name, revision=revision or None, allow_patterns=PATTERNS))
    if not any(folder.glob("model*.safetensors")):
        raise FileNotFoundError(
            f"model {model!r} has no weights to bake in: got {sorted(map(str, folder.glob('*')))}; "
            "expected model.safetensors among them. Convert it, or mount a cache that has it."
        )
    return folder


if __name__ == "__main__":
    for given in sys.argv[1:]:
        fetch(given)
