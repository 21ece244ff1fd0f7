"""Why an image cannot be had, told apart from what a daemon or its registry answers."""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.engines.commands import plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A reason in a few words, the answer it was read from, and what to do next."""

    what: str
    answer: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.what}: {self.answer}"


#: The first that fits counts, and the last fits all. The words are those of Docker, of Podman, and
#: of the error codes in the distribution specification, which both hand on.
_KINDS: tuple[tuple[str, str, str], ...] = (
    (
        r"no space left on device|disk quota exceeded",
        "the daemon's disk is full",
        "Make room where the daemon keeps its images: docker system df shows what takes it.",
    ),
    (
        r"toomanyrequests|too many requests|pull rate limit",
        "{registry} allows no more pulls for now",
        "docker login {registry} raises the limit; or wait.",
    ),
    (
        r"unauthorized|authentication required|no basic auth|access denied|is denied|forbidden"
        r"|incorrect username or password|credentials",
        "not authorised",
        "docker login {registry}, as the user who runs this command. A registry says the same of a "
        "repository that does not exist: check the name.",
    ),
    (
        r"no matching manifest|no image found in (manifest list|image index)|does not match the "
        r"(specified|expected) platform",
        "the registry has it, but not for this machine's architecture",
        "Use a host of the image's architecture, or another image.",
    ),
    (
        r"manifest unknown|manifest for .* not found|name unknown|repository name not known"
        r"|blob unknown",
        "{registry} does not have it (any more)",
        "Nightly images are deleted after a while: take another tag and pin it (harness image "
        "pin NAME), or build an image from a lock (images/vllm-cpu-0.27.0 shows how).",
    ),
    (
        r"no such host|name resolution|server misbehaving|connection refused|connection reset"
        r"|timeout|timed out|deadline exceeded|unreachable|no route to host|x509|tls:|certificate"
        r"|http response to https|\beof\b|proxyconnect|received unexpected http status",
        "{registry} cannot be reached",
        "The daemon asks the registry: look at its network, proxy and certificates. Or load the "
        "image from a file (docker save, docker load) and run it by its ID: --image sha256:ID.",
    ),
    (
        r"",
        "the daemon says",
        "Pull or load it (docker pull, docker load) on a host that has it and the device.",
    ),
)


def explain(answer: str, registry: str) -> Refusal:
    """Say what an answer of the daemon means; ``registry`` is the host that was asked."""
    what, remedy = next(
        (what, remedy)
        for pattern, what, remedy in _KINDS
        if re.search(pattern, answer, re.IGNORECASE)
    )
    return Refusal(
        what=what.format(registry=registry),
        answer=plain(" ".join(answer.split())),
        remedy=remedy.format(registry=registry),
    )
