"""Every public command, end to end."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from support.golden import CORE, FIXED, FLIP, TESTS, diff, write_case

from harness import __version__

from .conftest import ROOT, Cli

COMMANDS = ("ab", "new", "diff", "table", "image", "doctor", "completion")
IMAGE = (["image", "build"], ["image", "list"], ["image", "pin"])


def test_help_has_examples_everywhere(cli: Cli) -> None:
    assert __version__ in cli("--version").stdout
    for args in ([], *([name] for name in COMMANDS), *IMAGE):
        done = cli(*args, "--help")
        assert done.returncode == 0
        assert "Examples:" in done.stdout, args


def test_an_unknown_command_or_option_is_bad_input(cli: Cli) -> None:
    assert cli("abb").returncode == 2
    assert cli("ab", "--imagee", "x").returncode == 2


@pytest.fixture
def case(cli: Cli) -> Path:
    return write_case(cli.cwd / "cases" / "unset-factor")


def test_ab(cli: Cli, case: Path) -> None:
    done = cli("ab", "unset-factor", "--python", str(cli.python))
    assert done.returncode == 0, done.stderr
    assert "1 failed, 1 passed" in done.stdout and "2 passed" in done.stdout
    assert "minipkg/core.py:6" in done.stdout
    assert "isolates nothing" in done.stdout
    assert "unpatched arm" in done.stderr
    (run,) = (cli.cwd / "reports" / "unset-factor").iterdir()
    assert "| platform |" in (run / "report.md").read_text()
    manifest = json.loads((run / "manifest.json").read_text())
    assert "run.json" in manifest and any(name.endswith("junit.xml") for name in manifest)


def test_ab_json_is_one_document(cli: Cli, case: Path) -> None:
    document = cli.json("ab", "unset-factor", "--python", str(cli.python), code=0)
    assert set(document) == {"schema", "verdict", "rows", "nodes", "gaps", "evidence"}
    (row,) = document["rows"]
    assert {"platform", "device", "image", "engine", "unpatched", "patched"} <= set(row)
    keys = {"node_id", "platform", "role", "unpatched", "patched", "verdict", "reason"}
    assert all(keys <= set(node) for node in document["nodes"])


def test_ab_without_a_case_runs_what_fits(cli: Cli, case: Path) -> None:
    other = write_case(cli.cwd / "cases" / "other", patch="")
    toml = other / "case.toml"
    toml.write_text(toml.read_text().replace('images = ["*"]', 'images = ["else-*"]'))
    done = cli("ab", "--image", "some/image:1", "--engine", "local")
    assert done.returncode == 3 and "container image" in done.stderr
    document = cli.json("ab", "--python", str(cli.python), code=1)
    assert {row["case"] for row in document["rows"]} == {"unset-factor", "other"}
    done = cli("ab", "--image", "no-such-image")
    assert done.returncode == 2 and "no-such-image" in done.stderr


def test_ab_selects_with_k(cli: Cli, case: Path) -> None:
    python = ("--python", str(cli.python))
    document = cli.json("ab", *python, "-k", "add", code=3)
    assert [node["node_id"] for node in document["nodes"]] == ["tests/test_core.py::test_add"]
    assert document["verdict"] == "inconclusive"  # no flip was measured
    assert any("-k" in gap or "not run" in gap for gap in document["gaps"])
    assert cli("ab", *python, "-k", "nothing_like_it").returncode == 2
    done = cli("ab", *python, "-k", "add and (")
    assert done.returncode == 2 and "-k" in done.stderr


@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        ("case.toml", "title", "titel", "titel"),
        ("case.toml", "tests/test_core.py", "tests/test_gone.py", "test_gone.py"),
        ("case.toml", "fix.patch", "gone.patch", "gone.patch"),
        ("fix.patch", "minipkg/core.py", "minipkg/conftest.py", "conftest.py"),
        ("fix.patch", "a/minipkg/core.py", "a/../minipkg/core.py", "fix.patch"),
        ("fix.patch", "minipkg/core.py", "elsewhere/core.py", "elsewhere"),
        ("fix.patch", "@@ -", "@@ broken -", "fix.patch"),
    ],
)
def test_bad_input_names_the_file(
    cli: Cli, case: Path, file: str, old: str, new: str, words: str
) -> None:
    path = case / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    done = cli("ab", "unset-factor", "--python", str(cli.python))
    assert done.returncode == 2
    assert words in done.stderr and "Traceback" not in done.stderr
    assert not (cli.cwd / "reports").exists()


def test_a_container_reference_on_a_machine_without_it(cli: Cli, case: Path) -> None:
    """Accepted as it stands; says what is missing and what to do."""
    reference = "vllm/vllm-openai:v0.27.0"
    done = cli("ab", "unset-factor", "--image", reference, env={"DOCKER_HOST": "unix:///nowhere"})
    assert done.returncode == 3
    assert reference in done.stderr and "--python" in done.stderr


def test_table_derives_the_same_again(cli: Cli, case: Path) -> None:
    python = ("--python", str(cli.python))
    first = cli.json("ab", *python, code=0)
    again = cli.json("table", "reports", code=0)
    assert again == first
    done = cli("table", "reports")
    assert done.returncode == 0 and done.stdout.startswith("**")


def test_table_merges_hosts_and_refuses_other_claims(cli: Cli, case: Path) -> None:
    python = ("--python", str(cli.python))
    for name in ("a", "b"):
        assert cli("ab", *python, "--out", name).returncode == 0
    assert len(cli.json("table", "a", "b", code=0)["rows"]) == 2
    (case / "fix.patch").write_text(diff(CORE, FIXED.replace("is meant to be", "was to be")))
    (case / "tests/test_core.py").write_text(TESTS)
    assert cli("ab", *python, "--out", "c").returncode in (0, 3)
    done = cli("table", "a", "c")
    assert done.returncode == 2 and "different patch" in done.stderr
    write_case(cli.cwd / "cases" / "another")
    cli("ab", "another", *python, "--out", "d")
    done = cli("table", "a", "d")
    assert done.returncode == 2 and "different cases" in done.stderr
    assert cli("table", "nowhere").returncode == 2


def test_table_does_not_believe_changed_evidence(cli: Cli, case: Path) -> None:
    assert cli("ab", "--python", str(cli.python)).returncode == 0
    (junit,) = cli.cwd.glob("reports/*/*/*/unpatched/junit.xml")
    junit.write_text(junit.read_text().replace("TypeError", "KeyError"))
    document = cli.json("table", "reports", code=3)
    assert {node["verdict"] for node in document["nodes"]} == {"infra"}
    (patch,) = cli.cwd.glob("reports/*/*/case/fix.patch")
    patch.write_text(patch.read_text() + "\n")
    assert cli("table", "reports").returncode == 2


@pytest.mark.parametrize(
    ("arm", "edit"),
    [
        ("patched", {"action": "none"}),
        ("patched", {"tree_after": "TREE_BEFORE"}),
        ("unpatched", {"tree_after": "0" * 64}),
    ],
)
def test_table_wants_to_see_that_the_patch_made_the_difference(
    cli: Cli, case: Path, arm: str, edit: dict[str, str]
) -> None:
    """Also where somebody made the digests agree."""
    assert cli("ab", "--python", str(cli.python)).returncode == 0
    (folder,) = cli.cwd.glob(f"reports/*/*/*/{arm}")
    stage, record = folder / "stage.json", folder / "arm.json"
    answer = json.loads(stage.read_text())
    edit = {k: answer["tree_before"] if v == "TREE_BEFORE" else v for k, v in edit.items()}
    stage.write_text(json.dumps(answer | edit))
    text = json.loads(record.read_text())
    text["files"]["stage.json"] = hashlib.sha256(stage.read_bytes()).hexdigest()
    record.write_text(json.dumps(text))
    document = cli.json("table", "reports", code=3)
    assert {node["verdict"] for node in document["nodes"]} == {"infra"}


def test_one_run_counts_once(cli: Cli, case: Path) -> None:
    assert cli("ab", "--python", str(cli.python)).returncode == 0
    shutil.copytree(cli.cwd / "reports", cli.cwd / "copy")
    (cli.cwd / "link").symlink_to(cli.cwd / "reports")
    assert len(cli.json("table", "reports", "copy", "link", code=0)["rows"]) == 1


def test_diff(cli: Cli) -> None:
    suite = "<testsuite name='s' tests='2'>{}</testsuite>"
    green = "<testcase classname='c' name='a'/><testcase classname='c' name='b'/>"
    red = green.replace("name='b'/>", "name='b'><failure message='no'>x</failure></testcase>")
    (cli.cwd / "green.xml").write_text(suite.format(green))
    (cli.cwd / "red.xml").write_text(suite.format(red))
    assert cli("diff", "green.xml", "green.xml").returncode == 0
    done = cli("diff", "green.xml", "red.xml")
    assert done.returncode == 1 and "c::b" in done.stdout
    document = cli.json("diff", "red.xml", "green.xml", code=0)
    assert [node["verdict"] for node in document["nodes"]] == ["both-pass", "fixed"]
    (cli.cwd / "cut.xml").write_text("<testsuite><testcase")
    done = cli("diff", "cut.xml", "green.xml")
    assert done.returncode == 2 and "cut.xml" in done.stderr
    done = cli("diff", "none.xml", "green.xml")
    assert done.returncode == 2 and "none.xml" in done.stderr


def test_doctor(cli: Cli) -> None:
    done = cli("doctor")
    assert done.returncode == 0
    document = cli.json("doctor", code=0)
    looked_at = {finding["what"] for finding in document["findings"]}
    platforms = {f"platform {family}" for family in ("cpu", "cuda", "xpu", "rocm")}
    assert {"engine docker", "engine local", "disk"} | platforms <= looked_at
    for finding in document["findings"]:
        assert finding["state"] != "problem" or finding["remedy"], finding
    done = cli("doctor", env={"DOCKER_HOST": "unix:///nowhere"})
    assert "no Docker daemon" in done.stdout and "Start Docker" in done.stdout


def test_image_list(cli: Cli) -> None:
    shutil.copytree(ROOT / "images", cli.cwd / "images")
    document = cli.json("image", "list", code=0)
    names = {image["name"] for image in document["images"]}
    assert "vllm-cpu-0.27.0" in names
    assert "not built" in cli("image", "list").stdout
    assert cli("image", "build", "nothing").returncode == 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(cli: Cli, case: Path, shell: str) -> None:
    script = cli("completion", shell)
    assert script.returncode == 0 and "_HARNESS_COMPLETE" in script.stdout
    if shell == "bash":
        words = {"COMP_WORDS": "harness ab uns", "COMP_CWORD": "2"}
        done = cli(env={"_HARNESS_COMPLETE": "bash_complete", **words})
        assert "unset-factor" in done.stdout


SLOW = TESTS + "\n\ndef test_slow():\n    import time\n\n    time.sleep(120)\n"


def _start(cli: Cli) -> subprocess.Popen[str]:
    """Start a run and wait until its second test runs in the first arm."""
    write_case(
        cli.cwd / "cases" / "slow",
        tests={"tests/test_core.py": SLOW},
        flips=(FLIP,),
        controls=("tests/test_core.py::test_add", "tests/test_core.py::test_slow"),
    )
    process = subprocess.Popen(
        cli.argv("ab", "slow", "--python", str(cli.python)),
        cwd=cli.cwd,
        env=cli.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "test_slow" in line:
            return process
    raise AssertionError("the slow test never started")


def _arms(cli: Cli) -> list[Path]:
    return list((cli.cache / "ab-harness" / "arms").glob("*"))


def _strays() -> list[str]:
    out = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return [line for line in out.stdout.splitlines() if "guest/run.py" in line]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_keeps_its_evidence_and_leaves_nothing(cli: Cli, number: int) -> None:
    process = _start(cli)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert _arms(cli) == []
    (run,) = (cli.cwd / "reports" / "slow").iterdir()
    (journal,) = run.glob("*/unpatched/journal.jsonl")
    assert "test_unset_factor" in journal.read_text()
    document = cli.json("table", "reports", code=3)
    assert {node["verdict"] for node in document["nodes"]} == {"infra"}


def test_after_kill_9_the_next_start_removes_what_was_left(cli: Cli) -> None:
    process = _start(cli)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    assert len(_arms(cli)) == 1
    write_case(cli.cwd / "cases" / "quick")
    done = cli("ab", "quick", "--python", str(cli.python))
    assert done.returncode == 0, done.stderr
    assert "removed what an earlier run left" in done.stderr
    assert _arms(cli) == []
    mine = str(cli.cache)
    deadline = time.monotonic() + 10
    while any(mine in line for line in _strays()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(mine in line for line in _strays())
    # What had been fetched by then is readable: the run is there, its rows are refused.
    (run,) = (cli.cwd / "reports" / "slow").iterdir()
    assert cli.json("table", str(run), code=3)["rows"][0]["refused"]


def test_a_reader_that_goes_away_changes_neither_work_nor_code(cli: Cli, case: Path) -> None:
    command = " ".join(cli.argv("ab", "--python", str(cli.python)))
    script = f"set -o pipefail; {command} 2>&1 | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], cwd=cli.cwd, env=cli.env, timeout=300)
    assert done.returncode == 0
    assert cli.json("table", "reports", code=0)["verdict"] == "confirmed"


def test_secrets_do_not_reach_the_arms(cli: Cli) -> None:
    body = (
        "import os\n\n\ndef test_env():\n    assert not [n for n in os.environ if 'SECRET' in n]\n"
    )
    body += (
        "    assert 'VLLM_API_KEY' not in os.environ\n    assert os.environ['VLLM_PLAIN'] == '1'\n"
    )
    node = "tests/test_env.py::test_env"
    write_case(
        cli.cwd / "cases" / "env", tests={"tests/test_env.py": body}, flips=(), controls=(node,)
    )
    secrets = {"VLLM_API_KEY": "hunter2", "MY_SECRET": "hunter2", "VLLM_PLAIN": "1"}
    done = cli("ab", "env", "--python", str(cli.python), env=secrets)
    assert done.returncode == 0, done.stdout
    (run,) = (cli.cwd / "reports" / "env").iterdir()
    assert not [p for p in run.rglob("*") if p.is_file() and b"hunter2" in p.read_bytes()]


def test_a_linked_cache_folder(cli: Cli, case: Path) -> None:
    (cli.cwd.parent / "real").mkdir()
    cli.cache.symlink_to(cli.cwd.parent / "real")
    assert cli("ab", "--python", str(cli.python)).returncode == 0


def test_output_that_cannot_be_written(cli: Cli, case: Path) -> None:
    (cli.cwd / "file").touch()
    done = cli("ab", "--python", str(cli.python), "--out", "file/below")
    assert done.returncode == 2 and "--out" in done.stderr
    done = cli("ab", "--python", str(cli.python), env={"XDG_CACHE_HOME": "/proc/nothing"})
    assert done.returncode == 3 and "Traceback" not in done.stderr
