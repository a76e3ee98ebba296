"""
Laws of devices: a search finds what a slow and obvious one finds, and no plan promises a device twice.

The slow search tries every assignment there is and checks each from scratch; it shares no code with
the real one but the values it reads.
"""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from karpenter.api.dra import DeviceClaim, DeviceClassSpec, ResourceSliceSpec
from karpenter.api.labels import ZONE
from karpenter.api.meta import convert
from karpenter.base.quantity import parse_quantity
from karpenter.core.model.catalog import DeviceTemplates
from karpenter.core.scheduling.decode import DecodedPlan
from karpenter.core.scheduling.dynamicresources.allocationtracker import (
    AllocationTracker,
    DeviceAllocation,
    PriorAllocations,
)
from karpenter.core.scheduling.dynamicresources.pool import CandidateDevices, PublishedPools, published_pools
from karpenter.core.scheduling.dynamicresources.request import compile_claim
from karpenter.core.scheduling.dynamicresources.search import (
    DeviceSearch,
    FoundDevices,
    PendingClaim,
    StepBudget,
)
from karpenter.core.scheduling.dynamicresources.selectors import SelectorMatcher
from karpenter.core.scheduling.dynamicresources.types import (
    DeviceId,
    DeviceInfo,
    DynamicResources,
    PodClaim,
    PodClaims,
    PoolId,
)
from karpenter.core.scheduling.encode.devices import NodeTarget
from karpenter.core.scheduling.solve import search
from karpenter_local.testing.builders import instance_type, node, offerings, pod, pool, problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.core.scheduling.pack.scheduler import Scheduler
    from karpenter.core.scheduling.problem import Problem

DRIVER = "gpu.example.com"
CLASSES = {"gpu": DeviceClassSpec()}
FEW = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
ZONES = ("zone-1", "zone-2")
AMOUNT = st.integers(1, 4).map(str)
LANES = f"{DRIVER}/lanes"


@st.composite
def devices(draw: st.DrawFn, *, most: int = 4) -> list[dict[str, Any]]:
    """A few devices: some alike, some shared, some parts of one piece."""
    found = []
    for number in range(draw(st.integers(0, most))):
        plain: dict[str, Any] = {
            "name": f"d{number}",
            "attributes": {"numa": {"int": draw(st.integers(0, 1))}} if draw(st.booleans()) else {},
            "capacity": {"lanes": {"value": draw(AMOUNT)}} if draw(st.booleans()) else {},
            "allowMultipleAllocations": draw(st.booleans()),
        }
        if draw(st.booleans()):
            counters = {"power": {"value": draw(AMOUNT)}}
            plain["consumesCounters"] = [{"counterSet": "set", "counters": counters}]
        found.append(plain)
    return found


@st.composite
def slices(draw: st.DrawFn, *, where: dict[str, Any], name: str = "pool") -> ResourceSliceSpec:
    """One complete pool of a few devices."""
    counters = {"power": {"value": draw(st.integers(0, 6).map(str))}}
    plain = {
        "driver": DRIVER,
        "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
        "devices": draw(devices()),
        "sharedCounters": [{"name": "set", "counters": counters}],
        **where,
    }
    return convert(plain, ResourceSliceSpec)


@st.composite
def asks(draw: st.DrawFn) -> dict[str, Any]:
    found: dict[str, Any] = {"deviceClassName": "gpu", "count": draw(st.integers(1, 2))}
    if draw(st.integers(0, 5)) == 0:
        found = {"deviceClassName": "gpu", "allocationMode": "All"}
    if draw(st.booleans()):
        expression = f'"numa" in device.attributes["{DRIVER}"] && device.attributes["{DRIVER}"].numa == 0'
        found["selectors"] = [{"cel": {"expression": expression}}]
    if draw(st.booleans()):
        found["capacity"] = {"requests": {"lanes": draw(AMOUNT)}}
    return found


