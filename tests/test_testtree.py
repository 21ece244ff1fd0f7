"""Which files a test file needs, found without running anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from harness.errors import BadInput
from harness.record import SourceRecord
from harness.testtree import import_folders, needed


@dataclass
class Memory:
    """A tree in memory, which counts how often it was read."""

    files: dict[str, str]
    rounds: list[Sequence[str]] = field(default_factory=list)

    @property
    def record(self) -> SourceRecord:
        return SourceRecord(kind="folder", spec="memory")

    def names(self) -> list[str]:
        return list(self.files)

    def read(self, path: str) -> bytes:
        return self.files[path].encode()

    def read_many(self, paths: Sequence[str]) -> dict[str, bytes]:
        self.rounds.append(paths)
        return {path: self.read(path) for path in paths}


TREE = {
    "conftest.py": "",
    "setup.py": "raise SystemExit",
    "tests/__init__.py": "",
    "tests/conftest.py": "import tests.fixtures.base",
    "tests/fixtures/__init__.py": "",
    "tests/fixtures/base.py": "",
    "tests/utils.py": "from .deep import more",
    "tests/deep/__init__.py": "",
    "tests/deep/more.py": "",
    "tests/other.py": "",
    "tests/kernels/__init__.py": "",
    "tests/kernels/conftest.py": "",
    "tests/kernels/utils.py": "",
    "tests/kernels/test_a.py": "",
    "tests/kernels/test_b.py": "",
    "tests/kernels/moe/conftest.py": "",
    "tests/data/one.json": "{}",
    "tests/data/two.json": "{}",
    "tests/kernels/golden/x.txt": "",
    "pkg/__init__.py": "",
    "pkg/core.py": "",
    "src/pkg/core.py": "",
}
#: What every test under tests/kernels brings along.
LEVELS = {
    "conftest.py",
    "tests/__init__.py",
    "tests/conftest.py",
    "tests/fixtures/__init__.py",
    "tests/fixtures/base.py",
    "tests/kernels/__init__.py",
    "tests/kernels/conftest.py",
    "tests/kernels/test_a.py",
}
DEEP = {"tests/utils.py", "tests/deep/__init__.py", "tests/deep/more.py"}


@pytest.mark.parametrize(
    ("source", "more"),
    [
        ("", set()),
        ("import os, numpy, pkg.core\nfrom pkg import core", set()),
        ("import tests.utils", DEEP),
        ("from tests.utils import f", DEEP),
        ("from tests import utils", DEEP),
        ("def test():\n    from tests import utils", DEEP),
        ("from ..utils import f", DEEP),
        ("from .. import utils", DEEP),
        ("from .utils import f", {"tests/kernels/utils.py"}),
        ("from . import utils", {"tests/kernels/utils.py"}),
        ("from ....beyond import x", set()),
        ("pytest_plugins = 'tests.other'", {"tests/other.py"}),
        ("pytest_plugins = ['tests.other', 'pytester']", {"tests/other.py"}),
        ("importlib.import_module('tests.other')", {"tests/other.py"}),
        ("open('tests/data/one.json')", {"tests/data/one.json"}),
        ("open('data/one.json')", {"tests/data/one.json"}),
        ("open('golden/x.txt')", {"tests/kernels/golden/x.txt"}),
        ("Path(__file__).parent / 'golden'", {"tests/kernels/golden/x.txt"}),
        ("ROOT / 'data' / 'one.json'", {"tests/data/one.json"}),
        ("os.path.join(HERE, 'data', 'one.json')", {"tests/data/one.json"}),
        ("x = 'tests/data/'", {"tests/data/one.json", "tests/data/two.json"}),
        ("x = ['data', 'pkg', 'tests', '.', '..', '/etc/passwd', 'pkg/core.py']", set()),
        ("x = 'tests/kernels'", set()),
        ("SLOW = {'test_b.py', 'test_c.py'}", set()),
        ("run('tests/kernels/test_b.py')", {"tests/kernels/test_b.py"}),
        ("this is no Python", set()),
    ],
)
def test_what_one_file_brings_along(source: str, more: set[str]) -> None:
    tree = Memory({**TREE, "tests/kernels/test_a.py": source})
    assert set(needed(tree, ["tests/kernels/test_a.py"], package="pkg")) == LEVELS | more


def test_node_ids_folders_and_absent_files() -> None:
    tree = Memory(TREE)
    found = needed(tree, ["tests/kernels/test_a.py::test[x::y]", "tests/no.py"], package="pkg")
    assert set(found) == LEVELS
    whole = needed(tree, ["tests/kernels"], package="pkg")
    assert set(whole) == LEVELS | {name for name in TREE if name.startswith("tests/kernels/")}


def test_helpers_of_a_folder_that_is_no_package() -> None:
    files = {
        "t/conftest.py": "",
        "t/helpers.py": "import more",
        "t/more.py": "",
        "t/json.py": "",
        "t/unit/test_a.py": "import helpers, json\nimport near",
        "t/unit/near.py": "",
    }
    found = needed(Memory(files), ["t/unit/test_a.py"], package="pkg")
    assert set(found) == set(files)
    assert import_folders(found, package="pkg") == ("t", "t/unit")


def test_the_root_needs_no_import_folder() -> None:
    files = {"tests/__init__.py": b"", "tests/test_a.py": b"import tests.b", "tests/b.py": b""}
    assert import_folders(files, package="pkg") == ()
    assert import_folders({"t/test_a.py": b"import json", "t/json.py": b""}, package="pkg") == ()
    assert import_folders({"t/test_a.py": b"import pkg", "t/pkg.py": b""}, package="pkg") == ()


def test_each_round_reads_at_once() -> None:
    tree = Memory({**TREE, "tests/kernels/test_a.py": "import tests.utils"})
    needed(tree, ["tests/kernels/test_a.py"], package="pkg")
    read = [path for paths in tree.rounds for path in paths]
    assert len(read) == len(set(read))


def test_a_folder_that_is_too_big_is_not_what_a_string_means() -> None:
    files = {f"tests/data/{n}.txt": "" for n in range(501)}
    tree = Memory({**files, "tests/test_a.py": "'data'"})
    assert set(needed(tree, ["tests/test_a.py"], package="pkg")) == {"tests/test_a.py"}


def test_too_many_files() -> None:
    tree = Memory({f"tests/{n}.txt": "" for n in range(20_001)})
    with pytest.raises(BadInput, match="more than 20000 files"):
        needed(tree, ["tests"], package="pkg")
