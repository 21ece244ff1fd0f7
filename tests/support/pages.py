"""Markdown as its parsers see it: what a test must look at instead of at the raw text."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from markdown_it import MarkdownIt

PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


class Page(HTMLParser):
    """A page's tags, its text outside of code, and its code spans."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.prose = ""
        self.codes: list[str] = []
        self._in_code = False
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag == "code":
            self._in_code = True
            self.codes.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "code":
            self._in_code = False

    def handle_data(self, data: str) -> None:
        if self._in_code:
            self.codes[-1] += data
        else:
            self.prose += data


def pages(markdown: str) -> list[Page]:
    """The Markdown as parsers see it: GitHub's own too, where it is installed."""
    html = [PARSER.render(markdown)]
    try:
        import cmarkgfm
    except ImportError:
        pass
    else:
        html.append(cmarkgfm.github_flavored_markdown_to_html(markdown))
    return [Page(text) for text in html]


def check_inert(page: Page) -> None:
    """Nothing that GitHub would make a link or a notification of."""
    assert not re.search(r"@\w|#\d|\bGH-\d|://|\bwww\.|\b[0-9a-f]{7,40}\b", page.prose, re.I)
    assert not {"a", "img", "script", "em", "del", "hr", "input"} & set(page.tags)
