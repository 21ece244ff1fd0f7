"""JUnit files of every shape, real, odd and hostile, to outcomes."""

from __future__ import annotations

import io
import subprocess
import sys
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.sax.saxutils import quoteattr

import junitparser
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import junit, junit_builder
from harness.errors import ExitCode, JUnitError
from harness.flips import Flip, diff
from harness.junit import Document, Totals, read
from harness.outcome import Outcome, worst

DATA = Path(__file__).parent / "data" / "junit"
P, F, E, S = Outcome.PASSED, Outcome.FAILED, Outcome.ERROR, Outcome.SKIPPED
X, N = Outcome.XFAILED, Outcome.NOT_RUN


def load(name: str, *, texts: bool = False) -> Document:
    with (DATA / name).open("rb") as file:
        return read(file, where=name, texts=texts)


def parse(text: str | bytes, *, texts: bool = False) -> Document:
    data = text.encode() if isinstance(text, str) else text
    return read(io.BytesIO(data), where="a.xml", texts=texts)


def suite(inside: str, attributes: str = "") -> Document:
    return parse(f'<testsuites><testsuite name="s" {attributes}>{inside}</testsuite></testsuites>')


def refused(data: str | bytes) -> str:
    with pytest.raises(JUnitError) as caught:
        parse(data)
    assert caught.value.exit_code is ExitCode.BAD_INPUT
    assert caught.value.problem.startswith("a.xml:")
    return caught.value.problem


# What tools write


def test_ctest() -> None:
    document = load("ctest.xml")
    assert {key.split("::")[0]: outcome for key, outcome in document.outcomes.items()} == {
        **{"ok": P, "bad<x>": F, "slow": F, "off": S, "skipcode": S, "skipre": S},
        **{"missing": N, "segv": F, "needs": N, "dbsetup": F},
    }
    assert document.details["missing::missing"].message == "Unable to find executable"
    assert document.claimed == Totals(tests=10, failures=4, skipped=4)
    assert not document.warnings and not document.load_errors and not document.exact


def test_googletest() -> None:
    document = load("googletest.xml", texts=True)
    assert document.outcomes == {
        "Math::Adds": P,
        "Math::TwoFail": F,
        "Math::DISABLED_Off": S,
        "Math::Gpu": S,
        "Bad::Runs": S,
        "All/P::Value/0": F,
        "All/P::Value/1": P,
    }
    assert document.load_errors["NonTestSuiteFailure"].body == "t.cc:11\nFailed\nenv"
    # The first of two failures is the one that is told; its CDATA comes in pieces.
    assert document.details["Math::TwoFail"].body.endswith("a<b ]]> é")
    assert not document.warnings


def test_jest() -> None:
    document = load("jest.xml")
    outcomes = {key.split("::")[1]: outcome for key, outcome in document.outcomes.items()}
    assert outcomes == {
        "outer é inner adds": P,
        "outer é inner fails": F,
        "outer é inner later": S,
        "outer é inner some day": P,
        "outer é inner row 1": P,
        "outer é inner row 2": F,
    }
    message = document.details["outer é inner row 2::outer é inner row 2"].message
    assert message == "Error: expect(received).toBe(expected) // Object.is equality"
    assert "Missing semicolon" in document.load_errors["t/b.test.js"].body
    # jest-junit writes a test "to do" but doesn't count it.
    assert "suite 'outer é' claims 5 tests, found 6" in document.warnings


def test_gotestsum() -> None:
    document = load("gotestsum.xml", texts=True)
    store = "example.org/demo/store::"
    assert document.outcomes == {
        f"{store}TestOpen": P,
        f"{store}TestParse/empty": P,
        f"{store}TestParse/with_a_slash/inside": F,
        f"{store}TestParse": F,
        f"{store}TestGPU": S,
        f"{store}Test_größe/#00": P,
        "example.org/demo/wire::TestOpen": P,
        "example.org/demo/broken::TestMain": F,
    }
    assert "no device" in document.details[f"{store}TestGPU"].message
    assert "build failed" in document.details["example.org/demo/broken::TestMain"].body
    assert document.claimed == Totals(tests=8, failures=3) and not document.warnings


