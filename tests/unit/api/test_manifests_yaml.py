"""YAML as Kubernetes reads it, and as we write it."""

from typing import Any

import pytest

from karpenter.api.manifests import YAMLOverLimit, read_document, read_documents, render_documents
from karpenter.api.meta import InvalidObject


def read(text: str) -> list[Any]:
    return list(read_documents(text, source="file.yaml"))


@pytest.mark.parametrize(
    ("word", "value"),
    [
        pytest.param("1", 1, id="a number"),
        pytest.param("+5", 5, id="a number with a sign"),
        pytest.param("-0x1F", -31, id="a hexadecimal number"),
        pytest.param("0b101", 5, id="a binary number"),
        pytest.param("0777", 511, id="an octal number of old"),
        pytest.param("0o17", 15, id="an octal number of today"),
        pytest.param("1.5", 1.5, id="a fraction"),
        pytest.param(".5", 0.5, id="a fraction without a leading zero"),
        pytest.param("1e3", 1000.0, id="an exponent without a point"),
        pytest.param("1e999", "1e999", id="a number beyond all bounds is text"),
        pytest.param("true", True, id="truth"),
        pytest.param("yes", True, id="yes is truth"),
        pytest.param("Off", False, id="off is not"),
        pytest.param("~", None, id="nothing"),
        pytest.param("", None, id="really nothing"),
        pytest.param("1:30", "1:30", id="a time of day is text"),
        pytest.param("2026-01-31", "2026-01-31", id="a date is text"),
        pytest.param("1_000", "1_000", id="underscores are text"),
        pytest.param(".nan", ".nan", id="what JSON does not have is text"),
        pytest.param("'1'", "1", id="quotes make text"),
        pytest.param("!!str 1", "1", id="a tag makes text"),
        pytest.param("!!float 1", 1, id="a tag may agree"),
    ],
)
def test_words(word: str, value: Any) -> None:
    """A word means what it means to Kubernetes."""
    assert read(f"a: {word}\n") == [{"a": value}]


@pytest.mark.parametrize(
    ("text", "documents"),
    [
        pytest.param("", [], id="nothing"),
        pytest.param("---\n---\n", [], id="empty documents are left out"),
        pytest.param("a: 1\n---\nb: 2\n", [{"a": 1}, {"b": 2}], id="two documents"),
        pytest.param('{"a": [1, null]}', [{"a": [1, None]}], id="JSON"),
        pytest.param('{"a": "\\ud83d\\ude00"}', [{"a": "\U0001f600"}], id="JSON with surrogates"),
        pytest.param("{a: 1}\n---\n{b: 2}\n", [{"a": 1}, {"b": 2}], id="two documents in braces"),
        pytest.param("1: a\ntrue: b\n", [{"1": "a", "true": "b"}], id="keys are text"),
        pytest.param("a: |\n  x\n  y\n", [{"a": "x\ny\n"}], id="text of several lines"),
        pytest.param("a: &x [1]\nb: *x\n", [{"a": [1], "b": [1]}], id="anchors"),
        pytest.param(
            "a: &x {p: 1}\nb: {<<: *x, q: 2}\n", [{"a": {"p": 1}, "b": {"p": 1, "q": 2}}], id="merging"
        ),
        pytest.param("a: {<<: [{p: 1}, {p: 2}], q: 3}\n", [{"a": {"p": 1, "q": 3}}], id="merging several"),
        pytest.param("<<: {a: 1}\na: 2\n", [{"a": 2}], id="what is said beats what is merged"),
        pytest.param("? a\n: b\n", [{"a": "b"}], id="the long form of a key"),
    ],
)
def test_documents(text: str, documents: list[Any]) -> None:
    """A text is what JSON could have said."""
    assert read(text) == documents


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param("a: 1\na: 2\n", "line 2: not YAML: the key 'a' occurs twice", id="a key twice"),
        pytest.param("[a]: b\n", "line 1: not YAML: a key must be text", id="a list as a key"),
        pytest.param("a: *x\n", "line 1: not YAML: *x stands for nothing yet", id="an anchor from nowhere"),
        pytest.param("a: &x [*x]\n", "line 1: not YAML: *x stands for nothing yet", id="a loop"),
        pytest.param("[" * 1000, "line 1: not YAML: nested too deep", id="a thousand lists"),
        pytest.param("[" * 200_000, "line 1: not YAML: nested too deep", id="lists without end"),
        pytest.param(
            "a: !foo b\n", "line 1: not YAML: the value has the tag !foo but is none", id="a tag of one's own"
        ),
        pytest.param("a: !foo {}\n", "line 1: not YAML: !foo is nothing that JSON has", id="a tagged map"),
        pytest.param(
            "a: !!int x\n", "line 1: not YAML: the value has the tag !!int but is none", id="a tag that lies"
        ),
        pytest.param("a: {<<: 1}\n", "line 1: not YAML: << needs a map", id="merging a number"),
        pytest.param(
            f"a: {'9' * 2000}\n", "line 1: not YAML: a number is too long", id="a number without end"
        ),
        pytest.param("a: [1\n", "line 2: not YAML: did not find expected ',' or ']'", id="an open bracket"),
        pytest.param("\ta: b\n", "line 1: not YAML: found character that cannot start any token", id="a tab"),
    ],
)
def test_refusals(text: str, sentence: str) -> None:
    """What cannot be read is refused with its line."""
    with pytest.raises(InvalidObject) as caught:
        read(text)

    assert str(caught.value) == f"file.yaml: {sentence}"


