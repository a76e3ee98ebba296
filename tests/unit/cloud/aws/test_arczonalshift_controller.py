"""Zones that are shifted away: what is not bought there, what is left alone, and who is told."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from karpenter.api.ec2nodeclass_status import Subnet
from karpenter.api.nodepool import NodePool
from karpenter.cloud.aws.arczonalshift import ZonalShiftController, ZonalShiftProvider
from karpenter.cloud.aws.cluster import EksCluster
from karpenter.cloud.aws.instance.instance import InstanceProvider
from karpenter.cloud.aws.options import AwsSettings
from karpenter.cloud.aws.unavailableofferings import UnavailableOfferings
from karpenter.cloud.errors import CloudUnreachable
from karpenter.core.effects import Announce
from karpenter_local.testing.cluster_objects import ObjectsInMemory
from karpenter_local.virtual import VirtualClock
from tests.unit.cloud.aws.scripted import NOW, ScriptedAws, instrumented, seen, virtually
from tests.unit.cloud.aws.test_tagging import instance
from tests.unit.cloud.aws.world import pool, requirement, simple_class

HOUR = timedelta(hours=1)
ARN = "arn:aws:eks:us-west-2:1:cluster/ours"
SUBNETS = (
    Subnet(id="subnet-1", zone="us-west-2a", zone_id="usw2-az1"),
    Subnet(id="subnet-2", zone="us-west-2b", zone_id="usw2-az2"),
)


def shift(zone: str = "usw2-az1", *, status: str = "APPLIED", expires: Any = NOW + HOUR) -> dict[str, Any]:
    """Return a shift as Application Recovery Controller tells it."""
    return {"awayFrom": zone, "appliedStatus": status, "expiryTime": expires}


def scripted(*answers: list[dict[str, Any]]) -> ScriptedAws:
    """Return an AWS that tells of these shifts, one list after the other."""
    told: list[Any] = [{"zonalShifts": each} for each in answers]
    return ScriptedAws({"DescribeCluster": {"cluster": {"arn": ARN}}, "GetManagedResource": told or {}})


def shifts_of(aws: ScriptedAws, clock: VirtualClock) -> ZonalShiftProvider:
    cluster = EksCluster(aws, AwsSettings(cluster="ours"), ObjectsInMemory(), monotonic=clock.monotonic)
    return ZonalShiftProvider(aws, cluster, clock=clock)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        pytest.param([], set(), id="no shift"),
        pytest.param([shift()], {"usw2-az1"}, id="one that is applied"),
        pytest.param([shift(status="NOT_APPLIED")], set(), id="one that is not applied"),
        pytest.param([shift(expires=NOW - HOUR)], set(), id="one that is over"),
        pytest.param([shift(expires=(NOW + HOUR).replace(tzinfo=None))], {"usw2-az1"}, id="without a zone"),
        pytest.param([shift(), shift("usw2-az2")], {"usw2-az1", "usw2-az2"}, id="two"),
    ],
)
def test_active(told: list[dict[str, Any]], expected: set[str]) -> None:
    """A zone is shifted away while a shift is applied and has not expired."""

    async def main(clock: VirtualClock) -> frozenset[str]:
        shifts = shifts_of(scripted(told), clock)
        await shifts.refresh()
        return shifts.active()

    assert virtually(main) == expected


def test_a_shift_ends_by_itself() -> None:
    """It ends without a call."""

    async def main(clock: VirtualClock) -> list[frozenset[str]]:
        shifts = shifts_of(scripted([shift()]), clock)
        await shifts.refresh()
        before = shifts.active()
        await clock.sleep(3601)
        return [before, shifts.active()]

    assert virtually(main) == [{"usw2-az1"}, frozenset()]


def test_a_shift_that_was_cancelled_is_forgotten() -> None:
    """What is told last is all that counts."""

    async def main(clock: VirtualClock) -> frozenset[str]:
        shifts = shifts_of(scripted([shift(), shift("usw2-az2")], [shift("usw2-az2")]), clock)
        await shifts.refresh()
        await shifts.refresh()
        return shifts.active()

    assert virtually(main) == {"usw2-az2"}


def test_the_cluster_is_asked_about_by_its_arn() -> None:
    """As the policy allows it."""

    async def main(clock: VirtualClock) -> Any:
        aws = scripted([])
        await shifts_of(aws, clock).refresh()
        return aws.asked("GetManagedResource")

    assert virtually(main) == [{"resourceIdentifier": ARN}]


def pool_in(*zones: str) -> NodePool:
    """Return a pool that may use these zones; all, when none are named."""
    needed = (requirement("topology.kubernetes.io/zone", "In", *zones),) if zones else ()
    made = pool("default", requirements=needed)
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, uid="pool-uid"))


def announced(
    *answers: list[dict[str, Any]], wanted: NodePool, classes: bool = True
) -> list[tuple[str, str]]:
    """Return what a pool is told, round by round, and how loudly."""

    async def main(clock: VirtualClock) -> list[tuple[str, str]]:
        objects = ObjectsInMemory(*([simple_class(subnets=SUBNETS)] if classes else []))
        watch = ZonalShiftController(
            shifts=shifts_of(scripted(*answers), clock), objects=objects, view=seen(wanted)
        )
        found: list[tuple[str, str]] = []
        for _ in answers:
            step = await watch.look()
            assert step.again == 30.0
            found += [(each.type, each.reason) for each in step.effects if isinstance(each, Announce)]
        return found

    return virtually(main)


ACTIVE, CLEARED = ("Warning", "ZonalShiftActive"), ("Normal", "ZonalShiftCleared")


@pytest.mark.parametrize(
    ("answers", "wanted", "classes", "expected"),
    [
        pytest.param([[]], pool_in(), True, [], id="without a shift there is no event"),
        pytest.param([[shift()]], pool_in(), True, [ACTIVE], id="a pool that can use the zone is told"),
        pytest.param([[shift()], [shift()]], pool_in(), True, [ACTIVE], id="once"),
        pytest.param([[shift()], []], pool_in(), True, [ACTIVE, CLEARED], id="and when it is over"),
        pytest.param([[shift()]], pool_in("us-west-2b"), True, [], id="not one of another zone"),
        pytest.param([[shift()]], pool_in("us-west-2a"), True, [ACTIVE], id="one of this zone"),
        pytest.param([[shift("elsewhere")]], pool_in(), True, [], id="not of zones without subnets"),
        pytest.param([[shift()]], pool_in(), False, [], id="a pool whose class is missing is skipped"),
    ],
)
def test_pools_are_told(
    answers: list[list[dict[str, Any]]], wanted: NodePool, classes: bool, expected: list[tuple[str, str]]
) -> None:
    """Of zones that they can use, when a shift begins and when it ends."""
    assert announced(*answers, wanted=wanted, classes=classes) == expected


def test_machines_in_a_shifted_zone_are_left_alone() -> None:
    """They are returned as they were seen last, and neither terminated nor tagged; those elsewhere are."""

    async def main(clock: VirtualClock) -> Any:
        aws = scripted()
        aws.answers["DescribeInstances"] = instance()
        shifted: set[str] = set()
        instances = InstanceProvider(
            aws,
            cluster="ours",
            clock=clock,
            metrics=instrumented(clock)[0],
            zone_id={"us-west-2a": "usw2-az1"}.__getitem__,
            shifted=lambda: frozenset(shifted),
        )
        found = await instances.get("i-1")
        shifted.add("usw2-az1")
        aws.calls.clear()
        again = await instances.get("i-1")
        for act in (instances.terminate(found), instances.tag(found, {"a": "b"})):
            with pytest.raises(CloudUnreachable, match="zonal shift"):
                await act
        return again == found, aws.calls

    assert virtually(main) == (True, [])


def test_machines_in_a_shifted_zone_stay_in_the_list() -> None:
    """A list that leaves them out may come from the trouble in the zone."""

    async def main(clock: VirtualClock) -> list[str]:
        aws = scripted()
        tags = {"karpenter.sh/nodepool": "a", "karpenter.k8s.aws/ec2nodeclass": "b"}
        aws.answers["DescribeInstances"] = [instance(tags=tags), {"Reservations": []}]
        shifted: set[str] = set()
        instances = InstanceProvider(
            aws,
            cluster="ours",
            clock=clock,
            metrics=instrumented(clock)[0],
            zone_id={"us-west-2a": "usw2-az1"}.__getitem__,
            shifted=lambda: frozenset(shifted),
        )
        await instances.all()
        shifted.add("usw2-az1")
        return [each.id for each in await instances.all()]

    assert virtually(main) == ["i-1"]


def test_a_shift_is_part_of_what_cannot_be_had() -> None:
    """So that catalogues change with it."""

    async def main(clock: VirtualClock) -> frozenset[str]:
        unavailable = UnavailableOfferings(monotonic=clock.monotonic, shifted=lambda: frozenset({"usw2-az1"}))
        return unavailable.now().zones

    assert virtually(main) == {"usw2-az1"}
