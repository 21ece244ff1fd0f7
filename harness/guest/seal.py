"""Says which files of the package and of the tests changed while the tests ran.

Usage: ``seal.py REQUEST.json SEAL.json``. Runs inside the environment after the tests, with
``python -I -S``: standard library only, Python 3.9 or later. The host puts ``manifest.json`` and
these programs back first, since the tests could have changed them. The answer has the fields
of ``harness.record.Seal``; or it is ``{"error": …}``, with exit code 3. Where the request asks for
``sources``, ``sources.json`` beside it has the files that sources.py collects.
"""

import importlib.util
import json
import os
import sys

CANNOT = 3
MOST = 200
#: New files beside the tests that change what Python or pytest does; others are output.
TELLING = (".py", ".pyc", ".pth", ".ini", ".toml", ".cfg", ".so", ".pyd")

sys.dont_write_bytecode = True


def main(request_path, answer_path):
    """Compare and write the answer; return the exit code."""
    try:
        with open(request_path, encoding="utf-8") as file:
            request = json.load(file)
        root = request["root"]
        with open(os.path.join(root, "manifest.json"), encoding="utf-8") as file:
            manifest = json.load(file)
        answer = {"changed": changes(root, manifest)}
        if request.get("sources"):
            keep_sources(os.path.dirname(answer_path), request, manifest)
    except Exception as error:
        answer = {"error": f"seal.py: {type(error).__name__}: {error}"}
    with open(answer_path, "w", encoding="utf-8") as file:
        json.dump(answer, file)
    return CANNOT if "error" in answer else 0


def changes(root, manifest):
    """Return ``path: changed``, ``deleted`` or ``added`` for package and tests, package first."""
    tree = private("tree")
    before = manifest["package"]
    hashed = {path for path, entry in before.items() if entry[0] is not None}
    path = manifest["path"]
    now = tree.describe(path, os.path.basename(path), tree.LARGE, hashed=hashed)
    found = tree.differences(before, now)
    before = manifest["work"]
    now = tree.describe(os.path.join(root, "work"), "", None)
    kept = {path: now[path] for path in now if path in before or path.endswith(TELLING)}
    found += tree.differences(before, kept)
    if len(found) > MOST:
        found[MOST:] = [f"and {len(found) - MOST} more"]
    return found


def keep_sources(folder, request, manifest):
    """Write ``sources.json``; the seal stands without it, since nothing is judged by it."""
    path = os.path.join(folder, "sources.json")
    try:
        if os.path.lexists(path):  # the tests' own, perhaps
            os.unlink(path)
        found = private("sources").collect(request, manifest)
        with open(path, "x", encoding="utf-8") as file:
            json.dump(found, file)
    except Exception as error:
        print(f"sources.json: not written: {type(error).__name__}: {error}", file=sys.stderr)


def private(name):
    """Load a module of this folder under a name that nobody else uses."""
    file = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".py")
    spec = importlib.util.spec_from_file_location("_ab_harness_" + name, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
