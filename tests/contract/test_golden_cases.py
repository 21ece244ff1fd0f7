"""One contract for every engine: a tiny package, and everything that can happen to a case."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support import golden
from support.golden import CONTROL, CORE, FILE, FIXED, FLIP, Spec, by_id, diff, write_case

from harness.engines.toolkit import toolkit
from harness.outcome import Outcome
from harness.targets import Target
from harness.verdict import NodeVerdict, Overall, Report, Verdict


class Bench:
    """Runs one case in an environment of the engine under test."""

    def __init__(
        self, environments: golden.LocalEnvironments | golden.DockerEnvironments, tmp: Path
    ) -> None:
        self.environments, self.tmp = environments, tmp
        self.case = tmp / "case"

    def target(self, spec: Spec = Spec()) -> Target:  # noqa: B008 - frozen
        return self.environments.target(spec)

    def report(self, spec: Spec = Spec()) -> Report:  # noqa: B008 - frozen
        return golden.run_case(self.case, self.target(spec), self.tmp / "out", self.tmp / "locks")

    def nodes(self, spec: Spec = Spec()) -> dict[str, NodeVerdict]:  # noqa: B008 - frozen
        return by_id(self.report(spec))


@pytest.fixture
def bench(
    environments: golden.LocalEnvironments | golden.DockerEnvironments, tmp_path: Path
) -> Bench:
    return Bench(environments, tmp_path)


def test_flip_and_control(bench: Bench) -> None:
    write_case(bench.case)
    report = bench.report()
    nodes = by_id(report)
    assert nodes["test_unset_factor"].verdict is Verdict.FLIP_CONFIRMED
    assert nodes["test_add"].verdict is Verdict.CONTROL_HELD
    assert report.overall is Overall.CONFIRMED
    (row,) = report.rows
    assert row.unpatched == {Outcome.FAILED: 1, Outcome.PASSED: 1}
    assert row.patched == {Outcome.PASSED: 2}
    assert row.platform == "cpu"
    failure = nodes["test_unset_factor"].failure
    assert failure is not None
    assert failure.place == f"minipkg/core.py:{golden.RAISES}"
    staging = row.evidence.patched and row.evidence.patched.record.staging
    assert staging and staging.state == "clean"


def test_a_patch_that_breaks_something_is_a_regression(bench: Bench) -> None:
    write_case(bench.case, patch=diff(CORE, FIXED.replace("left + right", "left - right")))
    report = bench.report()
    assert by_id(report)["test_add"].verdict is Verdict.REGRESSION
    assert report.overall is Overall.NOT_CONFIRMED


def test_another_failure_than_declared_is_wrong_red(bench: Bench) -> None:
    write_case(bench.case, signature={"exception": "KeyError"})
    node = bench.nodes()["test_unset_factor"]
    assert (node.verdict, node.unpatched, node.patched) == (
        Verdict.WRONG_RED,
        Outcome.FAILED,
        Outcome.PASSED,
    )
    assert "TypeError" in node.reason and "KeyError" in node.reason


def test_another_place_than_declared_is_wrong_red(bench: Bench) -> None:
    write_case(bench.case, signature={"exception": "TypeError", "at": "minipkg/core.py:1"})
    assert bench.nodes()["test_unset_factor"].verdict is Verdict.WRONG_RED


def test_an_empty_patch_does_not_fix(bench: Bench) -> None:
    write_case(bench.case, patch="")
    report = bench.report()
    assert by_id(report)["test_unset_factor"].verdict is Verdict.NOT_FIXED
    assert report.overall is Overall.NOT_CONFIRMED


def test_a_failing_control_is_not_confirmed(bench: Bench) -> None:
    tests = golden.TESTS.replace("core.add(1, 2) == 3", "core.add(1, 2) == 4")
    write_case(bench.case, tests={FILE: tests})
    report = bench.report()
    node = by_id(report)["test_add"]
    assert node.verdict is Verdict.DOES_NOT_REPRODUCE and not node.confirmed
    assert report.overall is Overall.NOT_CONFIRMED


def test_a_control_that_only_passes_patched_is_an_unexpected_flip(bench: Bench) -> None:
    write_case(bench.case, flips=(), controls=(FLIP, CONTROL))
    assert bench.nodes()["test_unset_factor"].verdict is Verdict.UNEXPECTED_FLIP


def test_a_flip_that_passes_unpatched_does_not_reproduce(bench: Bench) -> None:
    write_case(bench.case, flips=(CONTROL,), controls=())
    assert bench.nodes()["test_add"].verdict is Verdict.DOES_NOT_REPRODUCE


def test_a_patch_that_raises_on_import_is_a_load_error_of_that_arm(bench: Bench) -> None:
    write_case(
        bench.case, patch=diff(CORE, FIXED.replace("def scale", "raise OSError(3)\n\n\ndef scale"))
    )
    report = bench.report()
    nodes = by_id(report)
    assert {node.verdict for node in nodes.values()} == {Verdict.LOAD_ERROR}
    node = nodes["test_add"]
    assert (node.unpatched, node.patched) == (Outcome.PASSED, Outcome.MISSING)
    assert (
        "patched arm" in node.reason
        and "OSError" in node.reason
        and "minipkg/core.py" in node.reason
    )
    (row,) = report.rows
    assert row.patched == {Outcome.ERROR: 1}
    assert report.overall is Overall.NOT_CONFIRMED


NEW = "tests/test_new.py"
NEW_TESTS = {
    NEW: "from minipkg.core import twice\n\n\ndef test_twice():\n    assert twice(2) == 4\n",
    FILE: golden.TESTS,
}
TWICE = diff(CORE, CORE + "\n\ndef twice(value):\n    return 2 * value\n")


def test_a_declared_load_error_is_confirmed(bench: Bench) -> None:
    signature = {
        "exception": "ImportError",
        "message": "cannot import name 'twice'",
        "while_loading": True,
    }
    write_case(
        bench.case, patch=TWICE, tests=NEW_TESTS, flips=(f"{NEW}::test_twice",), signature=signature
    )
    report = bench.report()
    node = by_id(report)["test_twice"]
    assert node.verdict is Verdict.FLIP_CONFIRMED
    assert (node.unpatched, node.patched) == (Outcome.MISSING, Outcome.PASSED)
    assert "cannot be loaded unpatched, as declared" in node.reason
    assert by_id(report)["test_add"].verdict is Verdict.CONTROL_HELD


def test_an_undeclared_load_error_is_never_red(bench: Bench) -> None:
    signature = {"exception": "ImportError", "message": "cannot import name 'twice'"}
    write_case(
        bench.case, patch=TWICE, tests=NEW_TESTS, flips=(f"{NEW}::test_twice",), signature=signature
    )
    assert bench.nodes()["test_twice"].verdict is Verdict.LOAD_ERROR


def test_a_module_missing_in_both_arms_is_an_incomplete_environment(bench: Bench) -> None:
    write_case(bench.case, tests={FILE: "import no_such_module_here\n" + golden.TESTS})
    report = bench.report()
    node = by_id(report)["test_unset_factor"]
    assert node.verdict is Verdict.INFRA and "no_such_module_here" in node.reason
    assert report.overall is Overall.INCONCLUSIVE


def test_a_broken_conftest_is_a_load_error(bench: Bench) -> None:
    tests = {FILE: golden.TESTS, "tests/conftest.py": "from minipkg import core\n"}
    patch = diff(CORE, "raise OSError(3)\n" + CORE)
    write_case(bench.case, tests=tests, patch=patch)
    node = bench.nodes()["test_add"]
    assert node.verdict is Verdict.LOAD_ERROR and "OSError" in node.reason


def test_a_node_id_that_does_not_exist_is_missing(bench: Bench) -> None:
    write_case(bench.case, controls=(f"{FILE}::test_nobody_wrote",))
    report = bench.report()
    nodes = by_id(report)
    assert nodes["test_nobody_wrote"].verdict is Verdict.MISSING
    assert nodes["test_unset_factor"].verdict is Verdict.FLIP_CONFIRMED
    assert report.overall is Overall.NOT_CONFIRMED


def test_a_rejected_patch_is_told_as_such(bench: Bench) -> None:
    write_case(bench.case, patch=diff(CORE.replace("values", "numbers"), FIXED))
    report = bench.report()
    node = by_id(report)["test_unset_factor"]
    assert node.verdict is Verdict.INCONCLUSIVE and "patch rejected" in node.reason
    assert (node.unpatched, node.patched) == (Outcome.NOT_RUN, Outcome.NOT_RUN)
    assert report.overall is Overall.INCONCLUSIVE


@pytest.mark.parametrize("tool", [True, False], ids=["patch", "no-patch"])
def test_an_image_that_has_the_fix_is_reversed(
    bench: Bench, tool: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = (("minipkg/__init__.py", golden.INIT), ("minipkg/core.py", FIXED))
    _hide_patch(bench, tool, monkeypatch)
    write_case(bench.case)
    report = bench.report(Spec(files=files, patch=tool))
    assert by_id(report)["test_unset_factor"].verdict is Verdict.FLIP_CONFIRMED
    (row,) = report.rows
    staged = [arm.record.staging for arm in (row.evidence.unpatched, row.evidence.patched) if arm]
    assert [(s.state, s.action) for s in staged if s] == [
        ("already-applied", "reversed"),
        ("already-applied", "none"),
    ]


@pytest.mark.parametrize("tool", [True, False], ids=["patch", "no-patch"])
def test_an_offset_is_allowed_and_recorded(
    bench: Bench, tool: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    _hide_patch(bench, tool, monkeypatch)
    write_case(bench.case, patch=diff(CORE, FIXED, shift=3))
    report = bench.report(Spec(patch=tool))
    assert by_id(report)["test_unset_factor"].verdict is Verdict.FLIP_CONFIRMED
    (row,) = report.rows
    staging = row.evidence.patched and row.evidence.patched.record.staging
    assert staging and staging.state == "offset"
    assert [hunk.offset for hunk in staging.hunks] == [-3]
    assert ("patch" in staging.tool.split()) is tool


def _hide_patch(bench: Bench, there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The local engine sees the PATH of this process; containers have their own."""
    if there:
        return
    tools = bench.tmp / "bin"
    tools.mkdir()
    for name in ("sh", "mount", "unshare", "env"):
        found = shutil.which(name)
        if found:
            (tools / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(tools))


