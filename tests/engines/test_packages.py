"""pip's settings as uv's flags, and whole locks fetched by the real pip."""

from __future__ import annotations

import hashlib
import importlib.metadata
import subprocess
from pathlib import Path

import pytest
from support.wheels import configure_pip, lock, only_wheels_of, wheel

from harness.engines import packages
from harness.engines.packages import PipSettings, parse_settings, pip_settings, uv_argv
from harness.errors import EngineError

UV = importlib.metadata.version("uv")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", PipSettings()),
        ("global.index-url='file:///a'", PipSettings(index_url="file:///a")),
        ("global.index_url='file:///a'", PipSettings(index_url="file:///a")),
        (
            "global.index-url='file:///a'\ninstall.index-url='file:///b'",
            PipSettings(index_url="file:///b"),
        ),
        (
            ":env:.index-url='file:///c'\ninstall.index-url='file:///b'",
            PipSettings(index_url="file:///c"),
        ),
        (
            r"global.extra-index-url='\nfile:///a\nfile:///b'",
            PipSettings(extra_index_urls=("file:///a", "file:///b")),
        ),
        (
            "global.find-links='/w  file:///v'\nglobal.trusted-host='h h:8080'",
            PipSettings(find_links=("/w", "file:///v"), trusted_hosts=("h", "h:8080")),
        ),
        ("global.no-index='true'\ninstall.cert='/c'", PipSettings(no_index=True, cert="/c")),
        (":env:.no-index='0'\nglobal.no-index='1'", PipSettings()),
        (r'global.cert="it\'s"', PipSettings(cert="it's")),
        ("global.cert=/not/quoted", PipSettings(cert="/not/quoted")),
        ("a warning\nwheel.index-url='x'\n=\nglobal.=\n.='y'", PipSettings()),
    ],
)
def test_settings_are_read(text: str, expected: PipSettings) -> None:
    assert parse_settings(text) == expected


def test_relative_folders_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/someone")
    found = parse_settings("global.find-links='wheels ~/more'").find_links
    assert found == (str(tmp_path / "wheels"), "/home/someone/more")


def test_pip_itself_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "[global]\nindex-url = file:///from-file\n[install]\ntrusted-host =\n  one\n  two\n"
    configure_pip(monkeypatch, tmp_path, text)
    monkeypatch.setenv("PIP_FIND_LINKS", "/a /b")
    found = pip_settings()
    assert found.index_url == "file:///from-file"
    assert found.trusted_hosts == ("one", "two")
    assert found.find_links == ("/a", "/b")
    monkeypatch.setenv("PIP_INDEX_URL", "file:///from-variable")
    assert pip_settings().index_url == "file:///from-variable"


def test_a_broken_configuration_is_an_error_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure_pip(monkeypatch, tmp_path, "no section\n")
    with pytest.raises(EngineError, match="pip does not tell") as caught:
        pip_settings()
    assert "configuration" in caught.value.remedy


def test_the_same_for_uv(tmp_path: Path) -> None:
    settings = PipSettings(
        index_url="file:///i",
        extra_index_urls=("file:///x", "file:///y"),
        find_links=(str(tmp_path), "/not/there", "file:///z"),
        trusted_hosts=("h:1",),
    )
    assert uv_argv(settings) == [
        *("--index-strategy", "unsafe-best-match", "--default-index", "file:///i"),
        *("--index", "file:///x", "--index", "file:///y"),
        *("--find-links", str(tmp_path), "--find-links", "file:///z"),
        "--allow-insecure-host=h:1",
    ]
    without = uv_argv(PipSettings(no_index=True, index_url="file:///i"))
    assert without == ["--index-strategy", "unsafe-best-match", "--no-index"]


def test_uv_takes_these_flags(tmp_path: Path) -> None:
    settings = PipSettings(
        index_url="file:///i", extra_index_urls=("file:///x",), trusted_hosts=("h:1", "h")
    )
    (tmp_path / "none.txt").write_text("")
    argv = [packages.uv_program(), "pip", "compile", "--offline", "none.txt", *uv_argv(settings)]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_environment_for_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SSL_CERT_FILE", "HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("UV_NO_VERIFY_HASHES", "1")
    monkeypatch.setenv("UV_INDEX", "file:///kept")
    env = packages.uv_environment(PipSettings(cert="/c", proxy="http://p"))
    assert env["SSL_CERT_FILE"] == "/c"
    assert env["HTTPS_PROXY"] == "http://p"
    assert env["UV_INDEX"] == "file:///kept"
    assert "UV_NO_VERIFY_HASHES" not in env
    monkeypatch.setenv("SSL_CERT_FILE", "/mine")
    assert packages.uv_environment(PipSettings(cert="/c"))["SSL_CERT_FILE"] == "/mine"