@pytest.mark.parametrize(
    "text", ["\x00", "a: \ud800", "%YAML 9.9\n---\na", "a: !!python/object/apply:os.system [x]"]
)
def test_what_is_no_text_at_all(text: str) -> None:
    """Whatever else is wrong, it is the same error."""
    with pytest.raises(InvalidObject, match=r"^file\.yaml: "):
        read(text)


def test_anchors_cannot_blow_up() -> None:
    """A few lines may not stand for a million values."""
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 7)]

    with pytest.raises(InvalidObject, match="too many values"):
        read("\n".join(lines))


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"a": text}, id=f"the text {text!r} stays one")
        for text in (
            "yes",
            "1",
            "1e3",
            "0x1",
            "0777",
            "0o7",
            "1:30",
            "2026-01-31",
            "~",
            "",
            " a ",
            "a\nb",
            "<<",
            "+1",
            ".5",
        )
    ],
)
def test_what_is_written_reads_the_same(value: Any) -> None:
    """Text that looks like something else is quoted."""
    assert read(render_documents([value])) == [value]


def test_values_are_written_where_they_belong() -> None:
    """A value that occurs twice is written twice, without anchors."""
    shared = {"x": [1]}

    assert render_documents([{"a": shared, "b": shared}]) == "a:\n  x:\n  - 1\nb:\n  x:\n  - 1\n"


def test_several_documents_are_separated() -> None:
    """Each of several documents starts with its line."""
    assert render_documents([{"a": 1}, {"b": 2}]) == "---\na: 1\n---\nb: 2\n"


def chain(links: int, form: str) -> str:
    """Return a text in which each anchor stands for many of the one before."""
    first = "a0: &a0 {k0: v}\n"
    return first + "".join(
        f"a{n}: &a{n} " + form.format(ten=", ".join([f"*a{n - 1}"] * 10), last=f"*a{n - 1}", n=n) + "\n"
        for n in range(1, links)
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(chain(40, "[{ten}]"), id="lists of anchors"),
        pytest.param(chain(40, "{{<<: [{ten}], k{n}: v}}"), id="merges of anchors"),
        pytest.param(chain(400, "[{last}]"), id="anchors that nest one level each"),
        pytest.param("[" * 5000, id="brackets"),
        pytest.param("{a: " * 5000, id="braces"),
        pytest.param("- " * 5000, id="dashes"),
    ],
)
def test_a_text_over_the_limits_is_refused_at_once(text: str) -> None:
    """A few bytes may neither expand to millions of values nor nest deeper than objects do."""
    with pytest.raises(YAMLOverLimit):
        read(text)


@pytest.mark.parametrize("tag", ["bool", "int", "float", "null", "timestamp", "binary", "set"])
def test_a_tag_that_does_not_fit_is_refused_without_the_value(tag: str) -> None:
    """The value may be a secret."""
    with pytest.raises(InvalidObject) as refused:
        read(f"a: !!{tag} hunter2\n")
    assert "hunter2" not in str(refused.value)


def test_repeated_keys_are_told_where_they_are_allowed() -> None:
    """The last one counts."""
    repeated: list[str] = []
    assert list(read_documents("a: 1\na: 2\n", source="body", repeated=repeated)) == [{"a": 2}]
    assert repeated == ['line 2: key "a" already set in map']


def test_the_first_document_alone() -> None:
    """What is behind it is not read; no document is None."""
    assert read_document("a: 1\n---\n[", source="x") == {"a": 1}
    assert read_document("---\n", source="x") is None
