"""Find the package under test without importing it, and give the arm a tree of it to change.

Runs inside the environment: standard library only, Python 3.9 or later.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
from collections.abc import Callable
from typing import NamedTuple


class Unusable(Exception):
    """The environment has no package that could be staged; the text says why."""


class Package(NamedTuple):
    """Where the package is: ``path``, a folder or a file, in the folder ``container``."""

    container: str
    path: str

    @property
    def name(self) -> str:
        """The last part of the path, where paths in digests and manifests begin."""
        return os.path.basename(self.path)


def find(name: str) -> Package:
    """Return where Python would import the top-level package from.

    Raises:
        Unusable: it is not installed, has several places or is built into Python.
    """
    spec = importlib.util.find_spec(name)
    if spec is None:
        raise Unusable(f"package {name!r} is not installed in this environment")
    if spec.submodule_search_locations is not None:
        places = list(dict.fromkeys(map(os.path.abspath, spec.submodule_search_locations)))
        if len(places) != 1:
            where = ", ".join(places) or "none"
            raise Unusable(f"package {name!r} must be in one folder; Python finds it in {where}")
    elif spec.has_location and spec.origin:
        places = [os.path.abspath(spec.origin)]
    else:
        raise Unusable(f"package {name!r} is built into this Python ({spec.origin})")
    if not os.path.exists(places[0]):
        raise Unusable(f"package {name!r} should be in {places[0]}, which does not exist")
    # Parent folders by their real names: that is how the tests' imports will name them.
    container = os.path.realpath(os.path.dirname(places[0]))
    return Package(container, os.path.join(container, os.path.basename(places[0])))


def must_copy(package: Package, name: str, paths: list[str]) -> bool:
    """Whether the package cannot be changed where it is: read-only, a link, another name."""
    stem = package.name if os.path.isdir(package.path) else package.name.split(".")[0]
    if stem != name or os.path.islink(package.path):
        return True
    places = {package.path}
    for path in paths:
        full = os.path.join(package.container, path)
        places.update((full, os.path.join(os.path.dirname(full), "__pycache__")))
        while len(full) > len(package.path):
            full = os.path.dirname(full)
            places.add(full)
    return not all(os.access(place, os.W_OK) for place in places if os.path.lexists(place))


def copied(package: Package, name: str, site: str, copy: Callable[[str, str], None]) -> Package:
    """Copy the package into the folder ``site`` and return where it is there.

    Raises:
        Unusable: ``site`` has one already, so the arm was staged before.
    """
    suffix = "" if os.path.isdir(package.path) else package.name[len(package.name.split(".")[0]) :]
    target = os.path.join(site, name + suffix)
    if os.path.lexists(target):
        raise Unusable(f"{target} exists already: an arm is staged once")
    os.makedirs(site, exist_ok=True)
    copy(package.path, target)
    # Wheels keep the libraries that they bring in a folder beside the package, named after the
    # distribution; the kernels find it by $ORIGIN/../NAME.libs.
    for sibling in os.listdir(package.container):
        beside = os.path.join(site, sibling)
        if sibling.endswith(".libs") and not os.path.lexists(beside):
            os.symlink(os.path.join(package.container, sibling), beside)
    return Package(site, target)


def hidden(container: str, path: str, creates: bool) -> str:
    """Return what Python imports in place of the source file ``path``; patching it is no use."""
    stem, extension = os.path.splitext(path)
    full = os.path.join(container, stem)
    if extension != ".py":
        return ""
    if not creates and not os.path.lexists(full + ".py") and os.path.lexists(full + ".pyc"):
        return f"only the compiled {stem}.pyc is there, without its source"
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        if os.path.lexists(full + suffix):
            return f"Python imports the compiled {stem}{suffix} in its place"
    return ""


def drop_bytecode(container: str, path: str) -> None:
    """Delete cached bytecode of the source file ``path``, which could hide what is in it."""
    full = os.path.join(container, path)
    stem = os.path.basename(full)[: -len(".py")] + "."
    # __pycache__ beside it, and the one under PYTHONPYCACHEPREFIX where that is set
    caches = {os.path.join(os.path.dirname(full), "__pycache__")}
    caches.add(os.path.dirname(importlib.util.cache_from_source(full)))
    for cache in caches:
        if os.path.isdir(cache):
            for name in os.listdir(cache):
                if name.startswith(stem) and name.endswith(".pyc"):
                    os.unlink(os.path.join(cache, name))
