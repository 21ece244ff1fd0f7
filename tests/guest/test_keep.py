"""keep.py as a sandbox runs it: by its text, in a bare interpreter."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.sshd import wait_for

from harness.engines.toolkit import guest

KEEP = (sys.executable, "-I", "-S", "-c", guest()["keep.py"].decode())


def keep(log: Path, *argv: str, env: dict[str, str] | None = None) -> tuple[int, str, str]:
    done = subprocess.run(
        (*KEEP, "run", str(log), *argv), env=env, capture_output=True, text=True, timeout=60
    )
    assert log.read_text() == done.stdout
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 0", 0), ("exit 7", 7), ("kill -11 $$", 128 + 11), ("kill -9 $$", 128 + 9)],
)
def test_it_ends_as_the_command_did_and_says_so(tmp_path: Path, script: str, code: int) -> None:
    ended = keep(tmp_path / "log", "sh", "-c", f"echo out; echo err >&2; {script}")
    assert ended == (code, "out\nerr\n", f"8 {code}\n")


def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    code, output, _ = keep(tmp_path / "log", "no-such-program")
    assert (code, output) == (127, "cannot start no-such-program: No such file or directory\n")


def test_the_command_finds_things_as_if_nobody_were_between(tmp_path: Path) -> None:
    code = (
        "import os, signal; print(sorted(os.environ), os.getsid(0) == os.getpid(), "
        "signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL, sorted(os.listdir('/proc/self/fd')))"
    )
    env = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    argv = (sys.executable, "-c", code)
    _, output, _ = keep(tmp_path / "log", *argv, env=env)
    bare = subprocess.run(argv, env=env, capture_output=True, text=True, start_new_session=True)
    assert output == bare.stdout
    ignored = "grep SigIgn /proc/self/status"
    _, output, _ = keep(tmp_path / "log", "sh", "-c", ignored)
    shell = subprocess.run(("sh", "-c", ignored), capture_output=True, text=True)
    assert output == shell.stdout


def test_variables_are_not_added_by_the_interpreter(tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "WITH": "an=equals sign"}
    _, output, _ = keep(tmp_path / "log", "env", env=env)
    assert dict(line.split("=", 1) for line in output.splitlines()) == env


def test_a_process_that_keeps_the_output_open_does_not_hold_it_up(tmp_path: Path) -> None:
    began = time.monotonic()
    code, output, _ = keep(tmp_path / "log", "sh", "-c", "sleep 20 & echo $!")
    assert code == 0 and time.monotonic() - began < 10
    os.kill(int(output), signal.SIGKILL)


def test_a_command_that_closes_its_output_is_waited_for(tmp_path: Path) -> None:
    ended = keep(tmp_path / "log", "sh", "-c", "exec >&- 2>&-; sleep 0.5; exit 3")
    assert ended == (3, "", "0 3\n")


def test_a_reader_that_is_gone_or_deaf_does_not_hold_up_the_command(tmp_path: Path) -> None:
    log = tmp_path / "log"
    script = "seq 1 100000; exit 5"  # more than a pipe holds
    with subprocess.Popen(
        (*KEEP, "run", str(log), "sh", "-c", script), stdout=subprocess.PIPE
    ) as deaf:
        wait_for(lambda: log.exists() and log.stat().st_size > 1 << 16, "nothing came")
        follow = subprocess.run(
            (*KEEP, "follow", str(log), "2"), capture_output=True, text=True, timeout=60
        )
        assert deaf.wait(timeout=10) == 5
    wanted = "".join(f"{n}\n" for n in range(1, 100001))
    assert follow.stdout == wanted[2:]
    assert follow.stderr == f"{len(wanted)} 5\n"


def test_following_tells_when_the_keeper_was_killed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with subprocess.Popen(
        (*KEEP, "run", str(log), "sh", "-c", "echo $$; exec sleep 20"), stdout=subprocess.DEVNULL
    ) as keeper:
        wait_for(lambda: log.exists() and log.stat().st_size, "nothing came")
        keeper.kill()
    follow = subprocess.run(
        (*KEEP, "follow", str(log), "0"), capture_output=True, text=True, timeout=60
    )
    assert (follow.stdout, follow.stderr) == (log.read_text(), f"{len(follow.stdout)} ?\n")
    os.kill(int(follow.stdout), signal.SIGKILL)
