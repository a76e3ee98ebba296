"""What machines need to join, and who is asked for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from karpenter.cloud.aws.cluster import EksCluster
from karpenter.cloud.aws.options import AwsSettings
from karpenter_local.testing.cluster_objects import ObjectsInMemory
from tests.unit.cloud.aws.scripted import ScriptedAws, virtually

if TYPE_CHECKING:
    from karpenter_local.virtual import VirtualClock

EKS = {
    "DescribeCluster": {
        "cluster": {"endpoint": "https://of-eks", "certificateAuthority": {"data": "T2YgRUtT"}}
    }
}
ENDPOINT = {"cluster_endpoint": "https://given"}


@pytest.mark.parametrize(
    ("settings", "trusted", "expected", "asked"),
    [
        pytest.param({}, None, ("https://of-eks", "T2YgRUtT"), 1, id="nothing is known"),
        pytest.param({}, "b3Vycw==", ("https://of-eks", "b3Vycw=="), 1, id="our client knows the CA"),
        pytest.param(ENDPOINT, "b3Vycw==", ("https://given", "b3Vycw=="), 0, id="a cluster that is not EKS"),
        pytest.param(
            ENDPOINT | {"cluster_ca_bundle": "c2V0"},
            "b3Vycw==",
            ("https://given", "c2V0"),
            0,
            id="a CA is set",
        ),
        pytest.param(ENDPOINT, "", ("https://given", ""), 0, id="our client trusts whom the machine trusts"),
        pytest.param(ENDPOINT, None, ("https://given", "T2YgRUtT"), 1, id="our client knows nothing"),
    ],
)
def test_the_ca_of_the_cluster(
    settings: dict[str, Any], trusted: str | None, expected: tuple[str, str], asked: int
) -> None:
    """The CA is the one that is set, else that of our own connection; EKS is asked for what is left."""

    async def main(clock: VirtualClock) -> tuple[tuple[str, str], int]:
        aws = ScriptedAws(EKS)
        cluster = EksCluster(
            aws,
            AwsSettings(cluster="c", **settings),
            ObjectsInMemory(),
            monotonic=clock.monotonic,
            ca_bundle=trusted,
        )
        joining = await cluster.joining()
        return (joining.endpoint, joining.ca_bundle), len(aws.asked("DescribeCluster"))

    assert virtually(main) == (expected, asked)
