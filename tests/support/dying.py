"""Workers that die as real ones do, from code that only the environment of a test brings in.

Python runs `sitecustomize` in every process that finds it in PYTHONPATH. The one that is written
here waits for the encoder's module and puts a death in front of its forward pass, padded or packed.
"""

import os
from collections.abc import Sequence
from pathlib import Path

KILLED, CUDA, HELD = "killed", "cuda", "held"
"""How a process ends: the kernel kills it, as for lack of memory; CUDA fails, on a GPU by an
illegal access to its memory; or it does not end and waits forever."""

PLANNING = "bertscore_beam.dump.inputs:expand_inputs"
LOADING = "bertscore_core.model.encoder:load_encoder"
"""Functions that a run can be held in."""

_SITECUSTOMIZE = """
import importlib.abc, importlib.machinery, os, signal, sys, time
from pathlib import Path

ENCODER = "bertscore_core.model.encoder"
MODULE, _, FUNCTION = os.environ["DYING_HOLD"].partition(":")


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name not in (ENCODER, MODULE):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        run = spec.loader.exec_module
        spec.loader.exec_module = lambda module: (run(module), change(module))[0]
        return spec


def change(module):
    if module.__name__ == ENCODER:
        arm(module.Encoder)
    if module.__name__ == MODULE:
        setattr(module, FUNCTION, lambda *args, **kwargs: die("held"))


def arm(encoder):
    folder, output = Path(os.environ["DYING_FOLDER"]), Path(os.environ["DYING_OUTPUT"])
    deaths = [how for how in os.environ["DYING_DEATHS"].split(",") if how]
    after = int(os.environ["DYING_AFTER"])

    def may_die():
        with (folder / "passes").open("a") as file:
            file.write(f"{os.getpid()}\\n")
        for number, how in enumerate(deaths):
            if len(list(output.glob("_work/*/[0-9]*.pq"))) < after * (number + 1):
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
    folder = Path(os.environ["DYING_FOLDER"])
    if how == "held":
        (folder / "held").write_text(str(os.getpid()))
        while not (folder / "go on").exists():
            time.sleep(0.01)
        return
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    import torch
    if torch.cuda.is_available():
        torch.zeros(4, device="cuda")[torch.full((64,), 1 << 30, device="cuda")].cpu()
    raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered\\nadvice")


sys.meta_path.insert(0, Finder())
"""


def dying_environment(
    folder: Path, output: Path, deaths: Sequence[str] = (), *, after: int = 0, hold: str = ""
) -> dict[str, str]:
    """Return the environment of a command whose workers die.

    The folder has a line for each forward pass then, with the number of its process (`passes`), and
    the number of the process that waits (`held`) until there is a file `go on`.

    Args:
        folder: An empty folder.
        output: The output folder of the command, a local one.
        deaths: How the first worker dies that has work, then the next, and so on.
        after: Parts that are finished before each death.
        hold: A function that never returns; "" for none.
    """
    (folder / "sitecustomize.py").write_text(_SITECUSTOMIZE)
    before = os.environ.get("PYTHONPATH", "")
    return {
        "PYTHONPATH": os.pathsep.join([str(folder), *([before] if before else [])]),
        "DYING_FOLDER": str(folder),
        "DYING_OUTPUT": str(output),
        "DYING_DEATHS": ",".join(deaths),
        "DYING_AFTER": str(after),
        "DYING_HOLD": hold,
    }
