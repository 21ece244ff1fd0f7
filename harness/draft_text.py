"""A drafted case as the text of a case.toml, laid out for people. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import tomlkit

from harness.case import Signature
from harness.draft import OWED, Draft, DraftNode
from harness.split import LeftOut

_WIDTH = 98


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What a case says before its nodes; ``platform`` was measured, such as ``cpu``.

    ``origin`` says what the draft was made from; an empty ``title`` is left to a person.
    """

    id: str
    title: str
    package: str
    source: str
    tests: tuple[str, ...]
    images: tuple[str, ...]
    platform: str = "cpu"
    origin: str = ""


def case_text(head: Head, draft: Draft, left_out: Iterable[LeftOut] = ()) -> str:
    """The text of the drafted case."""
    lines = [*_head(head), *_remarks(draft, left_out)]
    for name, signature in draft.signatures.items():
        lines += ["", *_signature(name, signature)]
    for node in draft.nodes:
        lines += ["", *_node(node, head.platform)]
    return "\n".join(lines) + "\n"


def to_fill_in(head: Head, draft: Draft) -> tuple[str, ...]:
    """What a person has to look at before the case can be shown to others."""
    wanted = [f"title ({head.title})" if head.title else "title", "links"]
    found = [f"{' and '.join(wanted)}: say what was wrong, and where it was reported"]
    if draft.signatures:
        found.append("signatures are as measured: compare them with the issue's description")
    if draft.skipped:
        found.append("the role of what was skipped here")
    if draft.remarks:
        found.append("what became of other tests: see the comments in case.toml")
    found.append("then take the line out of 'owed'")
    return tuple(found)


def _head(head: Head) -> Iterator[str]:
    yield from _comment(f"Drafted by harness{head.origin}. To be looked at by a person:")
    yield "# title and links; signatures, which are as measured; then take the line out of 'owed'."
    yield "schema = 1"
    yield f"title = {_quoted(head.title or head.id)}"
    yield "links = []  # the issue, the pull request"
    yield f"package = {_quoted(head.package)}"
    if head.source:
        yield f"source = {_quoted(head.source)}"
    yield 'patch = "fix.patch"'
    yield from _list("tests", head.tests)
    yield from _list("images", head.images)
    yield f"platforms = [{_quoted(head.platform.partition('-')[0])}]  # those that reviewers want"
    yield from _list("owed", (OWED,))


def _remarks(draft: Draft, left_out: Iterable[LeftOut]) -> Iterator[str]:
    parts = (
        ("Neither flip nor control, as measured:", draft.remarks),
        ("Of the change, neither arm gets:", [f"{each.path}: {each.why}" for each in left_out]),
    )
    for title, lines in parts:
        if lines:
            yield ""
            yield f"# {title}"
            for line in lines:
                yield from _comment(f"- {line}")


def _signature(name: str, signature: Signature) -> Iterator[str]:
    yield f"[signatures.{name}]"
    yield f"exception = {_quoted(signature.exception)}"
    if signature.message:
        yield f"message = {_quoted(signature.message)}"
    if signature.at:
        yield f"at = {_quoted(signature.at)}"
    if signature.while_loading:
        yield "while_loading = true"


def _node(node: DraftNode, platform: str) -> Iterator[str]:
    if node.note:
        yield from _comment(node.note[0].upper() + node.note[1:])
    yield "[[nodes]]"
    yield f"id = {_quoted(node.id)}"
    yield f'role = "{node.role}"'
    if node.signature:
        yield f"signature = {_quoted(node.signature)}"
    if node.skip:
        yield f"skip = {{ {_quoted(platform)} = {_quoted(node.skip)} }}"


def _list(key: str, values: tuple[str, ...]) -> Iterator[str]:
    line = f"{key} = [{', '.join(map(_quoted, values))}]"
    if len(line) <= _WIDTH:
        yield line
        return
    yield f"{key} = ["
    for value in values:
        yield f"    {_quoted(value)},"
    yield "]"


def _comment(text: str) -> Iterator[str]:
    """One comment line, without what TOML does not allow in it."""
    yield "# " + "".join(c if c.isprintable() else " " for c in text)


def _quoted(text: str) -> str:
    return tomlkit.string(text).as_string()
