"""What the allocator says of one pod and one bin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from karpenter.api.labels import HOSTNAME, INSTANCE_TYPE, ON_DEMAND, REQUESTED_DRA_DRIVERS, ZONE
from karpenter.core.model.requirements import Requirements
from karpenter.core.scheduling.dynamicresources.types import ANYWHERE, PodClaim
from karpenter.core.scheduling.problem import Options
from karpenter_local.testing.builders import affinity_term, node, offering, pod, pool
from tests.unit.core.scheduling.dynamicresources.clusters import asked, kind, served, shared, solved, want
from tests.unit.core.scheduling.dynamicresources.hardware import (
    DRIVER,
    asking,
    exactly,
    first_of,
    gpu,
    model,
    sliced,
    templates,
    zones,
)
from tests.unit.core.scheduling.pack.schedulers import fresh, pod_data_of

if TYPE_CHECKING:
    from karpenter.api.dra import DeviceClaim

ONE = asking(exactly())
TWO = asking(exactly(count=2))
PLAIN = kind("plain", price=1.0)
SINGLE = kind("single", price=2.0, brings=templates(gpu("gpu-0")))
DOUBLE = kind("double", price=3.0, brings=templates(gpu("gpu-0"), gpu("gpu-1")))
ALL = pool("default", PLAIN, SINGLE, DOUBLE)
HERE, NOWHERE = ((Requirements.only(ZONE, frozenset({name})),) for name in ("zone-1", "zone-9"))


@pytest.mark.parametrize(
    ("claims", "types"),
    [
        pytest.param([], ["plain", "single", "double"], id="no claims"),
        pytest.param([ONE], ["single", "double"], id="one device"),
        pytest.param([TWO], ["double"], id="two devices"),
        pytest.param([ONE, ONE], ["double"], id="two claims of one device"),
        pytest.param([asking(exactly(count=3))], [], id="more devices than any has"),
        pytest.param(
            [shared("both", TWO)],
            ["plain", "single", "double"],
            id="a claim of several pods, which another may have allocated by then",
        ),
        pytest.param(
            [ONE, shared("both", TWO)], ["plain", "single", "double"], id="also beside one of its own"
        ),
        pytest.param(
            [served("given", ANYWHERE)], ["plain", "single", "double"], id="a claim that has its devices"
        ),
        pytest.param(
            [ONE, served("given", ANYWHERE)], ["single", "double"], id="beside which only the other counts"
        ),
        pytest.param([ONE, served("given", HERE)], ["single", "double"], id="in a zone that sells them"),
        pytest.param([ONE, served("given", NOWHERE)], [], id="in a zone where nothing is sold"),
    ],
)
def test_the_types_on_which_a_pod_could_have_its_devices(
    claims: list[DeviceClaim | PodClaim], types: list[str]
) -> None:
    """Other pods aside, a type is possible when it brings the devices of all claims."""
    scheduler = fresh(asked(want(pod("web"), *claims), want(pod("other"), ONE), pools=[ALL]))
    assert scheduler.devices is not None
    state = scheduler.base(scheduler.templates[0])

    bits = scheduler.devices.possible(pod_data_of(scheduler, "web").pod_class, state)

    table = scheduler.templates[0].table
    assert [table.types[kind].name for kind in table.types_of(bits)] == types


def test_a_node_that_had_no_devices_is_not_asked_again_until_some_are_released() -> None:
    """A refusal holds for the pods of a class on that node alone."""
    local = [sliced(gpu("g"), nodeName=name, pool={"name": name}) for name in ("n1",)]
    scheduler = fresh(
        asked(want(pod("web"), ONE), want(pod("big"), TWO), nodes=[node("n1"), node("n2")], slices=local)
    )
    devices = scheduler.devices
    assert devices is not None
    web, big = (pod_data_of(scheduler, name).pod_class for name in ("web", "big"))

    assert [devices.fits_node(web, at) for at in (0, 1)] == [True, False]
    assert [devices.fits_node(big, at) for at in (0, 1)] == [False, False]
    assert [devices.refuses(web, at) for at in (0, 1)] == [False, True]
    assert [devices.refuses(big, at) for at in (0, 1)] == [True, True]
    assert [devices.fits_node(web, at) for at in (0, 1)] == [True, False]


def test_devices_are_given_where_the_pod_goes() -> None:
    """What was looked at last need not be where the pod is put; the device of that node is taken."""
    local = [sliced(gpu("g"), nodeName=name, pool={"name": name}) for name in ("n1", "n2")]
    pods = [want(pod(name), ONE) for name in ("web", "api", "job")]
    scheduler = fresh(asked(*pods, nodes=[node("n1"), node("n2")], slices=local))
    devices = scheduler.devices
    assert devices is not None
    web, api, job = (pod_data_of(scheduler, name).pod_class for name in ("web", "api", "job"))

    assert devices.fits_node(web, 0)
    assert devices.fits_node(web, 1)
    devices.commit(web, 0, None, ())

    assert not devices.fits_node(api, 0)
    assert devices.fits_node(api, 1)
    devices.commit(api, 1, None, ())
    assert [devices.fits_node(job, at) for at in (0, 1)] == [False, False]


def test_devices_are_given_on_a_node_that_was_not_looked_at() -> None:
    """A pod that goes where another run put it has its device there, and no other pod has it."""
    local = [sliced(gpu("g"), nodeName=name, pool={"name": name}) for name in ("n1", "n2")]
    pods = [want(pod(name), ONE) for name in ("web", "api")]
    scheduler = fresh(asked(*pods, nodes=[node("n1"), node("n2")], slices=local))
    devices = scheduler.devices
    assert devices is not None
    web, api = (pod_data_of(scheduler, name).pod_class for name in ("web", "api"))

    devices.commit(web, 1, None, ())

    assert [devices.fits_node(api, at) for at in (0, 1)] == [True, False]


def test_every_new_node_names_the_drivers_of_its_own_pods() -> None:
    """Beside an existing node, of two new ones the one with devices waits for a driver."""
    apart = [affinity_term(HOSTNAME, app="a")]
    pods = [
        want(pod("plain", cpu="2", app="a", apart=apart)),
        want(pod("gpu", cpu="1", app="a", apart=apart), ONE),
    ]

    plan = solved(*pods, nodes=[node("n", free={"cpu": "0"})], pools=[ALL])

    drivers = {each.pods[0]: each.annotations.get(REQUESTED_DRA_DRIVERS) for each in plan.new_nodes}
    assert drivers == {"default/plain": None, "default/gpu": DRIVER}


@pytest.mark.parametrize(
    ("first", "again"),
    [
        pytest.param(shared("both", ONE), True, id="a claim that it may share by now"),
        pytest.param(ONE, False, id="a claim of another pod alone"),
    ],
)
def test_a_refusal_is_forgotten_once_a_shared_claim_has_its_devices(
    first: DeviceClaim | PodClaim, again: bool
) -> None:
    """A pod that found no devices on a node is tried again when a claim that pods share was allocated."""
    local = sliced(gpu("g"), nodeName="n1", pool={"name": "n1"})
    given = asked(
        want(pod("web"), first),
        want(pod("api", cpu="50m"), shared("both", ONE)),
        nodes=[node("n1"), node("n2")],
        slices=[local],
    )
    scheduler = fresh(given)
    devices = scheduler.devices
    assert devices is not None
    web, api = (pod_data_of(scheduler, name).pod_class for name in ("web", "api"))

    assert not devices.fits_node(api, 1)
    assert devices.fits_node(web, 0)
    devices.commit(web, 0, None, ())

    assert devices.refuses(api, 1) is not again
    assert devices.fits_node(api, 0) is again


def test_a_refusal_is_forgotten_once_devices_are_released() -> None:
    """
    A device that a claim would need as one type is free again once the claim cannot become that type.

    There is one device in the network. A claim that may still become `bare`, which brings none, holds it; an
    existing node and a second claim are refused until the first can only become `own`.
    """
    own = kind("own", price=1.0, brings=templates(gpu("gpu-0", model="own")))
    either = asking(first_of("r", exactly("x", model("own")), exactly("y", model("net"))))
    scheduler = fresh(
        asked(
            want(pod("web"), either),
            want(pod("api"), asking(exactly("r", model("net")))),
            want(pod("plain")),
            nodes=[node("n")],
            pools=[pool("default", own, kind("bare", price=2.0))],
            slices=[sliced(gpu("g", model="net"))],
        )
    )
    devices = scheduler.devices
    assert devices is not None
    web, api, plain = (pod_data_of(scheduler, name).pod_class for name in ("web", "api", "plain"))
    base = scheduler.base(scheduler.templates[0])
    only_own, only_bare = (
        scheduler.states.step(base, Requirements.only(INSTANCE_TYPE, frozenset({name})))
        for name in ("own", "bare")
    )
    assert only_own is not None
    assert only_bare is not None
    assert devices.narrowed(web, 1, base, web.want) is base
    devices.commit(web, 1, base, web.want)

    assert not devices.fits_node(api, 0)
    assert devices.narrowed(api, 2, only_bare, api.want) is None
    devices.put(plain, 1, only_own, web.want)

    assert devices.fits_node(api, 0)
    assert devices.narrowed(api, 2, only_bare, api.want) is only_bare


def test_a_claim_goes_where_its_devices_are_though_the_cheapest_type_is_not_sold_there() -> None:
    """Of equal types the one that is sold in the zone of the devices is bought."""
    cheap = kind("cheap", sold=[offering("zone-2", ON_DEMAND, 1.0)])
    dear = kind("dear", sold=[offering("zone-1", ON_DEMAND, 2.0)])

    plan = solved(want(pod("web"), served("given", HERE)), pools=[pool("default", cheap, dear)])

    assert [new.purchase.instance_type for new in plan.new_nodes] == ["dear"]


def test_devices_are_taken_where_the_cheapest_type_is_sold() -> None:
    """Of two devices in the network the second is taken, because the cheapest type reaches that one."""
    cheap = kind("cheap", sold=[offering("zone-2", ON_DEMAND, 1.0)])
    dear = kind("dear", sold=[offering(zone, ON_DEMAND, 2.0) for zone in ("zone-1", "zone-2")])
    network = [
        sliced(gpu("g"), nodeSelector=zones(zone), pool={"name": name})
        for name, zone in (("a", "zone-1"), ("b", "zone-2"))
    ]
    greedy = Options(packing="greedy")

    plan = solved(want(pod("web"), ONE), pools=[pool("default", cheap, dear)], slices=network, options=greedy)

    assert [new.purchase.instance_type for new in plan.new_nodes] == ["cheap"]


def test_devices_of_a_dearer_type_are_left_alone() -> None:
    """A device that only the dearer type reaches is passed over, and the claim may become either."""
    dear_only = {"matchExpressions": [{"key": INSTANCE_TYPE, "operator": "In", "values": ["dear"]}]}
    network = [
        sliced(gpu("g"), nodeSelector={"nodeSelectorTerms": [dear_only]}, pool={"name": "a"}),
        sliced(gpu("g"), pool={"name": "b"}),
    ]
    types = [kind("cheap", price=1.0), kind("dear", price=2.0)]

    (new,) = solved(want(pod("web"), ONE), pools=[pool("default", *types)], slices=network).new_nodes

    assert new.instance_types == ("cheap", "dear")


def test_types_without_devices_stay_though_the_cheapest_of_them_is_out_of_reach() -> None:
    """The claim must be in zone-1, where `own` and `bare` are sold, and `elsewhere` is not."""
    types = [
        kind("own", sold=[offering("zone-1", ON_DEMAND, 1.0)], brings=templates(gpu("gpu-0"))),
        kind("elsewhere", sold=[offering("zone-2", ON_DEMAND, 2.0)]),
        kind("bare", sold=[offering("zone-1", ON_DEMAND, 3.0)]),
    ]

    (new,) = solved(want(pod("web"), served("given", HERE)), pools=[pool("default", *types)]).new_nodes

    assert new.instance_types == ("own", "bare")


def test_a_pod_without_claims_is_refused_for_what_it_lacks_itself() -> None:
    """A pod that claims no devices lacks none: the NodePool wants a choice of types."""
    choosy = pool("default", SINGLE, min_values={INSTANCE_TYPE: 2})
    plan = solved(want(pod("web"), ONE), want(pod("plain")), pools=[choosy])
    codes = {refusal.pod: [reason.code for reason in refusal.reasons] for refusal in plan.refusals}

    assert codes == {"default/web": ["MinValuesNotMet"], "default/plain": ["MinValuesNotMet"]}


def test_of_types_that_lack_as_much_the_cheapest_says_what() -> None:
    """Both types have one device that is large enough, and two are wanted."""
    large, small = gpu("a", memory_="8Gi"), gpu("b", memory_="4Gi")
    types = [
        kind("first", price=1.0, brings=templates(large)),
        kind("second", price=2.0, brings=templates(large, small)),
    ]
    two = asking(exactly(count=2, capacity={"memory": "8Gi"}))

    (refusal,) = solved(want(pod("web"), two), pools=[pool("default", *types)]).refusals

    assert "1 match and 1 of them can be had" in refusal.message
