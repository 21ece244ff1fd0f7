"""Measures the environment under test. Usage: ``probe.py REQUEST.json ANSWER.json``.

Runs inside it: standard library only, Python 3.9 or later. The answer has the fields of
``harness.record.Probe``. With ``--distributions`` as the only argument it prints the
digest of the installed distributions and their number.
"""

import os
import sys

# This folder's module names are nobody's business (and PYTHONSAFEPATH may have left it out).
_HERE = os.path.dirname(os.path.abspath(sys.argv[0]))
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _HERE]

import hashlib  # noqa: E402
import importlib.metadata  # noqa: E402
import importlib.util  # noqa: E402
import json  # noqa: E402
import platform  # noqa: E402
import re  # noqa: E402
import shutil  # noqa: E402
import subprocess  # noqa: E402

HASH = re.compile(r"[0-9a-f]{7,64}")
COMMIT = re.compile(r"^\s*(?:\w+\s*=\s*)*?_*commit_id_*\s*=\s*[\"']g?([0-9a-f]{7,64})[\"']", re.M)
LOCAL = re.compile(r"\+(?:.*\.)?g([0-9a-f]{7,40})(?:\.|$)")


def main(request_path, answer_path):
    with open(request_path, encoding="utf-8") as file:
        request = json.load(file)
    found = private("accelerator").measure(private)
    digest, number = distributions()
    name, dist = distribution(request["package"])
    path = find(request["package"], found.notes)
    answer = {
        "platform": found.platform,
        "device": found.device,
        "device_uuid": found.device_uuid,
        "devices": found.devices,
        "hardware": found.hardware,
        "readings": found.readings,
        "python": platform.python_version(),
        "executable": sys.executable,
        "machine": platform.machine(),
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()).strip(),
        "package_version": "%s %s" % (name, dist.version) if dist else "",
        "package_commit": commit(path, dist),
        "package_path": path,
        "pytest": version("pytest") if importlib.util.find_spec("pytest") else "",
        "patch": patch_tool(),
        "distributions": number,
        "distributions_sha256": digest,
        "versions": found.versions,
        "plugins": {name: version(name) for name in request.get("plugins", ()) if version(name)},
        "environment": environment(),
        "notes": found.notes,
    }
    with open(answer_path, "w", encoding="utf-8") as file:
        json.dump(answer, file)


def environment():
    """The sha256 of every variable's value, by name: comparable, and no secret in the evidence."""
    return {
        name: hashlib.sha256(value.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        for name, value in sorted(os.environ.items())
    }


def private(name):
    """Load a module of this folder under a name that nobody else uses, and out of sys.modules."""
    spec = importlib.util.spec_from_file_location(
        "_ab_harness_" + name, os.path.join(_HERE, name + ".py")
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def distributions():
    """sha256 over name, version and RECORD of every installed distribution, and their number."""
    lines = set()
    for dist in importlib.metadata.distributions():
        record = dist.read_text("RECORD") or ""
        name = (dist.metadata["Name"] or "").lower().replace("_", "-")
        digest = hashlib.sha256(stable(record).encode("utf-8", "replace")).hexdigest()
        lines.add("%s==%s %s" % (name, dist.version, digest))
    text = "\n".join(sorted(lines))
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest(), len(lines)


def stable(record):
    """RECORD without what differs from install to install: bytecode, scripts, installer notes."""
    skip = (".pyc", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json", "RECORD")
    kept = []
    for line in record.splitlines():
        path = line.partition(",")[0]
        if not path.endswith(skip) and not path.startswith(("..", "/")):
            kept.append(line)
    return "\n".join(sorted(kept))


def find(package, notes):
    """The folder (or file) that ``import package`` would use, without importing it."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError) as error:
        notes.append("%s cannot be located: %s" % (package, error))
        return ""
    if spec is None:
        return ""
    if spec.submodule_search_locations:
        return list(spec.submodule_search_locations)[0]
    return spec.origin or ""


def distribution(package):
    """The distribution that provides the import name, with its name; or ("", None)."""
    try:
        names = importlib.metadata.packages_distributions().get(package, [])
    except AttributeError:  # Python 3.9
        names = []
    for name in list(names) + [package]:
        try:
            return name, importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    return "", None


def commit(path, dist):
    """The commit that the package was built from, or an empty string.

    It is in direct_url.json (PEP 610) of what was installed from a repository, else in the
    _version.py that setuptools-scm wrote into the package, else in the version's local part.
    """
    try:
        found = json.loads(dist.read_text("direct_url.json"))["vcs_info"]["commit_id"]
        if HASH.fullmatch(str(found)):
            return found
    except (AttributeError, KeyError, TypeError, ValueError):
        pass  # not installed, or not from a repository
    try:
        with open(os.path.join(path, "_version.py"), encoding="utf-8", errors="replace") as file:
            found = COMMIT.search(file.read(1 << 16))
    except OSError:
        found = None
    found = found or LOCAL.search(dist.version or "" if dist else "")
    return found.group(1) if found else ""


def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def patch_tool():
    tool = shutil.which("patch")
    if not tool:
        return ""
    try:
        out = subprocess.run([tool, "--version"], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return ""
    return (out.stdout.splitlines() or [""])[0].strip()


if __name__ == "__main__":
    if sys.argv[1:] == ["--distributions"]:
        print(json.dumps(distributions()))
    else:
        os.umask(0o022)
        main(sys.argv[1], sys.argv[2])