def test_surefire_with_reruns() -> None:
    document = load("surefire.xml")
    assert document.outcomes == {
        "demo.DemoTest::passes": P,
        "demo.DemoTest::fails": F,
        "demo.DemoTest::errors": E,
        "demo.DemoTest::failsThenErrors": E,
        "demo.DemoTest::flaky": P,
        "demo.DemoTest::flakyError": P,
        "demo.DemoTest::off": S,
        "demo.DemoTest::param(String)[1]": P,
        "demo.DemoTest::param(String)[2] é b": P,
        "demo.AssumeTest::": S,
    }
    assert document.flaky == ("demo.DemoTest::flaky", "demo.DemoTest::flakyError")
    assert document.warnings == ("2 tests passed only when run again",)
    assert document.module_skips == ("demo.AssumeTest::",)
    assert document.load_errors["demo.BrokenTest"].message == "no db"
    assert document.details["demo.DemoTest::failsThenErrors"].message == "later"


def test_suites_in_suites_name_the_keys_and_may_count_without_each_other() -> None:
    document = load("nested.xml")
    assert document.outcomes == {
        "outer::alone": P,
        "outer/inner::alone": P,
        "outer/inner::bad": F,
        "pkg.Class::deep": P,
    }
    assert document.details["outer/inner::bad"].message == "first line"
    error = document.load_errors["broken suite"]
    assert (error.message, error.body) == ("setup of the suite failed", "traceback")
    assert not document.warnings


def test_a_namespace_with_a_prefix() -> None:
    document = load("namespaced.xml")
    assert document.outcomes == {"ns.C::good": P, "ns.C::bad": F, "ns.C::later": S}
    assert not document.warnings


def oracle(path: Path) -> list[tuple[str, str, frozenset[str]]]:
    """Every testcase as junitparser has it: class name, name, classes of its results."""
    xml: Any = junitparser.JUnitXml.fromfile(str(path))
    suites = [xml] if isinstance(xml, junitparser.TestSuite) else list(xml)
    return [
        (case.classname or "", case.name or "", frozenset(type(r).__name__ for r in case.result))
        for suite in suites
        for case in suite
    ]


@pytest.mark.parametrize("name", ["ctest", "googletest", "jest", "gotestsum", "surefire", "nested"])
def test_junitparser_finds_the_same_tests_and_results(name: str) -> None:
    expected = oracle(DATA / f"{name}.xml")
    document = load(f"{name}.xml")
    lost = [
        (classname, test, results)
        for classname, test, results in expected
        if classname == "Test suite failed to run" or (not test and "Skipped" not in results)
    ]
    assert bool(lost) == bool(document.load_errors) or name == "nested"
    found = [case for case in expected if case not in lost]
    assert len(found) == len(document.outcomes) + document.merged
    allowed = {frozenset(): {P, S}, frozenset({"Failure"}): {F}, frozenset({"Error"}): {E}}
    allowed[frozenset({"Skipped"})] = {S, N}
    if name == "surefire":  # junitparser's plain flavour doesn't know of reruns
        allowed[frozenset({"Failure"})] = {F, E}
    for classname, test, results in found:
        head, tail = f"{classname}::" if classname else "", f"::{test}"
        keys = [key for key in document.outcomes if key.startswith(head) and key.endswith(tail)]
        assert keys and {document.outcomes[key] for key in keys} <= allowed[results]


# pytest, for real

CONFTEST = """
import pytest
def pytest_collection_modifyitems(items):
    for item in items:
        item.user_properties.append(("harness_node_id", item.nodeid))
"""
TESTS = """
import pytest
def test_passes(record_property): record_property("k", "v")
def test_fails(): assert 1 == 2, "a<b & é \\x1b[31m"
@pytest.mark.skip(reason="no gpu")
def test_skipped(): pass
@pytest.mark.xfail(reason="known")
def test_xfailed(): assert False
@pytest.mark.xfail(reason="known")
def test_xpassed(): pass
@pytest.mark.xfail(reason="known", strict=True)
def test_xpassed_strict(): pass
@pytest.fixture
def bad_setup(): raise RuntimeError("setup")
def test_setup_error(bad_setup): pass
@pytest.fixture
def bad_teardown():
    yield
    raise RuntimeError("teardown")
def test_teardown_error(bad_teardown): pass
def test_fails_twice(bad_teardown): assert False, "call"
class TestClass:
    class TestInner:
        def test_method(self): pass
@pytest.mark.parametrize("v", ["é", "x::y", "a/b]", "[", "sp ace", "<&\\"'>", "tab\\there"])
def test_param(v): pass
def test_größe(): pass
"""
TESTS_OUTCOMES = {
    "test_passes": P,
    "test_fails": F,
    "test_skipped": S,
    "test_xfailed": X,
    "test_xpassed": P,
    "test_xpassed_strict": F,
    "test_setup_error": E,
    "test_teardown_error": E,
    "test_fails_twice": E,
    "TestClass::TestInner::test_method": P,
    "test_param[\\xe9]": P,
    "test_param[x::y]": P,
    "test_param[a/b]]": P,
    "test_param[[]": P,
    "test_param[sp ace]": P,
    "test_param[<&\"'>]": P,
    "test_param[tab\\there]": P,
    "test_größe": P,
}


