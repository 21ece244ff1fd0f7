"""The elements of a JUnit file, as expat finds them, to a ``Document``."""

from __future__ import annotations

from dataclasses import replace
from typing import Final
from xml.parsers import expat

from harness.errors import JUnitError
from harness.junit_claims import Suites
from harness.junit_dialects import (
    FLAKY,
    NEUTRAL,
    RAN,
    RED,
    RESULTS,
    load_name,
    outcome_of_attributes,
    outcome_of_child,
    stands_for_no_test,
)
from harness.junit_document import MAX_BODY, MAX_MESSAGE, Detail, Document, cut, detail, doubts
from harness.outcome import Outcome, worst

#: The property under which the recorder writes the exact node ID.
NODE_ID: Final = "harness_node_id"

MAX_DEPTH: Final = 64
MAX_KEY: Final = 16 << 10
#: Characters of all messages and bodies of one file together.
MAX_TEXT: Final = 64 << 20
#: Characters of all keys that are made of suites' names: a short test could make a long one.
MAX_PATHS: Final = 256 << 20
_SHOWN: Final = 10
_MAX_SHARED: Final = 1_000
_NEVER: Final = -1
#: A member looked up in an enum costs four times as much as a global name.
_PASSED: Final = Outcome.PASSED
_ROOTS: Final = frozenset({"testsuites", "testsuite"})


