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
import shutil  # noqa: E402
import subprocess  # noqa: E402


def main(request_path, answer_path):
    with open(request_path, encoding="utf-8") as file:
        request = json.load(file)
    notes = []
    key, device, versions = accelerator(notes)
    digest, number = distributions()
    spec = find(request["package"], notes)
    answer = {
        "platform": key,
        "device": device,
        "python": platform.python_version(),
        "executable": sys.executable,
        "machine": platform.machine(),
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()).strip(),
        "package_version": package_version(request["package"]),
        "package_path": spec,
        "pytest": version("pytest") if importlib.util.find_spec("pytest") else "",
        "patch": patch_tool(),
        "distributions": number,
        "distributions_sha256": digest,
        "versions": versions,
        "environment": environment(),
        "notes": notes,
    }
    with open(answer_path, "w", encoding="utf-8") as file:
        json.dump(answer, file)


def environment():
    """The sha256 of every variable's value, by name: comparable, and no secret in the evidence."""
    return {
        name: hashlib.sha256(value.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        for name, value in sorted(os.environ.items())
    }


def accelerator(notes):
    """Platform key, device name and versions, as measured: never as somebody claims."""
    versions = {}
    for name in ("torch", "triton", "intel_extension_for_pytorch"):
        found = version(name)
        if found:
            versions[name] = found
    key, device = "cpu", cpu_name()
    if importlib.util.find_spec("torch") is None:
        return key, device, versions
    try:
        import torch
    except Exception as error:  # a broken torch is a finding, not a reason to stop
        notes.append("torch cannot be imported: %s: %s" % (type(error).__name__, error))
        return key, device, versions
    versions["torch"] = torch.__version__
    for name in ("cuda", "hip"):
        found = getattr(torch.version, name, None)
        if found:
            versions[name] = str(found)
    try:
        if torch.cuda.is_available():
            props = torch.cuda.get_device_properties(0)
            arch = getattr(props, "gcnArchName", "").partition(":")[0]
            hip = getattr(torch.version, "hip", None)
            key = "rocm-" + arch if hip else "cuda-sm%d%d" % (props.major, props.minor)
            device = props.name
        elif hasattr(torch, "xpu") and torch.xpu.is_available():
            device = torch.xpu.get_device_properties(0).name
            key = "xpu-" + "".join(c if c.isalnum() else "-" for c in device.lower()).strip("-")
    except Exception as error:
        notes.append("the device cannot be read: %s: %s" % (type(error).__name__, error))
    return key, device, versions


def cpu_name():
    """The processor's model name, from /proc/cpuinfo where there is one."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.lower().startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


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


def package_version(package):
    """The version of the distribution that provides the import name."""
    try:
        names = importlib.metadata.packages_distributions().get(package, [])
    except AttributeError:  # Python 3.9
        names = []
    for name in list(names) + [package]:
        found = version(name)
        if found:
            return "%s %s" % (name, found)
    return ""


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
