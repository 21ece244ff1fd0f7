"""Does the result transfer? Real arms, a real repository, and evidence that was tampered with."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from support.golden import (
    CORE,
    FLIP,
    INIT,
    DockerEnvironments,
    LocalEnvironments,
    Silent,
    Spec,
    diff,
    write_case,
)

from harness import evidence, store, transfer, workflow
from harness.case import StatedUpstream
from harness.errors import BadInput
from harness.evidence import LoadedRun
from harness.parallel import Stop
from harness.transfer import Match, Transfer, Upstream, Why
from harness.verdict import Report, Verdict

CHECKS = '''"""What raises."""


def above_zero(value):
    if value <= 0:
        raise ValueError("must be above 0")
'''
CALLS = CORE.replace(
    '    if factor <= 0:\n        raise ValueError("factor must be above 0")',
    "    above_zero(factor)",
).replace("\n\ndef scale", "from minipkg.checks import above_zero\n\n\ndef scale", 1)
REPAIRED = CALLS.replace(
    "    above_zero", "    factor = 1 if factor is None else factor\n    above_zero"
)
PACKAGE = {"minipkg/__init__.py": INIT, "minipkg/core.py": CALLS, "minipkg/checks.py": CHECKS}
SPEC = Spec(files=tuple(PACKAGE.items()))
FIXED_SPEC = Spec(files=tuple((PACKAGE | {"minipkg/core.py": REPAIRED}).items()))
NEW = "minipkg/new.py"
#: Also creates a file, which no tree has before it.
PATCH = diff(CALLS, REPAIRED) + f"--- /dev/null\n+++ b/{NEW}\n@@ -0,0 +1 @@\n+new = 1\n"
SIGNATURE = {
    "exception": "TypeError",
    "message": "'<=' not supported between instances of 'NoneType' and 'int'",
    "at": "minipkg/checks.py:5",
}


@dataclass(frozen=True)
class Bench:
    """Runs the case in an environment."""

    environments: LocalEnvironments | DockerEnvironments
    folder: Path

    def run(self, spec: Spec = SPEC, *, patch: str = PATCH, extra: str = "") -> LoadedRun:
        case = write_case(self.folder / "case", patch=patch, signature=SIGNATURE, extra=extra)
        files = store.load_case(case)
        job = workflow.Job(
            files=files,
            nodes=workflow.select(files, ""),
            out=self.folder / "out",
            command=("test",),
        )
        target = self.environments.target(spec)
        cache = self.folder / "cache"
        path = workflow.run(job, [target], cache=cache, progress=Silent(), stop=Stop())
        return evidence.load_run(path)


@pytest.fixture(scope="module")
def ran(
    local_environments: LocalEnvironments, tmp_path_factory: pytest.TempPathFactory
) -> LoadedRun:
    return Bench(local_environments, tmp_path_factory.mktemp("ran")).run()


@pytest.fixture
def bench(local_environments: LocalEnvironments, tmp_path: Path) -> Bench:
    return Bench(local_environments, tmp_path)


def against(run: LoadedRun, **changed: str | None) -> Transfer:
    """Compare with upstream: the package as it is, but for the files that are named."""
    files: dict[str, bytes | None] = {p: t.encode() for p, t in PACKAGE.items()} | {NEW: None}
    for name, text in changed.items():
        files[f"minipkg/{name}.py"] = None if text is None else text.encode()
    return found(run, Upstream(revision="main (commit 0123456789ab)", files=files))


def found(run: LoadedRun, upstream: Upstream | None) -> Transfer:
    (target,) = run.targets
    result = transfer.of(run.files.case, run.files.patch, target, upstream)
    assert result is not None
    return result


def matches(result: Transfer) -> dict[str, Match]:
    return {file.path.rpartition("/")[2]: file.match for file in result.files}


def blob(text: str) -> str:
    """What git itself says."""
    done = subprocess.run(
        ["git", "hash-object", "--stdin"], input=text.encode(), capture_output=True, check=True
    )
    return done.stdout.decode().strip()


def test_the_arm_left_what_the_failure_passes_through(ran: LoadedRun) -> None:
    (target,) = ran.targets
    assert target.unpatched and target.patched
    sources = {path: text.encode() for path, text in PACKAGE.items() if "__init__" not in path}
    assert target.unpatched.sources == sources
    assert "sources.json" in target.unpatched.record.files
    assert target.patched.sources == {}


def test_every_engine_leaves_them(
    environments: LocalEnvironments | DockerEnvironments, tmp_path: Path
) -> None:
    (target,) = Bench(environments, tmp_path).run().targets
    assert target.unpatched
    assert {path: data.decode() for path, data in target.unpatched.sources.items()} == {
        "minipkg/checks.py": CHECKS,
        "minipkg/core.py": CALLS,
    }


def test_all_identical(ran: LoadedRun) -> None:
    result = against(ran)
    checks, core, new = result.files
    assert (checks.path, checks.why, checks.match) == (
        "minipkg/checks.py",
        Why.FAILURE,
        Match.IDENTICAL,
    )
    assert (core.why, core.match, core.added, core.removed) == (Why.BOTH, Match.IDENTICAL, 0, 0)
    assert (new.why, new.match, new.blob, new.upstream_blob) == (Why.PATCH, Match.IDENTICAL, "", "")
    assert checks.blob == checks.upstream_blob == blob(CHECKS)
    assert result.against == "main (commit 0123456789ab)"
    assert result.sentence == (
        "checks.py, core.py: byte-identical with upstream at main (commit 0123456789ab) "
        f"(git blobs {blob(CHECKS)[:12]}, {blob(CALLS)[:12]}), so the failure transfers. "
        "Patched files: new.py is new to upstream at main (commit 0123456789ab) too."
    )
    assert list(transfer.gaps(result)) == []


def test_a_file_that_the_failure_passes_through_differs(ran: LoadedRun) -> None:
    result = against(ran, checks=CHECKS.replace("above 0", "positive") + "\n\nX = 1\n")
    assert matches(result)["checks.py"] is Match.DIFFERS
    assert "checks.py, which the failure passes through, differs from upstream at main" in (
        result.sentence
    )
    assert "by +4 −1 lines: the result may not transfer." in result.sentence
    assert "so the failure transfers" not in result.sentence
    assert list(transfer.gaps(result)) == [
        "minipkg/checks.py differs from upstream at main (commit 0123456789ab) by +4 −1 lines, "
        "and the failure passes through it"
    ]


def test_a_file_that_upstream_no_longer_has(ran: LoadedRun) -> None:
    result = against(ran, checks=None)
    assert matches(result)["checks.py"] is Match.ABSENT
    assert "is not in upstream at main" in result.sentence
    assert "may not transfer" in result.sentence
    assert len(list(transfer.gaps(result))) == 1


def test_upstream_has_the_fix(ran: LoadedRun) -> None:
    result = against(ran, core=REPAIRED, new="new = 1\n")
    assert matches(result) == {
        "checks.py": Match.IDENTICAL,
        "core.py": Match.PATCHED,
        "new.py": Match.PATCHED,
    }
    assert "so the failure transfers." in result.sentence
    assert "core.py is at main (commit 0123456789ab) as the patch leaves it" in result.sentence
    assert list(transfer.gaps(result)) == []


def test_a_patched_file_that_changed_in_another_way(ran: LoadedRun) -> None:
    result = against(ran, new="other = 1\n")
    assert matches(result)["new.py"] is Match.DIFFERS
    assert "Patched files: new.py differs from upstream at main" in result.sentence
    assert "so the failure transfers" in result.sentence
    (gap,) = transfer.gaps(result)
    assert "by +1 −0 lines, and the patch touches it" in gap


def stated(run: LoadedRun, **blobs: str) -> LoadedRun:
    claim = StatedUpstream(
        rev="main (2026-08)", blobs={f"minipkg/{name}.py": blob for name, blob in blobs.items()}
    )
    return replace(run, files=replace(run.files, case=replace(run.files.case, upstream=claim)))


def test_what_the_case_states_is_compared_by_blob_id(ran: LoadedRun) -> None:
    result = found(stated(ran, checks=blob(CHECKS)), None)
    assert result.sentence == (
        "checks.py: byte-identical with upstream at main (2026-08) "
        f"(git blob {blob(CHECKS)[:12]}), so the failure transfers as far as this file goes."
    )
    assert list(transfer.gaps(result)) == [
        "not compared with upstream: minipkg/core.py, minipkg/new.py"
    ]


def test_a_stated_blob_that_is_another(ran: LoadedRun) -> None:
    result = found(stated(ran, checks="0" * 40, core=blob(REPAIRED)), None)
    assert matches(result)["checks.py"] is Match.DIFFERS
    assert matches(result)["core.py"] is Match.PATCHED
    assert (result.files[0].added, result.files[0].difference) == (None, "")
    assert "differs from upstream at main (2026-08): the result may not transfer" in result.sentence


def test_a_stated_blob_of_a_sha256_repository(ran: LoadedRun) -> None:
    data = CHECKS.encode()
    digest = hashlib.sha256(b"blob %d\0" % len(data) + data).hexdigest()
    assert matches(found(stated(ran, checks=digest), None))["checks.py"] is Match.IDENTICAL


def test_the_repository_wins_over_what_is_stated(ran: LoadedRun) -> None:
    both = stated(ran, checks="0" * 40, core=blob(CALLS))
    upstream = Upstream(revision="v1", files={"minipkg/checks.py": CHECKS.encode()})
    result = found(both, upstream)
    assert [(f.match, f.against) for f in result.files[:2]] == [
        (Match.IDENTICAL, "v1"),
        (Match.IDENTICAL, "main (2026-08)"),
    ]
    assert result.against == "v1, main (2026-08)"
    assert result.sentence.count("so the failure transfers.") == 1


def test_without_upstream_nothing_is_said(ran: LoadedRun) -> None:
    (target,) = ran.targets
    assert transfer.of(ran.files.case, ran.files.patch, target, None) is None


def test_evidence_without_the_files_is_not_compared(ran: LoadedRun) -> None:
    (target,) = ran.targets
    assert target.unpatched
    arms = target.arms | {"unpatched": replace(target.unpatched, sources={})}
    older = replace(ran, targets=(replace(target, arms=arms),))
    result = against(older)
    assert "minipkg/checks.py" in next(transfer.gaps(result))
    assert "transfers" not in result.sentence


def test_an_image_that_has_the_fix_is_compared_without_it(bench: Bench) -> None:
    run = bench.run(FIXED_SPEC, patch=diff(CALLS, REPAIRED))
    result = against(run)
    assert set(matches(result).values()) == {Match.IDENTICAL}
    assert result.sentence.endswith(
        "The image has the fix: its files were compared with the patch taken out."
    )


def test_a_test_that_forges_the_journal_gets_nothing_else_out(bench: Bench) -> None:
    case = write_case(bench.folder / "case", patch=PATCH, signature=SIGNATURE)
    forged = {
        "event": "report",
        "id": FLIP,
        "failure": {"file": "../../../etc/passwd", "frames": ["/etc/passwd:1", "minipkg/../x:1"]},
    }
    test = case / "tests/test_core.py"
    lines = [
        test.read_text(),
        "def test_zz():",
        "    import json, os, pathlib",
        "    root = pathlib.Path(__file__).parents[2]",
        f"    line = {json.dumps(forged)!r}",
        "    with open(root / 'journal.jsonl', 'a') as file:",
        "        file.write(line + '\\n')",
        "    os.symlink('/etc/passwd', root / 'sources.json')",
        "    request = json.loads((root / 'request.json').read_text())",
        "    (root / 'request.json').write_text(json.dumps({**request, 'root': '/'}))",
        "    (root / 'production.json').write_text('{}')",
    ]
    test.write_text("\n".join(lines) + "\n")
    text = (case / "case.toml").read_text()
    more = '[[nodes]]\nid = "tests/test_core.py::test_zz"\nrole = "control"\n'
    (case / "case.toml").write_text(text + more)
    files = store.load_case(case)
    job = workflow.Job(
        files=files, nodes=workflow.select(files, ""), out=bench.folder / "out", command=()
    )
    target = bench.environments.target(SPEC)
    path = workflow.run(job, [target], cache=bench.folder / "cache", progress=Silent(), stop=Stop())
    (row,) = evidence.load_run(path).targets
    assert row.unpatched and set(row.unpatched.sources) == {"minipkg/core.py", "minipkg/checks.py"}
    assert row.unpatched.sources["minipkg/core.py"] == CALLS.encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"[" * 100_000,
        json.dumps({"../x.py": "", "/x.py": "", "a\nb.py": "", "\ud800.py": "", "": ""}).encode(),
        json.dumps({"x.py": 3, "y.py": "no base64", "z.py": "YQ", "w.py": None}).encode(),
    ],
)
def test_sources_that_are_strange_are_left_out(data: bytes) -> None:
    assert transfer.read_sources(data) == {}


def test_a_changed_byte_of_the_sources_is_noticed(ran: LoadedRun, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(ran.folder, tmp_path / "run"))
    (path,) = folder.glob("*/unpatched/sources.json")
    files = json.loads(path.read_bytes())
    files["minipkg/checks.py"] = base64.b64encode(CHECKS.replace("0", "1").encode()).decode()
    path.write_text(json.dumps(files))
    (row,) = workflow.assess([folder]).rows
    assert row.nodes[0].verdict is Verdict.INFRA
    assert "sources.json: not as the arm left it" in "; ".join(row.refused)
    assert row.transfer is None


@dataclass(frozen=True)
class Upstreams:
    """A real repository with the package under src/."""

    path: Path

    def git(self, *args: str) -> str:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        done = subprocess.run(
            ["git", *identity, *args], cwd=self.path, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def commit(self, tag: str, **changed: str) -> str:
        for path, text in (PACKAGE | {f"minipkg/{n}.py": t for n, t in changed.items()}).items():
            file = self.path / "src" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text.encode())
        self.git("add", ".")
        self.git("commit", "-q", "--allow-empty", "-m", tag)
        self.git("tag", tag)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def upstreams(tmp_path: Path) -> Iterator[Upstreams]:
    repository = Upstreams(tmp_path / "upstream")
    repository.path.mkdir()
    repository.git("init", "-q")
    yield repository


class TestUpstreamOption:
    """``harness ab --upstream``, from the command line to the report."""

    @pytest.fixture
    def ab(
        self,
        local_environments: LocalEnvironments,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> Ab:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        write_case(tmp_path / "case", patch=PATCH, signature=SIGNATURE)
        local_environments.target(SPEC)
        return Ab(tmp_path, local_environments.made[SPEC])

    def test_identical(self, ab: Ab, upstreams: Upstreams) -> None:
        commit = upstreams.commit("v1")
        (upstreams.path / "src/minipkg/checks.py").write_text("# the work tree is not looked at\n")
        report = ab.report(f"{upstreams.path}@v1")
        (row,) = report.rows
        assert row.transfer and row.transfer.against == f"v1 (commit {commit[:12]})"
        assert "so the failure transfers." in row.transfer.sentence
        assert not [gap for gap in report.gaps if "upstream" in gap]
        assert str(upstreams.path) not in row.transfer.sentence

    def test_differing(self, ab: Ab, upstreams: Upstreams) -> None:
        upstreams.commit("v1", checks=CHECKS + "\n# more\n")
        report = ab.report(f"{upstreams.path}@v1")
        (row,) = report.rows
        assert row.transfer and "by +2 −0 lines: the result may not" in row.transfer.sentence
        assert any("minipkg/checks.py differs from upstream at v1" in gap for gap in report.gaps)

    def test_a_full_commit_is_not_said_twice(self, ab: Ab, upstreams: Upstreams) -> None:
        commit = upstreams.commit("v1")
        (row,) = ab.report(f"{upstreams.path}@{commit}").rows
        assert row.transfer and row.transfer.against == f"commit {commit[:12]}"

    def test_a_changed_byte_of_upstream_is_noticed(self, ab: Ab, upstreams: Upstreams) -> None:
        upstreams.commit("v1")
        ab.report(f"{upstreams.path}@v1")
        kept = ab.run_folder / "upstream/minipkg/checks.py"
        assert kept.read_text() == CHECKS
        kept.write_text(CHECKS.replace("0", "1"))
        with pytest.raises(BadInput, match=r"minipkg/checks\.py under upstream/"):
            workflow.assess([ab.run_folder])

    @pytest.mark.parametrize("spec", ["{repo}", "{repo}@", "@v1", "{repo}@v2", "{repo}/no@v1"])
    def test_what_is_no_revision_is_bad_input(
        self, ab: Ab, upstreams: Upstreams, spec: str
    ) -> None:
        upstreams.commit("v1")
        done = ab(spec.format(repo=upstreams.path))
        assert done.returncode == 2, done.stderr
        assert not (ab.folder / "out").exists()

    def test_a_repository_without_the_package(self, ab: Ab, upstreams: Upstreams) -> None:
        upstreams.git("commit", "-q", "--allow-empty", "-m", "empty")
        done = ab(f"{upstreams.path}@HEAD")
        assert done.returncode == 2
        assert "it has no package 'minipkg'" in done.stderr

    def test_a_package_that_stands_there_twice(self, ab: Ab, upstreams: Upstreams) -> None:
        upstreams.commit("v1")
        shutil.copytree(upstreams.path / "src", upstreams.path / "lib")
        upstreams.commit("v2")
        done = ab(f"{upstreams.path}@v2")
        assert done.returncode == 2
        assert "'minipkg' in lib/ and in src/" in done.stderr


class Ab:
    """Runs ``harness ab`` on the case with an interpreter."""

    def __init__(self, folder: Path, python: Path) -> None:
        self.folder, self.python = folder, python

    def __call__(self, spec: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "harness", "ab", "case", "--python", str(self.python)]
        argv += ["--out", str(self.folder / "out"), "--upstream", spec]
        return subprocess.run(argv, cwd=self.folder, capture_output=True, text=True, timeout=300)

    @property
    def run_folder(self) -> Path:
        (run,) = (self.folder / "out/case").iterdir()
        return run

    def report(self, spec: str) -> Report:
        """The report of a confirmed run, derived again from its evidence."""
        done = self(spec)
        assert done.returncode == 0, done.stderr
        return workflow.assess([self.run_folder])
