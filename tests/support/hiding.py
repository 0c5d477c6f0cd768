"""Packages that a process and its children do not see, though they are installed.

Python runs `sitecustomize` in every process that finds it in PYTHONPATH. The one that is written
here puts itself between each finder of `sys.meta_path` and those who ask it, for modules and for
metadata, as if the packages were not there.
"""

import os
import site
from collections.abc import Collection, Mapping
from importlib.metadata import packages_distributions
from pathlib import Path

from packaging.utils import canonicalize_name

_SITECUSTOMIZE = """
import re, sys

SITES, MODULES, PACKAGES = {sites!r}, {modules!r}, {packages!r}


class Finder:
    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, path=None, target=None):
        spec = self.finder.find_spec(name, path, target)
        if spec is None or name.partition(".")[0] not in MODULES:
            return spec
        places = [str(spec.origin), *(spec.submodule_search_locations or ())]
        return None if any(place.startswith(SITES) for place in places) else spec

    def find_distributions(self, *context):
        find = getattr(self.finder, "find_distributions", lambda *context: ())
        for found in find(*context):
            name = re.sub("[-_.]+", "-", found.metadata["Name"] or "").lower()
            if name not in PACKAGES:
                yield found


sys.meta_path[:] = map(Finder, sys.meta_path)
"""


def environment_without(folder: Path, kept: Collection[str]) -> dict[str, str]:
    """Return variables with which Python finds no installed packages but these, and what is not
    installed.

    Args:
        folder: An empty folder.
        kept: Names of packages in their canonical form, this project's included.
    """
    modules = _hidden(packages_distributions(), kept)
    packages = {name for owners in modules.values() for name in owners} - {*kept}
    sites = tuple(site.getsitepackages())
    code = _SITECUSTOMIZE.format(sites=sites, modules=set(modules), packages=packages)
    (folder / "sitecustomize.py").write_text(code, encoding="utf-8")
    before = os.environ.get("PYTHONPATH", "")
    return {"PYTHONPATH": os.pathsep.join([str(folder), *([before] if before else [])])}


def _hidden(owners: Mapping[str, list[str]], kept: Collection[str]) -> dict[str, set[str]]:
    """Return the modules that none of the kept packages has, with the packages that have them."""
    names = {module: set(map(canonicalize_name, found)) for module, found in owners.items()}
    return {module: found for module, found in names.items() if not found & {*kept}}