def run_pytest(folder: Path, family: str, *, exact: bool) -> Document:
    files = {
        "conftest.py": CONFTEST if exact else "",
        "pytest.ini": "[pytest]\n",
        "test_all.py": TESTS,
        "a/b/test_c.py": "def test_same(): pass\n",
        "a.b/test_c.py": "def test_same(): assert False\n",
        "test_broken.py": "import no_such_module\n",
        "test_module_skip.py": "import pytest\npytest.skip('no gpu', allow_module_level=True)\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--import-mode=importlib"]
    command += [
        "--continue-on-collection-errors",
        "--junitxml=out.xml",
        "-o",
        f"junit_family={family}",
    ]
    subprocess.run(command, cwd=folder, capture_output=True, check=False)
    with (folder / "out.xml").open("rb") as file:
        return read(file, where="out.xml")


@pytest.mark.parametrize("family", ["xunit1", "xunit2"])
def test_pytest_with_exact_node_ids(tmp_path: Path, family: str) -> None:
    document = run_pytest(tmp_path, family, exact=True)
    expected = {f"test_all.py::{name}": outcome for name, outcome in TESTS_OUTCOMES.items()}
    expected |= {"a/b/test_c.py::test_same": P, "a.b/test_c.py::test_same": F}
    modules = dict.fromkeys(document.module_skips, S)
    assert document.outcomes == expected | modules
    assert document.exact and not document.warnings
    assert list(modules) == ["pytest::test_module_skip"]
    assert list(document.load_errors) == ["test_broken"]
    error = document.load_errors["test_broken"]
    assert error.message == "collection failure" and "no_such_module" in error.body
    assert document.merged == 1
    assert document.details["test_all.py::test_fails"].message.startswith("AssertionError: a<b & é")
    assert document.details["test_all.py::test_xfailed"].type == "pytest.xfail"
    assert "teardown" in document.details["test_all.py::test_fails_twice"].message
    assert document.claimed is not None and document.claimed.errors == 4


@pytest.mark.parametrize("family", ["xunit1", "xunit2"])
def test_pytest_by_class_name_is_lossy_and_says_so(tmp_path: Path, family: str) -> None:
    document = run_pytest(tmp_path, family, exact=False)
    expected = {
        f"test_all::{name}": outcome
        for name, outcome in TESTS_OUTCOMES.items()
        if "Class" not in name
    }
    expected["test_all.TestClass.TestInner::test_method"] = P
    expected["a.b.test_c::test_same"] = F  # two files, one key: the worst
    assert document.outcomes == expected | dict.fromkeys(document.module_skips, S)
    assert not document.exact
    assert document.warnings == (
        "2 results under a name that stood already: the worst of a name counts",
    )
    results = Counter(result for *_, results in oracle(tmp_path / "out.xml") for result in results)
    ours = Counter(document.outcomes.values())
    assert results["Failure"] == ours[F] + 1  # of the test that fails twice
    assert results["Skipped"] == ours[S] + ours[X]


# Keys


def test_keys_without_a_class_name_are_made_of_suites() -> None:
    document = parse(
        '<testsuites name="not in it"><testsuite name="a"><testsuite><testsuite name="b">'
        '<testcase name="t"/><testcase classname="" name="u"/><testcase/></testsuite></testsuite>'
        "</testsuite></testsuites>"
    )
    assert list(document.outcomes) == ["a/b::t", "a/b::u", "a/b::"]


def test_node_ids_must_agree() -> None:
    prop = '<property name="harness_node_id" value={}/>'
    two = "<testcase name='t'><properties>{}</properties></testcase>"
    same = prop.format(quoteattr("t.py::é[a b]"))
    document = suite(two.format(same + same))
    assert document.exact and list(document.outcomes) == ["t.py::é[a b]"]
    assert "two node IDs" in refused(
        f"<testsuite>{two.format(same + prop.format(quoteattr('other')))}</testsuite>"
    )
    assert "node ID" in refused(f"<testsuite>{two.format(prop.format(quoteattr('')))}</testsuite>")


