"""Tests that a case lacks, and the tests as they were before a change."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.gitrepos import repository
from support.golden import CONTROL, FILE, FLIP, SIGNATURE, TESTS, write_case

from harness import store
from harness.engines.trees import open_tree
from harness.errors import BadInput
from harness.plan import sha256
from harness.testsfrom import base_tests

HELPED = "from tests.help import two\n" + TESTS


def case(folder: Path, tests: dict[str, str], more: str = "") -> Path:
    """A case folder which names FILE, with or without it."""
    made = write_case(
        folder, tests={FILE: TESTS}, flips=[FLIP], controls=[CONTROL], signature=SIGNATURE
    )
    (made / FILE).unlink()
    for path, text in tests.items():
        (made / path).parent.mkdir(parents=True, exist_ok=True)
        (made / path).write_text(text)
    if more:
        toml = made / "case.toml"
        toml.write_text(more + "\n" + toml.read_text())
    return made


@pytest.fixture
def upstream(tmp_path: Path) -> Path:
    return repository(
        tmp_path / "upstream",
        {FILE: TESTS, "tests/conftest.py": "", "tests/unused.py": ""},
        {FILE: HELPED, "tests/help.py": "two = 2\n"},
    )


def test_the_lacking_file_comes_with_what_it_needs(tmp_path: Path, upstream: Path) -> None:
    folder = case(tmp_path / "case", {})
    files = store.load_case(folder, tests_from=f"{upstream}@HEAD")
    assert set(files.tests) == {FILE, "tests/help.py", "tests/conftest.py"}
    source = files.tests_from
    assert source is not None
    assert (source.kind, source.spec) == ("git", "upstream@HEAD")
    assert source.files == {path: sha256(data) for path, data in files.tests.items()}


def test_the_case_s_own_file_wins(tmp_path: Path, upstream: Path) -> None:
    folder = case(tmp_path / "case", {FILE: HELPED + "# mine\n"})
    files = store.load_case(folder, tests_from=str(upstream))
    assert files.tests[FILE].endswith(b"# mine\n")
    assert files.tests_from is not None
    assert set(files.tests_from.files) == {"tests/help.py", "tests/conftest.py"}


def test_the_case_says_itself_where_from(tmp_path: Path, upstream: Path) -> None:
    folder = case(tmp_path / "case", {}, 'tests_from = "../upstream@HEAD~1"')
    files = store.load_case(folder)
    assert set(files.tests) == {FILE, "tests/conftest.py"}
    assert files.tests[FILE] == TESTS.encode()


def test_without_it_nothing_is_taken_and_the_remedy_is_said(tmp_path: Path, upstream: Path) -> None:
    with pytest.raises(BadInput, match="--tests-from"):
        store.load_case(case(tmp_path / "a", {}))
    with pytest.raises(BadInput, match="neither in the case's folder nor in upstream"):
        (upstream / FILE).unlink()
        store.load_case(case(tmp_path / "b", {}), tests_from=str(upstream))
    assert store.load_case(case(tmp_path / "c", {FILE: TESTS})).tests_from is None


def test_a_run_s_folder_is_read_without_the_tree(tmp_path: Path, upstream: Path) -> None:
    folder = case(tmp_path / "case", {}, 'tests_from = "../gone@HEAD"')
    files = store.load_case(folder, tests_from=str(upstream))
    for path, data in files.tests.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    again = store.load_case(folder, taken=files.tests_from)
    assert (again.tests, again.tests_from) == (files.tests, files.tests_from)
    assert files.tests_from is not None
    for path in ("../../x", "/etc/passwd"):
        with pytest.raises(BadInput, match="tests_from"):
            store.load_case(folder, taken=replace(files.tests_from, files={path: ""}))


def test_the_tests_as_they_were(tmp_path: Path, upstream: Path) -> None:
    folder = case(tmp_path / "case", {FILE: HELPED})
    files = store.load_case(folder, tests_from=str(upstream))
    base = base_tests(files, open_tree(f"{upstream}@HEAD~1", cache=tmp_path))
    assert set(base.tests) == {FILE, "tests/conftest.py"}
    assert base.tests[FILE] == TESTS.encode()
    assert base.source.files[FILE] == sha256(TESTS.encode())
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput, match="--base-tests: empty has none of the case's tests"):
        base_tests(files, open_tree(str(tmp_path / "empty"), cache=tmp_path))
