"""A real disk in a simulated world: each call of the operating system is a step of an actor."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.local import LocalFileSystem

from bertscore_beam.files import listing, versions, write
from tests.simulation.world import World


class DiskCalls:
    """Stands for the module `os` where the project changes and lists folders.

    Attributes:
        files: What lies below the folder, by path, kept up to date.
    """

    def __init__(self, world: World, root: Path) -> None:
        self.files: dict[str, bytes] = {}
        self._world = world
        self._root = f"{root}/"

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def replace(self, source: str, target: str) -> None:
        self.change("put", target, lambda: os.replace(source, target))

    def link(self, source: str, target: str) -> None:
        self.change("create", target, lambda: os.link(source, target))

    def unlink(self, path: str) -> None:
        self.change("unlink", path, lambda: os.unlink(path))

    def rmdir(self, path: str) -> None:
        self.change("rmdir", path, lambda: os.rmdir(path))

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        if not os.path.isdir(path):
            self.change("makedirs", path, lambda: os.makedirs(path, exist_ok=exist_ok))

    def fsync(self, descriptor: int) -> None:
        """Do nothing: in this world no power fails."""

    def walk(self, top: str, **options: Any) -> Iterator[Any]:
        for level in os.walk(top, **options):
            self._world.read(f"list {self._short(level[0])}", lambda: None)
            yield level

    def change(self, words: str, path: str, act: Callable[[], Any]) -> Any:
        def noted() -> Any:
            try:
                return act()
            finally:
                self._see(path)

        return self._world.change(f"{words} {self._short(path)}", noted)

    def read(self, words: str, path: str, act: Callable[[], Any]) -> Any:
        return self._world.read(f"{words} {self._short(path)}", act)

    def _short(self, path: str) -> str:
        return path.removeprefix(self._root)

    def _see(self, path: str) -> None:
        name = self._short(path)
        self.files.pop(name, None)
        if os.path.isfile(path):
            self.files[name] = Path(path).read_bytes()


def open_disk(world: World, root: Path, patch: pytest.MonkeyPatch) -> DiskCalls:
    """Put a world's steps in front of the calls that reach a disk."""
    calls = DiskCalls(world, root)
    for module in (write, listing, versions):
        patch.setattr(module, "os", calls)

    def patched(name: str, step: Callable[..., Any]) -> None:
        original = getattr(LocalFileSystem, name)

        def call(fs: LocalFileSystem, path: str, **options: Any) -> Any:
            return step(name, path, lambda: original(fs, path, **options))

        patch.setattr(LocalFileSystem, name, call)

    patched("cat_file", calls.read)
    patched("exists", calls.read)
    patched("rm_file", calls.change)
    return calls
