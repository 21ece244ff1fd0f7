"""One device an arm, and no more: read back from a real daemon, with stand-in device nodes."""

from __future__ import annotations

import json
import platform as this_machine
from collections.abc import Iterator, Mapping
from typing import Any, cast

import pytest
from docker import DockerClient
from support import nodes
from support.golden import BASE
from support.podman import Podman
from support.required import lacking

from harness.device import parse_device
from harness.engines import access as access_module
from harness.engines.access import container_access
from harness.engines.base import Access
from harness.engines.docker import DockerEngine
from harness.engines.processes import owner
from harness.engines.scouting import LABEL, Node
from harness.errors import EngineError, EngineUnavailable
from harness.image import from_reference
from harness.settings import Host

UUID = "GPU-5f2a1f43-8a8c-4b3e-9d5e-0123456789ab"
GIB = 1 << 30
LOOK_INSIDE = """
import json, os
opened = {}
for folder in ('/dev/dri', '/dev'):
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        path = folder + '/' + name
        if folder == '/dev/dri' or name == 'kfd':
            try:
                os.close(os.open(path, os.O_RDWR))
                opened[path] = True
            except OSError:
                opened[path] = False
status = open('/proc/self/status').read()
print(json.dumps({
    'opened': opened,
    'groups': os.getgroups(),
    'shm': os.statvfs('/dev/shm').f_blocks * os.statvfs('/dev/shm').f_frsize,
    'capabilities': status.split('CapEff:')[1].split()[0],
    'seccomp': status.split('Seccomp:')[1].split()[0],
}))
"""


@pytest.fixture(scope="module")
def client(docker_reason: str) -> Iterator[DockerClient]:
    if docker_reason:
        lacking(docker_reason)
    engine = DockerEngine()
    if engine.client.info()["Name"] != this_machine.node():
        lacking("the daemon is on another machine, where no stand-in device nodes can be made")
    yield engine.client
    engine.close()


@pytest.fixture(autouse=True)
def nothing_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "client" in request.fixturenames:
        found = request.getfixturevalue("client").containers.list(
            all=True, filters={"label": LABEL, "name": "ab-harness-scout"}
        )
        assert not [one for one in found if own(one)]


def own(container: Any) -> bool:
    return bool(container.labels[LABEL] == owner())


def choose(client: Any, wanted: str = "", *, platform: str = "", python: str = "python3") -> Access:
    device = parse_device(wanted) if wanted else None
    return container_access(
        client,
        image_id=BASE,
        python=python,
        platform=platform,
        wanted=device,
        remove=lambda container: container.remove(force=True, v=True),
    )


def in_an_arm(
    wanted: str, host: Host | None = None
) -> tuple[Access, dict[str, Any], dict[str, Any]]:
    """Start an arm with a device; what was given, the daemon's HostConfig, and a look inside."""
    engine = DockerEngine(host=host, device=parse_device(wanted))
    lines: list[str] = []
    try:
        environment = engine.prepare(from_reference(BASE), on_step=lambda _: None)
        with engine.open(environment, label="access") as sandbox:
            found = engine.client.containers.list(filters={"label": "ab-harness.run=access"})
            (container,) = [one for one in found if own(one)]
            done = sandbox.exec(
                ["python3", "-c", LOOK_INSIDE],
                env={},
                cwd=sandbox.root,
                time_limit=60,
                on_line=lines.append,
            )
        assert done.exit_code == 0, lines
        return environment.access, container.attrs["HostConfig"], json.loads(lines[-1])
    finally:
        engine.close()


