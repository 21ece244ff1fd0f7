"""case.toml: what is accepted, and that every complaint names the file and the key."""

from __future__ import annotations

import pytest

from harness.case import Case, Role, parse_case
from harness.errors import BadInput, ExitCode

GOOD = """
schema = 1
title = "A bug"
package = "pkg"
patch = "fix.patch"
tests = ["tests/test_a.py", "tests/data"]
images = ["img-1", "img-*"]

[signatures.bug]
exception = "TypeError"
message = "no"
at = "pkg/a.py:3"

[[nodes]]
id = "tests/test_a.py::test_x[a]"
role = "flip"
signature = "bug"
skip = { rocm = "not there", cuda-sm89 = "too old" }

[[nodes]]
id = "tests/test_a.py::test_y"
role = "control"
"""


def parse(text: str) -> Case:
    return parse_case(text, case_id="bug-1", where="cases/bug-1/case.toml")


def test_a_good_case() -> None:
    case = parse(GOOD)
    assert case.id == "bug-1"
    flip, control = case.nodes
    assert (flip.role, control.role) == (Role.FLIP, Role.CONTROL)
    assert flip.expected_skip("rocm-gfx942") == "not there"
    assert flip.expected_skip("cuda-sm89") == "too old"
    assert flip.expected_skip("cuda-sm90") is None
    signature = case.signature_of(flip)
    assert signature is not None and (signature.file, signature.line) == ("pkg/a.py", 3)
    assert case.fits("img-2") and not case.fits("other")


@pytest.mark.parametrize(
    ("old", "new", "key", "words"),
    [
        ("title =", "titel =", "titel", "did you mean 'title'"),
        ("schema = 1", "schema = 2", "schema", "reads 1"),
        ("schema = 1", 'schema = 1\nid = "x"', "id", "unknown key"),
        ('package = "pkg"', 'package = "a.b"', "package", "import name"),
        ('patch = "fix.patch"', "", "patch", "missing"),
        ('patch = "fix.patch"', 'patch = "../fix.patch"', "patch", "'..'"),
        ('patch = "fix.patch"', 'patch = "/etc/passwd"', "patch", "relative"),
        ('"tests/data"]', '"../x"]', "tests", "'..'"),
        ('role = "control"', 'role = "contrl"', "nodes.1.role", "flip"),
        ("test_y", "test_x[a]", "nodes.1.id", "duplicate"),
        ("tests/test_a.py::test_y", "tests/test_b.py::test_y", "nodes.1.id", "not under"),
        ("tests/test_a.py::test_y", "tests/test_a.py", "nodes.1.id", "file.py::test"),
        ('signature = "bug"', "", "nodes.0.signature", "must name"),
        ('signature = "bug"', 'signature = "bag"', "nodes.0.signature", "not declared"),
        ('role = "control"', 'role = "control"\nsignature = "bug"', "nodes.1.signature", "remove"),
        ('exception = "TypeError"', 'exception = "Type Error"', "bug.exception", "cannot match"),
        ('exception = "TypeError"', "", "bug.exception", "missing"),
        ('at = "pkg/a.py:3"', 'at = "pkg/a.py"', "bug.at", "cannot match"),
        ('at = "pkg/a.py:3"', 'at = "pkg/a.py:0"', "bug.at", "cannot match"),
        ('message = "no"', 'message_regex = "("', "bug.message_regex", "cannot match"),
        ('message = "no"', 'message = "no"\nmessage_regex = "n"', "message_regex", "not both"),
        ("[signatures.bug]", '[signatures.b]\nexception = "A"\n[signatures.bug]', "b", "no node"),
        ("rocm =", "amd =", "nodes.0.skip.amd", "platform"),
        ('rocm = "', 'cuda = " ", rocm = "', "nodes.0.skip.cuda", "no reason"),
        ("images = [", 'platforms = ["tpu"]\nimages = [', "platforms", "tpu"),
        ("images = [", "time_limit = 0\nimages = [", "time_limit", "above 0"),
        ("schema = 1", "schema = ", "TOML", "TOML"),
        ("schema = 1", "schema = " + "[" * 5000, "TOML", "TOML"),
        ("schema = 1", 'schema = "1"', "schema", "integer"),
        ("images = [", "time_limit = true\nimages = [", "time_limit", "integer"),
        ("images = [", "time_limit = 99999999999\nimages = [", "time_limit", "at most"),
        ('"tests/data"]', '"."]', "tests", "the folder itself"),
        ("tests/test_a.py::test_y", "./tests/test_a.py::test_y", "nodes.1.id", "as pytest does"),
        ("tests/test_a.py::test_y", "tests/te[s].py::test_y", "nodes.1.id", "'['"),
        ("images = [", 'env = { "A=B" = "1" }\nimages = [', "env.A=B", "variable"),
        ("images = [", 'env = { CUDA_VISIBLE_DEVICES = "1" }\nimages = [', "env.CUDA", "--device"),
        ('exception = "TypeError"', 'exception = "SIGKILL"', "bug.exception", "outside"),
    ],
)
def test_complaints_name_file_and_key(old: str, new: str, key: str, words: str) -> None:
    assert old in GOOD
    with pytest.raises(BadInput) as caught:
        parse(GOOD.replace(old, new, 1))
    text = str(caught.value)
    assert "cases/bug-1/case.toml" in text
    assert key in text
    assert words in text
    assert caught.value.exit_code == ExitCode.BAD_INPUT


UPSTREAM = """
[upstream]
rev = "main (2026-08)"
blobs = { "pkg/a.py" = "3658761d6f85e3a2fdd6eb73be98de79f1aede27" }
"""


def test_what_a_case_states_of_upstream() -> None:
    stated = parse(GOOD + UPSTREAM).upstream
    assert stated is not None and stated.rev == "main (2026-08)"
    assert stated.blobs == {"pkg/a.py": "3658761d6f85e3a2fdd6eb73be98de79f1aede27"}
    assert parse(GOOD).upstream is None


@pytest.mark.parametrize(
    ("old", "new", "key", "words"),
    [
        ('rev = "main (2026-08)"', "", "upstream.rev", "missing"),
        ("main (2026-08)", " ", "upstream.rev", "in one line"),
        ("main (2026-08)", r"main\n2026", "upstream.rev", "in one line"),
        ("rev =", "revision =", "upstream.revision", "unknown key"),
        ("pkg/a.py", "src/pkg/a.py", "upstream.blobs.'src/pkg/a.py'", "as installed"),
        ("pkg/a.py", "pkg/../a.py", "upstream.blobs.'pkg/../a.py'", "as installed"),
        ("3658761d", "3658761", "upstream.blobs.'pkg/a.py'", "rev-parse"),
        ("3658761d", "3658761D", "upstream.blobs.'pkg/a.py'", "rev-parse"),
    ],
)
def test_complaints_of_upstream(old: str, new: str, key: str, words: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse(GOOD + UPSTREAM.replace(old, new, 1))
    assert key in str(caught.value) and words in str(caught.value)


def test_one_parameter_in_two_spellings_is_a_duplicate() -> None:
    text = GOOD.replace("test_x[a]", "test_x[é]").replace("test_y", r"test_x[\\xe9]")
    with pytest.raises(BadInput, match="duplicate"):
        parse(text)


def test_all_complaints_come_at_once() -> None:
    text = GOOD.replace("title =", "titel =").replace('role = "control"', 'role = "x"')
    with pytest.raises(BadInput) as caught:
        parse(text)
    assert {"titel", "title", "nodes.1.role"} <= set(str(caught.value).replace(":", " ").split())
