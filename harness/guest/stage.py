"""Gives one arm its tree of the package: found, copied where need be, patched, described.

Usage: ``stage.py REQUEST.json STAGE.json``. Runs inside the environment under test: standard
library only, Python 3.9 or later. The answer has the fields of ``harness.record.Staging``; or
it is ``{"error": …}``, with exit code 3. Beside it, ``manifest.json`` is for seal.py.
"""

import os
import sys

# This folder must not be searched for the package, nor for what its finders import.
_HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry) != _HERE]
sys.dont_write_bytecode = True

import importlib.util  # noqa: E402
import json  # noqa: E402
import traceback  # noqa: E402

CANNOT = 3


def main(request_path, answer_path):
    """Do all steps and write the answer; return the exit code."""
    try:
        with open(request_path, encoding="utf-8") as file:
            answer, manifest = stage(json.load(file))
        write(os.path.join(os.path.dirname(answer_path), "manifest.json"), manifest)
    except Exception as error:
        write(answer_path, {"error": summary(error)})
        return CANNOT
    write(answer_path, answer)
    return 0


def stage(request):
    """Find, copy, patch and describe; return the answer and the manifest."""
    tree, packages = private("tree"), private("package")
    root = request["root"]
    files = hunks_of(root, request["patch"])
    paths = [entry["path"] for entry in files]
    package = packages.find(request["package"])
    copied = not request["disposable"] or packages.must_copy(package, request["package"], paths)
    if copied:
        site = os.path.join(root, "site")
        package = packages.copied(package, request["package"], site, tree.copy)
    before = tree.describe(package.path, package.name, tree.LARGE)
    tool, state, action, hunks, message = patched(request, files, packages, package.container)
    for path in paths:
        packages.drop_bytecode(package.container, path)
    known = {path: entry for path, entry in before.items() if path not in paths}
    after = tree.describe(package.path, package.name, tree.LARGE, reuse=known)
    answer = {
        "state": state,
        "action": action,
        "tool": tool,
        "copied": copied,
        "package_path": package.path,
        "tree_before": tree.digest(before),
        "tree_after": tree.digest(after),
        "hunks": [{"file": file, "number": n, "offset": offset} for file, n, offset in hunks],
        "message": message,
    }
    work = tree.describe(os.path.join(root, "work"), "", None)
    return answer, {"path": package.path, "package": after, "work": work}


def hunks_of(root, name):
    """The files and hunks of one of the request's patches."""
    with open(os.path.join(root, name + ".json"), encoding="utf-8") as file:
        return json.load(file)["files"]


def patched(request, files, packages, container):
    """Do this arm's part, if the patch fits; return tool, state, action, hunks, message."""
    root, patching, appliers = request["root"], private("patching"), private("hunks")

    def patcher(name, files):
        path = os.path.join(root, name + ".patch")
        return patching.Patcher(container, path, files, appliers)

    whole = patcher(request["patch"], files)
    for entry in files:
        hidden = packages.hidden(container, entry["path"], entry["creates"])
        if hidden:
            return whole.tool, "rejected", "none", [], "{}: {}".format(entry["path"], hidden)
    state, hunks, message = whole.fit()
    # Both arms must differ by the patch, whichever of them the environment already is.
    reverse = state == "already-applied"
    part = request["reverse" if reverse else "forward"]
    if state in ("empty", "rejected") or not part:
        return whole.tool, state, "none", hunks, message
    own = hunks_of(root, part)
    patch = patcher(part, own)
    if part != request["patch"]:
        trial = patch.run(reverse=reverse, write=False)
        moved = trial.applies and elsewhere(files, hunks, own, trial.hunks)
        if moved:
            return whole.tool, "rejected", "none", [], moved
    result = patch.run(reverse=reverse, write=True)
    if not result.applies:
        return whole.tool, "rejected", "none", [], result.message
    return whole.tool, state, "reversed" if reverse else "applied", hunks, message


def elsewhere(files, hunks, own, found):
    """Say which hunk would go to another place without the others; empty where none would.

    Where lines repeat, the offset of one hunk is what tells the next which of them are meant.
    """
    starts = {
        (entry["path"], hunk["old_start"]): (entry["path"], number)
        for entry in files
        for number, hunk in enumerate(entry["hunks"], 1)
    }
    offsets = {(path, number): offset for path, number, offset in hunks}
    of_own = [(entry["path"], hunk["old_start"]) for entry in own for hunk in entry["hunks"]]
    for index, place in enumerate(of_own):
        path, number = starts[place]
        offset = found[index][2]
        if offset != offsets[path, number]:
            return (
                "{}: hunk {} alone fits at offset {:+d}, with the others at {:+d}: "
                "it would go to another place"
            ).format(path, number, offset, offsets[path, number])
    return ""


def private(name):
    """Load a module of this folder under a name that nobody else uses, and out of sys.modules."""
    spec = importlib.util.spec_from_file_location(
        "_ab_harness_" + name, os.path.join(_HERE, name + ".py")
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def summary(error):
    """One line: what went wrong and, unless the text is meant for the user, where."""
    if type(error).__name__ == "Unusable":
        return str(error)
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{os.path.basename(frame.filename)}:{frame.lineno}"
    return f"{type(error).__name__}: {error} (at {place})"


def write(path, data):
    """Write JSON in one step."""
    with open(path + ".part", "w", encoding="utf-8") as file:
        json.dump(data, file)
    os.replace(path + ".part", path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
