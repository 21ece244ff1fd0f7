"""Locked environments with the real uv: made once, read-only, and nothing half made ever counts."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.wheels import configure_pip, image, only_wheels_of, wheel

from harness.engines import locked, makeenv, tree
from harness.errors import BadInput, EngineError
from harness.image import Image, from_reference

NOBODY = 65534
TINY = {"tiny/__init__.py": "VALUE = 1\n", "tiny/part.py": "import tiny\n"}
#: Importing it takes long, unless a file "go" is there, and leaves a sign that it began.
SLOW = """
import pathlib, time
here = pathlib.Path({folder!r})
(here / "began").touch()
for _ in range(1200):
    if (here / "go").exists():
        break
    time.sleep(0.05)
"""
PROGRAM = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from harness.engines import locked
from harness.image import parse_image
folder, cache = map(Path, sys.argv[1:])
image = parse_image(
    (folder / "image.toml").read_text(), name=folder.name, folder=str(folder), where="image.toml"
)
print(locked.ensure(folder, image, cache, lambda step: print(step, flush=True)), flush=True)
"""
ROOT = Path(locked.__file__).parents[2]


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels, which is all that pip and uv know."""
    folder = tmp_path / "shelf"
    wheel(folder, "tiny", "1.0", TINY)
    wheel(folder, "slow", "1.0", {"slow.py": SLOW.format(folder=str(tmp_path))})
    configure_pip(monkeypatch, tmp_path / "home", only_wheels_of(folder))
    return folder


@pytest.fixture
def tiny(tmp_path: Path, shelf: Path) -> Image:
    return image(tmp_path / "tiny-image", [shelf / "tiny-1.0-py3-none-any.whl"], warm=["tiny.part"])


@pytest.fixture
def slow(tmp_path: Path, shelf: Path) -> Image:
    return image(tmp_path / "slow-image", [shelf / "slow-1.0-py3-none-any.whl"], warm=["slow"])


def _ensure(made: Image, cache: Path, on_step: Callable[[str], None] = lambda step: None) -> Path:
    return locked.ensure(Path(made.folder), made, cache, on_step)


def _folders(cache: Path) -> list[str]:
    return sorted(path.name for path in (cache / "environments").glob("*/"))


def test_an_environment_is_made_once(tmp_path: Path, tiny: Image) -> None:
    key = locked.key_of(Path(tiny.folder), tiny)
    assert locked.find(tmp_path, key) is None
    steps: list[str] = []
    env = _ensure(tiny, tmp_path, steps.append)
    assert env == tmp_path / "environments" / key == locked.find(tmp_path, key)
    assert "installing 1 packages with uv" in steps
    assert any("importing tiny.part once" in step for step in steps)
    argv = [str(env / "bin" / "python"), "-c", "import sys, tiny; print(sys.prefix, tiny.VALUE)"]
    assert subprocess.check_output(argv, text=True).split() == [str(env), "1"]
    assert [*env.rglob("part.cpython-*.pyc")]
    assert _folders(tmp_path) == [key], "uv's cache must not stay"
    steps.clear()
    assert _ensure(tiny, tmp_path, steps.append) == env
    assert steps == []
    assert locked.changed(env) == []


def test_files_belong_to_the_environment_alone(tmp_path: Path, tiny: Image) -> None:
    env = _ensure(tiny, tmp_path)
    (module,) = env.rglob("tiny/__init__.py")
    assert module.stat().st_nlink == 1


def test_the_key_follows_all_that_matters() -> None:
    keys = {
        locked.key(b"a==1", "3.11"),
        locked.key(b"a==2", "3.11"),
        locked.key(b"a==1", "3.12"),
        locked.key(b"a==1", "3.11", ("a",)),
    }
    assert len(keys) == 4
    assert locked.key(b"a==1", "3.11", ()) in keys


def test_the_key_follows_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    before = locked.key(b"", "3.11")
    monkeypatch.setattr(locked.platform, "libc_ver", lambda: ("glibc", "1.0"))
    assert locked.key(b"", "3.11") != before


def test_no_lock_no_environment(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"no \[lock\]"):
        _ensure(from_reference("some:image"), tmp_path)


def test_a_missing_lock_is_named(tmp_path: Path, tiny: Image) -> None:
    Path(tiny.folder, "requirements.lock").unlink()
    with pytest.raises(BadInput, match=r"requirements\.lock: cannot be read"):
        _ensure(tiny, tmp_path)


def test_a_wheel_with_another_hash_is_refused(tmp_path: Path, shelf: Path, tiny: Image) -> None:
    wheel(shelf, "tiny", "1.0", {"tiny/__init__.py": "VALUE = 2\n"})
    with pytest.raises(EngineError, match=r"(?i)hash") as caught:
        _ensure(tiny, tmp_path)
    assert "PIP_FIND_LINKS" in caught.value.remedy
    assert _folders(tmp_path) == []


def test_a_failing_import_names_the_module(tmp_path: Path, shelf: Path) -> None:
    bad = wheel(shelf, "bad", "1.0", {"bad.py": "raise RuntimeError('no such device')\n"})
    made = image(tmp_path / "image", [bad], warm=["json", "bad"])
    with pytest.raises(EngineError, match="importing bad fails") as caught:
        _ensure(made, tmp_path)
    assert "no such device" in str(caught.value)
    assert _folders(tmp_path) == []


def test_the_first_import_knows_nothing_of_the_user(
    tmp_path: Path, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        "import os, pathlib, sys, tempfile\n"
        "assert 'SECRET' not in os.environ and 'PYTHONPATH' not in os.environ\n"
        "assert str(pathlib.Path.home()) == os.getcwd() == tempfile.gettempdir() != '/root'\n"
        f"assert os.environ['HOME'] != {str(tmp_path / 'home')!r}\n"
        "(pathlib.Path.home() / 'settings').write_text('x')\n"
    )
    curious = wheel(shelf, "curious", "1.0", {"curious.py": text})
    monkeypatch.setenv("SECRET", "x")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    _ensure(image(tmp_path / "image", [curious], warm=["curious"]), tmp_path)
    assert not (tmp_path / "home" / "settings").exists()


def test_a_python_that_is_not_there(tmp_path: Path, shelf: Path) -> None:
    made = image(tmp_path / "image", [shelf / "tiny-1.0-py3-none-any.whl"], python="3.8")
    with pytest.raises(EngineError, match=r"needs Python 3\.8") as caught:
        _ensure(made, tmp_path)
    assert "Install Python 3.8" in caught.value.remedy


def test_torch_comes_from_the_index_that_uv_knows(
    tmp_path: Path, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real uv, but its ``--torch-backend`` is a folder here and not an index."""
    torch = wheel(tmp_path / "theirs", "torch", "9.9+cpu", {"torch.py": ""})
    script = tmp_path / "uv"
    script.write_text(
        f"""#!{sys.executable}
import os, sys
argv = sys.argv[1:]
if "--torch-backend" in argv:
    at = argv.index("--torch-backend")
    assert argv[at + 1] == "cpu"
    argv[at : at + 2] = ["--find-links", {str(torch.parent)!r}]
os.execv({makeenv.uv_program()!r}, ["uv", *argv])
"""
    )
    script.chmod(0o755)
    monkeypatch.setattr(makeenv, "uv_program", lambda: str(script))
    made = image(tmp_path / "image", [torch, shelf / "tiny-1.0-py3-none-any.whl"])
    with pytest.raises(EngineError, match=r"torch==9\.9\+cpu"):
        _ensure(made, tmp_path)
    made = image(tmp_path / "image", [torch], backend="cpu")
    steps: list[str] = []
    assert [*_ensure(made, tmp_path, steps.append).rglob("torch.py")]
    assert "looking for torch==9.9+cpu in uv's cpu index" in steps


