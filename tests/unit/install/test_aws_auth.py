"""The ConfigMap aws-auth and the kubeconfig, when another person wrote them: read with limits, or refused."""

import time
from pathlib import Path
from random import Random

import pytest

from karpenter.base.clock import SystemClock
from karpenter.cli.aws_options import context_of
from karpenter.install.kubernetes import CONFIG_MAPS, ClusterApi
from karpenter.install.options import InstallationError
from karpenter.install.resources import AwsAuthMapping
from karpenter.kube.client import Client
from karpenter_local.apiserver.inprocess import InProcess
from karpenter_local.apiserver.server import Server
from tests.unit.cloud.aws.amifamily.bootstrap.test_userdata_hostile import LISTS, MERGES

NODES = AwsAuthMapping(role="arn:aws:iam::1:role/nodes", username="node", groups=("system:nodes",))
KUBECONFIG = """
clusters: [{name: blue, cluster: {server: "https://blue/"}}, {name: 7}, 8]
contexts:
  - {name: first, context: {cluster: blue}}
  - {name: second, context: {cluster: blue}}
  - {name: third, context: {cluster: green}}
"""
HOSTILE = [
    pytest.param(MERGES, id="merges that multiply"),
    pytest.param(LISTS, id="anchors that multiply"),
    pytest.param("[" * 9000, id="brackets"),
    pytest.param("- !!bool x", id="a tag that does not fit"),
    pytest.param("- 2020-99-99", id="a date that is none"),
    pytest.param("{}", id="a map"),
]


@pytest.fixture
def chance() -> Random:
    """Return chance that is the same every time."""
    return Random(1)  # noqa: S311  waits, not secrets


async def cluster_with(roles: str, chance: Random) -> ClusterApi:
    """Return a cluster whose aws-auth has these roles."""
    clock = SystemClock()
    client = Client(InProcess(Server(clock=clock, seed=1)), chance=chance)
    body = {"metadata": {"name": "aws-auth"}, "data": {"mapRoles": roles}}
    await client.create(CONFIG_MAPS, body, namespace="kube-system")
    return ClusterApi(client, clock=clock)


@pytest.mark.parametrize("text", HOSTILE)
async def test_roles_that_are_none_are_refused_soon(text: str, chance: Random) -> None:
    """The error names the ConfigMap, and it takes no second to say so."""
    cluster = await cluster_with(text, chance)
    began = time.process_time()
    with pytest.raises(InstallationError, match="ConfigMap kube-system/aws-auth: mapRoles"):
        await cluster.unmap(NODES)

    assert time.process_time() - began < 1.0


async def test_roles_that_share_groups_are_read(chance: Random) -> None:
    """Anchors and merges are read where they stand for little."""
    one = f"{{rolearn: {NODES.role}, username: node, groups: [system:nodes]}}"
    roles = f"- &one {one}\n- {{<<: *one, rolearn: b}}"
    cluster = await cluster_with(roles, chance)

    assert await cluster.unmap(NODES)
    assert not await cluster.unmap(NODES)


@pytest.mark.parametrize("text", [*HOSTILE, pytest.param("\xff", id="no UTF-8")])
def test_a_kubeconfig_that_is_none_has_no_context(text: str, tmp_path: Path) -> None:
    """It is passed over, as one that is not there, and soon."""
    path = tmp_path / "config"
    path.write_bytes(text.encode("latin-1"))
    began = time.process_time()

    assert context_of(str(path), "https://blue") == ""
    assert time.process_time() - began < 1.0


@pytest.mark.parametrize(
    ("current", "context"),
    [
        pytest.param("second", "second", id="the current one"),
        pytest.param("third", "first", id="the first, where the current one is of another cluster"),
    ],
)
def test_the_context_of_an_endpoint(current: str, context: str, tmp_path: Path) -> None:
    """The context whose cluster is at the endpoint is found."""
    path = tmp_path / "config"
    path.write_text(f"current-context: {current}\n{KUBECONFIG}", "utf-8")

    assert context_of(str(path), "https://blue") == context
    assert context_of(str(path), "https://red") == ""
