import pytest

from karpenter.cloud.errors import (
    CloudError,
    CloudUnreachable,
    InsufficientCapacity,
    LaunchFailed,
    LaunchRefused,
    MachineNotFound,
    NodeClassNotReady,
    Throttled,
)
from karpenter.core.model.catalog import OfferingName

OFFERINGS = tuple(OfferingName(f"type-{number}", "zone-1", "spot") for number in range(8))


@pytest.mark.parametrize(
    ("error", "text", "label"),
    [
        pytest.param(
            InsufficientCapacity(offerings=OFFERINGS[:1]),
            "1 offering is sold out: type-0/zone-1/spot",
            "InsufficientCapacityError",
            id="one offering",
        ),
        pytest.param(
            InsufficientCapacity(offerings=OFFERINGS[:6]),
            "6 offerings are sold out: type-0/zone-1/spot, type-1/zone-1/spot, type-2/zone-1/spot,"
            " type-3/zone-1/spot, type-4/zone-1/spot and 1 other",
            "InsufficientCapacityError",
            id="six offerings",
        ),
        pytest.param(
            InsufficientCapacity(offerings=[OfferingName("a", "b", "reserved", "res-1")]),
            "1 offering is sold out: a/b/reserved (res-1)",
            "InsufficientCapacityError",
            id="a reservation",
        ),
        pytest.param(
            InsufficientCapacity(),
            "no offering satisfies the claim",
            "InsufficientCapacityError",
            id="nothing",
        ),
        pytest.param(
            NodeClassNotReady(node_class="default", because="no subnets"),
            "node class default is not ready: no subnets",
            "NodeClassNotReadyError",
            id="class with a reason",
        ),
        pytest.param(
            NodeClassNotReady(node_class="default"),
            "node class default is not ready",
            "NodeClassNotReadyError",
            id="class without a reason",
        ),
        pytest.param(
            MachineNotFound("kwok://a"),
            "there is no machine kwok://a",
            "NodeClaimNotFoundError",
            id="machine",
        ),
        pytest.param(
            Throttled(retry_after=2.5),
            "the cloud asks to slow down; trying again in 2.5 s",
            "",
            id="throttled",
        ),
        pytest.param(
            LaunchRefused(reason="Unauthorized", message="not allowed"), "not allowed", "", id="refused"
        ),
        pytest.param(LaunchFailed("connection reset"), "connection reset", "", id="failed"),
        pytest.param(CloudUnreachable("no route"), "no route", "", id="unreachable"),
    ],
)
def test_errors_say_themselves(error: CloudError, text: str, label: str) -> None:
    """Every error is one sentence, and known to metrics by the name that dashboards have for it."""
    assert (str(error), error.metric_label) == (text, label)


def test_errors_carry_facts() -> None:
    """What a handler needs is an attribute, not to be read out of a text."""
    assert InsufficientCapacity(offerings=OFFERINGS).offerings == OFFERINGS
    assert LaunchRefused(reason="Unauthorized", message="no").reason == "Unauthorized"
    assert Throttled().retry_after == 1.0
    assert MachineNotFound("kwok://a").provider_id == "kwok://a"
    assert NodeClassNotReady(node_class="default").node_class == "default"
