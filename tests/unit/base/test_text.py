"""Text of others on a terminal."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from karpenter.api.manifests import render_documents
from karpenter.base.text import escaped, is_plain, printable, printable_lines

HOSTILE = st.text(
    st.one_of(st.characters(), st.sampled_from("\x1b\x07\x9b\x9d\u202e\u2066\u2069\u200b\r\n\t"))
)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        pytest.param("web-1", "web-1", id="a name stays"),
        pytest.param("Größe 日本", "Größe 日本", id="so do letters of any script"),
        pytest.param("a\x1b[2Jb", "a [2Jb", id="no escape sequence"),
        pytest.param("a\x1b]0;title\x07b", "a ]0;title b", id="no command of the operating system"),
        pytest.param("a\x9b2Jb", "a 2Jb", id="nor one of eight bits"),
        pytest.param("a\u202etxt.exe", "a txt.exe", id="no other direction"),
        pytest.param("a\nerror: b", "a error: b", id="no second line"),
        pytest.param("a\rb", "a b", id="no return to the begin of the line"),
    ],
)
def test_printable(text: str, printed: str) -> None:
    """No terminal obeys the text, and it stays on its line."""
    assert printable(text) == printed


@given(HOSTILE)
def test_what_is_printable(text: str) -> None:
    """All that is left prints, everything that prints is left, and the length stays."""
    found = printable(text)

    assert found.isprintable()
    assert len(found) == len(text)
    assert all(new in {old, " "} for old, new in zip(text, found, strict=True))
    assert printable(found) == found


@given(HOSTILE)
def test_lines_stay(text: str) -> None:
    """Text of several lines keeps its line breaks and tabs, and nothing else that does not print."""
    found = printable_lines(text)

    assert all(letter.isprintable() or letter in "\n\t" for letter in found)
    assert found.count("\n") == text.count("\n")


@given(HOSTILE)
@example("\U000e0041")
def test_data_is_told_with_escapes(text: str) -> None:
    """JSON and YAML lose nothing, and have nothing that a terminal obeys."""
    told = escaped(json.dumps(text, ensure_ascii=False))

    assert json.loads(told) == text
    assert is_plain(told)


@given(st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(["a\u202eb\nc", "\x1b", "\x85"]))
def test_yaml_is_told_with_escapes(text: str) -> None:
    """A text comes back from the YAML that was printed, which is plain itself."""
    told = render_documents([{"name": text, text: "value"}])

    assert is_plain(told)
    assert yaml.safe_load(told)["name"] == text
