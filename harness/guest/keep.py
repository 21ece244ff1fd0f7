"""Runs a command so that its output outlives the connection that it is read over.

Usage: ``keep.py run LOG COMMAND…`` starts the command; its output (both streams as one) goes to
LOG and to this program's own output. ``keep.py follow LOG OFFSET`` writes what LOG has beyond
OFFSET, and what is still added, to the end of the command; from then on the first program writes
to LOG alone. At its end either says on its error stream ``SIZE CODE``: how many bytes there were
in all, so that a reader knows whether it has them, and how the command ended: its exit code, 128
and the number of its signal, or ``?`` where ``run`` itself was killed. ``run`` ends like that, too,
but a daemon may forget it: Docker 20.10 says 126 of every command whose connection was lost.

Given to ``python -I -S -c``: standard library only, Python 3.9 or later, and few imports, since
every command of an arm starts with it.
"""

import os
import select
import signal
import sys
import time

#: Bytes of LOG; what a command writes beyond them is lost if the connection is.
MOST = 32 * 1024 * 1024
CHUNK = 1 << 16
#: Seconds in which a command's own children may write on after it ended.
GRACE = 0.5
#: ``follow`` tells ``run`` by it to write to LOG alone.
TAKE_OVER = signal.SIGUSR1


class TakenOver(Exception):
    """Somebody else reads LOG; what is written to the output may never be read."""


class Output:
    """Where the command's output goes: LOG first, so that it has all that anybody has seen."""

    def __init__(self, path):
        self.size, self.direct, self.writing = 0, True, False
        signal.signal(TAKE_OVER, self.take_over)
        with open(path + ".pid", "w") as file:
            file.write(str(os.getpid()))
        # Last: who finds LOG finds the rest.
        self.log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)

    def take_over(self, *_):
        self.direct = False
        if self.writing:  # where nobody reads any more, it would take for ever
            self.writing = False
            raise TakenOver

    def write(self, data):
        if self.size < MOST:
            write(self.log, data[: MOST - self.size])
        self.size += len(data)
        if self.direct:
            try:
                self.writing = True
                write(1, data)
                self.writing = False
            except (TakenOver, OSError):
                self.direct = self.writing = False


def run(path, argv):
    """Run the command; return the exit code."""
    output = Output(path)
    ended, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    source, child = start(argv)
    status = copy(source, ended, child, output)
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
    with open(path + ".end", "w") as file:
        file.write(str(code))
    signal.signal(TAKE_OVER, signal.SIG_IGN)
    if output.direct:
        tell(output.size, code)
    return code


def start(argv):
    """Start the command as if there were nobody between; return its output and process ID."""
    source, sink = os.pipe()
    child = os.fork()
    if child:
        os.close(sink)
        return source, child
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        os.execvpe(argv[0], argv, environment())
    except OSError as error:
        os.write(2, "cannot start {}: {}\n".format(argv[0], error.strerror).encode())
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)
    finally:
        os._exit(126)


def environment():
    """The variables as they came: Python itself may have added LC_CTYPE."""
    with open("/proc/self/environ", "rb") as file:
        pairs = [entry.partition(b"=") for entry in file.read().split(b"\0")]
    return {name: value for name, equals, value in pairs if equals}


def copy(source, ended, child, output):
    """Copy until the command ended and nothing more comes; return how it ended."""
    status, deadline, is_open = None, None, True
    while status is None or (is_open and time.monotonic() < deadline):
        try:
            wait = None if deadline is None else max(0.0, deadline - time.monotonic())
            ready = select.select([source, ended] if is_open else [ended], [], [], wait)[0]
            if source in ready:
                data = os.read(source, CHUNK)
                is_open = bool(data)
                output.write(data)
            if ended in ready:
                os.read(ended, CHUNK)
            if status is None:
                pid, found = os.waitpid(child, os.WNOHANG)
                if pid:
                    status, deadline = found, time.monotonic() + GRACE
        except TakenOver:  # came while a broken output was being noticed
            pass
    return status


def follow(path, offset):
    """Write what LOG has beyond the offset until its writer has ended."""
    patience = time.monotonic() + 5
    while not os.path.exists(path) and time.monotonic() < patience:
        time.sleep(0.05)  # ``run`` is about to start
    writer = writer_of(path)
    with open(path, "rb", buffering=0) as log:
        log.seek(offset)
        while True:
            is_last = not alive(writer)
            data = log.read(CHUNK)
            while data:
                write(1, data)
                offset += len(data)
                data = log.read(CHUNK)
            if is_last:
                break
            time.sleep(0.1)
    try:
        with open(path + ".end") as file:
            code = int(file.read())
    except (OSError, ValueError):
        code = "?"
    tell(offset, code)
    return 0


def writer_of(path):
    """Make the program that writes LOG write there alone; return its process ID, or 0."""
    try:
        with open(path + ".pid") as file:
            writer = int(file.read())
        if not os.path.exists(path + ".end"):
            os.kill(writer, TAKE_OVER)
    except (OSError, ValueError):
        return 0
    return writer


def alive(writer):
    """Whether the process still runs."""
    try:
        with open("/proc/{}/stat".format(writer), "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False


def tell(size, code):
    write(2, "{} {}\n".format(size, code).encode())


def write(file, data):
    while data:
        data = data[os.write(file, data) :]


def main(argv):
    """Do what the arguments say; return the exit code."""
    if argv[0] == "follow":
        return follow(argv[1], int(argv[2]))
    return run(argv[1], argv[2:])


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))