def test_the_time_limit_stops_an_arm(bench: Bench) -> None:
    tests = golden.TESTS + "\n\ndef test_hangs():\n    import time\n\n    time.sleep(600)\n"
    write_case(
        bench.case,
        tests={FILE: tests},
        controls=(CONTROL, f"{FILE}::test_hangs"),
        extra="time_limit = 4",
    )
    report = bench.report()
    nodes = by_id(report)
    assert nodes["test_hangs"].verdict is Verdict.INCONCLUSIVE
    assert nodes["test_hangs"].unpatched is Outcome.TIMEOUT
    assert nodes["test_unset_factor"].verdict is Verdict.FLIP_CONFIRMED
    assert report.overall is Overall.INCONCLUSIVE


SEGFAULT = "    import os\n    import signal\n\n    os.kill(os.getpid(), signal.SIGSEGV)\n"
CRASH = CORE.replace("    if factor <= 0:", SEGFAULT + "    if factor <= 0:")


def test_a_crash_in_the_middle_keeps_what_ran_before(bench: Bench) -> None:
    first = "def test_before():\n    assert True\n\n\n"
    tests = golden.TESTS.replace("def test_unset", first + "def test_unset")
    write_case(
        bench.case,
        tests={FILE: tests},
        patch=diff(CORE, CRASH),
        controls=(f"{FILE}::test_before", CONTROL),
    )
    nodes = bench.nodes()
    assert nodes["test_before"].verdict is Verdict.CONTROL_HELD
    assert nodes["test_unset_factor"].patched is Outcome.CRASHED
    failure = nodes["test_unset_factor"].patched_failure
    assert failure is not None and failure.exception == "SIGSEGV"
    assert nodes["test_add"].patched is Outcome.NOT_RUN
    assert nodes["test_add"].verdict is Verdict.INCONCLUSIVE


