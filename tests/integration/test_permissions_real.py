"""The operator with the chart's account on the real API server, which refuses what was not granted."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from karpenter.api.kwoknodeclass import KWOKNodeClass
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.api.pod import Pod
from karpenter.api.workloads import Deployment
from karpenter.cli import main
from karpenter.kube.errors import NotFound
from karpenter.kube.targets import untyped
from karpenter.kube.transport import Request
from tests.integration.process import connected, inflate, pool, started
from tests.integration.settling import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from karpenter.kube.client import Client

REAL_TIME = True
pytestmark = pytest.mark.controlplane

ACCOUNT = "/api/v1/namespaces/kube-system/serviceaccounts/karpenter/token"
VALUES = "settings.clusterName=test,settings.cloudProvider=kwok,replicas=0"


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    """The kubeconfig of a fresh cluster."""
    place = ["--data-dir", str(tmp_path / "cluster")]
    up = CliRunner().invoke(main, ["local", "up", "--control-plane", "real", *place])
    assert up.exit_code == 0, up.stderr
    yield tmp_path / "cluster" / "kubeconfig"
    CliRunner().invoke(main, ["local", "down", *place])


async def install(client: Client) -> None:
    """Apply what ``karpenter manifests`` prints."""
    printed = CliRunner().invoke(main, ["manifests", "--set", VALUES])
    for each in yaml.safe_load_all(printed.stdout):
        plural = re.sub(r"(?<=[^s])$", "s", re.sub(r"y$", "ie", each["kind"].lower()))
        namespaced = "namespace" in each["metadata"]
        target = untyped(each["apiVersion"], plural, kind=each["kind"], namespaced=namespaced)
        await client.apply(target, each)


async def token_of_the_account(client: Client) -> str:
    """Return a token of the operator's own account."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    json = (("accept", "application/json"), ("content-type", "application/json"))
    request = Request(method="POST", path=ACCOUNT, headers=json, body=msgspec.json.encode(body))
    return str(msgspec.json.decode((await client.send(request)).body)["status"]["token"])


def with_token(kubeconfig: Path, token: str) -> Path:
    """Return a kubeconfig for the same cluster with a token, as a pod would find it."""
    config: dict[str, Any] = yaml.safe_load(kubeconfig.read_text())
    config["users"] = [{**each, "user": {"token": token}} for each in config["users"]]
    for each in config["contexts"]:
        each["context"]["namespace"] = "kube-system"
    own = kubeconfig.with_name("account")
    own.write_text(yaml.safe_dump(config))
    return own


async def is_served(client: Client) -> bool:
    """Whether the server knows our kinds by now."""
    try:
        await client.list(KWOKNodeClass)
    except NotFound:
        return False
    return True


async def test_nothing_is_refused(kubeconfig: Path, tmp_path: Path) -> None:
    """Machines come for pods, a deleted node is replaced, a deleted pool is emptied, all as that account."""
    log = tmp_path / "log"
    options = ["--metrics-port", "0", "--health-probe-port", "0", "--batch-idle-duration", "200ms"]
    async with connected(kubeconfig) as client:
        await install(client)
        await until(lambda: is_served(client), bool)
        own = with_token(kubeconfig, await token_of_the_account(client))
        operator = await started("run", "--kubeconfig", str(own), *options, log=log)
        await client.create(KWOKNodeClass, {"metadata": {"name": "default"}})
        await client.create(NodePool, pool())
        await client.create(Deployment, inflate(3), namespace="default")

        async def running() -> int:
            return sum(pod.status.phase == "Running" for pod in (await client.list(Pod)).items)

        await until(running, lambda found: found == 3)
        before = {node.name for node in (await client.list(Node)).items}
        await client.delete(Node, min(before))
        await until(lambda: client.list(Node), lambda found: min(before) not in {n.name for n in found.items})
        await until(running, lambda found: found == 3)
        await client.delete(NodePool, "default")
        await until(lambda: client.list(NodeClaim), lambda found: not found.items)
        operator.terminate()
        code = await asyncio.wait_for(operator.wait(), 30)

    assert code == 0, log.read_text()
    assert "forbidden" not in log.read_text().lower()
