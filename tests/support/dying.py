"""Workers that die as real ones do, from code that only the environment of a test brings in.

Python runs `sitecustomize` in every process that finds it in PYTHONPATH. The one that is written
here waits for the encoder's module and puts a death in front of its forward pass, padded or packed.
"""

import os
from pathlib import Path

KILLED, CUDA = "killed", "cuda"
"""By the kernel, as for lack of memory; and by an error of CUDA."""

_SITECUSTOMIZE = """
import importlib.abc, importlib.machinery, os, signal, sys
from pathlib import Path

NAME = "bertscore_core.encoder"


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != NAME:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        run = spec.loader.exec_module
        spec.loader.exec_module = lambda module: (run(module), arm(module.Encoder))[0]
        return spec


def arm(encoder):
    folder, output = Path(os.environ["DYING_FOLDER"]), Path(os.environ["DYING_OUTPUT"])
    deaths = os.environ["DYING_DEATHS"].split(",")
    after = int(os.environ["DYING_AFTER"])

    def may_die():
        for number, how in enumerate(deaths):
            if len(list(output.glob("_manifest/parts/**/*.json"))) < after * (number + 1):
                break
            try:
                (folder / f"death-{number}").touch(exist_ok=False)
            except FileExistsError:
                continue
            die(how)

    def dying(start):
        return lambda *args: (may_die(), start(*args))[1]

    encoder.start, encoder.start_packed = dying(encoder.start), dying(encoder.start_packed)


def die(how):
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    import torch
    raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered\\nadvice")


sys.meta_path.insert(0, Finder())
"""


def dying_environment(
    folder: Path, output: Path, deaths: list[str], *, after: int = 0
) -> dict[str, str]:
    """Return the environment of a command whose workers die.

    Args:
        folder: An empty folder.
        output: The output folder of the command, a local one.
        deaths: How the first worker dies that has work, then the next, and so on.
        after: Parts that are finished before each death.
    """
    (folder / "sitecustomize.py").write_text(_SITECUSTOMIZE)
    before = os.environ.get("PYTHONPATH", "")
    return {
        "PYTHONPATH": os.pathsep.join([str(folder), *([before] if before else [])]),
        "DYING_FOLDER": str(folder),
        "DYING_OUTPUT": str(output),
        "DYING_DEATHS": ",".join(deaths),
        "DYING_AFTER": str(after),
    }