# What an arm may do to an environment


def _write_as_nobody(env: Path, program: str) -> str:
    """Give the environment to another user, and let that user's process write into it."""
    for path in (env, *env.rglob("*")):
        os.lchown(path, NOBODY, NOBODY)
    done = subprocess.run(
        ["/bin/sh", "-c", program], user=NOBODY, cwd=env, capture_output=True, text=True
    )
    return done.stderr


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@needs_root
def test_not_even_the_owner_writes_by_accident(tmp_path: Path, tiny: Image) -> None:
    env = _ensure(tiny, tmp_path)
    (module,) = env.rglob("tiny/__init__.py")
    path = module.relative_to(env)
    for program in (f"echo x >> {path}", f"echo x > {path.parent}/new.py", f"rm {path}", "mkdir d"):
        assert "ermission denied" in _write_as_nobody(env, program), program
    assert module.read_text() == TINY["tiny/__init__.py"]


def _same_length(path: Path) -> None:
    info = path.stat()
    path.write_text("VALUE = 7\n")
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))


def _and_back(path: Path) -> None:
    text = path.read_text()
    path.write_text("VALUE = 7\n")
    path.write_text(text)


CHANGES: list[tuple[str, Callable[[Path], object]]] = [
    ("changed", lambda path: path.write_text("VALUE = 77\n")),
    ("changed", _same_length),
    ("changed", _and_back),
    ("changed", lambda path: path.chmod(0o666)),
    ("removed", lambda path: path.unlink()),
    ("added", lambda path: path.with_name("new.py").write_text("")),
    ("changed", lambda path: os.link(path, path.with_name("linked.py"))),
    ("changed", lambda path: path.with_name("new.py").rename(path)),
]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One environment for the tests that change it and put up with what the others did."""
    folder = tmp_path_factory.mktemp("shared")
    with pytest.MonkeyPatch.context() as monkeypatch:
        made = wheel(folder / "shelf", "tiny", "1.0", TINY)
        configure_pip(monkeypatch, folder / "home", only_wheels_of(folder / "shelf"))
        yield _ensure(image(folder / "image", [made]), folder)


@pytest.mark.parametrize(("word", "change"), CHANGES)
def test_a_change_is_found_out(
    shared: Path, tmp_path: Path, word: str, change: Callable[[Path], object]
) -> None:
    env = tmp_path / "env"
    shutil.copytree(shared, env, symlinks=True)  # copying sets new change times
    for folder in env.rglob("*/"):
        folder.chmod(0o755)
    (module,) = env.rglob("tiny/__init__.py")
    module.chmod(0o644)
    if "rename" in change.__code__.co_names:
        module.with_name("new.py").write_text(module.read_text())
    before = tree.scan(env, without=("complete.json", "manifest.json"))
    assert locked.changed(env, before) == []
    time.sleep(0.02)
    change(module)
    assert any(
        line.startswith(f"{word}: ") and "/tiny/" in line for line in locked.changed(env, before)
    )


@needs_root
def test_a_change_by_root_is_found_out(tmp_path: Path, tiny: Image) -> None:
    env = _ensure(tiny, tmp_path)
    (module,) = env.rglob("tiny/__init__.py")
    _same_length(module)
    assert locked.changed(env) == [f"changed: {module.relative_to(env)}"]
    (env / "manifest.json").unlink()
    assert locked.changed(env) == ["changed: manifest.json"]
    locked.discard(env)
    assert _folders(tmp_path) == []
    assert locked.changed(_ensure(tiny, tmp_path)) == []


@needs_root
def test_the_owner_can_remove_what_is_read_only(tmp_path: Path, tiny: Image) -> None:
    env = _ensure(tiny, tmp_path)
    for path in (env.parent, env, *env.rglob("*")):
        os.lchown(path, NOBODY, NOBODY)
    child = os.fork()
    if child == 0:
        try:
            os.chdir(env.parent)
            os.setuid(NOBODY)
            tree.remove(Path(env.name))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert not env.exists()


def test_discarding_nothing_is_fine(tmp_path: Path) -> None:
    locked.discard(tmp_path / "environments" / "none")


# What interrupts a build


def _start(made: Image, cache: Path) -> subprocess.Popen[str]:
    program = PROGRAM.format(root=str(ROOT))
    argv = [sys.executable, "-c", program, made.folder, str(cache)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _wait_for(path: Path) -> None:
    for _ in range(1200):
        if path.exists():
            return
        time.sleep(0.05)
    raise AssertionError(f"{path} never came")


def test_a_killed_build_is_made_again(tmp_path: Path, slow: Image) -> None:
    with _start(slow, tmp_path) as child:
        _wait_for(tmp_path / "began")
        child.send_signal(signal.SIGKILL)
    key = locked.key_of(Path(slow.folder), slow)
    assert locked.find(tmp_path, key) is None
    (tmp_path / "go").touch()
    assert _ensure(slow, tmp_path) == locked.find(tmp_path, key)


def test_what_a_killed_build_started_is_ended(tmp_path: Path, slow: Image) -> None:
    with _start(slow, tmp_path) as child:
        _wait_for(tmp_path / "began")
        child.send_signal(signal.SIGKILL)
    (tmp_path / "began").unlink()  # the orphan goes on and would for a minute
    steps: list[str] = []
    thread = threading.Thread(target=lambda: _ensure(slow, tmp_path, steps.append))
    thread.start()
    _wait_for(tmp_path / "began")
    (tmp_path / "go").touch()
    thread.join(timeout=60)
    assert not thread.is_alive()
    assert not any("waiting" in step for step in steps)


def test_leftovers_of_killed_builds_are_reaped(tmp_path: Path, slow: Image) -> None:
    assert locked.reap(tmp_path) == []
    with _start(slow, tmp_path) as child:
        _wait_for(tmp_path / "began")
        assert locked.reap(tmp_path) == [], "it is being made"
        child.send_signal(signal.SIGKILL)
    key = locked.key_of(Path(slow.folder), slow)
    for _ in range(100):
        if removed := locked.reap(tmp_path):
            break
        time.sleep(0.1)
    assert removed == [f"unfinished environment {key}"]
    assert _folders(tmp_path) == []


def test_an_interrupted_build_leaves_nothing(tmp_path: Path, slow: Image) -> None:
    with _start(slow, tmp_path) as child:
        _wait_for(tmp_path / "began")
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=60)
    assert "KeyboardInterrupt" in errors
    assert _folders(tmp_path) == []
    assert not [pid for pid in _processes() if "harness imports" in pid]


def _processes() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_text(errors="replace"))
        except OSError:
            continue
    return found


def test_two_processes_make_one_environment(tmp_path: Path, slow: Image) -> None:
    with _start(slow, tmp_path) as first:
        _wait_for(tmp_path / "began")
        with _start(slow, tmp_path) as second:
            assert second.stdout is not None
            waiting = second.stdout.readline()
            (tmp_path / "go").touch()
            outputs = [first.communicate(timeout=60)[0], second.communicate(timeout=60)[0]]
    assert waiting == "another process makes this environment: waiting for it\n"
    assert outputs[0].splitlines()[-1] == outputs[1].splitlines()[-1]
    assert "installing" in outputs[0]
    assert "installing" not in outputs[1]


def test_two_threads_make_one_environment(tmp_path: Path, tiny: Image) -> None:
    steps: list[str] = []
    threads = [
        threading.Thread(target=_ensure, args=(tiny, tmp_path, steps.append)) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [step for step in steps if step.startswith("installing")] == [
        "installing 1 packages with uv"
    ]


def test_an_environment_whose_python_is_gone_is_made_again(tmp_path: Path, tiny: Image) -> None:
    env = _ensure(tiny, tmp_path)
    (env / "bin").chmod(0o755)
    (env / "bin" / "python").unlink()
    assert locked.find(tmp_path, env.name) is None
    assert (_ensure(tiny, tmp_path) / "bin" / "python").exists()


@pytest.mark.parametrize("text", ["", "[]", '{"format": 0}', '{"format": 1'])
def test_a_broken_sign_of_completion_does_not_count(tmp_path: Path, text: str) -> None:
    env = tmp_path / "environments" / "a"
    (env / "bin").mkdir(parents=True)
    (env / "bin" / "python").touch()
    (env / "complete.json").write_text(text)
    assert locked.find(tmp_path, "a") is None
    (env / "complete.json").write_text(json.dumps({"format": locked.FORMAT}))
    assert locked.find(tmp_path, "a") == env


@needs_root
def test_a_full_disk_leaves_nothing_and_says_so(tmp_path: Path, shelf: Path) -> None:
    big = wheel(shelf, "big", "1.0", {"big.py": "#" * 9_000_000})
    made = image(tmp_path / "image", [big])
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=5m", "none", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        with pytest.raises(EngineError, match=r"(?i)no space left") as caught:
            _ensure(made, disk)
        assert "Free space" in caught.value.remedy
        assert _folders(disk) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)
