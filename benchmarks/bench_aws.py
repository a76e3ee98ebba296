"""
All of EC2 as a catalogue, and 500 machines launched on the embedded AWS.

The catalogue is that of every instance type in three zones, on demand, at spot and reserved. Records of
instance types are those that DescribeInstanceTypes answers with; reading the answer itself is the SDK's work
and is not measured.
"""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections import Counter
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any, Final

import msgspec

from benchmarks.measure import measure
from benchmarks.table import Table, count, seconds, size
from karpenter.api.ec2nodeclass import EC2NodeClass, EC2NodeClassSpec
from karpenter.api.ec2nodeclass_status import CapacityReservation
from karpenter.api.meta import ObjectMeta, convert
from karpenter.api.nodeclaim import NodeClaim, NodeClaimSpec, NodeClassReference, NodeRequirement
from karpenter.cloud.aws.cloudprovider import AwsProvider
from karpenter.cloud.aws.instancetype.types import InstanceTypeInfo, Traits, instance_type_info
from karpenter.cloud.aws.options import read_settings
from karpenter.cloud.aws.sdk import LIMITS, READ_LIMIT, AwsApi
from karpenter.cloud.aws.services import new_services
from karpenter.cloud.aws.unavailableofferings import OfferingKey
from karpenter.cloud.catalogs.ec2 import refresh
from karpenter.cloud.catalogs.ec2.data import usable
from karpenter_local.aws.estate import DISCOVERY
from karpenter_local.aws.room import ClusterEndpoint
from karpenter_local.aws.server import EmbeddedAws
from karpenter_local.aws.site import ClusterAccount
from karpenter_local.testing.cluster_objects import ObjectsInMemory
from karpenter_local.virtual import VirtualClock, run_virtual

if TYPE_CHECKING:
    from collections.abc import Iterator


MACHINES: Final = 500
CLUSTER: Final = "bench"
NOW: Final = datetime(2026, 6, 1, tzinfo=UTC)
_ZONES: Final = {"us-west-2a": "usw2-az2", "us-west-2b": "usw2-az1", "us-west-2c": "usw2-az3"}


def suite() -> Table:
    """Return what the catalogue costs, and which calls launching takes."""
    with EmbeddedAws() as server:
        rows = (*_catalogue(server), *_launching(server))
    notes = (
        "goals: the catalogue within 1 s and 60 MiB, nothing new within 50 ms",
        "calls are those of one burst; a bucket of EC2 is a rate per second and how much it takes at once",
    )
    return Table("aws", ("what", "amount", "cost", "memory"), rows, notes)


class _Recorded(AwsApi):
    """Asks AWS, and notes when each call was sent, in virtual time."""

    def __init__(self, clients: Any, clock: VirtualClock) -> None:
        super().__init__(clients)
        self._clock = clock
        self.sent: list[tuple[str, float]] = []

    def _call(self, service: str, operation: str, parameters: Any, made: Any) -> dict[str, Any]:
        if service == "ec2":
            self.sent.append((operation, self._clock.monotonic()))
        return super()._call(service, operation, parameters, made)


def _catalogue(server: EmbeddedAws) -> Iterator[tuple[str, ...]]:
    site = ClusterAccount(server, cluster=CLUSTER)
    records = [each for each in refresh.instance_types(site.clients.by_name["ec2"]) if usable(each)]
    yield from run_virtual(_catalogue_of(site, records), start=NOW)
    site.close()


async def _catalogue_of(site: ClusterAccount, records: list[Any]) -> list[tuple[str, ...]]:
    aws = AwsApi(site.clients)
    provider = _provider(aws, VirtualClock())
    await provider.services.instance_types.refresh()
    await provider.services.pricing.refresh_spot(NOW)
    aws.close()
    catalogs, store = provider.services.catalogs, provider.services.instance_types
    traits = _traits(store.types)
    first = catalogs.catalog(traits, node_class="default")
    offerings = sum(len(kind.offerings) for kind in first.types)

    def build() -> object:
        catalogs._known.clear()  # noqa: SLF001  as if prices had changed
        return catalogs.catalog(traits, node_class="default")

    def learn() -> bool:
        found = {each.name: each for each in map(instance_type_info, records)}
        return found == store.types

    built = measure(build, rounds=3)
    held = _held(build)
    same = measure(lambda: catalogs.catalog(traits, node_class="default"))
    learned = measure(learn, rounds=3)
    sold_out = measure(lambda: _sold_out(provider, traits))
    return [
        ("catalogue made", f"{count(len(first.types))} types", seconds(built.seconds), size(held)),
        ("  with offerings", count(offerings), "", ""),
        ("asked again, nothing new", "1", seconds(same.seconds), size(same.peak)),
        ("types read again, the same", count(len(records)), seconds(learned.seconds), size(learned.peak)),
        ("one offering sold out", "1", seconds(sold_out.seconds), size(sold_out.peak)),
    ]


def _held(build: Any) -> int:
    """Return the memory that one catalogue holds, beyond what there was before it."""
    build()
    gc.collect()
    tracemalloc.start()
    try:
        kept = build()
        gc.collect()
        held = tracemalloc.get_traced_memory()[0]
        del kept
    finally:
        tracemalloc.stop()
    return held