class Builder:
    """Handlers that expat calls. A passing test costs one call of ``_start``; all else is aside.

    Expat appends the names of the elements that end to ``_ends``, without any code of ours; the
    next start (or the end of the file) settles them. Their number is enough: expat has seen to it
    that they match. Raises JUnitError out of the handlers, for what isn't JUnit or over a limit.
    """

    __slots__ = (
        *("outcomes", "_details", "_load_errors", "_modules", "_flaky", "_unknown", "_shared"),
        *("_parser", "_where", "_texts", "_suites", "_tally", "_exact", "_dropped"),
        *("_paths_left", "_text_left", "_depth", "_ends"),
        # the open test: its attributes, its depth, and what its children said
        *("_case", "_case_depth", "_due", "_node_id", "_told", "_result", "_message", "_type"),
        *("_no_test", "_tried", "_implicit", "_parts", "_room", "_capturing"),
    )

    def __init__(self, parser: expat.XMLParserType, where: str, *, texts: bool) -> None:
        """Set the handlers of ``parser``; ``where`` names the file in messages."""
        self.outcomes: dict[str, Outcome] = {}
        self._details: dict[str, Detail] = {}
        self._load_errors: dict[str, Detail] = {}
        self._modules: list[str] = []
        self._flaky: list[str] = []
        self._where, self._texts = where, texts
        self._suites = Suites()
        self._tally = self._suites.tally
        self._depth = self._exact = self._dropped = 0
        self._unknown: dict[str, int] = {}
        self._text_left, self._paths_left = MAX_TEXT, MAX_PATHS
        self._shared: dict[tuple[str, str], Detail] = {}
        self._parts: list[str] = []
        self._ends: list[str] = []
        self._forget()
        self._parser = parser
        parser.buffer_text = True
        parser.StartElementHandler = self._root
        parser.EndElementHandler = self._ends.append

    def _forget(self) -> None:
        """Make ready for the next test."""
        self._case: dict[str, str] | None = None
        self._case_depth = self._room = self._capturing = 0
        self._due = _NEVER
        self._node_id: str | None = None
        self._told = self._tried = self._no_test = self._implicit = False
        self._result: Outcome | None = None
        self._message = self._type = ""
        if self._parts:
            self._parts = []

    def detach(self) -> None:
        """Break the cycle of parser and handlers, so that their memory goes at once."""
        self._parser.StartElementHandler = self._parser.EndElementHandler = None
        self._parser.CharacterDataHandler = None
        self._parser.XmlDeclHandler = self._parser.StartDoctypeDeclHandler = None

    @property
    def cases(self) -> int:
        """How many ``<testcase>`` elements have ended."""
        return len(self.outcomes) + self._tally.merged + self._tally.no_tests

    def error(self, problem: str, remedy: str = "") -> JUnitError:
        """Make an error that names the file and the place that was reached in it."""
        line, column = self._parser.CurrentLineNumber, self._parser.CurrentColumnNumber + 1
        return JUnitError(f"{self._where}:{line}:{column}: {problem}", remedy)

    def _root(self, name: str, attributes: dict[str, str]) -> None:
        if _local(name) not in _ROOTS:
            found = f"the root element is <{name[:40]}>, not <testsuites> or <testsuite>"
            raise self.error(found, "Give a JUnit XML file.")
        self._parser.StartElementHandler = self._start
        self._start_other(name, attributes)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        """Take a start; at once where a test starts right after one that said nothing: it passed.

        ``_due`` is how many ends there are then since the last start.
        """
        ends, case = self._ends, self._case
        if (
            name == "testcase"
            and len(ends) == self._due
            and case is not None
            and ("status" not in case or case["status"] in RAN)
            and ("result" not in case or case["result"] in RAN)
        ):
            try:
                classname = case["classname"]
                key = self._node_id or f"{classname}::{case['name']}"
            except KeyError:
                classname = key = ""
            if classname and key not in self.outcomes and len(key) <= MAX_KEY:
                self.outcomes[key] = _PASSED
                self._case = attributes
                ends.clear()
                if self._due != 1:
                    self._depth, self._due = self._case_depth, 1
                    self._exact += self._node_id is not None
                    self._node_id = None
                return
        self._start_other(name, attributes)

    def _start_other(self, name: str, attributes: dict[str, str]) -> None:
        """Take a start: of a suite, of a test, or of what is in a test."""
        if self._ends:
            self._settle()
        local, case = _local(name), self._case
        depth = self._depth = self._depth + 1
        if depth > MAX_DEPTH:
            raise self.error(f"elements are nested more than {MAX_DEPTH} deep")
        if case is not None:
            self._start_child(local, attributes, case)
            self._due = _NEVER if self._told else depth - self._case_depth + 1
        elif local == "testcase":
            self._case, self._case_depth, self._due = attributes, depth, 1
        elif local in _ROOTS:
            name = attributes.get("name", "") if local == "testsuite" else ""
            self._suites.start(name, attributes, depth=depth, cases=self.cases)
            if len(self._suites.path) > MAX_KEY:
                raise self.error(f"suites' names are longer than {MAX_KEY} characters")
        elif local in ("error", "failure"):
            # An error of the suite itself: read as one of a test without a name.
            self._case, self._case_depth, self._implicit = {}, depth, True
            self._take_result(local, attributes, self._case)

    def _settle(self) -> None:
        """Take the ends since the last start."""
        depth = self._depth = self._depth - len(self._ends)
        self._ends.clear()
        if self._capturing > depth:
            self._stop()
        if self._case_depth > depth:
            self._close_case()
        if self._suites.depth > depth:
            self._suites.end(depth=depth, cases=self.cases)

    def _start_child(self, local: str, attributes: dict[str, str], case: dict[str, str]) -> None:
        if local in RESULTS:
            self._take_result(local, attributes, case)
        elif local == "property":
            if attributes.get("name") == NODE_ID:
                self._take_node_id(attributes.get("value", ""))
        elif local in FLAKY:
            self._told = self._tried = True
        elif local == "testcase":
            raise self.error("a <testcase> inside of another one, or of a suite's error")
        elif local not in NEUTRAL and (local in self._unknown or len(self._unknown) < _SHOWN):
            self._unknown[local] = self._unknown.get(local, 0) + 1

    def _take_node_id(self, node_id: str) -> None:
        if self._node_id not in (None, node_id):
            raise self.error(f"a test with two node IDs, {self._node_id!r} and {node_id!r}")
        if not node_id or len(node_id) > MAX_KEY:
            raise self.error(f"a node ID of {len(node_id)} characters")
        self._node_id = node_id

    def _take_result(self, local: str, attributes: dict[str, str], case: dict[str, str]) -> None:
        outcome = outcome_of_child(local, attributes, case)
        self._tally.add_element(outcome)
        if self._result is not None and worst(self._result, outcome) is self._result:
            return
        message = attributes.get("message", "")
        self._told, self._result = True, outcome
        self._message, self._type = message, attributes.get("type", "")
        self._no_test = stands_for_no_test(case, message)
        self._parts.clear()
        if self._texts or self._no_test:
            self._capture(MAX_BODY)
        elif not message:
            self._capture(MAX_MESSAGE)
        elif self._capturing:
            self._stop()

    def _capture(self, room: int) -> None:
        """Keep so much of the text from here to the end of this element, and one to tell more."""
        self._room, self._capturing = room + 1, self._depth
        self._parser.CharacterDataHandler = self._text

    def _stop(self) -> None:
        self._capturing = 0
        self._parser.CharacterDataHandler = None

    def _text(self, text: str) -> None:
        if self._room > 0 and self._depth - len(self._ends) >= self._capturing:
            self._parts.append(text)
            self._room -= len(text)

    def _close_case(self) -> None:
        """Take the end of a test that didn't just pass, or whose key stood already."""
        case, outcome = self._case or {}, self._result
        if outcome is None:
            outcome = outcome_of_attributes(case)
            if outcome is not _PASSED:
                self._tally.add_element(outcome)
                self._no_test = stands_for_no_test(case, "")
        if self._no_test and outcome in RED and self._node_id is None:
            self._tally.no_tests += not self._implicit
            name = cut(load_name(case, self._suites.path), MAX_KEY) or "(file)"
            self._load_errors.setdefault(name, self._detail(keep_body=True))
        else:
            self._record(self._node_id or self._key(case), outcome)
        self._forget()

    def _key(self, case: dict[str, str]) -> str:
        classname = case.get("classname")
        if classname:
            key = f"{classname}::{case.get('name', '')}"
        else:
            key = f"{self._suites.path}::{case.get('name', '')}"
            self._paths_left -= len(key)
        if len(key) > MAX_KEY:
            raise self.error(f"a test's name is longer than {MAX_KEY} characters")
        if self._paths_left < 0:
            raise self.error(f"names made of suites' names are longer than {MAX_PATHS} together")
        return key

    def _record(self, key: str, outcome: Outcome) -> None:
        before = self.outcomes.get(key)
        module = self._no_test and self._node_id is None
        self._exact += self._node_id is not None
        if before is None:
            self._tally.add_test(outcome, self._result is not None)
        else:
            self._tally.merged += 1
        if before is None or worst(before, outcome) is not before:
            self.outcomes[key] = outcome
            if outcome is not _PASSED:
                self._details[key] = self._detail(keep_body=self._texts or module)
        if module:
            self._modules.append(key)
        elif self._tried and outcome is _PASSED:
            self._flaky.append(key)

    def _detail(self, *, keep_body: bool) -> Detail:
        """Make the detail of the open test; tests that were skipped for one reason share one."""
        words = (self._message, self._type)
        share = not self._parts and self._result not in RED
        if share and words in self._shared:
            return self._shared[words]
        made = detail(*words, "".join(self._parts), keep_body=keep_body)
        self._text_left -= len(made.message) + len(made.type) + len(made.body)
        if self._text_left < 0:
            self._dropped += 1
            return Detail()
        if share and len(self._shared) < _MAX_SHARED:
            self._shared[words] = made
        return made

    def document(self) -> Document:
        """Return what was read; call it once the file has come to its end."""
        if self._ends:
            self._settle()
        tests = self.cases - self._tally.no_tests - len(self._modules)
        flaky = (key for key in self._flaky if self.outcomes[key] is Outcome.PASSED)
        document = Document(
            where=self._where,
            outcomes=self.outcomes,
            details=self._details,
            load_errors=self._load_errors,
            module_skips=tuple(dict.fromkeys(self._modules)),
            flaky=tuple(dict.fromkeys(flaky)),
            merged=self._tally.merged,
            exact=self._exact == tests,
            claimed=self._suites.claimed,
            warnings=tuple(self._suites.warnings()),
        )
        more = doubts(document, exact=self._exact, unknown=self._unknown, dropped=self._dropped)
        return replace(document, warnings=(*document.warnings, *more))


def _local(name: str) -> str:
    """Drop a namespace's prefix."""
    return name.rpartition(":")[2] if ":" in name else name
