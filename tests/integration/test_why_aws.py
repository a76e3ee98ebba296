"""``karpenter why`` on a live cluster with the embedded AWS, as users start both."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner, Result

from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.nodepool import NodePool
from karpenter.api.workloads import Deployment
from karpenter.cli import main
from tests.integration.process import connected, inflate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

REAL_TIME = True
EXAMPLE = Path(__file__).parents[2] / "examples" / "aws" / "quickstart.yaml"
TYPES = "c5.large,m5.large,m5.xlarge"


def karpenter(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of a cluster called blue, with the operator and an AWS of three instance types."""
    place = tmp_path_factory.mktemp("why")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(place))
        patch.setenv("BATCH_IDLE_DURATION", "100ms")
        words = ["--with-karpenter", "--provider", "aws", "--cluster-name", "blue", "--instance-types", TYPES]
        up = karpenter("local", "up", *words)
        assert up.exit_code == 0, up.stderr
        yield place / "karpenter-local" / "kubeconfig"
        karpenter("local", "down")


def create(config: Path, kind: Any, body: dict[str, Any]) -> None:
    async def run() -> None:
        async with connected(config) as client:
            await client.create(kind, body, namespace="default" if kind is Deployment else "")

    asyncio.run(run())


def named(kind: str, name: str) -> dict[str, Any]:
    """Return an object of the example under another name, with its reference to the class."""
    body: dict[str, Any] = next(
        each for each in yaml.safe_load_all(EXAMPLE.read_text("utf-8")) if each["kind"] == kind
    )
    body["metadata"]["name"] = name
    if kind == "NodePool":
        body["spec"]["template"]["spec"]["nodeClassRef"]["name"] = name
        body["spec"]["template"]["metadata"] = {"labels": {"team": name}}
    return body


def workload(name: str, **selector: str) -> dict[str, Any]:
    """Return a Deployment of one pod that selects the nodes of its own NodePool."""
    body = inflate(1)
    body["metadata"]["name"] = name
    body["spec"]["selector"]["matchLabels"] = {"app": name}
    template = body["spec"]["template"]
    template["metadata"]["labels"] = {"app": name}
    template["spec"]["nodeSelector"] = {"team": name, **selector}
    return body


def why(config: Path, target: str) -> dict[str, Any]:
    """Return what ``karpenter why`` says of an object of the live cluster."""
    words = ["why", target, "--kubeconfig", str(config), "--catalog", "aws:us-west-2", "-o", "json"]
    result = karpenter(*words)
    assert result.exit_code in {0, 1}, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def eventually(config: Path, target: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Ask until an answer holds: the operator needs a moment."""

    async def asked() -> dict[str, Any]:
        for _ in range(60):
            found = await asyncio.to_thread(why, config, target)
            if holds(found):
                return found
            await asyncio.sleep(0.5)
        raise AssertionError(found)

    return asyncio.run(asked())


def test_a_class_without_subnets_is_named_with_its_condition(config: Path) -> None:
    """From the Deployment over the NodePool and its EC2NodeClass to the selector that matches no subnet."""
    lost = named("EC2NodeClass", "lost")
    lost["spec"]["subnetSelectorTerms"] = [{"tags": {"karpenter.sh/discovery": "elsewhere"}}]
    create(config, EC2NodeClass, lost)
    create(config, NodePool, named("NodePool", "lost"))
    create(config, Deployment, workload("lost"))

    found = eventually(config, "deployment/lost", lambda each: "SubnetsReady" in str(each["nodePools"]))
    told = why(config, "ec2nodeclass/lost")

    (miss, *_) = found["nodePools"]
    assert miss["nodePool"] == "lost"
    assert (
        "EC2NodeClass lost is not ready: SubnetsReady: no subnet of us-west-2"
        " has tag karpenter.sh/discovery=elsewhere" in miss["message"]
    )
    assert "put EC2NodeClass lost right, so that NodePool lost is ready" in [
        each["change"] for each in found["changes"]
    ]
    assert told["answer"] == "It is not ready, so nothing is launched for it."
    because = "SubnetsReady: no subnet of us-west-2 has tag karpenter.sh/discovery=elsewhere"
    assert because in told["because"]


def test_what_is_sold_out_is_not_promised(config: Path) -> None:
    """While launches fail for want of capacity no machine is promised; what fails is named."""
    assert karpenter("local", "aws", "sell-out").exit_code == 0
    create(config, EC2NodeClass, named("EC2NodeClass", "sold-out"))
    create(config, NodePool, named("NodePool", "sold-out"))
    create(config, Deployment, workload("sold-out"))

    found = eventually(config, "deployment/sold-out", lambda each: "capacity" in str(each["because"]))
    karpenter("local", "aws", "restock")

    assert not found["placed"]
    assert "will run" not in found["answer"]
    assert any("failed for want of capacity" in each for each in found["because"])
    assert any("us-west-2a/spot" in each for each in found["because"])


def test_a_zone_that_the_pool_leaves_out_is_added(config: Path) -> None:
    """The change of the NodePool is found in what EC2 sells, and the selector of the pod stays."""
    create(config, EC2NodeClass, named("EC2NodeClass", "zonal"))
    zonal = named("NodePool", "zonal")
    zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-west-2a"]}
    zonal["spec"]["template"]["spec"]["requirements"].append(zone)
    create(config, NodePool, zonal)
    create(config, Deployment, workload("zonal", **{"topology.kubernetes.io/zone": "us-west-2b"}))

    found = eventually(config, "deployment/zonal", lambda each: "add us-west" in str(each["changes"]))

    assert found["changes"][0]["change"] == (
        "add us-west-2b to the values of topology.kubernetes.io/zone in NodePool zonal"
    )
