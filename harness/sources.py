"""Trees of files that tests are taken from: a folder, a revision of a git repository, an sdist."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from harness.errors import BadInput
from harness.record import SourceRecord

_SDIST = re.compile(r"sdist:\s*([A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)\s*==\s*([\w.+!-]+)")


class Tree(Protocol):
    """Files by path relative to a root, read one by one. Links are no files."""

    @property
    def record(self) -> SourceRecord:
        """Where it comes from, without the files that were taken."""

    def names(self) -> Collection[str]:
        """The paths of all files."""

    def read(self, path: str) -> bytes:
        """The bytes of one file. BadInput where there is none or it is too big."""

    def read_many(self, paths: Sequence[str]) -> Mapping[str, bytes]:
        """The bytes of several files by path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SdistSpec:
    """A released source distribution, exactly."""

    name: str
    version: str


def parse_sdist(text: str, *, where: str) -> SdistSpec | None:
    """Read ``sdist:NAME==VERSION``; None where the text does not begin so.

    Raises:
        BadInput: it does, and is not that.
    """
    if not text.startswith("sdist:"):
        return None
    found = _SDIST.fullmatch(text.strip())
    if found is None:
        raise BadInput(
            f"{where}: {text!r} names no release",
            "Write it as sdist:NAME==VERSION, for example sdist:click==8.1.7.",
        )
    return SdistSpec(name=re.sub(r"[-_.]+", "-", found[1]).lower(), version=found[2])