def given(host: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    return [
        (one["PathOnHost"], one["PathInContainer"], one["CgroupPermissions"])
        for one in host["Devices"] or ()
    ]


def is_confined(host: Mapping[str, Any], inside: Mapping[str, Any]) -> None:
    assert host["CapDrop"] == ["ALL"] and not host["CapAdd"] and not host["Privileged"]
    assert "no-new-privileges" in host["SecurityOpt"]
    assert host["NetworkMode"] == "none" and host["IpcMode"] != "host" and not host["PidMode"]
    assert not host["Binds"] and not host["DeviceCgroupRules"]
    assert int(inside["capabilities"], 16) == 0


@pytest.mark.docker
def test_a_cpu_arm_gets_no_device_and_no_container_looks_for_one(
    client: DockerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = stand_in_scout(monkeypatch)
    access = choose(client, platform="cpu")
    assert (access.family, access.key, access.options) == ("cpu", "cpu", {})
    assert choose(client, "cpu", platform="cuda").words == ("no device",)
    assert choose(client).words == ("no device: the daemon has no NVIDIA runtime",)
    assert not looked


@pytest.mark.docker
@pytest.mark.parametrize(
    ("wanted", "paths", "groups"),
    [
        ("xpu", ("/dev/dri/renderD128", "/dev/dri/card0"), [nodes.CARD, nodes.RENDER]),
        ("xpu:1", ("/dev/dri/renderD129", "/dev/dri/card1"), [nodes.CARD, nodes.SECOND]),
    ],
)
def test_an_xpu_arm_gets_the_nodes_of_one_device_and_their_groups_by_number(
    client: DockerClient, wanted: str, paths: tuple[str, ...], groups: list[int]
) -> None:
    with nodes.stand_ins(nodes.XPU):
        access, host, inside = in_an_arm(wanted)
    assert given(host) == [(path, path, "rw") for path in paths]
    assert host["GroupAdd"] == [str(gid) for gid in groups]
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert host["ShmSize"] == 64 << 20
    assert not host["DeviceRequests"]
    is_confined(host, inside)
    assert inside["opened"] == dict.fromkeys(sorted(paths), True)
    assert set(groups) <= set(inside["groups"])
    assert inside["seccomp"] == "2"
    assert access.key == f"xpu-{wanted.partition(':')[2] or 0}"
    names = " and ".join(str(gid) for gid in groups)
    assert access.words == (f"{', '.join(paths)}, groups {names}",)


@pytest.mark.docker
def test_a_rocm_arm_gets_kfd_one_render_node_no_seccomp_filter_and_shared_memory(
    client: DockerClient,
) -> None:
    with nodes.stand_ins(nodes.ROCM):
        access, host, inside = in_an_arm("rocm:1")
    paths = ["/dev/kfd", "/dev/dri/renderD129"]
    assert given(host) == [(path, path, "rw") for path in paths]
    assert host["GroupAdd"] == [str(nodes.SECOND), str(nodes.KFD)]
    assert host["SecurityOpt"] == ["no-new-privileges", "seccomp=unconfined"]
    assert host["ShmSize"] == 8 * GIB
    is_confined(host, inside)
    assert inside["opened"] == dict.fromkeys(sorted(paths), True)
    assert {nodes.SECOND, nodes.KFD} <= set(inside["groups"])
    assert inside["seccomp"] == "0"
    assert inside["shm"] == 8 * GIB
    assert access.key == "rocm-1"
    assert "8 GiB of shared memory" in access.words[1]


@pytest.mark.docker
@pytest.mark.podman
@pytest.mark.parametrize("wanted", ["xpu:1", "rocm:1"])
def test_podman_gives_the_same_nodes_and_groups(podman: Podman, wanted: str) -> None:
    with nodes.stand_ins(nodes.ROCM):
        _, host, inside = in_an_arm(wanted, Host(name="podman", docker=podman.url))
    rocm = wanted == "rocm:1"
    paths = ["/dev/dri/renderD129", "/dev/kfd" if rocm else "/dev/dri/card1"]
    groups = [nodes.SECOND, nodes.KFD] if rocm else [nodes.CARD, nodes.SECOND]
    assert inside["opened"] == dict.fromkeys(sorted(paths), True)
    assert set(groups) <= set(inside["groups"]) and int(inside["capabilities"], 16) == 0
    assert host["GroupAdd"] == [str(gid) for gid in groups] and not host["Privileged"]
    assert (inside["seccomp"], inside["shm"] == 8 * GIB) == (("0", True) if rocm else ("2", False))


@pytest.mark.docker
@pytest.mark.podman
@pytest.mark.parametrize("wanted", ["cuda", "nvidia.com/gpu=0"])
def test_podman_without_an_nvidia_device_is_no_container_without_one(
    podman: Podman, wanted: str
) -> None:
    """Podman 4.3 ignores the request and starts the container all the same."""
    engine = DockerEngine(host=Host(name="podman", docker=podman.url), device=parse_device(wanted))
    try:
        with pytest.raises(EngineUnavailable) as raised:
            engine.prepare(from_reference(BASE), on_step=lambda _: None)
    finally:
        engine.close()
    assert "--device cpu" in raised.value.remedy


@pytest.mark.docker
def test_without_its_group_an_arm_cannot_open_a_stand_in(client: DockerClient) -> None:
    """Else the tests above would prove nothing about groups."""
    with nodes.stand_ins(nodes.XPU):
        container = client.containers.create(
            BASE,
            entrypoint=["python3", "-c"],
            command=["open('/dev/dri/renderD128')"],
            devices=["/dev/dri/renderD128:/dev/dri/renderD128:rw"],
            network_mode="none",
            cap_drop=["ALL"],
        )
        try:
            container.start()
            assert container.wait(timeout=60)["StatusCode"] == 1
            assert b"PermissionError" in container.logs()
        finally:
            container.remove(force=True)


@pytest.mark.docker
@pytest.mark.parametrize(
    ("made", "wanted", "problem", "remedy"),
    [
        ({}, "xpu", 'custom device "/dev/dri": no such file', "modprobe xe"),
        ({}, "rocm", 'custom device "/dev/kfd": no such file', "modprobe amdgpu"),
        ({"kfd": 1}, "rocm", 'custom device "/dev/dri": no such file', "modprobe amdgpu"),
        (nodes.XPU, "rocm", 'custom device "/dev/kfd": no such file', "modprobe amdgpu"),
        ({"dri/card0": 1}, "xpu", "no Intel GPU among its /dev/dri", "modprobe xe"),
        (nodes.XPU, "xpu:3", "no xpu device 3: the daemon's host has 2", "xpu:0 to xpu:1"),
        ({}, "cuda:1", 'could not select device driver "nvidia"', "nvidia-ctk runtime configure"),
        ({}, f"cuda:{UUID}", "could not select device driver", "nvidia-container-toolkit"),
        ({}, "nvidia.com/gpu=0", 'could not select device driver "cdi"', "Docker 25 or later"),
        ({}, "intel.com/gpu=0", 'could not select device driver "cdi"', "modprobe xe"),
    ],
)
def test_a_device_that_the_host_lacks_is_a_remedy(
    client: DockerClient, made: dict[str, int], wanted: str, problem: str, remedy: str
) -> None:
    with nodes.stand_ins(made), pytest.raises(EngineUnavailable) as raised:
        choose(client, wanted)
    assert problem in raised.value.problem
    assert remedy in raised.value.remedy and "--device cpu" in raised.value.remedy


@pytest.mark.docker
@pytest.mark.parametrize("platform", ["cuda", "cuda-sm90", "xpu", "rocm-gfx942"])
def test_an_image_for_a_platform_wants_its_device(client: DockerClient, platform: str) -> None:
    with nodes.stand_ins({}), pytest.raises(EngineUnavailable, match=platform.partition("-")[0]):
        choose(client, platform=platform)


@pytest.mark.docker
@pytest.mark.parametrize("python", ["/no/such/python", "/bin/false"])
def test_an_image_without_a_usable_python_is_not_taken_for_a_host_without_devices(
    client: DockerClient, python: str
) -> None:
    with nodes.stand_ins(nodes.XPU), pytest.raises(EngineError) as raised:
        choose(client, "xpu", python=python)
    assert not isinstance(raised.value, EngineUnavailable)
    assert python in str(raised.value)


def stand_in_scout(monkeypatch: pytest.MonkeyPatch, *found: Node) -> list[dict[str, Any]]:
    """In place of the container that looks: it sees ``found``. Returns the options it was given."""
    looked: list[dict[str, Any]] = []

    def look(
        client: Any, image: str, python: str, options: dict[str, Any], *, remove: Any
    ) -> tuple[Node, ...]:
        looked.append(options)
        return found

    monkeypatch.setattr(access_module, "scout", look)
    return looked


def read_back(client: DockerClient, access: Access) -> dict[str, Any]:
    """What the daemon makes of the options of a container that is created and never started."""
    container = client.containers.create(
        BASE, entrypoint=["true"], network_mode="none", cap_drop=["ALL"], **access.options
    )
    try:
        return cast("dict[str, Any]", client.api.inspect_container(container.id)["HostConfig"])
    finally:
        container.remove(force=True)


class Daemon:
    """A stand-in daemon that only says what it is."""

    def __init__(self, **info: Any) -> None:
        self._info = info

    def info(self) -> dict[str, Any]:
        return self._info


RUNTIME = {"Runtimes": {"runc": {}, "nvidia": {}}}
NVIDIA_NODE = Node(path="/dev/nvidia0", gid=0)


@pytest.mark.docker
@pytest.mark.parametrize(
    ("wanted", "which"), [("", "0"), ("cuda", "0"), ("cuda:2", "2"), (f"cuda:{UUID}", UUID)]
)
def test_an_nvidia_device_is_requested_by_index_or_uuid_with_two_capabilities(
    client: DockerClient, monkeypatch: pytest.MonkeyPatch, wanted: str, which: str
) -> None:
    stand_in_scout(monkeypatch, NVIDIA_NODE)
    access = choose(Daemon(**RUNTIME), wanted)
    host = read_back(client, access)
    (request,) = host["DeviceRequests"]
    assert request["Driver"] == "nvidia" and request["DeviceIDs"] == [which]
    assert request["Capabilities"] == [["gpu", "compute", "utility"]] and request["Count"] == 0
    assert host["CapDrop"] == ["ALL"] and not host["Privileged"] and not host["Devices"]
    assert access.key == f"cuda-{which}"
    assert access.words == (f"NVIDIA device {which} by device request (compute, utility)",)


@pytest.mark.docker
@pytest.mark.parametrize(
    ("info", "wanted", "name"),
    [
        (RUNTIME, "nvidia.com/gpu=1", "nvidia.com/gpu=1"),
        ({"CDISpecDirs": ["/etc/cdi"]}, "cuda:1", "nvidia.com/gpu=1"),
        (
            {"DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=0"}]},
            "",
            "nvidia.com/gpu=0",
        ),
    ],
)
def test_cdi_is_used_where_it_is_named_or_the_only_way(
    client: DockerClient,
    monkeypatch: pytest.MonkeyPatch,
    info: dict[str, Any],
    wanted: str,
    name: str,
) -> None:
    stand_in_scout(monkeypatch, NVIDIA_NODE)
    access = choose(Daemon(**info), wanted)
    (request,) = read_back(client, access)["DeviceRequests"]
    assert request["Driver"] == "cdi" and request["DeviceIDs"] == [name]
    assert access.key == f"cuda-{name[-1]}" and access.words == (f"{name} by CDI",)


