"""One thing that was asked for beside the two arms, for every format to print in its own way."""

from __future__ import annotations

from dataclasses import dataclass

#: Stands where a table has nothing to say.
NONE = "–"


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One thing that was asked for, of one row.

    ``sentence`` says what was found, ``items`` are a list below it, and ``rows`` a table below
    ``header`` whose first column is node IDs.
    """

    title: str
    sentence: str
    items: tuple[str, ...] = ()
    header: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