def test_a_crash_can_be_the_declared_failure(bench: Bench) -> None:
    files = (("minipkg/__init__.py", golden.INIT), ("minipkg/core.py", CRASH))
    write_case(
        bench.case, patch=diff(CRASH, FIXED), signature={"exception": "SIGSEGV"}, controls=()
    )
    assert bench.nodes(Spec(files=files))["test_unset_factor"].verdict is Verdict.FLIP_CONFIRMED


def test_an_image_without_pytest(bench: Bench) -> None:
    write_case(bench.case)
    report = bench.report(Spec(pytest=False))
    assert report.overall is Overall.CONFIRMED
    (row,) = report.rows
    assert row.evidence.patched and row.evidence.patched.record.probe
    assert row.evidence.patched.record.probe.pytest == ""


def _iniconfig(more: str) -> dict[str, str]:
    """The real iniconfig, with a line of ours at its end."""
    files = {n: d.decode() for n, d in toolkit().items() if n.startswith("iniconfig/")}
    files["iniconfig/__init__.py"] += more
    return files


def test_what_is_brought_along_never_shadows_what_is_under_test(bench: Bench) -> None:
    """iniconfig is imported by pytest itself; here it is the package under test."""
    files = _iniconfig("MARK = None\n")
    old = files["iniconfig/__init__.py"]
    new = old.replace("MARK = None", "MARK = 1")
    tests = {FILE: "import iniconfig\n\n\ndef test_mark():\n    assert iniconfig.MARK == 1\n"}
    write_case(
        bench.case,
        package="iniconfig",
        patch=diff(old, new, "iniconfig/__init__.py"),
        tests=tests,
        flips=(f"{FILE}::test_mark",),
        controls=(),
        signature={"exception": "AssertionError"},
    )
    spec = Spec(pytest=False, files=tuple(files.items()))
    assert bench.nodes(spec)["test_mark"].verdict is Verdict.FLIP_CONFIRMED