def test_a_node_id_belongs_to_its_own_test_only() -> None:
    prop = '<properties><property name="harness_node_id" value="x"/></properties>'
    document = suite(f"{prop}<testcase name='a'>{prop}</testcase><testcase name='b'/>")
    assert list(document.outcomes) == ["x", "s::b"]
    assert not document.exact
    assert document.warnings == ("only 1 test of 2 with an exact node ID",)


# Outcomes

PASS, FAIL = '<testcase classname="c" name="t"/>', '<failure message="f"/>'


@pytest.mark.parametrize(
    ("attributes", "children", "outcome"),
    [
        ("", "", P),
        ("", "<system-out>&lt;failure/&gt;</system-out>", P),
        ("", FAIL, F),
        ("", '<error message="e"/>', E),
        ("", "<skipped/>", S),
        ("", '<skipped type="pytest.skip"/>', S),
        ("", '<skipped type="pytest.xfail"/>', X),
        ("", FAIL + "<skipped/>", F),
        ("", "<skipped/>" + FAIL, F),
        ("", FAIL + '<error message="e"/>', E),
        ("", "<rerunFailure/>", F),
        ("", "<rerunError/><failure/>", E),
        ("", "<flakyFailure/>", P),
        ("", "<flakyFailure/><skipped/>", S),
        ("", "<unheard><failure/></unheard>", F),
        ('status="run"', "", P),
        ('status="PASSED"', "", P),
        ('status="run" result="completed"', "", P),
        ('status="notrun" result="suppressed"', "", S),
        ('status="run" result="skipped"', "", S),
        ('status="notrun"', "", N),
        ('status="disabled"', "", S),
        ('status="fail"', "", F),
        ('status="Failed"', "", F),
        ('result="failed"', "", F),
        ('status="fail"', "<skipped/>", S),
        ('status="notrun"', '<skipped message="SKIP_RETURN_CODE=4"/>', S),
        ('status="notrun"', '<skipped message="Unable to find executable"/>', N),
        ('status="run"', FAIL, F),
    ],
)
def test_outcome(attributes: str, children: str, outcome: Outcome) -> None:
    document = suite(f'<testcase classname="c" name="t" {attributes}>{children}</testcase>')
    assert document.outcomes == {"c::t": outcome}
    assert ("c::t" in document.details) == (outcome is not P)


@pytest.mark.parametrize("first", ["", FAIL, "<error/>", "<skipped/>"])
@pytest.mark.parametrize("second", ["", FAIL, "<error/>", "<skipped/>"])
def test_a_key_twice_has_the_worst_outcome(first: str, second: str) -> None:
    one, two = (f'<testcase classname="c" name="t">{x}</testcase>' for x in (first, second))
    alone = [suite(x).outcomes["c::t"] for x in (one, two)]
    document = suite(one + two)
    assert document.outcomes == {"c::t": worst(*alone)}
    assert document.merged == 1 and len(document.warnings) == 1


def test_a_test_that_failed_and_passed_again_elsewhere_is_not_called_flaky() -> None:
    flaky = '<testcase classname="c" name="t"><flakyFailure/></testcase>'
    assert suite(flaky).flaky == ("c::t",)
    assert suite(flaky + PASS.replace("/>", f">{FAIL}</testcase>")).flaky == ()


def test_an_unknown_element_is_told() -> None:
    document = suite("<testcase name='t'><abort/></testcase><testcase name='u'><abort/></testcase>")
    assert document.warnings == ("<abort> in 2 places was not understood",)


def test_texts() -> None:
    inside = (
        '<testcase classname="c" name="t"><system-out>no</system-out><failure message="m" '
        'type="T">body &amp; <![CDATA[<more>]]></failure><system-err>no</system-err></testcase>'
    )
    text = f"<testsuite>{inside}</testsuite>"
    detail = parse(text, texts=True).details["c::t"]
    assert (detail.message, detail.type, detail.body) == ("m", "T", "body & <more>")
    assert parse(text).details["c::t"].body == ""


