from __future__ import annotations

from pathlib import Path

import pytest

from harness import store
from harness.device import Device
from harness.errors import BadInput
from harness.settings import Host, choose_hosts, parse_host, parse_settings

GOOD = """\
schema = 1

[hosts.l40s]
docker = "ssh://me@l40s.lab:2222"
device = "cuda:0"
image = "vllm-cuda-0.27.0"
platform = "cuda-sm89"

[hosts.local]
device = "cpu"
"""


def test_hosts_are_read() -> None:
    hosts = parse_settings(GOOD, where="harness.toml")
    assert hosts == {
        "l40s": Host(
            name="l40s",
            docker="ssh://me@l40s.lab:2222",
            device=Device(family="cuda", which="0"),
            image="vllm-cuda-0.27.0",
            platform="cuda-sm89",
        ),
        "local": Host(name="local", device=Device(family="cpu")),
    }


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("schema = 1", "schema = 2", "schema: 2 is not known"),
        ("schema = 1", "", "schema: key is missing"),
        ("docker =", "dokcer =", "hosts.l40s.dokcer: unknown key; did you mean 'docker'?"),
        ('docker = "ssh://me@l40s.lab:2222"\n', "", "hosts.l40s.docker: key is missing"),
        ("ssh://me@l40s.lab:2222", "l40s.lab", "hosts.l40s.docker: 'l40s.lab' is not the URL"),
        ("ssh://me@", "ssh://me:secret@", "a password in a URL"),
        ("ssh://me@", "tcp://me:secret@", "a password in a URL"),
        ("ssh://me@", "ssh://:@", "a password in a URL"),
        ("ssh://me@l40s.lab", "ssh://-oProxyCommand=touch@x", "a user and a host"),
        ("l40s.lab:2222", "-oProxyCommand=x", "a user and a host"),
        ("l40s.lab:2222", "[v1.`touch x`:]", "a user and a host"),
        ("l40s.lab:2222", "l40s.lab?x=1", "more than a host"),
        ("l40s.lab:2222", "l40s.lab/a:b", "more than a host"),
        ("l40s.lab:2222", "l40s.lab:99999", "Port out of range"),
        ("ssh://me@l40s.lab:2222", "unix://relative.sock", "names no socket"),
        ("cuda:0", "cuda:first", "hosts.l40s.device: 'first' names no cuda device"),
        ("cuda-sm89", "sm89", "hosts.l40s.platform: 'sm89' is not a platform"),
        ("[hosts.l40s]", '[hosts."a b"]', "not a name of letters"),
        ("[hosts.l40s]", "[hosts.all]", "'all' means every host"),
        ('device = "cpu"', "device = 3", "hosts.local.device"),
    ],
)
def test_a_wrong_key_is_named(old: str, new: str, said: str) -> None:
    assert old in GOOD
    with pytest.raises(BadInput) as error:
        parse_settings(GOOD.replace(old, new), where="harness.toml")
    assert "harness.toml: " in error.value.problem
    assert said in str(error.value)


def test_a_host_on_the_command_line() -> None:
    known = parse_settings(GOOD, where="harness.toml")
    assert parse_host("l40s", known) is known["l40s"]
    assert parse_host("local", known) is known["local"]
    assert parse_host("local", {}) == Host()
    assert parse_host("b70=ssh://lab", {}) == Host(name="b70", docker="ssh://lab")
    socket = "unix:///run/podman/podman.sock"
    assert parse_host(f"pod={socket}", {}).docker == socket
    assert parse_host("six=ssh://me@[fe80::1]:22", {}).docker == "ssh://me@[fe80::1]:22"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nowhere", "no such host in harness.toml (there: l40s, local)"),
        ("=ssh://x", "'' is not a name"),
        ("a/b=ssh://x", "'a/b' is not a name"),
        ("x=", "'' is not the URL"),
        ("x=ftp://y", "is not the URL of a Docker daemon"),
        ("x=ssh://", "names no host"),
        ("x=http://y", "is not the URL of a Docker daemon"),
        ("x=tcp://y", "names no port"),
    ],
)
def test_a_wrong_host_says_what_to_write(text: str, said: str) -> None:
    with pytest.raises(BadInput) as error:
        parse_host(text, parse_settings(GOOD, where="harness.toml"))
    assert said in error.value.problem
    assert "ssh://user@host" in error.value.remedy


@pytest.mark.parametrize("name", ["all", "local"])
def test_a_name_with_a_meaning_is_not_given_to_another_host(name: str) -> None:
    with pytest.raises(BadInput, match="meaning of its own"):
        parse_host(f"{name}=ssh://a", {})


def test_hosts_are_chosen_once_each() -> None:
    known = parse_settings(GOOD, where="harness.toml")
    assert choose_hosts((), known) == (known["local"],)
    assert choose_hosts((), {}) == (Host(),)
    assert choose_hosts(("all",), known) == tuple(known.values())
    for texts in (("l40s", "l40s"), ("all", "local"), ("x=ssh://a", "x=ssh://b")):
        with pytest.raises(BadInput, match="given twice"):
            choose_hosts(texts, known)
    with pytest.raises(BadInput, match="no hosts in"):
        choose_hosts(("all",), {})


def test_harness_toml_is_found_and_makes_a_project(tmp_path: Path) -> None:
    (tmp_path / "harness.toml").write_text(GOOD)
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    root = store.project_root(below)
    assert root == tmp_path
    assert list(store.load_hosts(root)) == ["l40s", "local"]
    assert store.load_hosts(below) == {}