def test_a_patch_that_keeps_pytest_from_starting_is_a_load_error(bench: Bench) -> None:
    files = _iniconfig("MARK = None\n")
    old = files["iniconfig/__init__.py"]
    new = old.replace("MARK = None", 'raise OSError("gone")')
    write_case(
        bench.case,
        package="iniconfig",
        patch=diff(old, new, "iniconfig/__init__.py"),
        tests={FILE: "def test_any():\n    assert True\n"},
        flips=(),
        controls=(f"{FILE}::test_any",),
    )
    node = bench.nodes(Spec(pytest=False, files=tuple(files.items())))["test_any"]
    assert node.verdict is Verdict.LOAD_ERROR and "gone" in node.reason


PARAMETERS = """import pytest

from minipkg import core


@pytest.mark.parametrize("name", ["é", "日本", "a[b]c", "x::y", "sp ace", "back\\\\slash"])
def test_name(name):
    assert core.scale([1]) == [1]
"""


def test_non_ascii_and_bracketed_parameters(bench: Bench) -> None:
    names = ["é", "日本", "a[b]c", "x::y", "sp ace", r"back\\slash"]
    flips = [f"{FILE}::test_name[{name}]" for name in names]
    write_case(bench.case, tests={FILE: PARAMETERS}, flips=flips, controls=())
    nodes = bench.nodes()
    assert [node.verdict for node in nodes.values()] == [Verdict.FLIP_CONFIRMED] * len(names)
    assert {node.node_id for node in nodes.values()} == set(flips)


def test_tests_in_classes_and_one_file_name_in_two_folders(bench: Bench) -> None:
    body = """from minipkg import core


class TestScale:
    class TestInner:
        def test_unset(self):
            assert core.scale([1]) == [1]

    def test_add(self):
        assert core.add(1, 1) == {sum}
"""
    tests = {"tests/a/test_x.py": body.format(sum=2), "tests/b/test_x.py": body.format(sum=2)}
    flips = [f"{name}::TestScale::TestInner::test_unset" for name in tests]
    controls = [f"{name}::TestScale::test_add" for name in tests]
    write_case(bench.case, tests=tests, flips=flips, controls=controls)
    report = bench.report()
    assert report.overall is Overall.CONFIRMED
    assert [node.node_id for node in report.rows[0].nodes] == flips + controls


