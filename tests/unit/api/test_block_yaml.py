"""Block style is read as libyaml reads it, or left to it."""

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from karpenter.api import block_yaml, manifests
from karpenter.api.manifests import read_documents
from tests.fuzz.targets import YAML, same_as_libyaml

POD = """\
# made by hand
apiVersion: v1
kind: Pod
metadata:
  annotations:
    note: 'it''s: a "note"'
    script: |
      a: b

       - c
  name: a
  labels: {}
spec:
    containers:
    - name: one   # the first
      args: [--x, "y"]
      command:
      - /bin/sh
      - --port=1
      image: example.com:5000/one:v1
      resources:
        requests:
          cpu: 0.5
          memory: 1Gi
    -   name: two
        env:
          - name: EMPTY
            value:
          - name: LONG
            value: one and
              two
    tolerations: []
"""


def alone(text: str) -> Any:
    def refuse(piece: str) -> Any:
        raise AssertionError(piece)

    return block_yaml.BlockReader(manifests._word, refuse).read(text)


def test_a_pod_is_read_as_libyaml_reads_it() -> None:
    """Values, their types and their order are the same, for one document and for several."""
    same_as_libyaml(POD)
    same_as_libyaml(f"{POD}---\n{POD}--- # third\n{POD}")
    assert next(read_documents(POD, source="x"))["spec"]["containers"][1]["env"][1]["value"] == "one and two"


WORDS_OF_YAML = [
    *("1", "-1", "0644", "0o17", "0x1F", "1_000", "1e3", "1.5", ".5", "+5", "1:30", "190:20:30", "1e999"),
    *("yes", "No", "on", "OFF", "y", "n", "true", "null", "~", "Null", ".nan", ".inf", "2026-01-31", "="),
    *(
        "a:b",
        "a#b",
        "a #b",
        "a: b",
        "a:",
        "- a",
        "-a",
        "-",
        "--x",
        "---",
        "...",
        "?",
        "? a",
        "?a",
        ":a",
        ": a",
    ),
    *(
        "''",
        '""',
        "'a'",
        '"a"',
        "'a''b'",
        "'a'b",
        '"a\\n"',
        '"a" # c',
        "'#'",
        "'a",
        '"a',
        "a'b",
        '"a": b',
    ),
    *(
        "{}",
        "[]",
        "{} # c",
        "[a]",
        "{a: b}",
        "|",
        ">-",
        "|2",
        "!!str 1",
        "!a b",
        "&a",
        "&a b",
        "*a",
        "@a",
        "`a",
        "%a",
    ),
    *(
        "a\tb",
        "\ta",
        "a\t",
        "a\t#b",
        "é",
        "\U0001f600",
        "\u00a0",
        "a\u2028b",
        "a\x85b",
        "\ufeff",
        "a\rb",
        "<<",
    ),
    *("9" * 999, "9" * 1001, "a" * 3000, "# c", "a , b", "a ] b", "  a  ", "a\\b", "\\", "a\x7fb"),
]


