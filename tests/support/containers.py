"""The image without Docker: stages of the Dockerfile, and a virtual environment filled by one.

What is absolute in the image lies below a folder here; what other images bring is left out.
"""

import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from docker.utils.build import exclude_paths
from dockerfile_parse import DockerfileParser

ROOT = Path(__file__).resolve().parents[2]

_IMAGE_PATH = re.compile(r"(?<![\w./:-])/(?=(?:opt|models|home)\b)")
"""Start of a path that is absolute in the image and ours."""

_FROM_OUTSIDE = re.compile(
    r"PIP_\w+|(?i:https?|no|all)_proxy|SSL_CERT_\w+|REQUESTS_CA_BUNDLE|TMPDIR"
)
"""Variables that say how to reach the world, not how to run."""

_NO_NETWORK = re.compile(
    r"NewConnectionError|NameResolutionError|ConnectTimeoutError|ReadTimeoutError|ProxyError"
    r"|Network is unreachable|Connection refused"
)


TARGETS = ("cpu", "gpu")
"""The final stages."""


class NoNetworkError(RuntimeError):
    """Pip could not reach an index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage of a Dockerfile.

    Attributes:
        base: Image or stage that it starts from.
        lines: Instructions after FROM, each a name and a value, in order.
    """

    base: str
    lines: tuple[tuple[str, str], ...]

    def values(self, name: str) -> list[str]:
        """Return the values of all instructions of one name."""
        return [value for instruction, value in self.lines if instruction == name]

    def pairs(self, name: str) -> dict[str, str]:
        """Return what ARG or ENV instructions set."""
        return dict(pair for value in self.values(name) for pair in _pairs(value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """What stands in for a container: an environment, and nothing of the one the tests run in.

    Attributes:
        environment: All variables of its processes.
        packages: The folder that packages were installed into.
        said: What the commands of the Dockerfile wrote.
    """

    environment: Mapping[str, str]
    packages: Path
    said: str

    def run(self, *words: str) -> str:
        """Run a command and return what it wrote to standard output."""
        own, home = self.environment, self.environment["HOME"]
        done = subprocess.run(words, env=own, cwd=home, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout


def read_dockerfile() -> dict[str, Stage]:
    """Read the stages by name, in order; build arguments are filled in where they start.

    A target begins with what it shares with the other: the lines of the stage `common`.
    """
    parser = DockerfileParser(fileobj=io.BytesIO((ROOT / "docker/Dockerfile").read_bytes()))
    lines = [
        (line["instruction"], line["value"])
        for line in parser.structure
        if line["instruction"] != "COMMENT"
    ]
    starts = [number for number, (name, _) in enumerate(lines) if name == "FROM"]
    arguments = dict(pair for _, value in lines[: starts[0]] for pair in _pairs(value))
    stages: dict[str, Stage] = {}
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        base, _, name = lines[start][1].partition(" AS ")
        shared = stages["common"].lines if name in TARGETS else ()
        own = tuple(lines[start + 1 : end])
        stages[name] = Stage(base=_fill(base, arguments), lines=shared + own)
    return stages


def context_files() -> list[str]:
    """Return the files that `docker build .` would send, relative to the project."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    return sorted(path for path in exclude_paths(str(ROOT), patterns) if (ROOT / path).is_file())


def copy_sources(stage: Stage) -> list[str]:
    """Return what a stage copies from the context."""
    return [
        source
        for value in stage.values("COPY")
        if not value.startswith("--from=")
        for source in value.split()[:-1]
    ]


def rehearse(stage: Stage, folder: Path, arguments: Mapping[str, str]) -> Container:
    """Make a virtual environment and do in it what a stage's instructions do in the image.

    Args:
        stage: A final stage: COPY, ENV, ARG, WORKDIR, and RUN of what needs no rights.
        folder: An empty folder.
        arguments: Build arguments instead of the defaults.

    Raises:
        NoNetworkError: pip could not reach an index; its last line about that.
        RuntimeError: a command failed.
    """
    image, home, context = folder / "image", folder / "home", folder / "context"
    for path in (image, home, context):
        path.mkdir(parents=True)
    for name in context_files():
        (context / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, context / name)
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    base = {name: value for name, value in os.environ.items() if _FROM_OUTSIDE.fullmatch(name)}
    base["PATH"] = f"{folder / 'venv' / 'bin'}:/usr/local/bin:/usr/bin:/bin"
    base["HOME"] = str(home)
    said, where, given, environment = "", image, {}, dict(base)
    for name, value in stage.lines:
        if name == "ARG":
            given |= {key: arguments.get(key, default) for key, default in _pairs(value)}
        elif name == "ENV":
            environment |= {key: _below(image, text) for key, text in _pairs(value)}
        elif name == "WORKDIR":
            where = Path(_below(image, value))
            where.mkdir(parents=True, exist_ok=True)
        elif name == "COPY" and not value.startswith("--from="):
            *sources, target = _below(image, value).split()
            _copy(context, sources, target, where)
        elif name == "RUN":
            said += _run(_below(image, value), where, {**environment, **given})
    packages = next((folder / "venv" / "lib").glob("python*/site-packages"))
    return Container(environment=environment, packages=packages, said=said)


def _pairs(value: str) -> list[tuple[str, str]]:
    """Split the value of ARG or ENV."""
    return [(key, text) for key, _, text in (word.partition("=") for word in shlex.split(value))]


def _fill(text: str, arguments: Mapping[str, str]) -> str:
    return re.sub(r"\$\{(\w+)\}", lambda match: arguments[match[1]], text)


def _below(image: Path, text: str) -> str:
    """Put paths that are absolute in the image below the folder that stands for it."""
    return _IMAGE_PATH.sub(lambda _: f"{image}/", text)


def _copy(context: Path, sources: list[str], target: str, where: Path) -> None:
    """Copy as COPY does: the content of a folder; files into a folder or to a name."""
    to = where / target
    for source in sources:
        if (context / source).is_dir():
            shutil.copytree(context / source, to, dirs_exist_ok=True)
        else:
            name = to / Path(source).name if target.endswith("/") else to
            name.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(context / source, name)


def _run(command: str, where: Path, environment: Mapping[str, str]) -> str:
    """Run a command as RUN does and return what it wrote."""
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=where,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode == 0:
        return done.stdout
    unreached = [line.strip() for line in done.stdout.splitlines() if _NO_NETWORK.search(line)]
    if unreached:
        raise NoNetworkError(unreached[-1])
    raise RuntimeError(f"{command!r} ended with {done.returncode}: {done.stdout[-4000:]}")
