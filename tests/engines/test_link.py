"""The connection to a daemon: over ssh to a real sshd, what is said where it cannot be had."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from support import sshd as servers
from support.required import lacking
from support.sshd import Sshd, wait_for

from harness.engines.commands import redact
from harness.engines.link import Link
from harness.engines.tunnel import Tunnel, destination
from harness.errors import EngineError, EngineUnavailable
from harness.settings import Host

pytestmark = pytest.mark.docker
SOCKET = "/var/run/docker.sock"
HOLDS_A_LINK = """
import sys, time
from harness.engines.link import Link
from harness.settings import Host
link = Link(Host(name="loop", docker=sys.argv[1]))
link.client
try:
    print("linked", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    print("answers", link.client.ping(), flush=True)
link.close()
"""
RECONNECTS = """
import os, sys
from harness.engines.link import Link
from harness.settings import Host
link = Link(Host(name="loop", docker=sys.argv[1]))
client = link.client
os.write(1, b"linked\\n")
link.tell = lambda text: os.write(1, f"{text}\\n".encode())
sys.stdin.readline()
link.call("asking", client.ping)
"""


def problem_of(url: str) -> str:
    link = Link(Host(name="loop", docker=url))
    with pytest.raises(EngineUnavailable) as caught:
        link.client  # noqa: B018 - connecting is the point
    link.close()
    return str(caught.value)


def test_a_daemon_is_reached_over_ssh_and_no_ssh_is_left(sshd: Sshd) -> None:
    link = Link(Host(name="loop", docker=sshd.url()))
    assert link.remote and link.client.ping()
    (folder,) = sshd.folders()
    assert folder.stat().st_mode & 0o777 == 0o700
    link.close()
    wait_for(lambda: not sshd.left(), "ssh is left")
    assert not folder.exists()


def test_docker_host_and_a_path_in_the_url_lead_the_same_way(
    sshd: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", sshd.url(path=SOCKET))
    link = Link(Host())
    assert link.client.ping() and sshd.clients()
    assert link.name == redact(sshd.url(path=SOCKET))
    link.close()


def test_a_unix_url_is_local(docker_reason: str) -> None:
    if docker_reason or not os.path.exists(SOCKET):
        lacking(docker_reason or f"no {SOCKET}")
    link = Link(Host(name="here", docker=f"unix://{SOCKET}"))
    assert link.client.ping() and not link.remote
    link.close()


def test_a_host_that_does_not_listen(sshd: Sshd) -> None:
    sshd.stop()
    words = problem_of(sshd.url())
    assert "the host does not listen" in words and f"ssh -p {sshd.port} " in words


def test_a_host_that_nobody_knows() -> None:
    words = problem_of("ssh://root@no-such-host.invalid")
    assert "the host is not known" in words


def test_a_host_key_that_is_not_known(sshd: Sshd) -> None:
    sshd.know("")
    words = problem_of(sshd.url())
    assert "the host's key is not known" in words and "Connect once by hand" in words


def test_a_host_key_that_has_changed(sshd: Sshd) -> None:
    sshd.know("other_key")
    words = problem_of(sshd.url())
    assert "key is not the known one" in words and "ssh-keygen -R" in words


def test_a_host_that_lets_nobody_in(sshd: Sshd) -> None:
    (sshd.folder / "authorized_keys").write_text("")
    words = problem_of(sshd.url())
    assert "does not let this user in" in words and "ssh-copy-id" in words


def test_a_host_without_the_socket(sshd: Sshd) -> None:
    words = problem_of(sshd.url(path="/nowhere/docker.sock"))
    assert "there is no socket /nowhere/docker.sock" in words and "rootless" in words


def test_a_socket_that_is_not_dockers(sshd: Sshd) -> None:
    path = sshd.folder / "deaf.sock"
    with servers.socket.socket(servers.socket.AF_UNIX) as server:
        server.bind(str(path))  # nobody listens
        words = problem_of(sshd.url(path=str(path)))
    assert "no Docker answers on" in words and "AllowStreamLocalForwarding" in words


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can log in as another user")
def test_a_user_who_may_not_use_the_socket(sshd: Sshd) -> None:
    words = problem_of(sshd.url(user="nobody"))
    assert "may not use /var/run/docker.sock" in words and "group docker" in words


def test_ssh_that_is_not_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "needs ssh, which is not installed" in problem_of("ssh://root@127.0.0.1:1")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_harness_that_is_killed_leaves_no_ssh(sshd: Sshd, number: signal.Signals) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDS_A_LINK, sshd.url()], stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout is not None and holder.stdout.readline() == "linked\n"
        folders = sshd.folders()
        assert folders
        holder.send_signal(number)
    wait_for(lambda: not sshd.left(), "ssh outlived the harness")
    wait_for(lambda: not any(folder.exists() for folder in folders), "the socket is left")


def test_ctrl_c_in_a_terminal_does_not_end_ssh(sshd: Sshd) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDS_A_LINK, sshd.url()],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with holder:
        assert holder.stdout is not None and holder.stdout.readline() == "linked\n"
        os.killpg(holder.pid, signal.SIGINT)
        assert holder.stdout.readline() == "answers True\n"
    assert holder.returncode == 0


def test_a_call_is_made_again_after_a_drop(sshd: Sshd) -> None:
    link = Link(Host(name="loop", docker=sshd.url()))
    client = link.client
    assert sshd.drop()
    assert link.call("asking", lambda: client.ping())
    assert link.made == 1 and link.drops[0].startswith("the connection to loop was lost")
    assert sshd.drop()
    wait_for(lambda: not sshd.clients(), "ssh goes on without a connection")
    assert link.client is client and client.ping() and link.made == 2
    link.close()


def test_a_host_that_stays_away_is_named_when_patience_ends(sshd: Sshd) -> None:
    link = Link(Host(name="loop", docker=sshd.url()))
    link.patience, client = 1.0, link.client
    sshd.stop()
    began = time.monotonic()
    for _ in range(3):  # patience is had once, not for each call
        with pytest.raises(EngineError, match=r"connection to loop was lost.*does not listen"):
            link.call("asking", lambda: client.ping())
    assert time.monotonic() - began < 5
    sshd.start()
    assert link.client.ping()
    link.close()


def test_stop_ends_the_wait_for_a_host(sshd: Sshd) -> None:
    link = Link(Host(name="loop", docker=sshd.url()))
    client = link.client
    sshd.stop()
    timer = threading.Timer(0.5, link.stop)
    timer.start()
    began = time.monotonic()
    with pytest.raises(EngineError, match="stopped"):
        link.call("asking", lambda: client.ping())
    assert time.monotonic() - began < 5
    timer.join()
    link.stop()
    link.close()


def test_who_cleans_up_after_ctrl_c_does_not_wait_for_a_host(sshd: Sshd) -> None:
    link = Link(Host(name="loop", docker=sshd.url()))
    client = link.client
    sshd.stop()
    began = time.monotonic()
    for _ in range(3):
        try:
            raise KeyboardInterrupt("the first")
        except KeyboardInterrupt:
            with pytest.raises(KeyboardInterrupt, match="the first"):
                link.call("removing", client.ping)
            with pytest.raises(KeyboardInterrupt, match="the first"):
                link.client  # noqa: B018 - this connects again, too
    assert time.monotonic() - began < 2
    link.close()


def test_who_cleans_up_after_ctrl_c_connects_again_where_that_is_quick(sshd: Sshd) -> None:
    link = Link(Host(name="loop", docker=sshd.url()))
    client = link.client
    assert sshd.drop()
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        assert link.call("removing", client.ping)
    assert link.made == 1
    link.close()


def test_what_a_clean_up_meets_does_not_hide_the_ctrl_c(sshd: Sshd) -> None:
    link = Link(Host(name="loop", docker=sshd.url()))
    client = link.client
    try:
        raise KeyboardInterrupt("the first")
    except KeyboardInterrupt:
        with pytest.raises(KeyboardInterrupt, match="the first"):
            link.call("asking", lambda: client.containers.get("no-such-container-of-the-harness"))
    link.close()


def test_a_lost_connection_is_told_when_it_begins_and_when_it_ends(sshd: Sshd) -> None:
    link = Link(Host(name="loop", docker=sshd.url()))
    client, told = link.client, list[str]()
    link.tell = told.append
    sshd.stop()
    timer = threading.Timer(1, sshd.start)
    timer.start()
    assert link.call("asking", client.ping)
    timer.join()
    begins, ends = told
    assert begins == "connection to loop lost: trying again for up to 120 s"
    assert ends.startswith("connection to loop made again after ") and ends.endswith(" s")
    link.close()


def test_what_is_not_made_again_says_that_the_connection_was_lost(sshd: Sshd) -> None:
    link = Link(Host(name="loop", docker=sshd.url()))
    api, nothing = link.client.api, {"filters": '{"label": ["no-such-label-of-the-harness"]}'}
    timer = threading.Timer(0.5, sshd.drop)
    timer.start()
    with (
        pytest.raises(
            EngineError, match=r"connection to loop was lost while watching\n.*Run again"
        ),
        link.once("watching"),
        api.get(f"{api.base_url}/events", params=nothing, stream=True, timeout=30) as answer,
    ):
        for _ in answer.iter_lines():
            pass
    timer.join()
    with pytest.raises(EngineError, match="failed while reading: disk full"), link.once("reading"):
        raise OSError("disk full")
    link.close()


@pytest.mark.parametrize("drops", [1, 2])
def test_a_drop_while_the_connection_is_made(
    sshd: Sshd, monkeypatch: pytest.MonkeyPatch, drops: int
) -> None:
    opened, left = Tunnel.open, drops

    def open_and_lose(tunnel: Tunnel, limit: float = 40.0) -> None:
        nonlocal left
        opened(tunnel, limit)
        left -= 1
        if left >= 0:
            assert sshd.drop()

    monkeypatch.setattr(Tunnel, "open", open_and_lose)
    if drops == 1:
        link = Link(Host(name="loop", docker=sshd.url()))
        assert link.client.ping()
        link.close()
    else:
        words = problem_of(sshd.url())
        assert "the connection was lost while it was made" in words and "Run again" in words
    wait_for(lambda: not sshd.left(), "ssh is left")


def test_a_drop_before_the_host_said_anything(sshd: Sshd) -> None:
    sshd.stop()
    with servers.socket.create_server(("127.0.0.1", sshd.port)) as server:

        def hang_up() -> None:
            for _ in range(2):
                server.accept()[0].close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        words = problem_of(sshd.url())
        thread.join(10)
    assert not thread.is_alive(), "there was no second attempt"
    assert "ssh to" in words and "Run again" in words and "did not say why" not in words


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("unix:///nowhere/docker.sock", "there is no socket /nowhere/docker.sock"),
        ("tcp://127.0.0.1:1", "nothing listens on 127.0.0.1:1"),
        ("tcp://no-such-host.invalid:1", "the host no-such-host.invalid is not known"),
    ],
)
def test_a_daemon_that_is_not_there(url: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert problem_of(url).startswith(f"no Docker daemon answers on loop: {why}\n")
    monkeypatch.setenv("DOCKER_HOST", url)
    with pytest.raises(EngineUnavailable, match=f"^no Docker daemon answers: {why}\n.*DOCKER_HOST"):
        Link(Host()).client  # noqa: B018 - connecting is the point


def test_what_a_harness_leaves_that_is_killed_while_it_connects_again(sshd: Sshd) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", RECONNECTS, sshd.url()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdin is not None and holder.stdout is not None
        assert holder.stdout.readline() == "linked\n"
        (folder,) = sshd.folders()
        sshd.stop()
        holder.stdin.write("go\n")
        holder.stdin.flush()
        assert "lost: trying again" in holder.stdout.readline()
        wait_for(lambda: not sshd.left() and folder.exists(), "it is not between two attempts")
        holder.kill()
    Tunnel(sshd.url(), threading.Event()).close()
    assert not folder.exists()


def test_only_calls_to_another_host_are_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    calls: list[int] = []

    def refused() -> None:
        calls.append(1)
        raise ConnectionRefusedError("no daemon")

    with pytest.raises(EngineError, match="no daemon"):
        Link(Host()).call("asking", refused)
    assert len(calls) == 1


def test_what_the_daemon_refuses_is_not_asked_again(sshd: Sshd) -> None:
    link = Link(Host(name="loop", docker=sshd.url()))
    client, calls = link.client, []

    def missing() -> None:
        calls.append(1)
        client.containers.get("no-such-container-of-the-harness")

    with pytest.raises(EngineError, match="No such container"):
        link.call("asking", missing)
    assert len(calls) == 1 and not link.drops
    link.close()


@pytest.mark.parametrize(
    ("place", "arguments"),
    [
        ("Gpu-Box", ("--", "Gpu-Box")),
        ("me@host", ("--", "me@host")),
        ("me@host:2222", ("-p", "2222", "--", "me@host")),
        ("me@[::1]:22", ("-p", "22", "--", "me@::1")),
        ("[fe80::1]", ("--", "fe80::1")),
    ],
)
def test_what_a_url_says_to_ssh(place: str, arguments: tuple[str, ...]) -> None:
    assert destination(place) == arguments
