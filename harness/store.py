"""Cases and images, read from their folders and checked."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from harness.case import parse_case, unsafe_path
from harness.errors import BadInput
from harness.image import Image, from_reference, parse_image
from harness.patch import Patch, for_package, parse_patch
from harness.plan import CaseFiles

_SKIPPED_NAMES = {"__pycache__", ".pytest_cache"}
_TEST_LIMIT = 64 << 20


def project_root(start: Path) -> Path:
    """The nearest folder at or above ``start`` that has ``cases`` or ``images``, else ``start``."""
    for folder in (start, *start.parents):
        if any((folder / name).is_dir() for name in ("cases", "images")):
            return folder
    return start


def case_names(root: Path) -> list[str]:
    """The ids of all cases below ``root``."""
    return sorted(path.parent.name for path in root.glob("cases/*/case.toml"))


def image_names(root: Path) -> list[str]:
    """The names of all images below ``root``."""
    return sorted(path.parent.name for path in root.glob("images/*/image.toml"))


def find_case(name: str, root: Path) -> Path:
    """The folder of a case given by id or by path.

    Raises:
        BadInput: there is none, with the ids that exist.
    """
    with contextlib.suppress(OSError, ValueError):  # a name that no file can have
        for folder in (root / "cases" / name, Path(name)):
            if (folder / "case.toml").is_file():
                return folder
        if Path(name).name == "case.toml" and Path(name).is_file():
            return Path(name).parent
    known = ", ".join(case_names(root)) or f"none below {root}"
    raise BadInput(
        f"no case {name!r}: neither an id under cases/ nor a folder with a case.toml",
        f"Known ids: {known}.",
    )


def load_case(folder: Path) -> CaseFiles:
    """Read and check a case folder.

    Raises:
        BadInput: names the file, the key and the remedy.
    """
    toml = folder / "case.toml"
    data = read_file(toml, "a case needs it")
    case = parse_case(_decode(data, toml), case_id=folder.resolve().name, where=str(toml))
    tests = _tests(folder, case.tests, case.package, str(toml))
    for index, node in enumerate(case.nodes):
        if node.file not in tests:
            raise BadInput(
                f"{toml}: nodes.{index}.id: no file {node.file!r} in {folder}",
                "Write it, or correct the node ID.",
            )
    patch_path = folder / case.patch
    patch_bytes = read_file(patch_path, f"named by {toml}: patch")
    return CaseFiles(
        case=case,
        folder=str(folder),
        toml=data,
        patch_bytes=patch_bytes,
        patch=_patch(patch_bytes, case.package, case.source, str(patch_path)),
        tests=tests,
    )


def load_image(name: str, root: Path) -> Image:
    """The image of that name under ``images/``, or else a container reference.

    Raises:
        BadInput: its image.toml is wrong, or the name is neither.
    """
    toml = root / "images" / name / "image.toml"
    if unsafe_path(name) == "" and toml.is_file():
        folder = toml.parent
        text = _decode(read_file(toml), toml)
        image = parse_image(text, name=name, folder=str(folder), where=str(toml))
        named = {
            "lock.requirements": image.lock.requirements if image.lock else "",
            "container.dockerfile": image.container.dockerfile if image.container else "",
        }
        for key, file in named.items():
            if file and not (folder / file).is_file():
                raise BadInput(f"{toml}: {key}: no file {file!r} in {folder}")
        return image
    if not any(mark in name for mark in "/:@"):
        known = ", ".join(image_names(root)) or f"none below {root}"
        raise BadInput(
            f"no image {name!r} under images/",
            f"Known: {known}; or give a container reference, name:tag.",
        )
    if any(c.isspace() or not c.isprintable() for c in name):
        raise BadInput(f"{name!r} is not a container reference")
    return from_reference(name)


def _patch(data: bytes, package: str, source: str | None, where: str) -> Patch:
    return for_package(parse_patch(data, where=where), package=package, source=source, where=where)


def _tests(folder: Path, names: tuple[str, ...], package: str, where: str) -> Mapping[str, bytes]:
    """The bytes of every file that ``tests`` names, folders with all in them."""
    found: dict[str, bytes] = {}
    for name in names:
        if Path(name).parts[0] in (package, f"{package}.py"):
            raise BadInput(
                f"{where}: tests: {name!r} would hide the package under test",
                "Put it under tests/.",
            )
        path = folder / name
        if not path.exists():
            raise BadInput(f"{where}: tests: no file or folder {name!r} in {folder}")
        for file in _files(path):
            found[file.relative_to(folder).as_posix()] = read_file(file, f"named by {where}: tests")
    if sum(map(len, found.values())) > _TEST_LIMIT:
        raise BadInput(f"{where}: tests: more than {_TEST_LIMIT >> 20} MiB")
    return dict(sorted(found.items()))


def _files(path: Path) -> Iterator[Path]:
    if path.is_symlink():
        raise BadInput(f"{path}: a link; a case holds plain files only", "Copy the file.")
    if path.is_dir():
        for child in sorted(path.iterdir()):
            if child.name not in _SKIPPED_NAMES and child.suffix != ".pyc":
                yield from _files(child)
    else:
        yield path


def read_file(path: Path, why: str = "") -> bytes:
    """The bytes of a plain file; ``why`` it is wanted is added to complaints.

    Raises:
        BadInput: it is not there, not a plain file, or cannot be read.
    """
    note = f" ({why})" if why else ""
    try:
        if path.exists() and not path.is_file():
            raise BadInput(f"{path}: not a plain file{note}")
        return path.read_bytes()
    except FileNotFoundError:
        raise BadInput(f"{path}: no such file{note}") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read{note}: {error}") from error


def _decode(data: bytes, path: Path) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: not UTF-8: {error}") from None
