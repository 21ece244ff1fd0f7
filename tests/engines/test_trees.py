"""Folders, revisions and released source distributions as one kind of tree."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from pathlib import Path

import pytest
from support.gitrepos import git, repository

from harness.engines.sdist import SdistTree
from harness.engines.trees import open_tree
from harness.errors import BadInput, HarnessError


def test_a_folder_without_caches_and_links(tmp_path: Path) -> None:
    for path in ("t/test_a.py", "t/__pycache__/x.pyc", ".git/config", "data/x.bin"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(path.encode())
    os.symlink("/etc/passwd", tmp_path / "t/link")
    tree = open_tree(str(tmp_path), cache=tmp_path)
    assert tuple(tree.names()) == ("data/x.bin", "t/test_a.py")
    assert tree.read("t/test_a.py") == b"t/test_a.py"
    assert (tree.record.kind, tree.record.spec) == ("folder", tmp_path.name)
    for path in ("t/link", "../x", "absent"):
        with pytest.raises(BadInput, match="no plain file"):
            tree.read(path)


def test_a_revision(tmp_path: Path) -> None:
    repo = repository(tmp_path / "me@home" / "repo", {"a.py": "1\n"}, {"a.py": "2\n"})
    tree = open_tree(f"{repo}@HEAD~1", cache=tmp_path)
    assert tree.read("a.py") == b"1\n"
    assert tree.record.kind == "git"
    assert tree.record.spec == "repo@HEAD~1"
    assert tree.record.revision == git(repo, "rev-parse", "HEAD~1")
    assert open_tree(str(repo), cache=tmp_path).record.kind == "folder"


@pytest.mark.parametrize("text", ["sdist:click", "sdist:click>=8", "sdist:==1", "/absent@x", ""])
def test_what_names_no_tree(text: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="--tests-from"):
        open_tree(text, cache=tmp_path)


def test_a_release_is_fetched_once_and_never_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = open_tree("sdist:packaging==24.0", cache=tmp_path)
    assert "tests/test_markers.py" in tree.names()
    assert b"class TestNode" in tree.read("tests/test_markers.py")
    digest = tree.record.revision.removeprefix("sha256:")
    assert digest == "eb82c5e3e56209074766e6885bb04b8c38a0c015d0a30036ebe7ece34c9989e9"
    monkeypatch.setenv("PIP_NO_INDEX", "1")  # from here on the cache alone serves it
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    assert open_tree("sdist:packaging==24.0", cache=tmp_path).record == tree.record
    (tmp_path / "sdists" / digest).write_bytes(b"damaged")
    with pytest.raises(HarnessError, match=r"sdist:packaging==24\.0"):
        open_tree("sdist:packaging==24.0", cache=tmp_path)


def test_no_such_release(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such release"):
        open_tree("sdist:packaging==0.0.99", cache=tmp_path)


def test_a_release_without_a_wheel_is_not_built(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="has no wheel"):
        open_tree("sdist:docopt==0.6.2", cache=tmp_path)


def test_an_archive_s_links_and_paths_upwards_are_no_files(tmp_path: Path) -> None:
    archive = tmp_path / "x.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for name, kind in (
            ("x-1/tests/a.py", tarfile.REGTYPE),
            ("x-1/link", tarfile.SYMTYPE),
            ("x-1/hard", tarfile.LNKTYPE),
            ("x-1/pipe", tarfile.FIFOTYPE),
            ("x-1/../../up", tarfile.REGTYPE),
            ("/etc/absolute", tarfile.REGTYPE),
        ):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "/etc/passwd"
            member.size = 3 if kind == tarfile.REGTYPE else 0
            tar.addfile(member, io.BytesIO(b"abc"))
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    tree = SdistTree(archive=archive, spec="sdist:x==1", sha256=digest)
    assert tree.names() == ("tests/a.py",)
    assert tree.read("tests/a.py") == b"abc"
    with pytest.raises(BadInput, match="no file 'link'"):
        tree.read("link")


def test_an_archive_that_is_none(tmp_path: Path) -> None:
    archive = tmp_path / "x.zip"
    archive.write_bytes(b"PK\3\4 no tar")
    with pytest.raises(BadInput, match="cannot be read"):
        SdistTree(archive=archive, spec="sdist:x==1", sha256="").names()
