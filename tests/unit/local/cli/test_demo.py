"""The demo: scenes in a whole cluster, with every expectation checked."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from karpenter.top.model import NodeRow
from karpenter_local.aws.requirements import NotInstalled
from karpenter_local.cli.demo import demo
from karpenter_local.demo.scenes import SCENES, Picture, SceneResult, ShownMachine
from karpenter_local.demo.screen import Screen, summary

if TYPE_CHECKING:
    from collections.abc import Coroutine


def test_every_expectation_holds() -> None:
    """Ten pods run, five run on cheaper machines, and in the end nothing is left; the exit code says so."""
    result = CliRunner().invoke(demo, ["--speed", "0"], catch_exceptions=False)

    assert result.exit_code == 0, result.output
    assert result.output.count("held") == len(SCENES)
    assert "kubectl scale deployment inflate --replicas 10" in result.output
    assert "no machines" in result.output


def test_every_expectation_holds_on_the_embedded_aws() -> None:
    """The provider of production meets the same expectations there, and three more of its own."""
    result = CliRunner().invoke(demo, ["--provider", "aws", "--speed", "0"], catch_exceptions=False)

    assert result.exit_code == 0, result.output
    assert result.output.count("held") == len(SCENES) + 3
    for scene in ("release-ami", "the NodePool buys spot", "interrupt"):
        assert scene in result.output


def test_without_the_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the libraries of the embedded AWS, the command that installs them is named."""

    def refuse() -> None:
        raise NotInstalled(("moto",))

    monkeypatch.setattr("karpenter_local.aws.requirements.check_needs", refuse)

    result = CliRunner().invoke(demo, ["--provider", "aws", "--speed", "0"])

    assert result.exit_code == 2
    assert "hint: pip install boto3 flask" in result.output


def _picture(pods: int) -> Picture:
    machine = ShownMachine("default-1", "c-4x-amd64-linux", "zone-a", "on-demand", 0.1, 0.5, pods, "ready")
    row = NodeRow(
        name="default-1", instance_type="c-4x-amd64-linux", capacity_type="on-demand", price=0.1, pods=pods
    )
    return Picture(3.0, (machine,), pods, 0, 0.1, 1, datetime(2026, 3, 2, tzinfo=UTC), (row,))


@pytest.mark.parametrize("width", [80, 120])
def test_a_terminal_shows_machines_as_bars(width: int) -> None:
    """On a terminal the machines, their types and prices are drawn whole, however narrow it is."""
    console = Console(force_terminal=True, width=width, height=24, record=True)
    with Screen(console) as screen:
        screen.scene(SCENES[1])
        screen.show(SCENES[1], _picture(2), [])

    shown = console.export_text()
    assert "default-1" in shown
    assert "c-4x-amd64-linux/$0.1000" in shown
    assert "On-Demand" in shown


def test_it_says_at_once_that_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """People are told that it starts before anything is started."""

    def end(work: Coroutine[Any, Any, Any]) -> list[SceneResult]:
        work.close()
        return []

    monkeypatch.setattr("karpenter_local.virtual.run_virtual", end)

    assert CliRunner().invoke(demo, []).stderr.startswith("Starting")


@pytest.mark.parametrize(("held", "expected"), [(True, "held"), (False, "did not hold")])
def test_the_summary_says_what_did_not_hold(held: bool, expected: str) -> None:
    """An expectation that did not come true is said so."""
    console = Console(width=120, record=True, quiet=False)
    console.print(summary([SceneResult(SCENES[0], held, 1.0, _picture(1))], 120))

    assert expected in console.export_text()