def test_the_same_dotted_name_in_two_files(bench: Bench) -> None:
    """JUnit's classname cannot tell a.b/test_c.py from a/b/test_c.py; node IDs can."""
    red = "from minipkg import core\n\n\ndef test_it():\n    assert core.scale([1]) == [1]\n"
    green = "def test_it():\n    assert True\n"
    tests = {"tests/a.b/test_c.py": red, "tests/a/b/test_c.py": green}
    write_case(
        bench.case,
        tests=tests,
        flips=("tests/a.b/test_c.py::test_it",),
        controls=("tests/a/b/test_c.py::test_it",),
    )
    report = bench.report()
    assert {node.node_id: node.verdict for node in report.rows[0].nodes} == {
        "tests/a.b/test_c.py::test_it": Verdict.FLIP_CONFIRMED,
        "tests/a/b/test_c.py::test_it": Verdict.CONTROL_HELD,
    }


TEARDOWN = """import pytest

from minipkg import core


@pytest.fixture
def closes():
    yield
    raise RuntimeError("teardown")


def test_unset_factor(closes):
    assert core.scale([1]) == [1]


def test_add(closes):
    assert core.add(1, 2) == 3
"""


def test_a_teardown_failure_is_an_error_and_hides_nothing(bench: Bench) -> None:
    write_case(bench.case, tests={FILE: TEARDOWN})
    nodes = bench.nodes()
    assert (nodes["test_unset_factor"].unpatched, nodes["test_unset_factor"].patched) == (
        Outcome.ERROR,
        Outcome.ERROR,
    )
    assert nodes["test_unset_factor"].verdict is Verdict.NOT_FIXED
    assert nodes["test_add"].verdict is Verdict.DOES_NOT_REPRODUCE


XFAIL = """import pytest

from minipkg import core


@pytest.mark.xfail(reason="bug")
def test_lax():
    assert core.scale([1]) == [1]


@pytest.mark.xfail(reason="bug", strict=True)
def test_strict():
    assert core.scale([1]) == [1]
"""


def test_xfail_and_xpass(bench: Bench) -> None:
    flips = (f"{FILE}::test_lax",)
    write_case(bench.case, tests={FILE: XFAIL}, flips=flips, controls=(f"{FILE}::test_strict",))
    nodes = bench.nodes()
    lax, strict = nodes["test_lax"], nodes["test_strict"]
    assert (lax.unpatched, lax.patched) == (Outcome.XFAILED, Outcome.XPASSED)
    assert lax.verdict is Verdict.FLIP_CONFIRMED
    assert (strict.unpatched, strict.patched) == (Outcome.XFAILED, Outcome.FAILED)
    assert not strict.confirmed


@pytest.mark.parametrize(
    ("prefix", "extra"),
    [("src/", ""), ("lib/", ""), ("python/lib/", 'source = "python/lib"')],
    ids=["src", "lib", "stated"],
)
def test_a_patch_made_in_a_checkout(bench: Bench, prefix: str, extra: str) -> None:
    write_case(bench.case, patch=diff(CORE, FIXED, f"{prefix}minipkg/core.py"), extra=extra)
    assert bench.report().overall is Overall.CONFIRMED


def test_an_editable_install(bench: Bench) -> None:
    write_case(bench.case)
    assert bench.report(Spec(editable=True)).overall is Overall.CONFIRMED


def test_cached_bytecode_does_not_hide_the_patch(bench: Bench) -> None:
    write_case(bench.case)
    assert bench.report(Spec(stale_pyc=True)).overall is Overall.CONFIRMED


def test_skips_need_to_be_declared(bench: Bench) -> None:
    tests = golden.TESTS + '\n\ndef test_later():\n    pytest.skip("needs a moon")\n'
    later = f"{FILE}::test_later"
    write_case(bench.case, tests={FILE: tests}, controls=(CONTROL, later))
    report = bench.report()
    node = by_id(report)["test_later"]
    assert node.verdict is Verdict.UNEXPECTED_SKIP and not node.confirmed
    assert report.overall is Overall.NOT_CONFIRMED
    declared = bench.case / "case.toml"
    declared.write_text(declared.read_text() + '[nodes.skip]\ncpu = "needs a moon"\n')
    report = bench.report()
    assert by_id(report)["test_later"].reason == "needs a moon"
    assert report.overall is Overall.CONFIRMED


