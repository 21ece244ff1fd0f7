"""Rows on several hosts with one command: a real sshd on loopback, and the local daemon."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator

import pytest
from support import golden
from support import sshd as servers
from support.golden import DockerEnvironments, Spec
from support.sshd import Sshd, wait_for

from .conftest import Cli

pytestmark = pytest.mark.docker


@pytest.fixture(autouse=True)
def no_ssh_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    sshd = request.getfixturevalue("sshd") if "sshd" in request.fixturenames else None
    yield
    if sshd:
        wait_for(lambda: not sshd.clients(), "ssh is left")


@pytest.fixture
def image(docker_environments: DockerEnvironments) -> str:
    docker_environments.target(Spec())
    return docker_environments.made[Spec()]


def test_one_command_makes_rows_on_two_hosts(cli: Cli, sshd: Sshd, image: str) -> None:
    golden.write_case(cli.cwd / "cases" / "mini")
    document = cli.json(
        "ab", "mini", "--image", image, "--host", "local", "--host", f"loop={sshd.url()}", code=0
    )
    assert document["verdict"] == "confirmed"
    assert [row["host_name"] for row in document["rows"]] == ["", "loop"]
    for row in document["rows"]:
        assert (row["unpatched"], row["patched"]) == ({"passed": 1, "failed": 1}, {"passed": 2})
        assert row["platform"] == "cpu"
    (folder,) = document["evidence"]
    arms = sorted(
        path.parent.parent.name for path in (cli.cwd / folder).glob("*/patched/junit.xml")
    )
    assert [name.split("-")[1] for name in arms] == ["docker", "loop"]
    done = cli("table", folder)
    assert done.returncode == 0
    assert "on loop | " in done.stdout


def test_a_host_that_is_away_costs_its_own_row_only(cli: Cli, sshd: Sshd, image: str) -> None:
    golden.write_case(cli.cwd / "cases" / "mini")
    away = f"ssh://nobody@127.0.0.1:{servers.free_port()}"
    document = cli.json(
        "ab", "mini", "--image", image, "--host", f"away={away}", "--host", "local", code=3
    )
    assert "nobody" not in json.dumps(document), "who logs in is nobody's business"
    lost, kept = document["rows"]
    assert "the host does not listen" in lost["refused"][0]
    assert not kept["refused"]
    verdicts = [node["verdict"] for node in document["nodes"]]
    assert verdicts == ["infra", "infra", "flip-confirmed", "control-held"]
    assert any("on away" in gap for gap in document["gaps"])


def test_a_single_host_that_is_away_is_an_error_with_a_remedy(cli: Cli, sshd: Sshd) -> None:
    golden.write_case(cli.cwd / "cases" / "mini")
    sshd.stop()
    done = cli("ab", "mini", "--image", "x/y:1", "--host", f"loop={sshd.url()}")
    assert done.returncode == 3
    assert "does not listen" in done.stderr
    assert "sshd" in done.stderr
    assert not (cli.cwd / "reports").exists()


def test_hosts_of_harness_toml_and_a_label_that_is_not_believed(
    cli: Cli, sshd: Sshd, image: str
) -> None:
    golden.write_case(cli.cwd / "cases" / "mini")
    settings = cli.cwd / "harness.toml"
    settings.write_text(
        f'schema = 1\n[hosts.lab]\ndocker = "{sshd.url()}"\nimage = "{image}"\n'
        'device = "cpu"\nplatform = "cuda-sm89"\n'
    )
    document = cli.json("ab", "mini", "--host", "all", code=0)
    (row,) = document["rows"]
    assert (row["platform"], row["claimed"], row["device_asked"]) == ("cpu", "cuda-sm89", "cpu")
    said = f"{image} on lab was said to be cuda-sm89; cpu was measured"
    assert said in document["gaps"]
    findings = {f["what"]: f for f in cli.json("doctor", code=0)["findings"]}
    assert findings["host lab"]["state"] == "ok"
    assert "can give cpu" in findings["host lab"]["text"]
    sshd.stop()
    findings = {f["what"]: f for f in cli.json("doctor", code=0)["findings"]}
    assert findings["host lab"]["state"] == "problem"
    assert "does not listen" in findings["host lab"]["text"]
    settings.write_text(settings.read_text().replace("docker =", "dokcer ="))
    done = cli("ab", "mini", "--host", "lab")
    assert done.returncode == 2
    assert "harness.toml: hosts.lab.dokcer: unknown key; did you mean 'docker'?" in done.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--host", "nowhere"), "no such host in harness.toml"),
        (("--host", "a=ssh://x", "--engine", "local"), "the local engine runs on this machine"),
        (("--host", "a=ssh://x", "--python", "/usr/bin/python3"), "is a Docker host"),
        (("--host", "a=ssh://x", "--host", "a=ssh://y"), "given twice"),
        (("--host", "all"), "no hosts in harness.toml"),
        (("--device", "gpu"), "'gpu' is not a device"),
        (("--device", "cuda:x"), "names no cuda device"),
    ],
)
def test_contradictions_are_bad_input(cli: Cli, args: tuple[str, ...], said: str) -> None:
    golden.write_case(cli.cwd / "cases" / "mini")
    done = cli("ab", "mini", "--image", "x/y:1", *args)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr


def test_ctrl_c_on_another_host_leaves_nothing_and_keeps_the_first_arm(
    cli: Cli, sshd: Sshd, image: str, docker_environments: DockerEnvironments
) -> None:
    slow = golden.TESTS + "\n\ndef test_slow():\n    import time\n    time.sleep(core.add(0, 4))\n"
    case = golden.write_case(
        cli.cwd / "cases" / "mini",
        tests={golden.FILE: slow},
        controls=(golden.CONTROL, f"{golden.FILE}::test_slow"),
    )
    argv = cli.argv("ab", case.name, "--image", image, "--host", f"loop={sshd.url()}")
    child = subprocess.Popen(
        argv, cwd=cli.cwd, env={**os.environ, **cli.env}, stderr=subprocess.PIPE, text=True
    )
    with child:
        assert child.stderr
        for line in child.stderr:
            if "patched arm" in line and "unpatched" not in line:
                break
        for line in child.stderr:
            if "test_slow" in line:
                break
        child.send_signal(signal.SIGINT)
        assert child.wait(60) == 130
    (folder,) = (cli.cwd / "reports" / "mini").iterdir()
    (kept,) = folder.glob("*/unpatched/arm.json")
    assert (kept.parent / "junit.xml").is_file()
    label = f"ab-harness.run={folder.name}"
    client = docker_environments.engine.client
    left = client.containers.list(all=True, filters={"label": "ab-harness.run"})
    assert not [c for c in left if str(c.labels["ab-harness.run"]).startswith(folder.name)], label
