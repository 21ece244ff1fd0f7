"""Starts pytest on the tests of one arm. Usage: ``run.py REQUEST.json``.

Runs inside the environment under test: standard library only, Python 3.9 or later. What
the harness brings along is searched last, so that it never shadows what is under test,
not even where pytest itself imports that (packaging, pluggy, iniconfig).
"""

import os
import sys

# This folder's module names are nobody's business (and PYTHONSAFEPATH may have left it out).
_HERE = os.path.dirname(os.path.abspath(sys.argv[0]))
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _HERE]

import importlib.metadata  # noqa: E402
import importlib.util  # noqa: E402
import json  # noqa: E402


def main(path):
    with open(path, encoding="utf-8") as file:
        request = json.load(file)
    progress = os.dup(1)  # pytest captures 1 and 2
    for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS", "PYTEST_DEBUG"):
        os.environ.pop(name, None)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    journal = open(request["journal"], "w", encoding="utf-8")  # noqa: SIM115 - open to the end
    try:
        recorder = load(request, journal, progress)
    except Exception as error:
        journal.write(json.dumps(no_pytest(error, request)) + "\n")
        journal.flush()
        raise
    import pytest

    given = plugin_arguments(request)
    sys.path.insert(tests_position(request), request["work"])
    status = int(pytest.main(given + request["pytest"], plugins=[recorder]))
    journal.close()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # code under test may hang or crash the interpreter's shutdown


def load(request, journal, progress):
    """Import pytest (the environment's, else the one brought along) and the recorder.

    The plugins' folder has a pytest where the harness's own does not go with them.
    """
    if importlib.util.find_spec("pytest") is None:
        sys.path.append(request["toolkit"])
    if request.get("plugins"):
        sys.path.append(request["plugin_folder"])
    return private("recorder").Recorder(request, journal, progress)


def plugin_arguments(request):
    """``-p`` for each entry point of the named plugins; those brought along are searched last."""
    found = []
    for name in request.get("plugins", ()):
        try:
            points = importlib.metadata.distribution(name).entry_points
        except importlib.metadata.PackageNotFoundError:
            continue  # its tests will say what they lack
        found += ["-p" + point.name for point in points if point.group == "pytest11"]
    return found


def private(name):
    """Load a module of this folder under a name that nobody else uses."""
    file = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".py")
    spec = importlib.util.spec_from_file_location("_ab_harness_" + name, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tests_position(request):
    """After the arm's own tree, before everything else: ``tests`` is a name many wheels leave."""
    site = os.path.join(request["root"], "site")
    return sys.path.index(site) + 1 if site in sys.path else 0


def no_pytest(error, request):
    """The journal's line where pytest itself cannot be started."""
    frames, trace = [], error.__traceback__
    while trace is not None:
        frames.append("%s:%d" % (trace.tb_frame.f_code.co_filename, trace.tb_lineno))
        trace = trace.tb_next
    file, _, line = frames[-1].rpartition(":")
    package = request.get("package_path", "")
    for index, frame in enumerate(frames):
        if package and frame.startswith(package):
            frames[index] = os.path.relpath(frame, os.path.dirname(package))
            file, _, line = frames[index].rpartition(":")
    return {
        "event": "pytest-failed",
        "under_test": bool(package)
        and any(
            frame.startswith((request["package"] + os.sep, os.path.basename(package) + ":"))
            for frame in frames
        ),
        "failure": {
            "exception": type(error).__name__,
            "message": str(error)[:4000],
            "file": file,
            "line": int(line),
            "phase": "start",
            "frames": frames[-60:],
            "module": str(getattr(error, "name", "") or ""),
        },
    }


if __name__ == "__main__":
    main(sys.argv[1])
