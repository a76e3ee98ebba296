"""Every behaviour that users rely on, as a cluster and what must come out of the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from karpenter.cli.plan import plan
from tests.parity.expectations import HERE, Expectations

if TYPE_CHECKING:
    from pathlib import Path

SCENARIOS = sorted(HERE.glob("scheduling/*.yaml")) + sorted(HERE.glob("disruption/*.yaml"))
PACKING = {"scheduling": "packing-policy=greedy", "disruption": "consolidation-strategy=classic"}


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Leaves timestamps as the text that Kubernetes reads."""


_Loader.yaml_implicit_resolvers = {
    letter: [(tag, pattern) for tag, pattern in rows if tag != "tag:yaml.org,2002:timestamp"]
    for letter, rows in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _problems(path: Path, folder: Path, *more: str) -> list[str]:
    scenario: dict[str, Any] = yaml.load(path.read_text(), Loader=_Loader)  # noqa: S506  a safe loader
    given = folder / "given.yaml"
    given.write_text(yaml.safe_dump_all(scenario["given"]))
    catalog = HERE / "catalogs" / f"{scenario.get('catalog', 'default')}.json"
    args = [
        "-f",
        str(given),
        "--catalog",
        str(catalog),
        "-o",
        "json",
        *map(str, scenario.get("args", [])),
        *more,
    ]
    result = CliRunner().invoke(plan, args, catch_exceptions=False)
    if result.exit_code:
        return [f"exit {result.exit_code}: {result.stderr}"]
    return list(Expectations(scenario, msgspec.json.decode(result.stdout)).problems())


@pytest.mark.parametrize("path", [pytest.param(p, id=f"{p.parent.name}/{p.stem}") for p in SCENARIOS])
def test_scenario(path: Path, tmp_path: Path) -> None:
    """The plan is what a user of the classic autoscaler expects."""
    assert _problems(path, tmp_path) == []


@pytest.mark.parametrize("path", [pytest.param(p, id=f"{p.parent.name}/{p.stem}") for p in SCENARIOS])
def test_scenario_with_classic_packing_and_order(path: Path, tmp_path: Path) -> None:
    """So it is with the settings that pack greedily and consolidate in the classic order."""
    assert _problems(path, tmp_path, "--set", PACKING[path.parent.name]) == []