@pytest.mark.parametrize(
    "place",
    ["a: {}\n", "a: {}", "- {}\n", "- a: {}\n  b: 1\n", "{}: a\n", "a:\n- {}\n", "{}\n", "a:\n  {}\n"],
)
def test_words_mean_what_they_mean_to_libyaml(place: str) -> None:
    """Any word in any place gives the same value or the same refusal."""
    for word in WORDS_OF_YAML:
        same_as_libyaml(place.replace("{}", word))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a:\n- b\nc: d\n", id="a list in the column of its key"),
        pytest.param("a:\n  - b\n  c: d\n", id="a key in the column of a list"),
        pytest.param("a: 1\n- b\n", id="a list where a map is"),
        pytest.param("- a\nb: 1\n", id="a map where a list is"),
        pytest.param("a:\n    b: 1\n  c: 2\n", id="a column between two"),
        pytest.param("a: 1\n  b: 2\n", id="a map below a scalar"),
        pytest.param("a: b\n  c\n\n  d\n", id="a scalar of several lines"),
        pytest.param("a: b\n# c\n  d\n", id="a comment within a scalar"),
        pytest.param("a: 'b\nc'\n", id="a quoted scalar that leaves its column"),
        pytest.param("a: |\n  b\n\n\nc: d\n", id="a literal, and lines behind it"),
        pytest.param("a: |+\n  b\n\n\nc: d\n", id="a literal that keeps them"),
        pytest.param("a: |", id="a literal of nothing"),
        pytest.param("a: |\n  b", id="a literal without a last line break"),
        pytest.param("a: 1\nb: 2\na: 3\n", id="a key twice"),
        pytest.param("a:\n  b: {c: 1, c: 2}\n", id="a key twice in braces"),
        pytest.param("a: &x b\nc: *x\n", id="an anchor and what stands for it"),
        pytest.param("a: {b: &x c, d: *x}\n", id="both in one entry"),
        pytest.param("a: &x\n  b: 1\nc:\n  <<: *x\n", id="a merge"),
        pytest.param("--- a\n", id="a scalar behind the dashes"),
        pytest.param("a: 1\n--- |\n b\n---\nc\n", id="a literal behind the dashes"),
        pytest.param("a: 1\n...\nb: 2\n", id="dots"),
        pytest.param("%YAML 1.1\n---\na: 1\n", id="a directive"),
        pytest.param("a: 1\n----\nb: 2\n", id="too many dashes"),
        pytest.param("a: 1\n---\n---\n# c\n---\nb: 1\nb: 2\n", id="empty documents, and an error"),
        pytest.param("  a: 1\n b: 2\n", id="a line left of the first"),
        pytest.param("-\n  a: 1\n- \n-\n", id="dashes alone"),
        pytest.param("- - a\n  - b\n- ? c\n  : d\n", id="dashes behind dashes"),
        pytest.param("? a\n: b\n", id="the long form of a key"),
        pytest.param("a : b\n", id="a space before the colon"),
        pytest.param('"a": 1\n\'b\': 2\n"": 3\n"<<": {c: 1}\n', id="keys in quotes"),
        pytest.param(f"{'k' * 1100}: 1\n", id="a key that is too long"),
        pytest.param("a: 1\r\nb: 2\r\n", id="line breaks of another kind"),
        pytest.param("".join(f"{' ' * n}a:\n" for n in range(70)), id="deeper than is read here"),
        pytest.param("".join(f"{' ' * n}a:\n" for n in range(300)), id="deeper than is read at all"),
        pytest.param(
            "".join(f"{' ' * n}a:\n" for n in range(60)) + f"{' ' * 60}a: {'[' * 150}{']' * 150}\n", id="deep"
        ),
    ],
)
def test_the_rest_is_left_to_libyaml(text: str) -> None:
    """Whatever is not known here gives the same values, refusals and line numbers."""
    same_as_libyaml(text)


def test_the_usual_needs_no_libyaml() -> None:
    """Maps, lists, words, quotes and comments are read here."""
    text = "---\n# c\na:\n- b: 'x'\n  c: yes # d\n- e\nf: {}\ng:\n  h: \"1\"\n\ni:\n"

    assert alone(text) == {"a": [{"b": "x", "c": True}, "e"], "f": {}, "g": {"h": "1"}, "i": None}


def test_empty_maps_and_lists_are_new_each_time() -> None:
    """What is kept by the text of a line is never shared between objects."""
    first, second = read_documents("a: {}\nb: []\n---\na: {}\nb: []\n", source="x")

    assert first == second == {"a": {}, "b": []}
    assert first["a"] is not second["a"]
    assert first["b"] is not second["b"]


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """After many different lines the reader begins to remember anew, and long lines are not kept."""
    monkeypatch.setattr(block_yaml, "_MOST_LINES", 10)
    reader = block_yaml.BlockReader(manifests._word, lambda _: None)
    text = "".join(f"k{n}: {n}\n" for n in range(95)) + f"long: {'x' * 300}\n"

    assert reader.read(text) == {**{f"k{n}": n for n in range(95)}, "long": "x" * 300}
    assert len(reader._known) <= 10
    assert all(len(line) <= 200 for line in reader._known)


WORDS = st.one_of(
    st.sampled_from(["yes", "0644", "a: b", "x", "", "it's", "a\nb", "long " * 9, " a", "1e3", "#"]),
    st.text(max_size=6),
)
PLAIN = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 99999), WORDS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(WORDS, inner, max_size=4)),
    max_leaves=15,
)


@st.composite
def written(draw: st.DrawFn) -> str:
    """Return documents as a program writes them, with some lines changed."""
    lines: list[str] = []
    for value in draw(st.lists(PLAIN, min_size=1, max_size=3)):
        text = yaml.safe_dump(
            value, width=draw(st.sampled_from([20, 80])), indent=draw(st.sampled_from([2, 4]))
        )
        lines += ["---", *text.splitlines()]
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(lines) - 1))
        change = draw(st.sampled_from(["", " ", "  ", "- ", "# c", "x: ", "---", lines[place], *YAML[:12]]))
        lines[place] = draw(
            st.sampled_from([change, change + lines[place], lines[place] + change, lines[place][1:]])
        )
    return "\n".join(lines) + draw(st.sampled_from(["", "\n", "\n\n"]))


@pytest.mark.parametrize("examples", [30, pytest.param(20_000, marks=pytest.mark.long)])
def test_documents_of_programs_are_read_as_libyaml_reads_them(examples: int) -> None:
    """Data that is written and then changed here and there gives the same values or the same refusal."""
    settings(max_examples=examples)(given(written())(same_as_libyaml))()
