"""What the allocator says of one pod and one bin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from karpenter.api.labels import HOSTNAME, REQUESTED_DRA_DRIVERS, ZONE
from karpenter.core.model.requirements import Requirements
from karpenter.core.scheduling.dynamicresources.types import ANYWHERE
from karpenter_local.testing.builders import affinity_term, node, pod, pool
from tests.unit.core.scheduling.dynamicresources.clusters import asked, kind, served, shared, solved, want
from tests.unit.core.scheduling.dynamicresources.hardware import (
    DRIVER,
    asking,
    exactly,
    gpu,
    sliced,
    templates,
)
from tests.unit.core.scheduling.pack.schedulers import fresh, pod_data_of

if TYPE_CHECKING:
    from karpenter.api.dra import DeviceClaim
    from karpenter.core.scheduling.dynamicresources.types import PodClaim

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