def test_credentials_are_not_shown() -> None:
    settings = parse_settings("global.index-url='https://user:secret@host/simple'")
    assert "secret" in settings.index_url
    assert "secret" not in repr(settings)


def test_a_lock_is_read() -> None:
    text = "#c\nA_b.c==1.0+cpu \\\n    --hash=sha256:12 \\\n    --hash=sha256:34\n\nd[e]==2 # via\n"
    first, second = packages.parse_lock(text)
    assert (first.name, first.version) == ("a-b-c", "1.0+cpu")
    assert first.text.split() == ["A_b.c==1.0+cpu", "--hash=sha256:12", "--hash=sha256:34"]
    assert (second.name, second.version) == ("d", "2")


@pytest.mark.parametrize("line", ["--index-url file:///a", "name>=1", "name @ file:///a.whl"])
def test_a_lock_pins_everything(line: str) -> None:
    with pytest.raises(EngineError, match="pins nothing"):
        packages.parse_lock(line)


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """A folder with seven tiny wheels and a stand-in for uv's."""
    folder = tmp_path / "shelf"
    for number in range(7):
        wheel(folder, f"tiny-{number}", "1.0", {f"tiny_{number}.py": f"VALUE = {number}\n"})
    wheel(folder, "uv", UV, {"uv.py": ""})
    return folder


def _lock(path: Path, wheels: list[Path]) -> Path:
    path.write_text(lock(wheels))
    return path


def test_wheels_of_a_lock_are_fetched(
    tmp_path: Path, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "constraints.txt").write_text("tiny-3<1\n")
    settings = only_wheels_of(shelf) + f"constraint = {tmp_path / 'constraints.txt'}\n"
    configure_pip(monkeypatch, tmp_path / "home", settings)
    locked = _lock(tmp_path / "a.lock", sorted(shelf.glob("tiny*")))
    steps: list[str] = []
    packages.download_wheels(locked, "3.11", tmp_path / "out", "", steps.append)
    assert _digests(tmp_path / "out") == _digests(shelf)
    assert steps[-1].startswith("fetching wheel 7 of 7: ")


def _digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_a_wheel_with_another_hash_is_refused(
    tmp_path: Path, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure_pip(monkeypatch, tmp_path / "home", only_wheels_of(shelf))
    locked = _lock(tmp_path / "a.lock", sorted(shelf.glob("tiny*")))
    wheel(shelf, "tiny-4", "1.0", {"tiny_4.py": "VALUE = 'another'\n"})
    with pytest.raises(EngineError, match="HASHES"):
        packages.download_wheels(locked, "3.11", tmp_path / "out", "", print)


def test_a_missing_wheel_says_what_to_do_and_no_secret(
    tmp_path: Path, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = (
        f"[global]\nfind-links = {shelf}\nindex-url = http://user:secret@127.0.0.1:9/simple\n"
    )
    configure_pip(monkeypatch, tmp_path / "home", settings)
    gone = wheel(tmp_path, "gone", "1.0", {})
    locked = _lock(tmp_path / "a.lock", [gone])
    with pytest.raises(EngineError, match=r"gone==1\.0") as caught:
        packages.download_wheels(locked, "3.11", tmp_path / "out", "", lambda step: None)
    assert "PIP_FIND_LINKS" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_local_version_comes_through_the_index_that_uv_knows(
    tmp_path: Path, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """UV_FIND_LINKS stands in for that index: uv finds there what pip does not."""
    torch = wheel(tmp_path / "theirs", "torch", "9.9+cpu", {"torch.py": ""})
    configure_pip(monkeypatch, tmp_path / "home", only_wheels_of(shelf))
    locked = _lock(tmp_path / "a.lock", [torch, shelf / "tiny_1-1.0-py3-none-any.whl"])
    with pytest.raises(EngineError, match=r"torch==9.9\+cpu"):
        packages.download_wheels(locked, "3.11", tmp_path / "out", "", lambda step: None)
    _index_of(shelf, tmp_path / "simple")
    settings = f"[global]\nindex-url = {(tmp_path / 'simple').as_uri()}\n"
    configure_pip(monkeypatch, tmp_path / "home", settings)
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path / "theirs"))
    steps: list[str] = []
    packages.download_wheels(locked, "3.11", tmp_path / "out", "cpu", steps.append)
    assert "looking for torch 9.9+cpu in uv's cpu index" in steps
    assert (tmp_path / "out" / torch.name).read_bytes() == torch.read_bytes()


def _index_of(shelf: Path, folder: Path) -> None:
    for path in shelf.iterdir():
        page = folder / path.name.split("-")[0].replace("_", "-") / "index.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(f'<!doctype html><a href="{path.as_uri()}">{path.name}</a>')