def test_texts_are_capped() -> None:
    long = "é" * 50_000
    document = parse(
        f'<testsuite><testcase name="t"><failure message="{long}" type="{long}">{long}</failure>'
        f'</testcase><testcase name="u"><failure>{long}</failure></testcase></testsuite>',
        texts=True,
    )
    detail, other = document.details["::t"], document.details["::u"]
    assert [len(x) for x in (detail.message, detail.type, detail.body)] == [2001, 201, 20_001]
    assert all(x.endswith("…") for x in (detail.message, detail.type, detail.body))
    assert len(other.message) == 2001 and len(other.body) == 20_001


def test_all_texts_together_are_capped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(junit_builder, "MAX_TEXT", 100)
    document = suite(
        "".join(
            f'<testcase name="{i}"><failure message="{str(i) * 30}"/></testcase>' for i in range(5)
        )
    )
    assert list(document.outcomes.values()) == [F] * 5
    assert [bool(detail.message) for detail in document.details.values()] == [True] * 3 + [
        False
    ] * 2
    assert document.warnings == ("the details of 2 tests were left out: too much text",)


# Claims


@pytest.mark.parametrize(
    ("attributes", "inside", "warnings"),
    [
        ('tests="1"', PASS, 0),
        ('tests="2"', PASS, 1),
        ('tests="0"', PASS, 1),
        ('tests="1" failures="1"', PASS, 1),
        ('tests="1" failures="0" errors="0"', PASS, 0),
        ('tests="1" failures="0"', "<testcase name='t'><failure/></testcase>", 1),
        ('tests="1" failures="1"', "<testcase name='t'><failure/></testcase>", 0),
        ('tests="1" skipped="1"', PASS, 1),
        ('tests="1" skipped="0"', "<testcase name='t'><skipped/></testcase>", 1),
        ('tests="1" skipped="0" disabled="1"', "<testcase name='t'><skipped/></testcase>", 0),
        ('tests="1" skips="1"', "<testcase name='t'><skipped/></testcase>", 0),
        ('tests="" failures="x" errors="-1" skipped="1e5"', PASS, 0),
    ],
)
def test_claims(attributes: str, inside: str, warnings: int) -> None:
    assert len(suite(inside, attributes).warnings) == warnings


def test_many_false_claims_are_counted_not_listed() -> None:
    text = "".join(f'<testsuite name="{i}" tests="5"/>' for i in range(50))
    document = parse(f"<testsuites>{text}</testsuites>")
    assert document.warnings[0] == "suite '0' claims 5 tests, found 0"
    assert document.warnings[10] == "40 more suites claim what was not found"
    assert document.claimed == Totals(tests=250)


def test_no_test_at_all_is_told() -> None:
    document = parse("<testsuites/>")
    assert document.warnings == ("there is no test in it",)
    assert document.claimed is None and not document.outcomes


# What is refused


def test_an_empty_file() -> None:
    assert refused(b"") == "a.xml: the file is empty"
    assert read([b"", b"<testsuite/>"], where="x").outcomes == {}


@pytest.mark.parametrize(
    "text",
    [
        "<testsuites><testcase",
        "<testsuites><testsuite name='s'><testcase name='t'/>",
        "<testsuite><testcase name='t'><failure>half a mess",
        "<testsuite><![CDATA[ab",
        "<testsuite><!-- ab",
        "<?xml version='1.0'",
        "<testsuite>é".encode()[:-1],
        "  \n ",
    ],
)
def test_cut_off(text: str | bytes) -> None:
    assert "cut off?" in refused(text)


def test_every_prefix_of_a_file_is_refused() -> None:
    data = (DATA / "googletest.xml").read_bytes().rstrip()
    for end in range(1, len(data), 7):
        assert "cut off?" in refused(data[:end])


def test_not_well_formed_names_line_and_column() -> None:
    assert refused("<testsuite>\n  <testcase></testsuite>").startswith(
        "a.xml:2:15: not well-formed XML: mismatched tag"
    )
    assert "junk after document element" in refused("<testsuite/><testsuite/>")
    assert refused("<testsuite>&undefined;</testsuite>").startswith("a.xml:1:12: ")
    assert "cut off" not in refused("not XML")


@pytest.mark.parametrize("root", ["html", "testcase", "TestRun", "x:assemblies"])
def test_another_root(root: str) -> None:
    assert f"the root element is <{root}>" in refused(f"<{root}/>")


LAUGHS = "".join(
    f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' if i else '<!ENTITY l0 "ha">' for i in range(10)
)


