"""What there is to buy, as gauges."""

from typing import Any

from karpenter.api.nodepool import NodePool
from karpenter.cloud.aws.instancetype.instancetype import InstanceTypeStore
from karpenter.cloud.aws.instancetype.metrics import InstanceTypeMetricsController
from karpenter.cloud.aws.instancetype.types import InstanceTypeInfo
from karpenter.cloud.aws.metrics import CPU_CORES, MEMORY_BYTES, OFFERING_AVAILABLE, OFFERING_PRICE
from karpenter.cloud.catalogs.ec2.data import load_data
from karpenter.cloud.errors import NodeClassNotReady
from karpenter.core.model.catalog import Catalog, InstanceType, Offering
from karpenter.core.model.requirement import requirement
from karpenter.core.model.requirements import Requirements
from karpenter.telemetry.metrics import Metrics
from karpenter_local.virtual import VirtualClock
from tests.unit.cloud.aws.scripted import ScriptedAws, instrumented, seen, virtually
from tests.unit.cloud.aws.world import pool

M5 = next(each for each in load_data().types if each.name == "m5.large")


def offering(kind: str, *, available: bool = True, price: float = 1.0, zone: str = "a") -> Offering:
    labels = Requirements.of(
        [
            requirement("karpenter.sh/capacity-type", "In", [kind]),
            requirement("topology.kubernetes.io/zone", "In", [zone]),
        ]
    )
    return Offering(requirements=labels, price=price, available=available)


def catalog(*offerings: Offering) -> Catalog:
    kind = InstanceType(
        name="m5.large", requirements=Requirements.of([]), offerings=offerings, capacity={}, overhead={}
    )
    return Catalog(types=(kind,))


class Sellers:
    """A provider that sells to pools by their names."""

    def __init__(self, **catalogs: Catalog) -> None:
        self.catalogs = catalogs

    async def catalog(self, wanted: NodePool) -> Catalog:
        if wanted.name not in self.catalogs:
            raise NodeClassNotReady(node_class="default")
        return self.catalogs[wanted.name]


def shown(provider: Any, *pools: str, reserved: bool = True, rounds: int = 1) -> Metrics:
    async def main(clock: VirtualClock) -> Metrics:
        provider_metrics, metrics = instrumented(clock)
        store = InstanceTypeStore(ScriptedAws())
        store.types, store.version = {"m5.large": InstanceTypeInfo(facts=M5)}, 1
        gauges = InstanceTypeMetricsController(
            provider=provider,
            view=seen(*map(pool, pools)),
            instance_types=store,
            metrics=provider_metrics,
            reserved_capacity=reserved,
        )
        for _ in range(rounds):
            assert (await gauges.look()).again == 60.0
        return metrics

    return virtually(main)


def labels(kind: str, zone: str = "a") -> dict[str, str]:
    return {"instance_type": "m5.large", "capacity_type": kind, "zone": zone}


def test_types_are_shown() -> None:
    """Cores and memory as EC2 tells them."""
    metrics = shown(Sellers())

    assert metrics[CPU_CORES].value(instance_type="m5.large") == 2.0
    assert metrics[MEMORY_BYTES].value(instance_type="m5.large") == 8192 * 2.0**20


def test_an_offering_is_available_if_some_pool_could_buy_it() -> None:
    """What is sold out for one pool may be had by another."""
    provider = Sellers(a=catalog(offering("spot", available=False)), b=catalog(offering("spot")))

    assert shown(provider, "a", "b")[OFFERING_AVAILABLE].value(**labels("spot")) == 1.0


def test_an_offering_that_no_pool_can_use_is_shown_as_zero() -> None:
    """It is there, but cannot be had."""
    provider = Sellers(a=catalog(offering("spot", available=False, price=0.3)))

    metrics = shown(provider, "a")

    assert metrics[OFFERING_AVAILABLE].value(**labels("spot")) == 0.0
    assert metrics[OFFERING_PRICE].value(**labels("spot")) == 0.3


def test_reserved_capacity_has_a_series_even_where_there_is_none() -> None:
    """So that dashboards need not know where reservations are."""
    metrics = shown(Sellers(a=catalog(offering("spot"))), "a")

    assert metrics[OFFERING_AVAILABLE].value(**labels("reserved")) == 0.0
    assert metrics[OFFERING_PRICE].value(**labels("reserved")) == 0.0


def test_without_the_gate_there_is_no_series_of_reserved_capacity() -> None:
    """Nothing reserved can be bought then."""
    metrics = shown(Sellers(a=catalog(offering("spot"))), "a", reserved=False)

    assert metrics[OFFERING_AVAILABLE].value(**labels("reserved")) is None


def test_a_pool_that_cannot_be_answered_for_loses_only_its_own() -> None:
    """The others are shown as ever."""
    metrics = shown(Sellers(a=catalog(offering("spot"))), "a", "unknown")

    assert metrics[OFFERING_AVAILABLE].value(**labels("spot")) == 1.0


def test_what_is_not_sold_any_longer_is_not_shown() -> None:
    """Series go with their offerings."""
    provider = Sellers(a=catalog(offering("spot"), offering("on-demand")))

    async def main(clock: VirtualClock) -> Metrics:
        provider_metrics, metrics = instrumented(clock)
        held: Any = provider
        gauges = InstanceTypeMetricsController(
            provider=held,
            view=seen(pool("a")),
            instance_types=InstanceTypeStore(ScriptedAws()),
            metrics=provider_metrics,
            reserved_capacity=False,
        )
        await gauges.look()
        provider.catalogs["a"] = catalog(offering("on-demand"))
        await gauges.look()
        return metrics

    metrics = virtually(main)

    assert metrics[OFFERING_AVAILABLE].value(**labels("spot")) is None
    assert metrics[OFFERING_AVAILABLE].value(**labels("on-demand")) == 1.0
