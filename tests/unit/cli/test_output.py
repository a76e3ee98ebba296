"""How commands print data, and how they refuse."""

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from karpenter.api.meta import InvalidObject
from karpenter.api.pod import Pod
from karpenter.cli import main
from karpenter.cli.errors import CommandError, notes, one_line
from karpenter.cli.group import LazyGroup
from karpenter.cli.output import Output, output_option, render, table


@click.command()
@output_option
def command(output: Output) -> None:
    """Print something."""
    output.write({"a": [1, 2]}, text=lambda data: f"{len(data['a'])} numbers")


@pytest.mark.parametrize(
    ("form", "text"),
    [
        pytest.param([], "2 numbers\n", id="text without the option"),
        pytest.param(["-o", "table"], "2 numbers\n", id="text"),
        pytest.param(["-o", "json"], '{\n  "a": [\n    1,\n    2\n  ]\n}\n', id="JSON"),
        pytest.param(["--output", "yaml"], "a:\n- 1\n- 2\n", id="YAML"),
    ],
)
def test_forms(form: list[str], text: str) -> None:
    """The same data in three forms."""
    assert CliRunner().invoke(command, form).stdout == text


def test_a_form_that_does_not_exist() -> None:
    """Another form is refused with those there are."""
    result = CliRunner().invoke(command, ["-o", "xml"])

    assert result.exit_code == 2
    assert "'table', 'json', 'yaml'" in result.stderr


def test_forms_are_completed() -> None:
    """A shell is offered the forms."""
    (option,) = command.params

    assert [item.value for item in option.type.shell_complete(click.Context(command), option, "j")] == [
        "json"
    ]


def test_objects_say_their_kind() -> None:
    """A struct of the API is printed as an object."""
    assert render(Pod(), "yaml") == "apiVersion: v1\nkind: Pod\n"


def test_table() -> None:
    """Columns are aligned, and nothing trails."""
    assert (
        table([("NAME", "AGE"), ("a-long-name", "5m"), ("b", "")]) == "NAME          AGE\na-long-name   5m\nb"
    )


def test_an_empty_table() -> None:
    """A table without rows is empty."""
    assert table([]) == ""


def test_refusals_are_lines() -> None:
    """Every problem is a line, then comes the hint, all on standard error."""

    @click.command()
    def fails() -> None:
        raise CommandError("one\nthing", "another", hint="try this")

    result = CliRunner().invoke(fails)

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "error: one thing\nerror: another\nhint: try this\n"


def test_an_object_that_cannot_be_read_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of reading an object never shows as a traceback."""

    @click.command()
    def fails() -> None:
        raise InvalidObject(subject="Pod/a", field="spec", problem="is missing")

    def only(*_: Any) -> click.Command:
        return fails

    monkeypatch.setattr(LazyGroup, "get_command", only)
    result = CliRunner().invoke(LazyGroup("karpenter"), ["demo"])

    assert (result.exit_code, result.stderr) == (2, "error: Pod/a: spec: is missing\n")


def test_notes(capsys: pytest.CaptureFixture[str]) -> None:
    """Notes are not data."""
    notes(["a", "b"])

    assert capsys.readouterr() == ("", "a\nb\n")


@pytest.mark.parametrize(
    ("text", "line"), [("a\nb", "a b"), ("a\x1b[31mb", "a [31mb"), ("  a   b ", "a b"), ("\u00e4", "\u00e4")]
)
def test_one_line(text: str, line: str) -> None:
    """A text becomes one line that no terminal obeys."""
    assert one_line(text) == line


CLAIMED = """
apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  containers: [{name: c, resources: {requests: {cpu: 1}}}]
  volumes: [{name: v, persistentVolumeClaim: {claimName: "x\\e]0;y\\a\\nerror: \\u202ez"}}]
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements: []
"""


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["plan", "--catalog", "kwok"], id="plan"),
        pytest.param(["plan", "-o", "json", "--catalog", "kwok"], id="plan as JSON"),
        pytest.param(["plan", "-o", "yaml", "--catalog", "kwok"], id="plan as YAML"),
        pytest.param(["why", "pod/a", "--catalog", "kwok"], id="why"),
        pytest.param(["top", "--once", "--catalog", "kwok"], id="top"),
        pytest.param(["doctor"], id="doctor"),
        pytest.param(["validate"], id="validate"),
    ],
)
def test_no_terminal_obeys_a_name(words: list[str], tmp_path: Path) -> None:
    """The name of a volume's claim may be any text; commands print it on one line, without controls."""
    file = tmp_path / "pod.yaml"
    file.write_text(CLAIMED)

    printed = CliRunner().invoke(main, [*words, "-f", str(file)]).output

    assert printed
    assert all(letter.isprintable() or letter == "\n" for letter in printed)
    assert not any(line.startswith("error: ") and "z" in line for line in printed.splitlines())