@pytest.mark.parametrize(
    "doctype",
    [
        "<!DOCTYPE testsuite>",
        f"<!DOCTYPE testsuite [{LAUGHS}]>",
        '<!DOCTYPE testsuite [<!ENTITY l9 SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE testsuite SYSTEM "http://localhost:1/x.dtd">',
        '<!DOCTYPE testsuite PUBLIC "x" "http://localhost:1/x.dtd">',
    ],
)
def test_a_doctype(doctype: str) -> None:
    problem = refused(f"{doctype}<testsuite><testcase name='t'>&l9;</testcase></testsuite>")
    assert "DOCTYPE" in problem


def test_deep_nesting() -> None:
    for name in ("testsuite", "x", "failure"):
        assert "deep" in refused("<testsuite>" + f"<{name}>" * 100_000)
    deep = "<testsuite>" * 60
    assert parse(deep + "<testcase name='t'/>" + deep.replace("<", "</")).outcomes


def test_long_attributes_and_comments_are_not_held() -> None:
    ten = "x" * 10_000_000
    tracemalloc.start()
    try:
        for text in (
            f'<testsuite><testcase name="{ten}"/></testsuite>',
            f"<testsuite><!--{ten}-->",
        ):
            assert "longer than" in refused(text)
        # The file itself is in memory, up to four times.
        assert tracemalloc.get_traced_memory()[1] < 70_000_000
    finally:
        tracemalloc.stop()
    million = "x" * 1_000_000
    document = suite(f'<testcase classname="c" name="t"><failure message="{million}"/></testcase>')
    assert len(document.details["c::t"].message) == 2001


def test_long_names() -> None:
    long = "n" * 20_000
    assert "longer than" in refused(
        f'<testsuite><testcase classname="c" name="{long}"/></testsuite>'
    )
    assert "longer than" in refused(f'<testsuite><testcase name="{long}"/></testsuite>')
    assert "longer than" in refused(f'<testsuite name="{long}"/>')
    prop = f'<property name="harness_node_id" value="{long}"/>'
    assert "20000 characters" in refused(
        f"<testsuite><testcase name='t'>{prop}</testcase></testsuite>"
    )


def test_many_names_of_elements() -> None:
    names = "".join(f"<e{i:060}/>" for i in range(20_000))
    assert "names" in refused(f"<testsuite>{names}</testsuite>")


