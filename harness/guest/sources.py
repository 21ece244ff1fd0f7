"""The package's files that declared failures pass through or the patch touches, as they are.

Runs inside the environment, called by seal.py after the tests: standard library only, Python 3.9
or later. The journal is written beside code under test, so nothing in it is trusted: only names
that the manifest has are read, only plain files, none behind a link, and not too much.
"""

from __future__ import annotations

import base64
import json
import os
import stat
from collections.abc import Collection, Iterator
from typing import Any

#: Files, bytes of each and of all together, before they are encoded.
MOST = 200
LARGEST = 4 * 1024 * 1024
ALTOGETHER = 16 * 1024 * 1024
#: Bytes of the journal that are read, and of one of its lines.
JOURNAL = 256 * 1024 * 1024
LINE = 1024 * 1024


def collect(request: dict[str, Any], manifest: dict[str, Any]) -> dict[str, str]:
    """Return the files' bytes in base64, by path relative to the folder that holds the package.

    ``manifest`` is what stage.py left. What the limits above leave no room for is not there, nor
    what is no plain file; the patched files come first.
    """
    container = os.path.dirname(manifest["path"])
    root, found, room = request["root"], {}, ALTOGETHER
    with open(os.path.join(root, request["patch"] + ".json"), encoding="utf-8") as file:
        wanted = dict.fromkeys(entry["path"] for entry in json.load(file)["files"])
    journal = os.path.join(root, "journal.jsonl")
    wanted.update(dict.fromkeys(passed(journal, request["nodes"], manifest["package"])))
    for path in wanted:
        if path not in manifest["package"] or len(found) == MOST:
            continue
        data = read(container, path, min(LARGEST, room))
        if data is not None:
            room -= len(data)
            found[path] = base64.b64encode(data).decode("ascii")
    return found


def passed(journal: str, nodes: Collection[str], package: Collection[str]) -> Iterator[str]:
    """The files among ``package`` that failures of these node IDs, or of loading, pass through."""
    nodes = set(nodes)
    for event in events(journal):
        failure = event.get("failure")
        if not isinstance(failure, dict):
            continue
        if event.get("event") == "report" and str(event.get("id")) not in nodes:
            continue
        frames = failure.get("frames")
        places = frames if isinstance(frames, list) else []
        names = [place.rpartition(":")[0] for place in places if isinstance(place, str)]
        for name in [*names, failure.get("file")]:
            if isinstance(name, str) and name in package:
                yield name


def events(journal: str) -> Iterator[dict[str, Any]]:
    """The journal's lines that are JSON objects; a longer line than LINE is none."""
    file = plain_file(journal)
    if file is None:
        return
    with file:
        rest = JOURNAL
        while rest > 0:
            line = file.readline(min(LINE, rest))
            if not line:
                return
            rest -= len(line)
            try:
                event = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(event, dict):
                yield event


def read(container: str, path: str, limit: int) -> bytes | None:
    """A plain file's bytes; None where it is larger, no such file, or behind a link."""
    full = os.path.join(container, path)
    if os.path.realpath(full) != os.path.join(os.path.realpath(container), path):
        return None
    file = plain_file(full)
    if file is None:
        return None
    with file:
        data = file.read(limit + 1)
    return data if len(data) <= limit else None


def plain_file(path: str) -> Any:
    """The file, open for reading, if it is a plain one: a pipe would never end."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        return None
    return os.fdopen(handle, "rb")
