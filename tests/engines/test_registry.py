"""Images by digest: against a real registry and a real daemon."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import docker
import pytest
from support.golden import BASE
from support.podman import service
from support.registry import Registry, Shelf, serving
from support.required import lacking

from harness.engines import pulling, registry
from harness.engines.pulling import Progress
from harness.engines.refusals import explain
from harness.errors import EngineUnavailable, ImageUnavailable
from harness.image import Image, from_reference, parse_image
from harness.record import ImageIdentity

NOWHERE = "sha256:" + "0" * 64


@pytest.fixture
def shelf(docker_reason: str) -> Iterator[Shelf]:
    if docker_reason:
        lacking(docker_reason)
    made = Shelf()
    yield made
    made.close()


@pytest.fixture
def hub(tmp_path: Path, shelf: Shelf) -> Iterator[Registry]:
    with serving(tmp_path / "registry") as running:
        yield running


def pinned(hub: Registry, digest: str, name: str = "lab/tiny:1") -> Image:
    """An image under images/ whose image.toml has this digest, or none."""
    text = f'schema = 1\ntitle = "t"\n[container]\nreference = "{hub.address}/{name}"\n'
    text += f'digest = "{digest}"\n' if digest else ""
    return parse_image(text, name="tiny", folder="/images/tiny", where="image.toml")


class Steps(list[str]):
    """What a display was told."""

    def said(self, *words: str) -> bool:
        return any(all(word in step for word in words) for step in self)


def ensure(
    shelf: Shelf, image: Image, steps: Steps | None = None, *, allow_moved_tag: bool = False
) -> ImageIdentity:
    told = Steps() if steps is None else steps
    return registry.ensure(
        shelf.client, image, allow_moved_tag=allow_moved_tag, on_step=told.append
    )


def refused(shelf: Shelf, image: Image) -> ImageUnavailable:
    with pytest.raises(ImageUnavailable) as caught:
        ensure(shelf, image)
    return caught.value


@pytest.mark.docker
def test_a_pinned_image_is_pulled_by_its_digest_and_kept(shelf: Shelf, hub: Registry) -> None:
    digest = shelf.push(hub, "lab/tiny:1")
    image = pinned(hub, digest)
    assert registry.find(shelf.client, image) == ""
    steps = Steps()
    identity = ensure(shelf, image, steps)
    assert steps.said("pulling", digest)
    assert (identity.registry_digest, identity.pinned) == (digest, digest)
    assert identity.note == f"registry digest {digest}"
    assert identity.digest == registry.find(shelf.client, image) != digest
    assert shelf.client.images.get(identity.digest).tags == []
    again = Steps()
    assert ensure(shelf, image, again) == identity
    assert again == [], "the tag was looked up, and nothing pulled"


@pytest.mark.docker
def test_a_moved_tag_is_refused_with_both_digests(shelf: Shelf, hub: Registry) -> None:
    old, new = (shelf.push(hub, "lab/tiny:1") for _ in range(2))
    image = pinned(hub, old)
    error = refused(shelf, image)
    assert f"pinned {old}, now {new}" in error.problem
    assert "harness image pin tiny" in error.remedy
    assert "--allow-moved-tag" in error.remedy
    assert f"--image {hub.address}/lab/tiny@{old}" in error.remedy
    assert registry.find(shelf.client, pinned(hub, new)) == "", "it was not even pulled"


@pytest.mark.docker
def test_a_moved_tag_that_is_allowed_is_run_and_both_are_recorded(
    shelf: Shelf, hub: Registry
) -> None:
    old, new = (shelf.push(hub, "lab/tiny:1") for _ in range(2))
    steps = Steps()
    identity = ensure(shelf, pinned(hub, old), steps, allow_moved_tag=True)
    assert (identity.registry_digest, identity.pinned) == (new, old)
    assert identity.digest == registry.find(shelf.client, pinned(hub, new))
    assert old in identity.note and new in identity.note
    assert steps.said("tag", "has moved", old, new)


@pytest.mark.docker
def test_a_tag_that_did_not_move_needs_no_leave(shelf: Shelf, hub: Registry) -> None:
    digest = shelf.push(hub, "lab/tiny:1")
    identity = ensure(shelf, pinned(hub, digest), allow_moved_tag=True)
    assert (identity.registry_digest, identity.pinned) == (digest, digest)


@pytest.mark.docker
@pytest.mark.parametrize("form", ["lab/tiny@{}", "lab/tiny:1@{}"])
def test_a_digest_on_the_command_line_is_the_pin_wherever_the_tag_is(
    shelf: Shelf, hub: Registry, form: str
) -> None:
    old, _ = (shelf.push(hub, "lab/tiny:1") for _ in range(2))
    identity = ensure(shelf, from_reference(f"{hub.address}/{form.format(old)}"))
    assert (identity.registry_digest, identity.pinned) == (old, old)


@pytest.mark.docker
def test_an_image_without_a_tag_is_pinned_by_its_digest_alone(shelf: Shelf, hub: Registry) -> None:
    digest = shelf.push(hub, "lab/tiny:nightly")
    shelf.push(hub, "lab/tiny:latest")
    identity = ensure(shelf, pinned(hub, digest, "lab/tiny"))
    assert identity.registry_digest == digest


@pytest.mark.docker
def test_another_image_under_the_local_tag_is_not_run(shelf: Shelf, hub: Registry) -> None:
    digest = shelf.push(hub, "lab/tiny:1")
    identity = ensure(shelf, pinned(hub, digest))
    base = shelf.client.images.get(BASE)
    base.tag(f"{hub.address}/lab/tiny", "1")
    assert ensure(shelf, pinned(hub, digest)) == identity
    assert identity.digest != base.id


@pytest.mark.docker
def test_another_image_under_the_local_tag_is_told_where_the_pinned_one_is_not_to_be_had(
    shelf: Shelf, hub: Registry
) -> None:
    digest = shelf.push(hub, "lab/tiny:1")
    base = shelf.client.images.get(BASE)
    base.tag(f"{hub.address}/lab/tiny", "1")
    hub.stop()
    error = refused(shelf, pinned(hub, digest))
    assert digest in error.problem and f"image ID {base.id}" in error.problem


@pytest.mark.docker
def test_an_image_that_the_registry_deleted_is_told_as_such(shelf: Shelf, hub: Registry) -> None:
    digest = shelf.push(hub, "lab/tiny:1")
    hub.delete("lab/tiny", digest)
    for image in (pinned(hub, digest), pinned(hub, ""), pinned(hub, NOWHERE, "lab/none:1")):
        error = refused(shelf, image)
        assert "is not on this machine" in error.problem
        assert f"{hub.address} does not have it (any more)" in error.problem
        assert "Nightly images are deleted" in error.remedy
        assert "--python PATH" in error.remedy


def unchecked(identity: ImageIdentity) -> ImageIdentity:
    """The same, with the words that stay in the evidence."""
    return replace(identity, note=f"{identity.note}; what the tag names: not checked")


@pytest.mark.docker
def test_a_deleted_image_that_is_here_is_run_all_the_same(shelf: Shelf, hub: Registry) -> None:
    digest = shelf.push(hub, "lab/tiny:1")
    image = pinned(hub, digest)
    identity = ensure(shelf, image)
    hub.delete("lab/tiny", digest)
    steps = Steps()
    assert ensure(shelf, image, steps) == unchecked(identity)
    assert steps.said("tag", "not checked", "does not have it (any more)")


@pytest.mark.docker
def test_without_the_registry_the_pinned_image_is_run_unchecked(
    shelf: Shelf, hub: Registry
) -> None:
    image = pinned(hub, shelf.push(hub, "lab/tiny:1"))
    identity = ensure(shelf, image)
    hub.stop()
    steps = Steps()
    assert ensure(shelf, image, steps) == unchecked(identity)
    assert steps.said("tag", "not checked", "cannot be reached")


@pytest.mark.docker
def test_without_registry_and_image_the_error_says_who_cannot_be_reached(
    shelf: Shelf, hub: Registry
) -> None:
    digest = shelf.push(hub, "lab/tiny:1")
    hub.stop()
    for image in (pinned(hub, digest), pinned(hub, "")):
        error = refused(shelf, image)
        assert f"{hub.address} cannot be reached" in error.problem
        assert "connection refused" in error.problem
        assert "--engine local" in error.remedy and "vllm" not in error.remedy


@pytest.mark.docker
def test_a_registry_that_never_answers_is_not_waited_for(
    shelf: Shelf, hub: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = pinned(hub, shelf.push(hub, "lab/tiny:1"))
    identity = ensure(shelf, image)
    monkeypatch.setattr(pulling, "PATIENCE", 0.5)
    steps = Steps()
    with hub.frozen():
        assert ensure(shelf, image, steps) == unchecked(identity)
    assert steps.said("tag", "not checked", "no answer within")


@pytest.mark.docker
def test_an_image_that_is_not_pinned_says_what_the_registry_has(
    shelf: Shelf, hub: Registry
) -> None:
    first = shelf.push(hub, "lab/tiny:1")
    identity = ensure(shelf, pinned(hub, ""))
    assert (identity.registry_digest, identity.pinned) == (first, "")
    assert identity.note == f"not pinned; registry digest {first}"
    hub.stop()
    steps = Steps()
    assert ensure(shelf, pinned(hub, ""), steps) == identity
    assert steps == [], "what is here is run"


@pytest.mark.docker
def test_an_image_that_never_was_in_a_registry_says_so(shelf: Shelf) -> None:
    base = shelf.client.images.get(BASE)
    for name in (BASE, str(base.id)):
        identity = ensure(shelf, from_reference(name))
        assert (identity.digest, identity.registry_digest) == (base.id, "")
        assert identity.note == "built or loaded here, image ID"
    with pytest.raises(ImageUnavailable, match="no image on this machine has the ID"):
        ensure(shelf, from_reference(NOWHERE))


@pytest.mark.docker
def test_a_reference_without_a_tag_pulls_the_latest_and_no_other(
    shelf: Shelf, hub: Registry
) -> None:
    shelf.push(hub, "lab/tiny:other")
    digest = shelf.push(hub, "lab/tiny:latest")
    identity = ensure(shelf, from_reference(f"{hub.address}/lab/tiny"))
    assert identity.registry_digest == digest
    tags = [tag for image in shelf.client.api.images() for tag in image["RepoTags"] or []]
    assert [tag for tag in tags if tag.startswith(hub.address)] == [
        f"{hub.address}/lab/tiny:latest"
    ]


@pytest.mark.docker
def test_credentials_are_those_of_dockers_own_configuration(
    tmp_path: Path, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path / "private", private=True) as hub:
        digest = shelf.push(hub, "lab/tiny:1")
        (tmp_path / "empty").mkdir()
        monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "empty"))
        for image in (pinned(hub, digest), pinned(hub, "")):
            error = refused_by(docker.from_env(), image)
            assert "not authorised" in error.problem
            assert f"docker login {hub.address}" in error.remedy
        monkeypatch.setenv("DOCKER_CONFIG", str(hub.credentials(tmp_path / "login")))
        client = docker.from_env()
        try:
            assert registry.resolve(client, pinned(hub, "")) == digest
            told = Steps()
            identity = registry.ensure(
                client, pinned(hub, digest), allow_moved_tag=False, on_step=told.append
            )
        finally:
            client.close()
        assert identity.registry_digest == digest
        assert not told.said("not checked")


def refused_by(client: Any, image: Image) -> ImageUnavailable:
    try:
        with pytest.raises(ImageUnavailable) as caught:
            registry.ensure(client, image, allow_moved_tag=False, on_step=lambda _: None)
        return caught.value
    finally:
        client.close()


@pytest.mark.docker
def test_a_credential_helper_that_is_missing_is_told(
    tmp_path: Path, shelf: Shelf, hub: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf.push(hub, "lab/tiny:1")
    (tmp_path / "config.json").write_text('{"credsStore": "of-no-machine"}')
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    error = refused_by(docker.from_env(), pinned(hub, ""))
    assert "credentials cannot be read" in error.problem
    assert "docker-credential-of-no-machine" in error.problem


@pytest.mark.docker
def test_resolving_says_what_the_tag_names_now(shelf: Shelf, hub: Registry) -> None:
    old, new = (shelf.push(hub, "lab/tiny:1") for _ in range(2))
    assert old != new
    assert registry.resolve(shelf.client, pinned(hub, old)) == new
    with pytest.raises(ImageUnavailable, match=r"no digest of .*lab/none:1.*does not have it"):
        registry.resolve(shelf.client, pinned(hub, "", "lab/none:1"))


@pytest.fixture
def podman(hub: Registry) -> Iterator[Shelf]:
    """A shelf of a real Podman that may talk to the registry without TLS."""
    if not shutil.which("podman") or os.geteuid() != 0:
        lacking("podman is not installed, or this is not root, as whom it is tested")
    with service() as running:
        settings = running.folder / ".config/containers/registries.conf"  # its home is its folder
        settings.parent.mkdir(parents=True)
        settings.write_text(f'[[registry]]\nlocation = "{hub.address}"\ninsecure = true\n')
        if reason := running.wait():
            lacking(reason)
        made = Shelf(docker.DockerClient(running.url))
        yield made
        made.close()


@pytest.mark.docker
@pytest.mark.podman
def test_podman_pulls_by_digest_and_cannot_check_the_tag(
    shelf: Shelf, hub: Registry, podman: Shelf
) -> None:
    old, new = (shelf.push(hub, "lab/tiny:1") for _ in range(2))
    steps = Steps()
    identity = ensure(podman, pinned(hub, old), steps)
    assert (identity.registry_digest, identity.pinned) == (old, old)
    assert identity.digest == registry.find(podman.client, pinned(hub, old))
    assert steps.said("tag", "not checked: this daemon cannot ask a registry")
    assert steps.said("pulling", old)
    assert ensure(podman, pinned(hub, "")).registry_digest == new
    with pytest.raises(EngineUnavailable, match="cannot ask a registry") as caught:
        registry.resolve(podman.client, pinned(hub, old))
    assert "write container.digest by hand" in caught.value.remedy
    hub.delete("lab/tiny", new)
    podman.forget(hub.address)
    assert "does not have it (any more)" in refused(podman, pinned(hub, new)).problem


# What needs no daemon


@pytest.mark.parametrize(
    ("answer", "what", "remedy"),
    [
        ("manifest for a/b:1 not found: manifest unknown: manifest unknown", "any more", "pin"),
        ("manifest unknown: manifest unknown", "hub.test does not have it (any more)", "pin"),
        (
            "pull access denied for a/b, repository does not exist or may require 'docker login': "
            "denied: requested access to the resource is denied",
            "not authorised",
            "docker login hub.test",
        ),
        ('Head "https://h/v2/a/manifests/1": no basic auth credentials', "not authorised", "login"),
        ("unauthorized: incorrect username or password", "not authorised", "docker login"),
        ("toomanyrequests: You have reached your pull rate limit.", "no more pulls", "login"),
        ("dial tcp: lookup hub.test on 10.0.0.53:53: no such host", "cannot be reached", "network"),
        ("dial tcp 10.0.0.1:443: i/o timeout", "cannot be reached", "proxy"),
        ("x509: certificate signed by unknown authority", "cannot be reached", "certificates"),
        (
            "failed to register layer: write /usr/lib/x: no space left on device",
            "disk is full",
            "docker system df",
        ),
        (
            "no matching manifest for linux/arm64/v8 in the manifest list entries",
            "not for this machine's architecture",
            "architecture",
        ),
        ("something that nobody foresaw", "the daemon says", "docker pull"),
    ],
)
def test_refusals_are_told_apart(answer: str, what: str, remedy: str) -> None:
    refusal = explain(answer, "hub.test")
    assert what in refusal.what
    assert remedy in refusal.remedy
    assert refusal.answer == answer


def test_what_a_registry_answers_is_harmless_to_print() -> None:
    refusal = explain("bad\x1b[2J\r\n https://me:pw@hub.test/v2 " + "x" * 1000, "hub.test")
    assert refusal.answer.startswith("bad https://***@hub.test/v2 x")
    assert len(refusal.answer) <= 500


class Clock:
    """A clock that goes on by a second each time somebody looks."""

    def __init__(self, tick: float) -> None:
        self.now, self.tick = 0.0, tick

    def __call__(self) -> float:
        self.now += self.tick
        return self.now


def layer(name: str, status: str, current: int = 0, total: int = 0) -> Mapping[str, object]:
    detail = {"current": current, "total": total} if total else {}
    return {"id": name, "status": status, "progressDetail": detail}


def test_progress_adds_up_the_layers() -> None:
    steps = Steps()
    progress = Progress("a:1", steps.append, Clock(1))
    for event in (
        {"status": "Pulling from a", "id": "1"},
        layer("base", "Already exists"),
        layer("big", "Pulling fs layer"),
        layer("small", "Waiting"),
        layer("big", "Downloading", 1_200_000_000, 8_000_000_000),
        layer("small", "Downloading", 100_000_000, 900_000_000),
        layer("small", "Download complete"),
        layer("big", "Verifying Checksum"),
        layer("big", "Extracting", 1_000_000, 8_000_000_000),
        {"status": "Digest: sha256:…"},
    ):
        progress.event(event)
    assert [step.removeprefix("pulling a:1") for step in steps] == [
        "",
        ": 0.0 of 0.0 MB, 1 of 1 layers",
        ": 0.0 of at least 0.0 MB, 1 of 2 layers",
        ": 0.0 of at least 0.0 MB, 1 of 3 layers",
        ": 1.2 of at least 8.0 GB, 1 of 3 layers",
        ": 1.3 of 8.9 GB, 1 of 3 layers",
        ": 2.1 of 8.9 GB, 2 of 3 layers",
        ": 8.9 of 8.9 GB, 3 of 3 layers",
        ": 8.9 of 8.9 GB, 3 of 3 layers, unpacking",
    ]


def test_progress_is_reported_a_few_times_a_second_and_only_when_it_moved() -> None:
    steps = Steps()
    progress = Progress("a:1", steps.append, Clock(0.01))
    for done in range(1000):
        progress.event(layer("big", "Downloading", 900_000 * done, 900_000_000))
    assert 20 <= len(steps) <= 45, "10 seconds"
    assert len(set(steps)) == len(steps)
