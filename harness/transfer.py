"""Does the result transfer to upstream? The files that it rests on, compared byte by byte.

Those are the package's files that declared failures pass through, and those that the patch
touches. What the unpatched arm had comes from its evidence, upstream's from a repository
(kept in the evidence too) or, as blob IDs, from the case.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from harness.case import Case, Role, StatedUpstream, unsafe_path
from harness.engines.git import blob_id
from harness.guest.hunks import Mismatch, apply_hunks
from harness.linediff import changed_lines
from harness.patch import FilePatch, Patch, to_json
from harness.record import ArmEvidence, SourceRecord, TargetEvidence
from harness.schema import loads
from harness.transfer_words import SHORT, Match, TransferFile, Why, gaps_of, sentence

__all__ = [
    "Match",
    "Transfer",
    "TransferFile",
    "Upstream",
    "Why",
    "gaps",
    "of",
    "paths",
    "read_sources",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """All files that a row's result rests on, and what follows; empty where nothing is known.

    ``against`` names the revisions. Texts of the case and paths stand in ``sentence`` as they are:
    whoever prints it escapes it.
    """

    files: tuple[TransferFile, ...]
    against: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """Files of upstream at ``revision`` (in words), by package path; None: it has no such file.

    ``object_format`` is that of the repository's IDs.
    """

    revision: str
    object_format: str = "sha1"
    files: Mapping[str, bytes | None] = field(default_factory=dict)

    @classmethod
    def of(cls, source: SourceRecord, files: Mapping[str, bytes | None]) -> Upstream:
        """What a run took: the revision as it was asked for, and the commit that it was then.

        Where the checkout lies is nobody's business.
        """
        _, at, asked = source.spec.rpartition("@")
        commit = source.revision[:SHORT]
        plain = not at or source.revision.startswith(asked)
        return cls(
            revision=f"commit {commit}" if plain else f"{asked} (commit {commit})",
            object_format="sha256" if len(source.revision) == 64 else "sha1",
            files=files,
        )


def of(
    case: Case, patch: Patch, evidence: TargetEvidence, upstream: Upstream | None
) -> Transfer | None:
    """Compare a row's files; None where neither the case nor the run says with what."""
    arm = evidence.unpatched
    if arm is None or (upstream is None and case.upstream is None):
        return None
    entries = {file.path: file for file in patch.files}
    files = tuple(
        _compared(path, why, entries.get(path), arm.sources, _theirs(path, upstream, case.upstream))
        for path, why in _reasons(case, patch, arm).items()
    )
    staging = arm.record.staging
    fixed = staging is not None and staging.state == "already-applied"
    return Transfer(
        files=files,
        against=", ".join(dict.fromkeys(file.against for file in files if file.against)),
        sentence=sentence(files, fixed),
    )


def paths(case: Case, patch: Patch, evidence: TargetEvidence) -> tuple[str, ...]:
    """The files that are to be compared, as ``of`` takes them."""
    return tuple(_reasons(case, patch, evidence.unpatched)) if evidence.unpatched else ()


def gaps(transfer: Transfer) -> Iterator[str]:
    """What differs from upstream, a line each, and what was not compared."""
    return gaps_of(transfer.files)


def read_sources(data: bytes) -> dict[str, bytes]:
    """The files of an arm's ``sources.json``, by path; whatever is not as it should be is left out.

    It was written beside code under test: nothing in it is trusted to be well-formed.
    """
    found = loads(data)
    files: dict[str, bytes] = {}
    for path, text in found.items() if isinstance(found, dict) else ():
        if not isinstance(text, str) or unsafe_path(path) or not path.isprintable():
            continue
        try:
            files[path] = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            continue
    return files


def _reasons(case: Case, patch: Patch, arm: ArmEvidence) -> dict[str, Why]:
    """The files that matter, those that failures pass through first, the innermost at the front."""
    passed: dict[str, Why] = {}
    touched = {file.path for file in patch.files}
    platform = arm.record.probe.platform if arm.record.probe else ""
    for node in case.nodes:
        failure = arm.results.result(node.id).failure or arm.results.load_error(node.id)
        if failure is None or node.role_at(platform) is not Role.FLIP:
            continue
        for place in (failure.place, *reversed(failure.frames)):
            path = place.rpartition(":")[0]
            if path.startswith(f"{case.package}/") or path == f"{case.package}.py":
                passed[path] = Why.BOTH if path in touched else Why.FAILURE
    return passed | dict.fromkeys(sorted(touched - passed.keys()), Why.PATCH)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Theirs:
    """Upstream's file: its blob ID (empty: there is none) and its bytes, where they are known."""

    blob: str
    revision: str
    data: bytes | None = None


def _compared(
    path: str, why: Why, entry: FilePatch | None, ours: Mapping[str, bytes], theirs: _Theirs | None
) -> TransferFile:
    """One file against upstream's; ``entry`` is what the patch does to it."""
    before = ours.get(path)
    known = before is not None or (entry is not None and entry.creates)
    if theirs is None or not known:
        return TransferFile(path=path, why=why, match=Match.UNKNOWN, blob=_id(before))
    algorithm = "sha256" if len(theirs.blob) == 64 else "sha1"
    blob = _id(before, algorithm)
    added, removed = None, None
    if theirs.blob == blob:
        match, added, removed = Match.IDENTICAL, 0, 0
    elif entry is not None and theirs.blob == _patched_id(entry, before or b"", algorithm):
        match = Match.PATCHED
    else:
        match = Match.DIFFERS if theirs.blob else Match.ABSENT
    if theirs.data is not None and (size := changed_lines(before or b"", theirs.data)):
        added, removed = size
    return TransferFile(
        path=path,
        why=why,
        match=match,
        against=theirs.revision,
        blob=blob,
        upstream_blob=theirs.blob,
        added=added,
        removed=removed,
    )


def _theirs(path: str, upstream: Upstream | None, stated: StatedUpstream | None) -> _Theirs | None:
    """Upstream's file: the repository's where it has it, else as the case states."""
    found = upstream.files.get(path) if upstream else None
    if upstream and found is not None:
        blob = blob_id(found, upstream.object_format)
        return _Theirs(blob=blob, revision=upstream.revision, data=found)
    if stated and path in stated.blobs:
        return _Theirs(blob=stated.blobs[path], revision=stated.rev)
    if upstream and path in upstream.files:
        return _Theirs(blob="", revision=upstream.revision)
    return None


def _id(data: bytes | None, algorithm: str = "sha1") -> str:
    return "" if data is None else blob_id(data, algorithm)


def _patched_id(entry: FilePatch, before: bytes, algorithm: str) -> str | None:
    """The blob ID of the file as the patch leaves it; None where it does not apply."""
    hunks = json.loads(to_json(Patch(files=(entry,))))["files"][0]["hunks"]
    try:
        after, _ = apply_hunks(before, hunks)
    except Mismatch:
        return None
    return "" if entry.deletes else blob_id(after, algorithm)
