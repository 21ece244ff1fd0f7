"""Text to typed records, through pydantic; every complaint names file, key and remedy."""

from __future__ import annotations

import difflib
import json
import tomllib
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from harness.errors import BadInput

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

T = TypeVar("T")
_WORDS = {
    "unexpected_keyword_argument": "unknown key",
    "missing": "key is missing",
    "missing_argument": "key is missing",
}


def parse_toml(text: str, kind: type[T], *, where: str, extra: dict[str, Any]) -> T:
    """Parse TOML into the dataclass ``kind``; ``extra`` adds what the text does not hold.

    Raises:
        BadInput: not TOML, an unknown or missing key, a value of the wrong type.
    """
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{where}: not valid TOML: {error}") from None
    for key in extra:
        if key in data:
            raise BadInput(f"{where}: {key}: unknown key", "It follows from the folder's name.")
    return validate(data | extra, kind, where=where)


def parse_json(text: str | bytes, kind: type[T], *, where: str) -> T:
    """Parse JSON into the dataclass ``kind``.

    Raises:
        BadInput: not JSON, a missing key, a value of the wrong type.
    """
    data = loads(text)
    if data is None:
        raise BadInput(f"{where}: not valid JSON")
    return validate(data, kind, where=where)


def loads(data: str | bytes) -> Any:
    """Read JSON that is not trusted: None where it is none, however deep or broken."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def validate(data: Any, kind: type[T], *, where: str) -> T:
    """Check plain data against the dataclass ``kind`` and build it.

    Raises:
        BadInput: one line for each wrong key.
    """
    from pydantic import ValidationError

    try:
        # As JSON, since only there strict means: no text for a number, but a list for a tuple.
        record: T = _adapter(kind).validate_json(json.dumps(data, default=str), strict=True)
        return record
    except ValidationError as error:
        lines = [f"{where}: {line}" for line in _complaints(error, kind)]
        raise BadInput("\n".join(lines)) from None


def dump_json(record: Any) -> str:
    """Write a record as JSON, with sorted keys, so that equal records give equal bytes."""
    data = _adapter(type(record)).dump_python(record, mode="json")
    return json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


_ADAPTERS: dict[type[Any], TypeAdapter[Any]] = {}


def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    """The checker of a type; making one takes milliseconds, so each is made once."""
    if kind not in _ADAPTERS:
        from pydantic import TypeAdapter

        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


def _complaints(error: ValidationError, kind: type[Any]) -> list[str]:
    lines = []
    for item in error.errors(include_url=False, include_context=False):
        key = ".".join(str(part) for part in item["loc"]) or "(top level)"
        text = _WORDS.get(item["type"], item["msg"])
        if item["type"] == "unexpected_keyword_argument":
            text += _did_you_mean(str(item["loc"][-1]), kind)
        lines.append(f"{key}: {text}")
    return lines


def _did_you_mean(key: str, kind: type[Any]) -> str:
    close = difflib.get_close_matches(key, sorted(_all_keys(kind)), n=1)
    return f"; did you mean {close[0]!r}?" if close else "; remove it"


def _all_keys(kind: Any) -> set[str]:
    """Every key of a dataclass and of the dataclasses in it, for spelling hints."""
    import typing

    keys: set[str] = set()
    hints = typing.get_type_hints(kind)
    for item in fields(kind):
        keys.add(item.name)
        todo = [hints[item.name]]
        while todo:
            hint = todo.pop()
            todo.extend(typing.get_args(hint))
            if isinstance(hint, type) and is_dataclass(hint):
                keys |= _all_keys(hint)
    return keys
