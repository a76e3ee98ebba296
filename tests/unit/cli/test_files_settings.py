"""Files and settings that are given on a command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from karpenter.cli import main
from karpenter.cli.errors import CommandError
from karpenter.cli.files import named_values

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param((), {}, id="nothing"),
        pytest.param(("a=1", "b=", "a=2=3"), {"a": "2=3", "b": ""}, id="the last one counts"),
        pytest.param(
            ("feature-gates=A=true", "feature-gates=B=true,C=false"),
            {"feature-gates": "A=true,B=true,C=false"},
            id="gates may be given one by one",
        ),
    ],
)
def test_values_have_names(given: tuple[str, ...], expected: dict[str, str]) -> None:
    """What is after the first sign is the value."""
    assert named_values(given) == expected


def test_a_value_without_a_name_is_refused() -> None:
    """The sentence says what was given and what is expected."""
    with pytest.raises(CommandError) as caught:
        named_values(["packing-policy"])

    assert str(caught.value) == "--set: 'packing-policy' is not NAME=VALUE"


def test_a_chart_is_rendered_first(tmp_path: Path) -> None:
    """Templates are no manifests: the command that makes manifests of them is named."""
    chart = tmp_path / "web"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("{apiVersion: v2, name: web, version: 1.0.0}")
    (chart / "templates" / "pod.yaml").write_text("{{ .Values.pod }}")
    found = CliRunner().invoke(main, ["plan", "-f", str(tmp_path)], prog_name="karpenter")

    assert found.exit_code == 2
    assert found.stderr == (
        f"error: {chart}: is a Helm chart, whose templates are not manifests yet\n"
        f"hint: helm template {chart} | karpenter plan -f -\n"
    )


@pytest.mark.parametrize("command", ["plan", "validate", "hash"])
def test_an_address_is_no_file(command: str) -> None:
    """What is at an address is piped in, by the command that is named."""
    found = CliRunner().invoke(main, [command, "-f", "https://example.com/a.yaml"], prog_name="karpenter")

    assert found.exit_code == 2
    assert found.stderr == (
        "error: https://example.com/a.yaml: is an address, and only files are read\n"
        f"hint: curl -fsSL https://example.com/a.yaml | karpenter {command} -f -\n"
    )
