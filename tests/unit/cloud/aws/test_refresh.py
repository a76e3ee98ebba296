"""What is kept current, and how often."""

from datetime import datetime
from typing import Any

import pytest

from karpenter.cloud.aws.amifamily.ami import AMIProvider
from karpenter.cloud.aws.amifamily.ssm import SSMProvider
from karpenter.cloud.aws.metrics import ProviderMetrics
from karpenter.cloud.aws.refresh import (
    InstanceTypeController,
    PricingController,
    SSMInvalidationController,
    VersionController,
    refresh_prices,
)
from karpenter.cloud.errors import CloudUnreachable
from karpenter_local.virtual import VirtualClock
from tests.unit.cloud.aws.scripted import NOW, ScriptedAws, virtually

HALF_A_DAY = 12 * 3600.0


class Source:
    """Something that can be asked anew, and counts how often it was."""

    def __init__(self, *failing: str) -> None:
        self.failing = set(failing)
        self.asked: list[str] = []
        self.read_at: dict[str, datetime] = {}

    async def _ask(self, what: str) -> None:
        self.asked.append(what)
        if what in self.failing:
            raise CloudUnreachable(f"no answer about {what}")

    async def refresh(self) -> None:
        await self._ask("types")

    async def refresh_on_demand(self, now: datetime) -> None:
        assert now >= NOW
        await self._ask("on demand")

    async def refresh_spot(self, now: Any) -> None:
        assert now >= NOW
        await self._ask("spot")

    async def version(self) -> str:
        await self._ask("version")
        return "1.33"


def rounds(make: Any, count: int) -> list[float | None]:
    async def main(clock: VirtualClock) -> list[float | None]:
        controller = make(clock)
        return [(await controller.look()).again for _ in range(count)]

    return virtually(main)


def test_types_are_asked_for_every_twelve_hours() -> None:
    """Not at once: that was done before the operator began."""
    source: Any = Source()

    assert rounds(lambda _: InstanceTypeController(source), 3) == [HALF_A_DAY] * 3
    assert source.asked == ["types", "types"]


def test_prices_are_asked_for_every_twelve_hours() -> None:
    """Both kinds, together."""
    source: Any = Source()

    assert (
        rounds(lambda clock: PricingController(source, clock=clock, metrics=ProviderMetrics()), 2)
        == [HALF_A_DAY] * 2
    )
    assert sorted(source.asked) == ["on demand", "spot"]


@pytest.mark.parametrize("failing", ["on demand", "spot"])
def test_one_sort_of_prices_does_not_depend_on_the_other(failing: str) -> None:
    """Both are asked for; an error is raised, and the controller runs again."""
    source: Any = Source(failing)

    with pytest.raises(CloudUnreachable, match=failing):
        rounds(lambda clock: PricingController(source, clock=clock, metrics=ProviderMetrics()), 2)
    assert sorted(source.asked) == ["on demand", "spot"]


def test_the_first_prices_may_be_missing() -> None:
    """Those that ship with the product are used until AWS answers."""
    source: Any = Source("on demand", "spot")

    virtually(lambda clock: refresh_prices(source, clock))

    assert sorted(source.asked) == ["on demand", "spot"]


def test_the_version_is_asked_for_every_five_minutes() -> None:
    """Images depend on it."""
    source: Any = Source()

    assert rounds(lambda _: VersionController(source), 2) == [300.0, 300.0]
    assert source.asked == ["version", "version"]


@pytest.mark.parametrize(
    ("mutable", "image", "expected"),
    [
        pytest.param(True, {}, 1, id="a current image is kept"),
        pytest.param(True, {"DeprecationTime": "2026-05-01T00:00:00.000Z"}, 2, id="a deprecated one is not"),
        pytest.param(True, {"DeprecationTime": "2026-07-01T00:00:00.000Z"}, 1, id="a later deprecation"),
        pytest.param(True, None, 2, id="an image that is gone is not kept"),
        pytest.param(
            False, {"DeprecationTime": "2026-05-01T00:00:00.000Z"}, 1, id="a pinned version never changes"
        ),
    ],
)
def test_parameters_are_read_anew_when_their_image_is_deprecated(
    mutable: bool, image: dict[str, Any] | None, expected: int
) -> None:
    """A day is a long time to go on with an image that its owner has given up."""

    async def main(clock: VirtualClock) -> int:
        told = {"ImageId": "ami-1", "Architecture": "x86_64", "Name": "a", **(image or {})}
        aws = ScriptedAws(
            {
                "GetParameter": {"Parameter": {"Value": "ami-1"}},
                "DescribeImages": {"Images": [told] if image is not None else []},
            }
        )
        parameters = SSMProvider(aws, monotonic=clock.monotonic)
        images = AMIProvider(aws, parameters, clock=clock, seconds=60.0)
        await parameters.published("/aws/service/x", mutable=mutable)
        assert (await SSMInvalidationController(parameters, images).look()).again == 1800.0
        await parameters.published("/aws/service/x", mutable=mutable)
        return aws.counted()["GetParameter"]

    assert virtually(main) == expected