@st.composite
def claims(draw: st.DrawFn) -> DeviceClaim:
    """A claim with one or two requests, perhaps with alternatives, perhaps with something in common."""
    requests: list[dict[str, Any]] = []
    for number in range(draw(st.integers(1, 2))):
        if draw(st.booleans()):
            requests.append({"name": f"r{number}", "exactly": draw(asks())})
        else:
            subs = [{"name": f"s{n}", **draw(asks())} for n in range(draw(st.integers(1, 2)))]
            requests.append({"name": f"r{number}", "firstAvailable": subs})
    plain: dict[str, Any] = {"requests": requests}
    if draw(st.booleans()):
        among = draw(st.sampled_from([[], ["r0"], ["r1"]]))
        plain["constraints"] = [{"matchAttribute": f"{DRIVER}/numa", "requests": among}]
    return convert(plain, DeviceClaim)


Piece: TypeAlias = "tuple[int | None, DeviceInfo]"
"""A device, and the bin that brings it along."""

Taken: TypeAlias = list[tuple[int, str, str, str]]
"""Claim, request, alternative and device of each place."""


def nanos(amount: str | float) -> int:
    return parse_quantity(amount).nanos


class Obvious:
    """The slow search: every assignment, each checked from scratch."""

    def __init__(self, spec: ResourceSliceSpec, taken: frozenset[str]) -> None:
        self._spec = spec
        self._devices = {device.name: device for device in spec.devices}
        self._taken = taken & self._devices.keys()

    def exists(self, wanted: list[DeviceClaim]) -> bool:
        """Return whether there is any way to serve all claims."""
        return any(self.is_fine(wanted, each) for each in self._assignments(wanted))

    def _assignments(self, wanted: list[DeviceClaim]) -> Iterator[Taken]:
        parts: list[list[Taken]] = []
        for number, claim in enumerate(wanted):
            for request in claim.requests:
                ways: list[Taken] = []
                for name, ask in self._alternatives(request):
                    fitting = [d for d in self._devices if self._suits(ask, d)]
                    if ask.allocation_mode == "All":
                        chosen = [tuple(fitting)] if fitting else []
                    else:
                        chosen = list(product(fitting, repeat=max(ask.count, 1)))
                    ways += [[(number, request.name, name, d) for d in each] for each in chosen]
                parts.append(ways)
        for combination in product(*parts):
            yield [place for part in combination for place in part]

    @staticmethod
    def _alternatives(request: Any) -> list[tuple[str, Any]]:
        if request.exactly is not None:
            return [(request.name, request.exactly)]
        return [(f"{request.name}/{sub.name}", sub) for sub in request.first_available]

    def _suits(self, ask: Any, name: str) -> bool:
        numa = self._devices[name].attributes.get("numa")
        return not ask.selectors or (numa is not None and numa.int_ == 0)

    def is_fine(self, wanted: list[DeviceClaim], taken: Taken) -> bool:
        """Return whether an assignment allocates only what exists."""
        lanes: Counter[str] = Counter()
        owners: Counter[str] = Counter()
        for number, request, name, device in taken:
            raw = self._devices[device]
            asks = [ask for r in wanted[number].requests for n, ask in self._alternatives(r) if n == name]
            asked = asks[0].capacity.requests.get("lanes") if asks[0].capacity is not None else None
            has = raw.capacity.get("lanes")
            if device in self._taken or (asked is not None and has is None):
                return False
            owners[device] += 1
            if not raw.allow_multiple_allocations:
                if owners[device] > 1 or (
                    asked is not None and has is not None and nanos(has.value) < nanos(asked)
                ):
                    return False
            elif has is not None:
                lanes[device] += nanos(asked if asked is not None else has.value)
            assert request
        if any(used > nanos(self._devices[device].capacity["lanes"].value) for device, used in lanes.items()):
            return False
        power = sum(
            nanos(counter.value)
            for device in owners.keys() | self._taken
            for each in self._devices[device].consumes_counters
            for counter in each.counters.values()
        )
        drawing = any(self._devices[device].consumes_counters for device in owners)
        overdrawn = power > nanos(self._spec.shared_counters[0].counters["power"].value)
        return not (drawing and overdrawn) and all(
            self._agree(claim, [place for place in taken if place[0] == number])
            for number, claim in enumerate(wanted)
        )

    def _agree(self, claim: DeviceClaim, taken: Taken) -> bool:
        for constraint in claim.constraints:
            values = [
                self._devices[device].attributes.get("numa")
                for _, request, name, device in taken
                if not constraint.requests or request in constraint.requests or name in constraint.requests
            ]
            if any(value is None for value in values) or len({v.int_ for v in values if v is not None}) > 1:
                return False
        return True