def test_a_file_that_skips_itself_is_skipped(bench: Bench) -> None:
    skips = 'import pytest\n\npytest.importorskip("no_such_module_here")\n'
    other = "tests/test_other.py"
    tests = {FILE: golden.TESTS, other: skips + "\n\ndef test_x():\n    assert True\n"}
    write_case(bench.case, tests=tests, controls=(CONTROL, f"{other}::test_x"))
    nodes = bench.nodes()
    assert nodes["test_x"].verdict is Verdict.UNEXPECTED_SKIP
    assert "no_such_module_here" in nodes["test_x"].reason
    assert nodes["test_unset_factor"].verdict is Verdict.FLIP_CONFIRMED


def test_an_arm_that_edits_its_tests_is_no_evidence(bench: Bench) -> None:
    tests = golden.TESTS + "\n\ndef test_edits():\n    open(__file__, 'a').write('# changed')\n"
    write_case(bench.case, tests={FILE: tests}, controls=(CONTROL, f"{FILE}::test_edits"))
    report = bench.report()
    assert {node.verdict for node in report.rows[0].nodes} == {Verdict.INFRA}
    assert FILE in report.rows[0].refused[0]


def test_an_arm_that_edits_the_package_is_no_evidence(bench: Bench) -> None:
    tests = (
        golden.TESTS + "\n\ndef test_edits():\n    open(core.__file__, 'a').write('# changed')\n"
    )
    write_case(bench.case, tests={FILE: tests}, controls=(CONTROL, f"{FILE}::test_edits"))
    report = bench.report()
    assert {node.verdict for node in report.rows[0].nodes} == {Verdict.INFRA}
    # The environment is as it was: the next run is not touched by it.
    shutil.rmtree(bench.case)
    write_case(bench.case)
    assert bench.report().overall is Overall.CONFIRMED


def test_an_arm_that_edits_and_then_hangs_is_no_evidence(bench: Bench) -> None:
    hangs = "\n\ndef test_hangs():\n    import time\n\n    open(core.__file__, 'a').write('# x')\n"
    tests = golden.TESTS + hangs + "    time.sleep(600)\n"
    controls = (CONTROL, f"{FILE}::test_hangs")
    write_case(bench.case, tests={FILE: tests}, controls=controls, extra="time_limit = 4")
    report = bench.report()
    assert {node.verdict for node in report.rows[0].nodes} == {Verdict.INFRA}
    assert "minipkg/core.py" in report.rows[0].refused[0]


def test_a_file_that_hangs_while_it_is_loaded_is_not_missing(bench: Bench) -> None:
    tests = "import time\n\ntime.sleep(600)\n" + golden.TESTS
    write_case(bench.case, tests={FILE: tests}, extra="time_limit = 4")
    nodes = bench.nodes()
    assert {node.unpatched for node in nodes.values()} == {Outcome.NOT_RUN}
    assert {node.verdict for node in nodes.values()} == {Verdict.INCONCLUSIVE}


def test_a_crash_while_loading_is_a_load_error(bench: Bench) -> None:
    write_case(bench.case, patch=diff(CORE, SEGFAULT.replace("    ", "") + CORE))
    node = bench.nodes()["test_add"]
    assert node.verdict is Verdict.LOAD_ERROR and "SIGSEGV" in node.reason


@pytest.mark.parametrize("ends", ["import sys\n\nsys.exit(3)", "raise KeyboardInterrupt"])
def test_a_patch_that_ends_pytest_while_loading_is_a_load_error(bench: Bench, ends: str) -> None:
    write_case(bench.case, patch=diff(CORE, f"{ends}\n{CORE}"))
    node = bench.nodes()["test_add"]
    assert node.verdict is Verdict.LOAD_ERROR and "minipkg/core.py" in node.reason