def _sold_out(provider: AwsProvider, traits: Traits) -> object:

    provider.services.unavailable.mark([OfferingKey("m5.large", "us-west-2a", "spot")])
    provider.services.catalogs.catalog(traits, node_class="default")
    provider.services.unavailable._until.clear()  # noqa: SLF001  as if three minutes had passed
    return provider.services.catalogs.catalog(traits, node_class="default")


def _traits(types: Any) -> Traits:
    """Return a class that may use all of EC2, with a reservation of every type in every zone."""
    return Traits(
        region="us-west-2",
        family_name="AL2023",
        zone_ids=_ZONES,
        subnets={zone: (f"subnet-{zone}",) for zone in _ZONES},
        reservations=tuple(_reservations(types.values())),
    )


def _reservations(types: Any) -> Iterator[CapacityReservation]:
    kind: InstanceTypeInfo
    for number, kind in enumerate(types):
        for zone in _ZONES:
            yield CapacityReservation(
                id=f"cr-{number}{zone[-1]}",
                availability_zone=zone,
                instance_match_criteria="targeted",
                instance_type=kind.name,
                owner_id="012345678901",
            )


def _provider(aws: AwsApi, clock: VirtualClock, objects: ObjectsInMemory | None = None) -> AwsProvider:
    services = new_services(
        aws,
        read_settings(CLUSTER, {"KUBERNETES_VERSION": "1.33", "DISABLE_DRY_RUN": "true"}),
        objects=objects or ObjectsInMemory(),
        clock=clock,
        chance=Random(1),  # noqa: S311  chance of a benchmark
        long_poll=0,
    )
    return AwsProvider(services)


def _launching(server: EmbeddedAws) -> Iterator[tuple[str, ...]]:
    site = ClusterAccount(server, cluster=CLUSTER)
    site.serve(ClusterEndpoint(cluster=CLUSTER, endpoint="https://bench.example", authority="Q0E="))
    yield from run_virtual(_launched(site), start=NOW)
    site.close()


async def _launched(site: ClusterAccount) -> list[tuple[str, ...]]:
    clock, objects = VirtualClock(), ObjectsInMemory()
    aws = _Recorded(site.clients, clock)
    provider = _provider(aws, clock, objects)
    await provider.services.instance_types.refresh()
    await provider.services.pricing.refresh_spot(NOW)
    wanted = _class(site)
    resolved = await provider.node_class_status.resolve(wanted)
    objects.put(msgspec.structs.replace(wanted, status=resolved.status))
    await provider.list()
    aws.sent.clear()
    began = clock.monotonic()
    machines = await asyncio.gather(*(provider.launch(_claim(number)) for number in range(MACHINES)))
    spent = clock.monotonic() - began
    launched = Counter(name for name, _ in aws.sent)
    await asyncio.gather(*(provider.terminate(each.provider_id) for each in machines))
    aws.close()
    ended = Counter(name for name, _ in aws.sent) - launched
    over = _over(aws.sent)
    return [
        ("machines launched", count(len({each.provider_id for each in machines})), seconds(spent), ""),
        *((f"  calls of {name}", count(number), "", "") for name, number in sorted(launched.items())),
        ("machines ended", count(MACHINES), "", ""),
        *((f"  calls of {name}", count(number), "", "") for name, number in sorted(ended.items())),
        ("calls above the buckets of EC2", count(over), "", ""),
    ]


def _over(sent: list[tuple[str, float]]) -> int:
    """Return how many calls came when the bucket of their sort was empty."""
    left: dict[tuple[float, float], tuple[float, float]] = {}
    over = 0
    for name, at in sorted(sent, key=lambda each: each[1]):
        rate, burst = LIMITS.get(name, READ_LIMIT)
        tokens, since = left.get((rate, burst), (burst, at))
        tokens = min(burst, tokens + (at - since) * rate)
        over += int(tokens < 1)
        left[rate, burst] = (max(0.0, tokens - 1), at)
    return over


def _class(site: ClusterAccount) -> EC2NodeClass:
    terms = [{"tags": {DISCOVERY: site.cluster}}]
    spec = {
        "role": site.estate.role,
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": terms,
        "securityGroupSelectorTerms": terms,
    }
    return EC2NodeClass(
        metadata=ObjectMeta(name="default", uid="class", generation=1), spec=convert(spec, EC2NodeClassSpec)
    )


def _claim(number: int) -> NodeClaim:
    reference = NodeClassReference(group="karpenter.k8s.aws", kind="EC2NodeClass", name="default")
    wanted = (
        NodeRequirement(key="karpenter.sh/capacity-type", operator="In", values=("spot",)),
        NodeRequirement(key="karpenter.k8s.aws/instance-category", operator="In", values=("c", "m", "r")),
    )
    return NodeClaim(
        metadata=ObjectMeta(
            name=f"claim-{number}", uid=f"uid-{number}", labels={"karpenter.sh/nodepool": "default"}
        ),
        spec=NodeClaimSpec(node_class_ref=reference, requirements=wanted),
    )
