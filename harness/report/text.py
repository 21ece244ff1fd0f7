"""Untrusted text made harmless: visible, short, and inert in Markdown and in a terminal."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

#: Appended wherever a text was shortened.
CUT = "[cut]"
#: GitHub refuses a comment that is longer, in UTF-16 units.
GITHUB_LIMIT = 65_536
#: Where the rest is, wherever something was cut.
ALL = "the JSON report and the evidence have them all"

_ARROWS = str.maketrans({"→": "->", "✓": "ok", "✗": "no", "…": "...", "·": "-"})
#: Control, format (bidi, zero width), surrogate, private, unassigned, odd spaces.
_INVISIBLE = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"))
_BACKTICKS = re.compile("`+")
_DIGEST = re.compile(r"\b(sha256:[0-9a-f]{12})[0-9a-f]+")

#: A word that means nothing in Markdown and that GitHub makes no link of. Anything else goes
#: into a code span. Never a colon inside (addresses, emoji), never @, # or underscores.
_BODY = r"[^\W_]+(?:[-.,'\"()/+=%;×][^\W_()]*|\([^\W_]*\))*"
_WORD = re.compile(rf"[\"'(]*{_BODY}[)\"'.,:;?]*|[@→·…×+=/]|-")
#: What GitHub, or a repository's own references, would link all the same: ``www.``, ``GH-1``,
#: ``ABC-1``, and anything that may be the hash of a commit.
_LINKED = re.compile(r"www\.|[a-z]-\d|\b[0-9a-f]{7,}\b", re.IGNORECASE)
#: One mark of punctuation at the end: what ends in several (``..``, ``a::``) needs all of them.
_PUNCTUATED = re.compile(r"(.*[^\s.,:;])([.,:;])")
#: How an item may begin without becoming a list, a heading or a rule of its own.
_FIRST = re.compile(r"[\"'(]*[^\W\d]|\d+[,:;]?$")


def shown(text: str, limit: int = 300) -> str:
    """Make every character visible, line breaks and bidi marks too, and shorten it."""
    visible = "".join(_visible(char) for char in text[: limit + 1])
    if len(text) > limit or len(visible) > limit:
        return visible[:limit] + CUT
    return visible


def plain(text: str) -> str:
    """Like ``shown``, for texts of any length and several lines, such as an error's."""
    return "".join(char if char == "\n" else _visible(char) for char in text)


def oneline(text: str, limit: int = 300) -> str:
    """Like ``shown``, for sentences: white space of any kind becomes one space."""
    return shown(" ".join(text[: 8 * limit].split()), limit) if text else ""


def code(text: str, limit: int = 300) -> str:
    """A Markdown code span with exactly this text, whatever is in it.

    In a table, ``cells`` still has to escape the pipes.
    """
    text = shown(text, limit)
    if not text:
        return "(empty)"
    # Only a run of the same length ends a span. The shortest length that is not in the text is
    # taken, not the longest and one: GitHub's parser knows no fence of more than 80 backticks.
    runs = {len(run) for run in _BACKTICKS.findall(text)}
    fence = "`" * next(length for length in range(1, len(runs) + 2) if length not in runs)
    # CommonMark takes one space off at either end, unless there is nothing but spaces.
    edges = (text[0], text[-1])
    pad = " " if "`" in edges or (edges == (" ", " ") and text.strip()) else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def prose(text: str, limit: int = 300) -> str:
    """A sentence for Markdown, each word that could mean anything to it in a code span."""
    parts: list[str] = []
    risky: list[str] = []
    for word in oneline(text, limit).split(" "):
        if _harmless(word, first=not parts and not risky):
            parts += [_span(risky, limit)] if risky else []
            risky = []
            parts.append(word)
        elif word:
            risky.append(word)
    parts += [_span(risky, limit)] if risky else []
    return " ".join(parts) or "(empty)"


def _span(words: list[str], limit: int) -> str:
    """Words in one code span; the sentence's punctuation after the last is not part of it."""
    text = " ".join(words)
    punctuated = _PUNCTUATED.fullmatch(text)
    if punctuated is None:
        return code(text, 2 * limit)
    return code(punctuated[1], 2 * limit) + punctuated[2]


def cells(*texts: str) -> str:
    """One row of a Markdown table, of cells that are inert Markdown already."""
    return "| " + " | ".join(_cell(text) for text in texts) + " |"


def table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """The lines of a Markdown table, of cells that are inert Markdown already."""
    return [cells(*header), "|" + "---|" * len(header), *(cells(*row) for row in rows)]


def cut_note(shown: int, total: int, what: str) -> list[str]:
    """The sentence under a Markdown list or table that was shortened."""
    if shown >= total:
        return []
    return ["", f"{CUT} {total - shown:,} more of {total:,} {what} are not shown here; {ALL}."]


def clipped(text: str) -> str:
    """Cut a Markdown block that GitHub would refuse at the end of a line, and say so."""
    if size(text) <= GITHUB_LIMIT:
        return text
    note = f"\n\n{CUT} The rest did not fit into GitHub's limit; {ALL}.\n"
    room = GITHUB_LIMIT - size(note)
    kept: list[str] = []
    for line in text.splitlines():
        room -= size(line) + 1
        if room < 0:
            break
        kept.append(line)
    return "\n".join(kept) + note


def terminal(text: str, encoding: str) -> str:
    """Text as this terminal can print it: what it has no sign for is spelled out."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.translate(_ARROWS)
        return text.encode(encoding, "backslashreplace").decode(encoding)
    except LookupError:
        return text.translate(_ARROWS).encode("ascii", "backslashreplace").decode()
    return text


def short(text: str) -> str:
    """Shorten the sha256 digests in a text to 12 digits."""
    return _DIGEST.sub(r"\1…", text)


def count(number: int, what: str, plural: str = "") -> str:
    """``1 hunk``, ``3 hunks``."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {plural or what + 's'}"


def listed(items: list[str]) -> str:
    """``A``, ``A and B``, ``A, B and C``."""
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)


def size(text: str) -> int:
    """Length as GitHub counts it."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _visible(char: str) -> str:
    if char == " " or unicodedata.category(char) not in _INVISIBLE:
        return char
    return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(char) or (
        f"\\x{ord(char):02x}" if char <= "\xff" else f"\\u{ord(char):04x}"
    )


def _harmless(word: str, *, first: bool) -> bool:
    if first and not _FIRST.match(word):
        return False
    return bool(_WORD.fullmatch(word)) and not _LINKED.search(word)


def _cell(text: str) -> str:
    # GFM takes a table's row apart before it looks for code spans, so pipes are escaped in
    # both; this backslash is the only one that it removes from a code span.
    return text.replace("|", "\\|")