@pytest.mark.parametrize("ends", ["pytest.exit('no')", "raise KeyboardInterrupt"])
def test_a_test_that_ends_pytest_is_a_crash_and_keeps_what_ran(bench: Bench, ends: str) -> None:
    tests = golden.TESTS + f"\n\ndef test_ends():\n    {ends}\n\n\ndef test_z():\n    assert True\n"
    controls = (CONTROL, f"{FILE}::test_ends", f"{FILE}::test_z")
    write_case(bench.case, tests={FILE: tests}, controls=controls)
    nodes = bench.nodes()
    assert nodes["test_unset_factor"].verdict is Verdict.FLIP_CONFIRMED
    assert nodes["test_ends"].unpatched is Outcome.CRASHED
    assert nodes["test_z"].unpatched is Outcome.NOT_RUN


def test_a_class_that_cannot_be_collected_is_a_load_error(bench: Bench) -> None:
    broken = (
        "\n\nclass TestC:\n    @pytest.mark.parametrize('a,b', [(1,)])\n    def test_c(self):\n"
    )
    tests = golden.TESTS + broken + "        assert True\n"
    write_case(bench.case, tests={FILE: tests}, controls=(CONTROL, f"{FILE}::TestC::test_c[1]"))
    nodes = bench.nodes()
    assert nodes["TestC::test_c[1]"].verdict is Verdict.LOAD_ERROR
    assert nodes["test_unset_factor"].verdict is Verdict.FLIP_CONFIRMED


def test_hostile_output_changes_nothing(bench: Bench) -> None:
    noise = (
        "\n\ndef test_noise():\n    import os\n\n"
        "    out = os.open('/proc/self/fd/3', os.O_WRONLY) if False else 2\n"
        "    os.write(out, b'::harness::' + b'[' * 60000 + b'\\n')\n"
        "    for i in range(20000):\n        os.write(out, b'PASSED ' * 20 + b'\\n')\n"
    )
    run_capture_off = "\n\nimport os\n\nfor number in range(3, 12):\n    try:\n"
    run_capture_off += "        os.write(number, b'\\n::harness::' + b'[' * 60000 + b'\\n')\n"
    run_capture_off += "    except OSError:\n        pass\n"
    tests = golden.TESTS + noise + run_capture_off
    write_case(bench.case, tests={FILE: tests}, controls=(CONTROL, f"{FILE}::test_noise"))
    assert bench.report().overall is Overall.CONFIRMED


def test_folders_named_like_evidence_are_survived(bench: Bench) -> None:
    tests = golden.TESTS + "\n\ndef test_dir():\n    import os\n\n    os.mkdir('../junit.xml')\n"
    write_case(bench.case, tests={FILE: tests}, controls=(CONTROL, f"{FILE}::test_dir"))
    assert bench.report().overall is Overall.INCONCLUSIVE


def test_neither_ini_files_nor_plugins_of_the_image_reach_the_arms(bench: Bench) -> None:
    plugin = "def pytest_collection_modifyitems(items):\n    items.clear()\n"
    entry = "[pytest11]\nminipkg_evil = minipkg.evil\n"
    files = (
        *golden.PACKAGE.items(),
        ("minipkg/evil.py", plugin),
        ("minipkg-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: minipkg\nVersion: 1\n"),
        ("minipkg-1.dist-info/entry_points.txt", entry),
        ("pytest.ini", "[pytest]\naddopts = --collect-only\n"),
    )
    write_case(bench.case)
    assert bench.report(Spec(files=files)).overall is Overall.CONFIRMED


def test_nothing_is_left_behind(bench: Bench, environments: object) -> None:
    write_case(bench.case)
    report = bench.report()
    if isinstance(environments, golden.DockerEnvironments):
        client = environments.engine.client
        (row,) = report.rows
        label = f"ab-harness.run={row.run.run_id}-{row.evidence.target.slug}"
        assert client.containers.list(all=True, filters={"label": label}) == []
    else:
        assert isinstance(environments, golden.LocalEnvironments)
        assert list((environments.engine_cache / "arms").glob("*")) == []