@pytest.mark.docker
def test_cdi_of_amd_brings_the_groups_and_what_rocm_needs(
    client: DockerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = [Node(path="/dev/kfd", gid=105), Node(path="/dev/dri/renderD128", gid=105)]
    stand_in_scout(monkeypatch, *seen)
    access = choose(Daemon(), "amd.com/gpu=0")
    host = read_back(client, access)
    assert host["GroupAdd"] == ["105"] and host["ShmSize"] == 8 * GIB
    assert host["SecurityOpt"] == ["seccomp=unconfined"]
    assert access.words[0] == "amd.com/gpu=0 by CDI, group 105"


@pytest.mark.parametrize(
    ("wanted", "seen"),
    [
        ("cuda", ()),
        ("nvidia.com/gpu=0", (Node(path="/dev/dri/renderD128", gid=0),)),
        ("intel.com/gpu=0", (Node(path="/dev/dri/card0", gid=0),)),
        ("amd.com/gpu=0", (Node(path="/dev/dri/renderD128", gid=0),)),
    ],
)
def test_a_request_that_the_daemon_ignores_is_refused(
    monkeypatch: pytest.MonkeyPatch, wanted: str, seen: tuple[Node, ...]
) -> None:
    stand_in_scout(monkeypatch, *seen)
    with pytest.raises(EngineUnavailable, match="ignored the request"):
        choose(Daemon(**RUNTIME), wanted)


@pytest.mark.parametrize(
    "info", [{}, {"Runtimes": None}, {"CDISpecDirs": ["/etc/cdi"]}, {"DiscoveredDevices": []}]
)
def test_a_bare_reference_gets_a_device_only_where_the_daemon_surely_has_one(
    monkeypatch: pytest.MonkeyPatch, info: dict[str, Any]
) -> None:
    looked = stand_in_scout(monkeypatch)
    access = choose(Daemon(**info))
    assert access.family == "cpu" and not looked
    assert access.words == ("no device: the daemon has no NVIDIA runtime",)


@pytest.mark.docker
@pytest.mark.parametrize(("wanted", "plain"), [("cpu", 0), ("xpu", 1), ("cuda", 1)])
def test_a_default_runtime_of_nvidia_opens_no_device_that_was_not_chosen(
    client: DockerClient, monkeypatch: pytest.MonkeyPatch, wanted: str, plain: int
) -> None:
    seen = [NVIDIA_NODE, Node(path="/dev/dri/renderD128", gid=0, vendor="0x8086")]
    looked = stand_in_scout(monkeypatch, *seen)
    access = choose(Daemon(**RUNTIME, DefaultRuntime="nvidia"), wanted)
    assert read_back(client, access)["Runtime"] == "runc"
    assert [options["runtime"] for options in looked] == ["runc"] * plain


def _render(minor: int, vendor: str, address: str) -> Node:
    return Node(path=f"/dev/dri/renderD{minor}", gid=105, vendor=vendor, address=address)


#: An Intel GPU in the processor, two Intel cards (the later one found first), and an AMD card.
MIXED = (
    _render(128, "0x8086", "0000:83:00.0"),
    _render(129, "0x1002", "0000:41:00.0"),
    _render(130, "0x8086", "0000:00:02.0"),
    _render(131, "0x8086", "0000:43:00.0"),
    Node(path="/dev/dri/card0", gid=44, vendor="0x8086", address="0000:00:02.0"),
    Node(path="/dev/dri/card3", gid=44, vendor="0x8086", address="0000:43:00.0"),
    Node(path="/dev/kfd", gid=0),
)


@pytest.mark.parametrize(
    ("wanted", "paths", "address"),
    [
        ("xpu:0", ["/dev/dri/renderD130", "/dev/dri/card0"], "0000:00:02.0"),
        ("xpu:1", ["/dev/dri/renderD131", "/dev/dri/card3"], "0000:43:00.0"),
        ("xpu:2", ["/dev/dri/renderD128"], "0000:83:00.0"),
        ("rocm:0", ["/dev/kfd", "/dev/dri/renderD129"], "0000:41:00.0"),
    ],
)
def test_an_index_counts_the_devices_of_one_vendor_in_pci_order(
    monkeypatch: pytest.MonkeyPatch, wanted: str, paths: list[str], address: str
) -> None:
    stand_in_scout(monkeypatch, *MIXED)
    access = choose(Daemon(), wanted)
    assert access.options["devices"] == [f"{path}:{path}:rw" for path in paths]
    assert access.words[0].endswith(f"(PCI {address})")


def test_an_index_beyond_the_vendors_devices_says_how_many_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stand_in_scout(monkeypatch, *MIXED)
    with pytest.raises(EngineUnavailable, match="no rocm device 1: the daemon's host has 1"):
        choose(Daemon(), "rocm:1")
