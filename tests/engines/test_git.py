"""Repositories as git reads them, and nothing of theirs run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.gitrepos import git, repository

from harness.engines.git import Repository, blob_id
from harness.errors import BadInput

OLD = {"src/a.py": "a = 1\n", "tests/test_a.py": "def test(): pass\n", "ä b.txt": "x\n"}
NEW = {"src/a.py": "a = 2\n", "tests/test_b.py": "b\n"}


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    made = repository(tmp_path / "repo", OLD, NEW)
    git(made, "tag", "v1", "HEAD~1")
    return made


def test_revisions_are_read_and_the_work_tree_is_not(repo: Path) -> None:
    (repo / "src/a.py").write_text("dirty\n")
    (repo / "untracked.py").write_text("x\n")
    index = (repo / ".git/index").read_bytes()
    old, new = Repository.open(repo, "v1"), Repository.open(repo, "HEAD")
    assert old.read("src/a.py") == b"a = 1\n"
    assert new.read_many(["tests/test_b.py", "src/a.py"]) == {
        "tests/test_b.py": b"b\n",
        "src/a.py": b"a = 2\n",
    }
    assert sorted(old.files()) == sorted(OLD)
    assert old.commit == git(repo, "rev-parse", "HEAD~1")
    assert old.describe() == "v1"
    assert new.describe().startswith("v1-1-g")
    assert (repo / "src/a.py").read_text() == "dirty\n"
    assert (repo / ".git/index").read_bytes() == index


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_blob_ids_are_git_s_own(tmp_path: Path, object_format: str) -> None:
    repo = repository(tmp_path / "r", OLD, object_format=object_format)
    opened = Repository.open(repo, "HEAD")
    assert opened.object_format == object_format
    for path, object_id in opened.files().items():
        assert blob_id(OLD[path].encode(), object_format) == object_id


def test_the_known_blob_id() -> None:
    assert blob_id(b"hello world\n") == "3b18e512dba79e4c8300dd08aeb37f8e728b8dad"


def test_a_bare_repository_and_a_folder_inside_one(repo: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(repo), "bare.git")
    assert Repository.open(tmp_path / "bare.git", "main").read("src/a.py") == b"a = 2\n"
    inside = Repository.open(repo / "tests", "HEAD")
    assert sorted(inside.files()) == ["test_a.py", "test_b.py"]
    assert inside.read("test_b.py") == b"b\n"


def test_links_and_submodules_are_no_files(repo: Path) -> None:
    os.symlink("/etc/passwd", repo / "link")
    git(repo, "add", "link")
    git(repo, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub")
    git(repo, "commit", "-q", "-m", "odd")
    opened = Repository.open(repo, "HEAD")
    assert not {"link", "sub"} & set(opened.files())
    with pytest.raises(BadInput, match="link is a link"):
        opened.read("link")
    with pytest.raises(BadInput, match="sub is a submodule"):
        opened.read("sub")
    with pytest.raises(BadInput, match="no file 'nope'"):
        opened.read("nope")


def test_nothing_of_the_repository_is_run(repo: Path, tmp_path: Path) -> None:
    program = tmp_path / "evil"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\ncat\n")
    program.chmod(0o755)
    (repo / ".gitattributes").write_text("*.py diff=evil filter=evil\n")
    git(repo, "add", ".gitattributes")
    git(repo, "commit", "-q", "-m", "attributes")
    for key in (
        "core.fsmonitor",
        "core.pager",
        "pager.diff",
        "diff.external",
        "diff.evil.textconv",
        "diff.evil.command",
        "filter.evil.smudge",
        "filter.evil.clean",
        "core.sshCommand",
    ):
        git(repo, "config", key, str(program))
    (repo / ".git/hooks/post-index-change").write_text(program.read_text())
    (repo / ".git/hooks/post-index-change").chmod(0o755)
    (repo / "src/a.py").write_text("dirty\n")
    opened = Repository.open(repo, "HEAD")
    assert opened.read("src/a.py") == b"a = 2\n"
    assert b"+a = 2" in opened.diff("v1")
    assert opened.describe()
    assert not (tmp_path / "ran").exists()


def test_a_diff_has_one_form_whatever_the_settings_say(repo: Path) -> None:
    git(repo, "mv", "tests/test_a.py", "tests/test_c.py")
    git(repo, "commit", "-q", "-m", "moved")
    plain = Repository.open(repo, "HEAD").diff("v1")
    for key, value in (("noprefix", "true"), ("mnemonicPrefix", "true"), ("context", "0")):
        git(repo, "config", f"diff.{key}", value)
    git(repo, "config", "color.ui", "always")
    assert Repository.open(repo, "HEAD").diff("v1") == plain
    assert b"diff --git a/src/a.py b/src/a.py\n" in plain
    assert b"rename from tests/test_a.py\nrename to tests/test_c.py\n" in plain


def test_what_is_no_repository_or_no_revision(repo: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="git knows no revision 'nope'"):
        Repository.open(repo, "nope")
    with pytest.raises(BadInput, match="no revision '--help'"):
        Repository.open(repo, "--help")
    (tmp_path / "plain").mkdir()
    with pytest.raises(BadInput, match="not a git repository"):
        Repository.open(tmp_path / "plain", "HEAD")
    with pytest.raises(BadInput, match="no such folder"):
        Repository.open(tmp_path / "absent", "HEAD")


def test_git_is_lacking(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(BadInput, match="not installed"):
        Repository.open(repo, "HEAD")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_another_user_s_repository_says_what_to_do(
    repo: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for path in (repo, repo / ".git"):
        os.chown(path, 12345, 12345)
    with pytest.raises(BadInput, match=r"safe\.directory"):
        Repository.open(repo, "HEAD")


def test_an_object_that_a_partial_clone_lacks_is_not_fetched(repo: Path) -> None:
    opened = Repository.open(repo, "HEAD")
    object_id = opened.files()["src/a.py"]
    git(repo, "repack", "-q")  # loose objects stay beside the pack's
    (repo / ".git/objects" / object_id[:2] / object_id[2:]).unlink()
    for pack in (repo / ".git/objects/pack").iterdir():
        pack.unlink()
    with pytest.raises(BadInput, match=r"src/a\.py|ls-tree"):
        Repository.open(repo, "HEAD").read("src/a.py")