def test_short_tests_in_long_suites(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(junit_builder, "MAX_PATHS", 100_000)
    tests = "".join(f"<testcase name='{i}'/>" for i in range(100))
    assert "longer than" in refused(f'<testsuite name="{"n" * 10_000}">{tests}</testsuite>')


def test_too_many_tests_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(junit, "MAX_CASES", 2)
    tests = "".join(f"<testcase name='{i}'/>" for i in range(4))
    assert "more than 2 tests" in refused(f"<testsuite>{tests}</testsuite>")
    with pytest.raises(JUnitError, match="longer than 10 bytes"):
        read([b"<testsuite/>"], where="x", max_bytes=10)
    assert read([b"<testsuite/>"], where="x", max_bytes=12).outcomes == {}


def test_a_test_in_a_test_or_in_an_error() -> None:
    assert "inside" in refused("<testsuite><testcase><testcase/></testcase></testsuite>")
    assert "inside" in refused("<testsuite><x:testcase><x:testcase/></x:testcase></testsuite>")
    assert "inside" in refused("<testsuite><error><testcase/></error></testsuite>")


@pytest.mark.parametrize("char", ["\x00", "\x01", "\x1b", "\x0b", "&#0;", "&#27;", "\ufffe"])
def test_control_characters(char: str) -> None:
    assert "not well-formed" in refused(f'<testsuite>\n<testcase name="{char}"/></testsuite>')


# Bytes


@pytest.mark.parametrize("bad", [b"\xff", b"\xc3(", b"\xed\xa0\x80", b"\xc0\x80", b"\xe2\x82"])
def test_invalid_bytes(bad: bytes) -> None:
    problem = refused(b'<testsuite>\n<testcase name="' + bad + b'"/></testsuite>')
    assert problem.startswith("a.xml:2:")


@pytest.mark.parametrize(
    ("declared", "codec"),
    [
        (None, "utf-8"),
        (None, "utf-8-sig"),
        ("UTF-8", "utf-8-sig"),
        (None, "utf-16"),
        ("utf-16", "utf-16"),
        ("iso-8859-1", "iso-8859-1"),
        ("ISO-8859-15", "iso-8859-15"),
        ("windows-1252", "cp1252"),
    ],
)
def test_encodings(declared: str | None, codec: str) -> None:
    head = f'<?xml version="1.0" encoding="{declared}"?>' if declared else ""
    text = head + '<testsuite><testcase classname="c" name="größe"/></testsuite>'
    assert list(parse(text.encode(codec)).outcomes) == ["c::größe"]


@pytest.mark.parametrize("encoding", ["no-such", "utf-7", "idna", "rot13", "zip", "utf-32", "mbcs"])
def test_other_encodings(encoding: str) -> None:
    assert "unsupported encoding" in refused(
        f'<?xml version="1.0" encoding="{encoding}"?><testsuite/>'
    )


@pytest.mark.parametrize("size", [1, 2, 7, 1000, 10_000_000])
@pytest.mark.parametrize("name", ["surefire.xml", "googletest.xml", "jest.xml"])
def test_chunks_of_any_size_read_the_same(name: str, size: int) -> None:
    data = (DATA / name).read_bytes()
    chunks = [data[at : at + size] for at in range(0, len(data), size)]
    assert read(chunks, where=name, texts=True) == load(name, texts=True)


# Any document

_text = st.text(
    st.characters(
        codec="utf-8", exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"
    ),
    max_size=8,
)
_case = st.tuples(st.none() | _text, _text.filter(bool), st.sampled_from([P, F, E, S, X]), _text)
_ELEMENT = {F: "failure", E: "error", S: "skipped", X: "skipped"}


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(_text, st.lists(_case, max_size=6)), max_size=4), st.integers(1, 50))
def test_any_document(
    suites: list[tuple[str, list[tuple[str | None, str, Outcome, str]]]], size: int
) -> None:
    root = ElementTree.Element("testsuites")
    expected: dict[str, Outcome] = {}
    for suite_name, cases in suites:
        inner = ElementTree.SubElement(root, "testsuite", name=suite_name, tests=str(len(cases)))
        for classname, name, outcome, message in cases:
            case = ElementTree.SubElement(inner, "testcase", name=name)
            if classname is not None:
                case.set("classname", classname)
            if outcome in _ELEMENT:
                result = ElementTree.SubElement(case, _ELEMENT[outcome], message=message)
                result.set("type", "pytest.xfail" if outcome is X else message)
            key = f"{classname or suite_name}::{name}"
            expected[key] = worst(expected.get(key, P), outcome)
    data = ElementTree.tostring(root, encoding="utf-8")
    document = read([data[at : at + size] for at in range(0, len(data), size)], where="x")
    assert document.outcomes == expected
    assert list(document.outcomes) == list(expected)
    assert set(document.details) == {key for key, outcome in expected.items() if outcome is not P}
    assert not [warning for warning in document.warnings if "claims" in warning]


# Size


def big(path: Path, shift: int) -> Path:
    with path.open("w", encoding="utf-8") as file:
        file.write('<testsuites><testsuite name="pytest" tests="200000">')
        for i in range(200_000):
            kind = (i + shift) % 20
            inside = {0: f'<failure message="assert {i}">E  assert\n</failure>', 1: "<skipped/>"}
            name = f'classname="tests.kernels.test_moe_{i % 500}" name="test_op[{i}-float16]"'
            file.write(f"<testcase {name}>{inside.get(kind, '')}</testcase>\n")
        file.write("</testsuite></testsuites>")
    return path


def test_two_files_of_200_000_tests_in_little_memory(tmp_path: Path) -> None:
    paths = [big(tmp_path / "before.xml", 0), big(tmp_path / "after.xml", 1)]
    tracemalloc.start()
    try:
        documents = []
        for path in paths:
            with path.open("rb") as file:
                documents.append(read(file, where=path.name))
        table = diff(*documents)
        assert len(table) == sum(1 for _ in table) == 200_000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert Counter(documents[0].outcomes.values()) == {P: 180_000, F: 10_000, S: 10_000}
    assert (
        documents[0].details["tests.kernels.test_moe_20::test_op[20-float16]"].message
        == "assert 20"
    )
    assert not documents[0].warnings
    # Each test's number of twenty went up by one: failing ones are skipped now, and so on.
    assert table.counts == {
        Flip.BROKE: 10_000,
        Flip.BOTH_PASS: 170_000,
        Flip.SKIP_CHANGED: 20_000,
    }
    assert peak < 150_000_000
