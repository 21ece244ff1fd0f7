"""Commands of ours: their lines, their limits, and none left behind."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from harness.engines.commands import Ended, plain, redact, run_all
from harness.errors import EngineError


def _python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def test_lines_come_as_they_are_printed(tmp_path: Path) -> None:
    lines: list[str] = []
    program = "import sys; print('a\\r'); print('b', file=sys.stderr); print(end='c')"
    (ended,) = run_all([_python(program)], env=os.environ, cwd=str(tmp_path), on_line=lines.append)
    assert ended == Ended(code=0, lines=tuple(lines))
    assert sorted(lines) == ["a", "b", "c"]


def test_several_run_at_once_and_answer_in_order() -> None:
    program = "import sys, time; time.sleep(float(sys.argv[1])); sys.exit(int(sys.argv[2]))"
    began = time.monotonic()
    ended = run_all(
        [[*_python(program), str(wait), str(code)] for wait, code in ((1.5, 1), (1, 2), (0, 3))],
        env=os.environ,
    )
    assert [one.code for one in ended] == [1, 2, 3]
    assert time.monotonic() - began < 2.4


def test_only_the_last_lines_are_kept() -> None:
    (ended,) = run_all([_python("for n in range(1000): print(n)")], env=os.environ)
    assert ended.lines[-1] == "999"
    assert len(ended.lines) == 200
    assert ended.last_words(2) == "  | 998\n  | 999"
    assert ended.says("^9+$|999")


def test_the_time_limit_ends_children_of_children_too(tmp_path: Path) -> None:
    program = (
        "import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', "
        "'import time; time.sleep(60)']); print(child.pid, flush=True); child.wait()"
    )
    began = time.monotonic()
    (ended,) = run_all([_python(program)], env=os.environ, time_limit=1.5)
    assert ended.code is None
    assert time.monotonic() - began < 10
    time.sleep(0.2)
    status = Path(f"/proc/{ended.lines[0]}/stat")
    assert not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z"


def test_what_raises_in_between_ends_the_commands() -> None:
    def stop(line: str) -> None:
        raise KeyboardInterrupt

    program = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_all([_python(program)] * 2, env=os.environ, on_line=stop)
    assert time.monotonic() - began < 10


def test_what_cannot_be_started_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="cannot start /no/such"):
        run_all([_python("import time; time.sleep(60)"), ["/no/such"]], env=os.environ)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://user:word@host/a b", "https://***@host/a b"),
        ("ftp://token@host:1 and http://u:p@ss@h/", "ftp://***@host:1 and http://***@h/"),
        ("https://host/a@b", "https://host/a@b"),
        ("'http://a:b@c'", "'http://***@c'"),
        ("someone@example.org", "someone@example.org"),
    ],
)
def test_credentials_are_removed(text: str, expected: str) -> None:
    assert redact(text) == expected


def test_what_is_printed_is_plain() -> None:
    assert plain("\x1b[31mred\x1b[0m\ta\x07\x00b\u202e \n") == "red ab"
    assert plain("x" * 9000) == "x" * 500
    assert plain("größe – 大") == "größe – 大"
