"""JUnit XML to outcomes: streaming, without a tree, entities or network, in bounded memory.

The file was written by code under test, so it is read as hostile: sizes are capped, a DOCTYPE
is refused, and a doubt makes an outcome worse. Expat, because it was the fastest and smallest of
what was measured. Here is how the bytes are read; ``junit_builder`` makes outcomes of the
elements, and ``junit_dialects`` says what they mean and where the formats come from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO, Final
from xml.parsers import expat

from harness.errors import JUnitError
from harness.junit_builder import NODE_ID, Builder
from harness.junit_document import Detail, Document, Totals

__all__ = ["NODE_ID", "Detail", "Document", "Totals", "read"]

MAX_BYTES: Final = 4 << 30
#: A start tag with its attributes, or a comment: expat holds it in memory as a whole. Newer expats
#: wait for twice as much before they look at a long tag again, so half of it is sure to be read.
MAX_TAG: Final = 4 << 20
MAX_CASES: Final = 2_000_000
#: Characters of all different names of elements and attributes: expat keeps every name.
MAX_NAMES: Final = 256 << 10
_PIECE: Final = 128 << 10

_ENCODINGS: Final = re.compile(
    r"(?i)utf-?8|utf-?16(le|be)?|us-ascii|iso-8859-\d+|(windows-|cp)125\d"
)
#: Errors that mean "more was to come" when expat raises them at the end.
_CUT_OFF: Final = frozenset(
    expat.errors.codes[message]
    for message in (
        expat.errors.XML_ERROR_NO_ELEMENTS,
        expat.errors.XML_ERROR_UNCLOSED_TOKEN,
        expat.errors.XML_ERROR_PARTIAL_CHAR,
        expat.errors.XML_ERROR_UNCLOSED_CDATA_SECTION,
    )
)


def read(
    stream: BinaryIO | Iterable[bytes],
    *,
    where: str,
    texts: bool = False,
    max_bytes: int = MAX_BYTES,
) -> Document:
    """Read one JUnit file, from a binary file or from chunks; ``where`` names it in messages.

    ``texts`` keeps the text of what didn't pass, as ``Detail.body``; load errors always have it.

    Raises:
        JUnitError: empty, cut off, not well-formed, not JUnit, with a DOCTYPE, or over a limit.
            It names the file, and the line and column where there is one.
    """
    parser = expat.ParserCreate()
    builder = Builder(parser, where, texts=texts)
    parser.XmlDeclHandler = _declaration(builder)
    parser.StartDoctypeDeclHandler = _doctype(builder)
    ending = False
    try:
        fed = _feed(parser, builder, stream, max_bytes)
        if not fed:
            raise JUnitError(f"{where}: the file is empty", "Did the test run get to its end?")
        ending = True
        parser.Parse(b"", True)
        return builder.document()
    except expat.ExpatError as error:
        place = f"{where}:{error.lineno}:{error.offset + 1}"
        if ending and error.code in _CUT_OFF:
            raise JUnitError(f"{place}: the XML ends before it is complete: cut off?") from None
        text = expat.ErrorString(error.code)
        raise JUnitError(f"{place}: not well-formed XML: {text}") from None
    finally:
        builder.detach()


def _feed(
    parser: expat.XMLParserType,
    builder: Builder,
    stream: BinaryIO | Iterable[bytes],
    max_bytes: int,
) -> int:
    """Parse all but the end, with the limits checked between pieces; return the bytes parsed."""
    fed = 0
    for piece in _pieces(stream):
        fed += len(piece)
        if fed > max_bytes:
            raise builder.error(f"the file is longer than {max_bytes} bytes")
        parser.Parse(piece, False)
        if fed - parser.CurrentByteIndex > MAX_TAG:
            raise builder.error(f"a tag or a comment is longer than {MAX_TAG} bytes")
        if sum(map(len, parser.intern)) > MAX_NAMES:
            raise builder.error(f"more than {MAX_NAMES} characters of element and attribute names")
        if builder.cases > MAX_CASES:
            raise builder.error(f"more than {MAX_CASES} tests")
    return fed


def _pieces(stream: BinaryIO | Iterable[bytes]) -> Iterator[bytes | memoryview]:
    """Cut the input into pieces, since the limits are checked between them."""
    if isinstance(stream, BinaryIO) or hasattr(stream, "read"):
        while piece := stream.read(_PIECE):
            yield piece
        return
    for chunk in stream:
        view = memoryview(chunk)
        yield from (view[at : at + _PIECE] for at in range(0, len(view), _PIECE))


def _declaration(builder: Builder) -> Callable[[str, str | None, int], None]:
    def declaration(version: str, encoding: str | None, standalone: int) -> None:
        # Python's expat would look up any codec of that name, and fail in its own ways.
        if encoding is not None and not _ENCODINGS.fullmatch(encoding):
            raise builder.error(f"unsupported encoding {encoding[:40]!r}", "Write it as UTF-8.")

    return declaration


def _doctype(builder: Builder) -> Callable[..., None]:
    def doctype(*_: object) -> None:
        raise builder.error("a DOCTYPE is refused", "JUnit needs none; it may declare entities.")

    return doctype
