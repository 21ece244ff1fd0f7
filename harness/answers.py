"""What an arm answered and said, read back: typed, and the same wherever its folder lay."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from harness.errors import BadInput
from harness.outcome import ArmStatus
from harness.record import ArmRecord, Probe, Seal, Staging
from harness.schema import parse_json

T = TypeVar("T")
V = TypeVar("V")
_GIVEN_UP = (ArmStatus.ENGINE_FAILED, ArmStatus.INTERRUPTED)


def rederived(record: ArmRecord, raw: Mapping[str, bytes], where: str) -> ArmRecord:
    """The record with what its raw answers say, instead of what it repeats of them.

    An arm that was given up may have got no real answer: ``{"error": …}``, or anything at all. Its
    reason says so.

    Raises:
        BadInput: an answer of another arm cannot be read; ``where`` names its folder.
    """

    def answer(name: str, kind: type[T]) -> T | None:
        try:
            return parse_json(raw[name], kind, where=f"{where}/{name}") if name in raw else None
        except BadInput:
            if record.status in _GIVEN_UP:
                return None
            raise

    staging = answer("stage.json", Staging)
    if staging is not None:
        path, message = (
            portable(text, record.root) for text in (staging.package_path, staging.message)
        )
        staging = replace(staging, package_path=path, message=message)
    return replace(
        record,
        reason=portable(record.reason, record.root),
        probe=answer("probe.json", Probe),
        staging=staging,
        seal=answer("seal.json", Seal),
    )


def portable(value: V, root: str) -> V:
    """A text, or what a journal's line holds, with ``$ARM`` for an arm's folder, wherever it lay.

    What lies deeper in untrusted data than any text of a journal does stays as it is.
    """
    folder = re.compile(rf"(?<![\w.-]){re.escape(root)}(?![\w-])") if root else None

    def replaced(item: Any, levels: int = 2) -> Any:
        match item:
            case str() if folder:
                return folder.sub("$ARM", item)
            case list() if levels:
                return [replaced(part, levels - 1) for part in item]
            case dict() if levels:
                return {key: replaced(part, levels - 1) for key, part in item.items()}
            case _:
                return item

    result: V = replaced(value)
    return result