def quick(spec: ResourceSliceSpec, taken: frozenset[str], wanted: list[DeviceClaim]) -> FoundDevices | None:
    published = PublishedPools(published_pools([spec]))
    stock = CandidateDevices(
        SelectorMatcher(), published, [device for each in published.sound for device in each.devices]
    )
    before = PriorAllocations(exclusive=frozenset(DeviceId(DRIVER, "pool", name) for name in taken))
    drawn: Counter[tuple[PoolId, str, str]] = Counter()
    for device in (device for each in published.sound for device in each.devices if device.id.name in taken):
        for draw in device.consumes_counters:
            drawn[device.id.pool_id, draw.counter_set, draw.counter] += draw.amount
    preferred = [PendingClaim(str(n), str(n), compile_claim(each, CLASSES)) for n, each in enumerate(wanted)]
    place = NodeTarget(node("n1").existing)
    return DeviceSearch(stock, AllocationTracker(before, drawn), 0, 0, StepBudget(10**6)).run(
        place, [], preferred
    )


@FEW
@given(
    spec=slices(where={"allNodes": True}),
    taken=st.frozensets(st.sampled_from(["d0", "d1"]), max_size=1),
    wanted=st.lists(claims(), min_size=1, max_size=2),
)
def test_the_search_finds_what_can_be_found(
    spec: ResourceSliceSpec, taken: frozenset[str], wanted: list[DeviceClaim]
) -> None:
    """Devices are found exactly when some assignment serves every claim, and what is found is one."""
    obvious, found = Obvious(spec, taken), quick(spec, taken, wanted)

    assert (found is not None) == obvious.exists(wanted)
    if found is not None:
        given_out = [
            (int(grant.claim), grant.request.partition("/")[0], grant.request, grant.device.id.name)
            for grant in found.allocations
        ]
        assert obvious.is_fine(wanted, given_out)


@st.composite
def questions(draw: st.DrawFn) -> Problem:
    """A few pods with claims, nodes, and machines that bring devices along."""
    far = [
        draw(slices(where=where, name=name))
        for name, where in (
            ("everywhere", {"allNodes": True}),
            ("n1", {"nodeName": "n1"}),
            (
                "zone-2",
                {
                    "nodeSelector": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["zone-2"]}]}
                        ]
                    }
                },
            ),
        )
        if draw(st.booleans())
    ]
    types = []
    for number in range(draw(st.integers(1, 3))):
        brings = DeviceTemplates((draw(slices(where={})),)) if draw(st.booleans()) else None
        kind = instance_type(f"t{number}", cpu=2 + 2 * number, sold=offerings(1.0 + number, zones=ZONES))
        types.append(msgspec.structs.replace(kind, devices=brings))
    pods = [
        pod(
            f"p{n}",
            cpu=draw(st.sampled_from(["500m", "1500m"])),
            on=draw(st.sampled_from([{}, {ZONE: "zone-1"}])),
        )
        for n in range(draw(st.integers(1, 6)))
    ]
    common = PodClaim(key="default/ours", name="ours", devices=draw(claims()))
    pod_claims = {}
    for each in pods:
        own = [
            PodClaim(key=f"{each.key}-{n}", name=str(n), generated=True, devices=draw(claims()))
            for n in range(draw(st.integers(0, 2)))
        ]
        mine = (*own, *([common] if draw(st.integers(0, 3)) == 0 else []))
        if mine:
            pod_claims[each.key] = PodClaims(tuple(mine))
    question = problem(
        pods, pools=[pool("default", *types)], nodes=[node("n1")] if draw(st.booleans()) else []
    )
    stated = DynamicResources(pod_claims=pod_claims, classes=CLASSES, slices=tuple(far))
    return msgspec.structs.replace(question, devices=stated)


