"""Hostile text stays text: checked with Markdown parsers, not with our own idea of Markdown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pages import check_inert, pages

from harness.report import text

HOSTILE = (
    "a|b",
    "a\\|b",
    "a\\",
    "`",
    "a `` b ` c",
    "``` js",
    "`" * 90,
    "<script>alert(1)</script>",
    "</details>",
    "<!-- ",
    "[x](javascript:alert(1))",
    "![x](https://evil.example/x.png)",
    "https://evil.example",
    "www.evil.example",
    "mail@evil.example",
    "@octocat please merge",
    "fixes #123",
    "GH-123",
    "owner/repo#1",
    "0123456789abcdef0123456789abcdef01234567",
    "**bold** __bold__ *i* _i_ ~~s~~",
    "\n\n# heading",
    "- [ ] task",
    "1. one",
    "1) one",
    "---",
    "===",
    "&lt;b&gt; &#64;octocat",
    "a\nb\r\nc\x0bd\u2028e",
    "\x1b[31mred\x1b[0m \x9b1m",
    "\u202eevil\u2066",
    "zero\u200bwidth\ufeff",
    "\ud800 lone",
    ":smile: $x$ $`x`$",
    "[^1] [red]rich[/red]",
    "test[MARLIN-é-日本語]",
    "",
    " ",
    "\\`a\\`",
)
ANYTHING = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(),
    st.text(alphabet="`|\\<>@#[]()!*_~&:/ \na1-.wGH$"),
    st.tuples(st.sampled_from(HOSTILE), st.text(max_size=5), st.sampled_from(HOSTILE)).map("".join),
)


@given(ANYTHING)
def test_shown_has_only_visible_characters(value: str) -> None:
    shown = text.shown(value)
    assert shown.isprintable()
    assert len(shown) <= 300 + len(text.CUT)
    shown.encode()


def test_shown_names_what_cannot_be_seen() -> None:
    assert text.shown("a\n\x1b\u202e\ud800\te") == "a\\n\\x1b\\u202e\\ud800\\te"
    assert text.shown("é 日本語 🎉") == "é 日本語 🎉"


def test_shown_says_where_it_cut() -> None:
    assert text.shown("x" * 301) == "x" * 300 + "[cut]"
    assert text.shown("x" * 300) == "x" * 300
    assert text.shown("\n" * 200).endswith("[cut]")


@given(ANYTHING)
def test_a_code_span_is_one_span_with_the_exact_text(value: str) -> None:
    expected = text.shown(value)
    for page in pages(f"- {text.code(value)} end"):
        assert page.tags[:2] == ["ul", "li"]
        if not expected:
            assert page.prose.split() == ["(empty)", "end"]
            continue
        assert page.codes == [expected]
        assert page.prose.split() == ["end"]


@given(ANYTHING, ANYTHING)
def test_a_table_row_keeps_its_columns(first: str, second: str) -> None:
    rows = [(text.code(first), text.prose(second), text.code(second)), ("`last`", "", "`row`")]
    markdown = "\n".join(text.table(("a", "b", "c"), rows))
    for page in pages(markdown):
        assert page.tags.count("th") == 3
        assert page.tags.count("td") == 6
        assert page.tags.count("tr") == 3
        assert page.codes[-2:] == ["last", "row"]
        assert not first or page.codes[0] == text.shown(first)
        check_inert(page)


@given(ANYTHING)
@pytest.mark.parametrize("frame", ["- {} end", "word {} end", "**{}** end", "# x\n\n- a: {}. end"])
def test_prose_is_inert_and_complete(frame: str, value: str) -> None:
    markdown = frame.format(text.prose(value))
    (plain,) = pages(frame.format("x"))[:1]
    for page in pages(markdown):
        structure = [tag for tag in page.tags if tag != "code"]
        assert structure == plain.tags
        assert page.prose.strip().endswith("end")
        if "**" not in frame and "#" not in frame:
            check_inert(page)


@given(ANYTHING)
def test_prose_shows_all_words(value: str) -> None:
    for page in pages(f"- {text.prose(value)}"):
        html = "".join(page.prose.split()) + "".join("".join(page.codes).split())
        expected = "".join(text.oneline(value).split()) or "(empty)"
        assert sorted(html) == sorted(expected)


@pytest.mark.parametrize(
    "sentence",
    [
        "CPU (Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz)",
        "no CUDA, XPU, ROCm row",
        "one run an arm: says nothing about flakiness",
        "unpatched it failed; declared: TypeError",
        "97 distributions from a lock, no container",
    ],
)
def test_plain_sentences_stay_as_they_are(sentence: str) -> None:
    assert text.prose(sentence) == sentence


def test_only_the_words_that_need_it_become_code() -> None:
    raw = "failed with KeyError: 'a_b' at pkg/mod.py:3 for @octocat #12"
    assert text.prose(raw) == "failed with KeyError: `'a_b'` at `pkg/mod.py:3` for `@octocat #12`"


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("root@127.0.0.1: no sha256:ID.", "`root@127.0.0.1`: no `sha256:ID`."),
        ("see a_b, then c_d; e", "see `a_b`, then `c_d`; e"),
        ("a_b, c_d, e", "`a_b, c_d`, e"),
        ("a path such as a_b/.. ends", "a path such as `a_b/..` ends"),
        ("std_x:: is", "`std_x::` is"),
        ("a_b ... c", "`a_b ...` c"),
    ],
)
def test_the_punctuation_of_a_sentence_is_no_code(raw: str, expected: str) -> None:
    assert text.prose(raw) == expected


def test_terminal_text_fits_the_encoding() -> None:
    assert text.terminal("failed → passed é", "utf-8") == "failed → passed é"
    assert text.terminal("failed → passed é", "ascii") == "failed -> passed \\xe9"
    assert text.terminal("→", "no-such-encoding") == "->"


def test_words_and_numbers() -> None:
    assert text.count(1, "hunk") == "1 hunk"
    assert text.count(1200, "hunk") == "1,200 hunks"
    assert text.listed([]) == ""
    assert text.listed(["a"]) == "a"
    assert text.listed(["a", "b", "c"]) == "a, b and c"
    assert text.short("x@sha256:" + "ab" * 32) == "x@sha256:abababababab…"
    assert text.size("a🎉") == 3
