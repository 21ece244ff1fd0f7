"""What only a daemon can ask a registry: what a tag names, and the layers of an image.

Requests are made over the SDK's session and not by its own calls, because those cannot be given a
time limit, and leave the connection of an interrupted pull open.
"""

from __future__ import annotations

import contextlib
import json
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.engines.base import OnStep
from harness.engines.refusals import Refusal, explain
from harness.engines.stream import cutter
from harness.image import Reference, is_digest
from harness.parallel import current

if TYPE_CHECKING:
    from docker import DockerClient
    from requests import Response

#: Seconds that a registry may take to say what a tag names: Docker itself waits for 25.
PATIENCE = 20.0
#: Seconds without a word from the daemon after which a pull is given up.
SILENCE = 600.0
#: Seconds between two reports of a pull.
_PAUSE = 0.25
_FETCHED = ("Verifying Checksum", "Download complete", "Extracting", "Pull complete")
_OF_A_LAYER = ("Pulling fs layer", "Waiting", "Downloading", "Already exists", *_FETCHED)


class Refused(Exception):
    """The daemon or the registry said no; ``refusal`` says why."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


class CannotAsk(Exception):
    """The daemon (Podman) has no way to ask a registry what a tag names."""


def digest_of(client: DockerClient, reference: Reference) -> str:
    """The digest that the registry has for a tag now. Credentials are Docker's own.

    Raises:
        Refused: the registry does not say, or takes longer than ``PATIENCE``.
        CannotAsk: the daemon lacks the request.
    """
    import requests

    path = f"distribution/{reference.repository}:{reference.tag or 'latest'}/json"
    headers = _credentials(client, reference)
    try:
        with client.api.get(_url(client, path), headers=headers, timeout=PATIENCE) as response:
            if response.status_code == 404 and "json" not in response.headers.get(
                "Content-Type", ""
            ):
                raise CannotAsk
            _check(response, reference)
            digest = _digest_in(response)
            if not is_digest(digest):
                raise Refused(explain("its answer names no digest", reference.registry))
            return digest
    except requests.Timeout as error:
        answer = f"timeout: no answer within {PATIENCE:.0f} seconds"
        raise Refused(explain(answer, reference.registry)) from error


def pull(client: DockerClient, reference: Reference, on_step: OnStep) -> None:
    """Pull an image, by its digest where the reference has one; ``on_step`` hears how far it is.

    Raises:
        Refused: it cannot be had.
    """
    query = {
        "fromImage": reference.repository,
        "tag": reference.digest or reference.tag or "latest",
    }
    progress = Progress(str(reference), on_step)
    with (
        client.api.post(
            _url(client, "images/create"),
            params=query,
            headers=_credentials(client, reference),
            stream=True,
            timeout=SILENCE,
        ) as response,
        current().ending(cutter(response)),
    ):
        _check(response, reference)
        for line in filter(None, response.iter_lines()):
            event = json.loads(line)
            if "error" in event:
                raise Refused(explain(str(event["error"]), reference.registry))
            progress.event(event)


@dataclass(slots=True)
class _Layer:
    """Bytes; ``total`` is 0 until the daemon says how many there are."""

    done: int = 0
    total: int = 0
    fetched: bool = False


class Progress:
    """Adds up what a daemon says of each layer, and reports it a few times a second at most."""

    def __init__(
        self, what: str, on_step: OnStep, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._what, self._on_step, self._clock = what, on_step, clock
        self._layers: dict[str, _Layer] = {}
        self._unpacking = False
        self._said, self._when = "", clock()
        on_step(f"pulling {what}")

    def event(self, event: Mapping[str, Any]) -> None:
        """Take in one event of ``POST /images/create``, in the form of Docker's API."""
        status, name = str(event.get("status", "")), str(event.get("id", ""))
        if not name or status not in _OF_A_LAYER:
            return
        layer = self._layers.setdefault(name, _Layer())
        detail = event.get("progressDetail") or {}
        layer.total = int(detail.get("total") or layer.total)
        if status == "Downloading":
            layer.done = int(detail.get("current") or layer.done)
        elif status in _FETCHED:
            layer.done, layer.fetched = layer.total, True
        elif status == "Already exists":
            layer.fetched = True
        self._unpacking = status == "Extracting"
        self._report()

    def text(self) -> str:
        """How far it is: bytes of all layers whose size is known, and layers."""
        layers = self._layers.values()
        done, total = sum(each.done for each in layers), sum(each.total for each in layers)
        unit, name = (1e9, "GB") if total >= 1e9 else (1e6, "MB")
        open_ended = any(not each.fetched and not each.total for each in layers)
        fetched = sum(each.fetched for each in layers)
        return (
            f"{done / unit:.1f} of {'at least ' if open_ended else ''}{total / unit:.1f} {name}, "
            f"{fetched} of {len(layers)} layers"
            + (", unpacking" if self._unpacking and fetched == len(layers) else "")
        )

    def _report(self) -> None:
        now = self._clock()
        if now - self._when < _PAUSE:
            return
        text = self.text()
        if text != self._said:
            self._said, self._when = text, now
            self._on_step(f"pulling {self._what}: {text}")


def _digest_in(response: Response) -> str:
    """The digest in an answer, which may be anything."""
    with contextlib.suppress(ValueError, TypeError, KeyError):
        return str(response.json()["Descriptor"]["digest"])
    return ""


def _url(client: DockerClient, path: str) -> str:
    return f"{client.api.base_url}/v{client.api.api_version}/{path}"


def _credentials(client: DockerClient, reference: Reference) -> dict[str, str]:
    """The header with what Docker's own configuration (or its credential helper) has."""
    import docker.auth
    import docker.errors

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a helper that is missing: the error says it too
            header = docker.auth.get_config_header(client.api, reference.registry)
    except docker.errors.DockerException as error:
        answer = f"Docker's credentials cannot be read: {error}"
        raise Refused(explain(answer, reference.registry)) from error
    return {"X-Registry-Auth": header.decode()} if header else {}


def _check(response: Response, reference: Reference) -> None:
    if response.ok:
        return
    answer = response.text
    with contextlib.suppress(ValueError, TypeError, KeyError):
        answer = str(response.json()["message"])
    raise Refused(explain(answer, reference.registry))