def promised(scheduler: Scheduler, choice: st.DataObject) -> dict[int, list[DeviceAllocation]]:
    """Return the devices of every bin, once each bin has become one of the things that it still can."""
    tracker = (
        scheduler.devices._tracker
        if scheduler.devices is not None
        else AllocationTracker(PriorAllocations(), {})
    )
    found: dict[int, list[DeviceAllocation]] = {}
    becomes: dict[int, int] = {}
    for claimed in tracker.claim_allocations.values():
        if claimed.bin not in becomes:
            becomes[claimed.bin] = choice.draw(st.sampled_from(sorted(claimed.device_sets)))
        found.setdefault(claimed.bin, []).extend(claimed.device_sets[becomes[claimed.bin]])
    return found


@settings(FEW, max_examples=120)
@given(question=questions(), choice=st.data())
def test_no_plan_allocates_what_is_not_there(question: Problem, choice: st.DataObject) -> None:
    """Whatever machines come of a plan, no device is given twice, and no share or counter is overdrawn."""
    scheduler, _ = search(question)
    owners: Counter[Piece] = Counter()
    lanes: Counter[Piece] = Counter()
    for bin_, grants in promised(scheduler, choice).items():
        for grant in grants:
            piece = bin_ if grant.device.id.template else None, grant.device
            owners[piece] += 1
            lanes[piece] += grant.consumed_capacity.get(LANES, 0)
    power: Counter[tuple[int | None, int]] = Counter()
    for home, device in owners:
        assert device.shared or owners[home, device] == 1
        has = device.capacity.get(LANES)
        assert not device.shared or has is None or lanes[home, device] <= has.value
        power[home, budget_of(scheduler, device)] += sum(draw.amount for draw in device.consumes_counters)

    assert all(amount <= run_budgets(scheduler)[number] for (_, number), amount in power.items())


def all_slices(scheduler: Scheduler) -> list[ResourceSliceSpec]:
    """Return what is published, and what machines bring along."""
    stated = scheduler.problem.devices
    found = list(stated.slices) if stated is not None else []
    for kind in scheduler.problem.pools[0].types:
        found += kind.devices.slices if kind.devices is not None else ()
    return found


def budget_of(scheduler: Scheduler, device: DeviceInfo) -> int:
    """Return the number of the slice that a device is from."""
    return next(
        number
        for number, each in enumerate(all_slices(scheduler))
        if any(device.raw is raw for raw in each.devices)
    )


def run_budgets(scheduler: Scheduler) -> list[int]:
    """Return what the devices of each slice may draw together."""
    return [nanos(each.shared_counters[0].counters["power"].value) for each in all_slices(scheduler)]


@settings(FEW, max_examples=80)
@given(question=questions())
def test_every_claim_is_served_where_its_pod_is(question: Problem) -> None:
    """A placed pod has every claim served, on its own bin or within its reach, on offerings that are sold."""
    scheduler, _ = search(question)
    stated = scheduler.problem.devices
    tracker = (
        scheduler.devices._tracker
        if scheduler.devices is not None
        else AllocationTracker(PriorAllocations(), {})
    )
    dealt: Counter[int] = Counter()
    for placement in scheduler.placements:
        for member in placement.pod_data.pod_class.pods[
            dealt[placement.pod_data.pod_class.number] : dealt[placement.pod_data.pod_class.number]
            + placement.pod_count
        ]:
            pod_claims = stated.pod_claims.get(member.key) if stated is not None else None
            for claim in pod_claims.claims if pod_claims is not None else ():
                claimed = tracker.claim_allocations[claim.key]
                assert claimed.bin == placement.bin or not claimed.is_node_local
        dealt[placement.pod_data.pod_class.number] += placement.pod_count
    assert len(DecodedPlan(scheduler).new_nodes) == scheduler.claims.count
