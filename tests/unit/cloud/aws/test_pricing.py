"""What instance types cost: from AWS, from the product, or from the user."""

from collections.abc import Mapping
from typing import Any

import pytest

from karpenter.api.meta import convert
from karpenter.api.nodeoverlay import NodeOverlay
from karpenter.cloud.aws.cloudprovider import AwsProvider
from karpenter.cloud.aws.pricing import PricingProvider, shipped_prices, stated_prices
from karpenter.cloud.errors import CloudUnreachable
from karpenter_local.virtual import VirtualClock
from tests.unit.cloud.aws.scripted import NOW, ScriptedAws, virtually
from tests.unit.cloud.aws.world import pool, shared_world

TYPE = "node.kubernetes.io/instance-type"


def overlay(name: str = "o", **spec: Any) -> NodeOverlay:
    """Return a correction of the user's."""
    return convert({"metadata": {"name": name}, "spec": spec}, NodeOverlay)


NAMED = {"key": TYPE, "operator": "In", "values": ["zz9.large", "zz9.xlarge"]}


@pytest.mark.parametrize(
    ("overlays", "expected"),
    [
        pytest.param([], {}, id="none"),
        pytest.param(
            [overlay(requirements=[NAMED], price="1.5")], {"zz9.large": 1.5, "zz9.xlarge": 1.5}, id="a price"
        ),
        pytest.param([overlay(requirements=[NAMED], priceAdjustment="+10%")], {}, id="an adjustment"),
        pytest.param(
            [overlay(requirements=[NAMED, {"key": "a", "operator": "Exists"}], price="1.5")],
            {},
            id="two requirements",
        ),
        pytest.param([overlay(requirements=[], price="1.5")], {}, id="no requirement"),
        pytest.param(
            [overlay(requirements=[{**NAMED, "operator": "NotIn"}], price="1.5")], {}, id="all but some types"
        ),
        pytest.param(
            [
                overlay("a", requirements=[NAMED], price="1", weight=10),
                overlay("b", requirements=[NAMED], price="2"),
            ],
            {"zz9.large": 1.0, "zz9.xlarge": 1.0},
            id="the one of more weight",
        ),
    ],
)
def test_stated_prices(overlays: list[NodeOverlay], expected: dict[str, float]) -> None:
    """One shape of overlay states prices for types that have none."""
    assert stated_prices(overlays) == expected


def test_a_type_without_a_price_can_be_bought_at_the_price_of_the_user() -> None:
    """With overlays switched on."""
    world = shared_world()
    world.objects.put(overlay(requirements=[{**NAMED, "values": ["m5.large"]}], price="7"))

    async def work(provider: AwsProvider) -> list[set[float]]:
        del provider.services.pricing._on_demand["m5.large"]
        found = []
        for _ in range(2):
            catalog = await provider.catalog(pool())
            kind = catalog.by_name.get("m5.large")
            found.append({each.price for each in kind.offerings} if kind else set())
        return found

    try:
        assert 7.0 in world.launching(work, given={"FEATURE_GATES": "NodeOverlay=true"})[0]
        assert 7.0 not in world.launching(work)[0]
    finally:
        world.objects._kept.pop(("NodeOverlay", "o"))


def prices_after(answers: Mapping[str, Any], work: Any, region: str = "us-west-2", **more: Any) -> Any:
    class Asked(ScriptedAws):
        async def run(self, service: str, work: Any) -> Any:  # noqa: ARG002  as it is asked for
            self.calls.append((service, {}))
            found = answers[service]
            if isinstance(found, Exception):
                raise found
            return found.pop(0)

    async def main(clock: VirtualClock) -> Any:
        del clock
        aws = Asked()
        aws.region = region
        return await work(PricingProvider(aws, **more), aws)

    return virtually(main)


def test_prices_of_aws_come_before_those_of_the_product() -> None:
    """Those that AWS does not tell stay."""

    async def work(prices: PricingProvider, aws: ScriptedAws) -> Any:
        del aws
        await prices.refresh_on_demand(NOW)
        return prices.on_demand("m5.large"), prices.on_demand("c5.large"), prices.version

    answers = {"pricing": [{"m5.large": 9.0}, {"m5.metal": 5.0}]}

    assert prices_after(answers, work) == (9.0, 0.085, 1)


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param({"pricing": [{"m5.large": 9.0}, {}]}, id="half a list"),
        pytest.param({"pricing": CloudUnreachable("no answer")}, id="no answer"),
    ],
)
def test_a_list_that_is_not_whole_changes_nothing(answers: dict[str, Any]) -> None:
    """It is asked for again."""

    async def work(prices: PricingProvider, aws: ScriptedAws) -> Any:
        del aws
        with pytest.raises(CloudUnreachable):
            await prices.refresh_on_demand(NOW)
        return prices.on_demand("m5.large"), prices.version

    assert prices_after(answers, work) == (0.096, 0)


@pytest.mark.parametrize(
    ("region", "isolated", "asked"),
    [
        pytest.param("us-west-2", False, 2, id="asked for"),
        pytest.param("us-west-2", True, 0, id="not in an isolated network"),
        pytest.param("us-gov-west-1", False, 0, id="not where there is no list"),
    ],
)
def test_where_there_is_a_price_list(region: str, isolated: bool, asked: int) -> None:
    """Elsewhere prices are those that ship with the product."""

    async def work(prices: PricingProvider, aws: ScriptedAws) -> int:
        await prices.refresh_on_demand(NOW)
        return len(aws.calls)

    answers = {"pricing": [{"m5.large": 9.0}, {"m5.metal": 5.0}]}

    assert prices_after(answers, work, region, isolated=isolated) == asked


def test_spot_prices_of_before_stay_until_new_ones_come() -> None:
    """EC2 does not tell every price every time."""

    async def work(prices: PricingProvider, aws: ScriptedAws) -> Any:
        del aws
        for _ in range(2):
            await prices.refresh_spot(NOW)
        return prices.spot("a", "z"), prices.spot("b", "z"), prices.spot("c", "z")

    answers = {"ec2": [{("a", "z"): 1.0, ("b", "z"): 2.0}, {("b", "z"): 3.0}]}

    assert prices_after(answers, work) == (1.0, 3.0, None)


def test_no_spot_prices_at_all_are_an_error() -> None:
    """Nothing is sold out because a list was empty."""

    async def work(prices: PricingProvider, aws: ScriptedAws) -> Any:
        del aws
        with pytest.raises(CloudUnreachable):
            await prices.refresh_spot(NOW)
        return prices.spot("m5.large", "z")

    assert prices_after({"ec2": [{}]}, work) == 0.096


@pytest.mark.parametrize(
    ("region", "expected"),
    [
        pytest.param("us-east-1", 0.096, id="its own"),
        pytest.param("nowhere-1", 0.096, id="those of us-east-1"),
        pytest.param("us-gov-west-1", 0.121, id="those of GovCloud"),
        pytest.param("us-gov-north-1", 0.121, id="those of another region of GovCloud"),
        pytest.param("cn-north-1", 1.013, id="those of China, in yuan"),
        pytest.param("cn-northwest-1", 1.013, id="those of another region of China"),
    ],
)
def test_prices_that_ship(region: str, expected: float) -> None:
    """GovCloud and China have lists of their own; an unknown region has the prices of us-east-1."""
    assert shipped_prices(region)["m5.large"] == expected
