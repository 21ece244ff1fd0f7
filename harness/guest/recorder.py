"""A pytest plugin that writes the exact node ID of every test and a journal, line by line.

Runs inside the environment under test: standard library only, Python 3.9 or later. The
journal is flushed after each line, since pytest writes JUnit at the very end and a crash
would take all of it along.
"""

import json
import os
import sys
import time

import pytest

MESSAGE_LIMIT = 4000
FRAME_LIMIT = 60


class Recorder:
    """Selects the requested node IDs, tags them for JUnit and keeps the journal."""

    def __init__(self, request, journal, progress):
        self.wanted = {_escaped(node): node for node in request["nodes"]}
        self.wanted.update({node: node for node in request["nodes"]})
        self.whole = request.get("whole", False)
        self.package = request["package"]
        self.places = [request["work"]]
        if request.get("package_path"):
            self.places.append(os.path.dirname(request["package_path"]))
        self.package_path = request.get("package_path", "")
        self.journal = journal
        self.progress = progress

    def write(self, event, **values):
        values["event"] = event
        values["time"] = round(time.time(), 3)
        self.journal.write(json.dumps(values) + "\n")
        self.journal.flush()

    def tell(self, node):
        """A line for the live display; nothing is derived from it."""
        try:
            os.write(self.progress, ("\n::harness::" + json.dumps(node) + "\n").encode())
        except OSError:
            pass

    def name(self, nodeid):
        """The node ID as the case spells it (pytest escapes what is not ASCII in parameters)."""
        return self.wanted.get(nodeid, nodeid)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_load_initial_conftests(self):
        """A conftest.py that cannot be loaded stops pytest before there is a session."""
        outcome = yield
        if outcome.excinfo is not None:
            value = outcome.excinfo[1]
            value = getattr(value, "cause", None) or value.__cause__ or value
            self.write("load-error", file="", failure=describe(value, "collect", self.places))

    def pytest_sessionstart(self, session):
        self.write("start", pytest=pytest.__version__, rootdir=str(session.config.rootpath))

    @pytest.hookimpl(hookwrapper=True)
    def pytest_make_collect_report(self, collector):
        outcome = yield
        stopped = getattr(outcome, "excinfo", None)
        if stopped is not None:  # SystemExit and the like: pytest will end without a session
            failure = describe(stopped[1], "collect", self.places)
            self.write("load-error", file=collector.nodeid, failure=failure)
            return
        report = outcome.get_result()
        if report.outcome == "failed":
            call = getattr(report, "call", None)
            failure = self.failure(call.excinfo, "collect") if call and call.excinfo else None
            text = _short(report.longreprtext)
            self.write("load-error", file=report.nodeid, failure=failure, text=text)
        elif report.outcome == "skipped":
            self.write("load-skip", file=report.nodeid, reason=_skip_reason(report))

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config, items):
        collected = [self.name(item.nodeid) for item in items]
        kept = [item for item in items if self.whole or item.nodeid in self.wanted]
        dropped = [item for item in items if not self.whole and item.nodeid not in self.wanted]
        if dropped:
            config.hook.pytest_deselected(items=dropped)
            items[:] = kept
        for item in kept:
            item.user_properties.append(("harness_node_id", self.name(item.nodeid)))
        selected = [self.name(item.nodeid) for item in kept]
        self.write("collected", ids=collected, selected=selected, **self.origin())

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid, location):
        self.write("test-start", id=self.name(nodeid))
        self.tell(self.name(nodeid))

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item, call):
        outcome = yield
        report = outcome.get_result()
        failure = None
        if report.outcome == "failed":
            if call.excinfo is not None:
                failure = self.failure(call.excinfo, report.when)
            else:
                text = _short(str(report.longrepr))
                failure = {"exception": "XPASS(strict)", "message": text, "phase": report.when}
        elif call.excinfo is not None and hasattr(report, "wasxfail"):
            failure = self.failure(call.excinfo, report.when)
        self.write(
            "report",
            id=self.name(item.nodeid),
            when=report.when,
            outcome=report.outcome,
            xfail=getattr(report, "wasxfail", None),
            skip_reason=_skip_reason(report) if report.outcome == "skipped" else "",
            failure=failure,
            duration=round(report.duration, 4),
        )

    def pytest_runtest_logfinish(self, nodeid, location):
        self.write("test-end", id=self.name(nodeid))

    def pytest_keyboard_interrupt(self, excinfo):
        """A test raised KeyboardInterrupt or called pytest.exit: no report comes of it."""
        self.write("interrupt", failure=describe(excinfo.value, "call", self.places))

    def pytest_sessionfinish(self, session, exitstatus):
        self.write("finish", exit=int(exitstatus), **self.origin())

    def origin(self):
        """Where the package under test was imported from, if it was by now."""
        module = sys.modules.get(self.package)
        origin = getattr(module, "__file__", None) if module else None
        if module and not origin:
            origin = (list(getattr(module, "__path__", [])) or [None])[0]
        origin = os.path.realpath(origin) if origin else ""
        return {"package": origin, "imported": module is not None}

    def failure(self, excinfo, phase):
        """Type, message and place of an exception, with the frames from the test down."""
        value = excinfo.value
        if isinstance(value, pytest.Collector.CollectError) and value.__cause__ is not None:
            value = value.__cause__
        return describe(value, phase, self.places)


