"""Cases and images, read from their folders and checked."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.case import Case, parse_case, unsafe_path
from harness.engines.trees import open_tree
from harness.errors import BadInput
from harness.image import Image, by_reference, from_reference, parse_image, pinned
from harness.patch import Patch, for_package, parse_patch
from harness.plan import CaseFiles
from harness.record import SourceRecord
from harness.settings import Host, parse_settings
from harness.testsfrom import check_taken, complete
from harness.wheels import from_wheels, is_wheels

SETTINGS = "harness.toml"
_SKIPPED_NAMES = {"__pycache__", ".pytest_cache"}
_TEST_LIMIT = 64 << 20
_CONTAINER = re.compile(r"(?m)^\s*\[\s*container\s*\]")


def project_root(start: Path) -> Path:
    """The nearest folder at or above ``start`` with ``cases``, ``images`` or ``harness.toml``.

    ``start`` itself where there is none.
    """
    for folder in (start, *start.parents):
        if any((folder / name).is_dir() for name in ("cases", "images")):
            return folder
        if (folder / SETTINGS).is_file():
            return folder
    return start


def load_hosts(root: Path) -> dict[str, Host]:
    """The hosts of ``harness.toml`` by name; none where there is no such file.

    Raises:
        BadInput: names the file, the key and the remedy.
    """
    toml = root / SETTINGS
    if not toml.exists():
        return {}
    return parse_settings(_decode(read_file(toml), toml), where=str(toml))


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


def load_case(
    folder: Path, *, tests_from: str = "", taken: SourceRecord | None = None
) -> CaseFiles:
    """Read and check a case folder.

    Test files that it lacks come from ``tests_from`` (PATH, PATH@REV or sdist:NAME==VERSION), else
    from what the case itself names; ``taken`` are those that already lie in the folder of a run.

    Raises:
        BadInput: names the file, the key and the remedy.
        EngineError: a source distribution cannot be fetched.
    """
    toml = folder / "case.toml"
    data = read_file(toml, "a case needs it")
    case = parse_case(_decode(data, toml), case_id=folder.resolve().name, where=str(toml))
    tests, source = _all_tests(folder, case, str(toml), tests_from, taken)
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
        tests_from=source,
    )


def load_image(name: str, root: Path) -> Image:
    """The image of that name or of that reference under ``images/``, else a bare reference.

    A reference with a digest is the folder's image too where the folder pins that digest. What
    begins with ``pypi:`` is made from wheels; no lock of it is looked for here.

    Raises:
        BadInput: an image.toml is wrong, the name is neither, or two folders have the reference.
    """
    if is_wheels(name):
        return from_wheels(name)
    toml = root / "images" / name / "image.toml"
    if unsafe_path(name) == "" and toml.is_file():
        return _image_of_folder(toml)
    if not any(mark in name for mark in "/:@"):
        known = ", ".join(image_names(root)) or f"none below {root}"
        raise BadInput(
            f"no image {name!r} under images/",
            f"Known: {known}; or give a container reference, name:tag, or pypi:NAME==VERSION.",
        )
    bare = from_reference(name)
    folders = [
        _image_of_folder(root / "images" / each / "image.toml") for each in image_names(root)
    ]
    matching = [found for image in folders if (found := by_reference(image, name))]
    if len(matching) > 1:
        names = " and ".join(image.name for image in matching)
        raise BadInput(
            f"{names} under images/ both have the reference {name}",
            "Give the name of one: they may differ in more than the digest.",
        )
    return matching[0] if matching else bare


def write_pin(image: Image, digest: str, digest_from: str) -> None:
    """Write a digest into the image's image.toml; comments, order and file mode stay.

    Raises:
        BadInput: the file cannot be read or written, or would no longer say what it said.
    """
    toml = (Path(image.folder) / "image.toml").resolve()
    old = _decode(read_file(toml), toml)
    new = _with_key(old, "digest", digest, after="reference")
    new = _with_key(new, "digest_from", digest_from, after="digest")
    read_again = parse_image(new, name=image.name, folder=image.folder, where=str(toml))
    if read_again != pinned(image, digest, digest_from):
        raise BadInput(f"{toml}: the digest cannot be written into it", "Write it by hand.")
    scratch = toml.with_name(f".image.toml.{os.getpid()}")
    try:
        scratch.write_bytes(new.encode())
        shutil.copymode(toml, scratch)
        os.replace(scratch, toml)
    except OSError as error:
        raise BadInput(f"{toml}: cannot be written: {error.strerror}") from error
    finally:
        scratch.unlink(missing_ok=True)


def _with_key(text: str, key: str, value: str, *, after: str) -> str:
    """The TOML text with a key of ``container`` set; a new one has the line below ``after``."""
    import tomlkit

    document = tomlkit.parse(text)
    container: Any = document["container"]  # one of several classes that behave like a dict
    if key in container or not _CONTAINER.search(text):  # there, or an inline or dotted table
        container[key] = value
    else:  # the library itself would add it below the comments at the table's end
        trivia = container[after].trivia
        line = f"{trivia.indent}{key} = {tomlkit.string(value).as_string()}"
        trivia.trail = (trivia.trail or "\n") + line + trivia.trail
    return tomlkit.dumps(document)


def _image_of_folder(toml: Path) -> Image:
    folder = toml.parent
    text = _decode(read_file(toml), toml)
    image = parse_image(text, name=folder.name, folder=str(folder), where=str(toml))
    named = {
        "lock.requirements": image.lock.requirements if image.lock else "",
        "container.dockerfile": image.container.dockerfile if image.container else "",
    }
    for key, file in named.items():
        if file and not (folder / file).is_file():
            raise BadInput(f"{toml}: {key}: no file {file!r} in {folder}")
    return image


def _patch(data: bytes, package: str, source: str | None, where: str) -> Patch:
    return for_package(parse_patch(data, where=where), package=package, source=source, where=where)


def _all_tests(
    folder: Path, case: Case, where: str, tests_from: str, taken: SourceRecord | None
) -> tuple[Mapping[str, bytes], SourceRecord | None]:
    """The case's test files, and where those come from that the folder lacks."""
    for name in case.tests:
        if Path(name).parts[0] in (case.package, f"{case.package}.py"):
            raise BadInput(
                f"{where}: tests: {name!r} would hide the package under test",
                "Put it under tests/.",
            )
    spec = tests_from or _beside(folder, case.tests_from)
    lacking = [name for name in case.tests if not (folder / name).exists()]
    if lacking and (not spec or taken is not None):
        raise BadInput(
            f"{where}: tests: no file or folder {lacking[0]!r} in {folder}",
            "Write it, or say where it is: --tests-from, or tests_from in case.toml.",
        )
    own = _tests(folder, [n for n in case.tests if n not in lacking], where)
    if taken is not None:
        found = {**own, **{path: read_file(folder / path) for path in check_taken(taken, where)}}
        return dict(sorted(found.items())), taken
    if not tests_from and not lacking and not case.tests_from:
        return own, None
    tree = open_tree(spec, where="--tests-from" if tests_from else f"{where}: tests_from")
    found, source = complete(own, case.tests, tree, package=case.package, where=where)
    _check_size(found, where)
    return dict(sorted(found.items())), source


def _beside(folder: Path, spec: str) -> str:
    """A path in case.toml is relative to the case's folder."""
    return spec if not spec or spec.startswith("sdist:") else str(folder / Path(spec).expanduser())


def _tests(folder: Path, names: Sequence[str], where: str) -> Mapping[str, bytes]:
    """The bytes of every file that ``tests`` names, folders with all in them."""
    found: dict[str, bytes] = {}
    for name in names:
        for file in _files(folder / name):
            found[file.relative_to(folder).as_posix()] = read_file(file, f"named by {where}: tests")
    _check_size(found, where)
    return dict(sorted(found.items()))


def _check_size(found: Mapping[str, bytes], where: str) -> None:
    if sum(map(len, found.values())) > _TEST_LIMIT:
        raise BadInput(f"{where}: tests: more than {_TEST_LIMIT >> 20} MiB")


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
