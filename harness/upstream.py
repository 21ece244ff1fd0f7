"""Upstream's files at a revision of a git repository, for comparison with the image's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.engines.git import Repository
from harness.errors import BadInput
from harness.plan import CaseFiles
from harness.record import SourceRecord

#: Bytes of a file; the arms leave no larger ones either.
LARGEST = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """A revision of upstream; ``prefix`` is its folder that holds the package, with a slash."""

    spec: str
    repository: Repository
    prefix: str
    present: Collection[str]

    @classmethod
    def open(cls, spec: str, files: CaseFiles) -> Checkout:
        """Find the revision and the case's package in it; the work tree is not looked at.

        Raises:
            BadInput: ``spec`` is not ``REPO@REV`` of a repository that has the package.
        """
        repo, _, rev = spec.rpartition("@")
        if not repo or not rev:
            raise BadInput(f"--upstream {spec!r}: not REPO@REV", "Write it as ../vllm@main.")
        repository = Repository.open(Path(repo), rev)
        present = frozenset(repository.files())
        prefix = _prefix(present, files, f"--upstream {spec}")
        return cls(spec=spec, repository=repository, prefix=prefix, present=present)

    @property
    def record(self) -> SourceRecord:
        """What is known before any file was taken."""
        return SourceRecord(kind="git", spec=self.spec, revision=self.repository.commit)

    def take(self, paths: Iterable[str]) -> dict[str, bytes | None]:
        """The files at these package paths; None where upstream has none.

        One that is too large is left out, so that nothing is said of it.

        Raises:
            BadInput: git cannot read one any more.
        """
        wanted = {path: self.prefix + path for path in paths}
        there = [name for name in wanted.values() if name in self.present]
        read = self.repository.read_many(there)
        found = {path: read.get(name) for path, name in wanted.items()}
        return {path: data for path, data in found.items() if len(data or b"") <= LARGEST}


def _prefix(present: Collection[str], files: CaseFiles, where: str) -> str:
    """What stands before the package in the checkout, with a slash at its end; empty at the top.

    The case's ``source``, else the folder that has the package and most of the patched files.

    Raises:
        BadInput: the package is not there, or in several folders alike.
    """
    case = files.case
    names = {f"{case.package}/__init__.py", f"{case.package}.py"}
    names |= {file.path for file in files.patch.files}
    found = Counter(
        path[: -len(name)]
        for path in present
        for name in names
        if path == name or path.endswith(f"/{name}")
    )
    if case.source is not None:
        stated = case.source.strip("/").removeprefix(".")
        stated += "/" if stated else ""
        found = Counter({stated: 1} if stated in found else {})
    if not found:
        raise BadInput(
            f"{where}: it has no package {case.package!r}",
            "Name a checkout of the package; what stands above the package is the case's 'source'.",
        )
    most = [prefix for prefix, number in found.items() if number == max(found.values())]
    shortest = sorted(prefix for prefix in most if len(prefix) == min(map(len, most)))
    if len(shortest) > 1:
        raise BadInput(
            f"{where}: it has the package {case.package!r} in {' and in '.join(shortest)}",
            "State the one that is meant as 'source' in case.toml.",
        )
    return shortest[0]