def describe(value, phase, places):
    """An exception as plain data; also used for what stops pytest itself."""
    kind = type(value)
    name = kind.__qualname__
    if kind.__module__ not in ("builtins", "__main__"):
        name = kind.__module__ + "." + name
    frames, own = [], None
    for path, line in _frames(value):
        short, inside = _relative(path, places)
        if not inside and _is_machinery(path):
            continue
        frames.append("%s:%d" % (short, line))
        if inside:
            own = (short, line)
    if isinstance(value, SyntaxError) and value.filename and value.lineno:
        own = (_relative(value.filename, places)[0], value.lineno)
    if own is None and frames:
        file, _, line = frames[-1].rpartition(":")
        own = (file, int(line))
    try:
        message = _short(str(value))
    except Exception as error:  # str() is code under test: anything may happen
        message = "<no message: str() raised %s>" % type(error).__name__
    return {
        "exception": name,
        "message": message,
        "file": own[0] if own else "",
        "line": own[1] if own else 0,
        "phase": phase,
        "frames": frames[-FRAME_LIMIT:],
        "module": str(getattr(value, "name", "") or "") if isinstance(value, ImportError) else "",
    }


def _frames(value):
    """(path, line) of every frame, from the outermost to the one that raised."""
    trace, found = value.__traceback__, []
    while trace is not None:
        found.append((trace.tb_frame.f_code.co_filename, trace.tb_lineno))
        trace = trace.tb_next
    return found


def _is_machinery(path):
    """Frames of pytest and of the import system say nothing about the failure."""
    parts = path.replace(os.sep, "/").split("/")
    own = os.path.dirname(os.path.abspath(__file__))
    return bool({"_pytest", "pluggy"}.intersection(parts)) or path.startswith(
        ("<frozen", own + os.sep)
    )


def _relative(path, places):
    """The path below the tests or the package's folder (and True), or below sys.path."""
    for name in (path, os.path.realpath(path)):
        for place in places:
            for base in (place, os.path.realpath(place)):
                if name.startswith(base + os.sep):
                    return name[len(base) + 1 :], True
    best = max((p for p in sys.path if p and path.startswith(p + os.sep)), key=len, default="")
    return (path[len(best) + 1 :] if best else path), False


def _skip_reason(report):
    longrepr = report.longrepr
    text = longrepr[2] if isinstance(longrepr, tuple) and len(longrepr) == 3 else str(longrepr)
    return _short(text[len("Skipped: ") :] if text.startswith("Skipped: ") else text)


def _short(text):
    return text if len(text) <= MESSAGE_LIMIT else text[:MESSAGE_LIMIT] + " [cut]"


def _escaped(node):
    """The node ID as pytest escapes it: parameters only, as unicode_escape does."""
    head, bracket, tail = node.partition("[")
    return head + bracket + tail.encode("unicode_escape").decode("ascii") if tail else node
