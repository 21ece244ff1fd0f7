"""Variation selector 16 asks for the emoji form of the character before it: two cells wide."""

import pytest

from wcwidth import wcswidth

VS16 = "\ufe0f"


@pytest.mark.parametrize(
    "narrow",
    [
        pytest.param("\u2764", id="heart"),
        pytest.param("#", id="number-sign"),
        pytest.param("\U0001f321", id="thermometer"),
    ],
)
def test_emoji_form_is_wide(narrow):
    assert wcswidth(narrow) == 1
    assert wcswidth(narrow + VS16) == 2


def test_counted_once_among_others():
    assert wcswidth("a\u2764" + VS16 + VS16 + "b") == 4


@pytest.mark.parametrize(
    ("text", "width"),
    [
        pytest.param("x" + VS16, 1, id="letter"),
        pytest.param("\u231a" + VS16, 2, id="wide-already"),
        pytest.param(VS16, 0, id="alone"),
    ],
)
def test_nothing_to_widen(text, width):
    assert wcswidth(text) == width


def test_terminal_older_than_unicode_9():
    assert wcswidth("\u2764" + VS16, unicode_version="8.0.0") == 1
