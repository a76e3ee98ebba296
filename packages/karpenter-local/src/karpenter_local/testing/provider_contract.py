"""
The promises of a cloud provider, as tests that any provider must pass.

Subclass :class:`ProviderContract` in a test module, say in :meth:`~ProviderContract.laboratory` how a fresh
cloud and its provider come about, and pytest finds the rest. A provider that hears of interruptions
subclasses :class:`InterruptibleContract`, which adds tests of that.

    class TestRack(ProviderContract):
        def laboratory(self) -> AbstractAsyncContextManager[Laboratory]:
            return rack_laboratory()

Needs pytest and nothing else. docs/guides/write-a-provider.md walks through it.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import pytest

from karpenter.api import labels
from karpenter.cloud.cloudprovider import CloudProvider, Interruptible
from karpenter.cloud.errors import InsufficientCapacity, LaunchFailed, MachineNotFound, NodeClassNotReady
from karpenter.core.model.catalog import OfferingName
from karpenter.core.model.resources import fits, render_resources
from karpenter_local.testing.provider_laboratory import (
    TERMINATION_SECONDS,
    Laboratory,
    availability,
    buyable,
    ended,
    exactly,
    make_claim,
    ordinary_claim,
    requirement,
    some_offering,
    violated,
    ways_to_say,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextlib import AbstractAsyncContextManager


__all__ = ["InterruptibleContract", "Laboratory", "ProviderContract"]

CONCURRENT_LAUNCHES: Final = 50
"""Launches that are asked for at the same time."""

EVERY_MACHINE: Final = (labels.INSTANCE_TYPE, labels.ZONE, labels.CAPACITY_TYPE, labels.ARCH, labels.OS)
"""Labels without which no machine can be scheduled for."""

L = TypeVar("L", bound="ProviderContract")
Check: TypeAlias = "Callable[[L, Laboratory], Coroutine[Any, Any, None]]"


def promise(check: Check[L]) -> Callable[[L], None]:
    """Turn a check on a laboratory into a test that runs it in a fresh one."""

    def test(self: L) -> None:
        self.run(_in_laboratory(self, check))

    test.__name__, test.__qualname__, test.__doc__ = check.__name__, check.__qualname__, check.__doc__
    return test


async def _in_laboratory(contract: L, check: Check[L]) -> None:
    async with contract.laboratory() as laboratory:
        await check(contract, laboratory)


class ProviderContract(ABC):
    """Promises of every provider."""

    @abstractmethod
    def laboratory(self) -> AbstractAsyncContextManager[Laboratory]:
        """Return a fresh cloud; leaving it stops everything that runs in it."""

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run one test. Providers that take a clock can let virtual time pass here."""
        asyncio.run(work)

    @promise
    async def test_says_who_it_is(self, lab: Laboratory) -> None:
        """A provider has a name of one word and at least one kind of node class."""
        assert lab.provider.name.isidentifier()
        assert all(each.group and each.kind for each in lab.provider.node_classes)
        assert lab.provider.node_classes
        assert all(each.toleration.total_seconds() >= 0 for each in lab.provider.repair_policies)

    @promise
    async def test_a_machine_is_labelled(self, lab: Laboratory) -> None:
        """A machine says its type, zone, capacity type, architecture and system, and what it was made for."""
        claim = await ordinary_claim(lab, "one")
        machine = await lab.provider.launch(claim)

        assert [key for key in EVERY_MACHINE if not machine.labels.get(key)] == []
        assert machine.provider_id
        assert machine.claim_uid in {"", claim.metadata.uid}
        assert not machine.deleting

    @promise
    async def test_a_machine_satisfies_its_claim(self, lab: Laboratory) -> None:
        """Labels are among those that the claim allows, however the claim says it."""
        catalog = await lab.provider.catalog(lab.pool)
        kind, offering = some_offering(catalog)
        for number, wanted in enumerate(ways_to_say(catalog, kind, offering)):
            machine = await lab.provider.launch(await ordinary_claim(lab, f"claim-{number}", *wanted))
            assert violated(machine.labels, wanted) == []

    @promise
    async def test_a_machine_holds_its_requests(self, lab: Laboratory) -> None:
        """A machine has room for what was asked for, and the size of its type in the catalogue."""
        catalog = await lab.provider.catalog(lab.pool)
        largest = max(buyable(catalog), key=lambda kind: kind.allocatable["cpu"])
        requests = {"cpu": largest.allocatable["cpu"], "memory": largest.allocatable["memory"] // 2}
        claim = make_claim(lab, "large", requests=render_resources(requests))
        machine = await lab.provider.launch(claim)

        assert fits(requests, machine.allocatable)
        assert fits(machine.allocatable, machine.capacity)
        assert machine.labels[labels.INSTANCE_TYPE] in catalog.by_name

    @promise
    async def test_one_claim_one_machine(self, lab: Laboratory) -> None:
        """Launching twice for one uid gives one machine, and another for another."""
        claim = await ordinary_claim(lab, "one")
        first = await lab.provider.launch(claim)
        again = await lab.provider.launch(claim)
        other = await lab.provider.launch(await ordinary_claim(lab, "two"))

        assert again.provider_id == first.provider_id != other.provider_id
        assert len(await lab.provider.list()) == len({first.provider_id, other.provider_id})

    @promise
    async def test_at_once_for_one_claim(self, lab: Laboratory) -> None:
        """Several launches for one uid that overlap make one machine."""
        claim = await ordinary_claim(lab, "one")
        found = await asyncio.gather(*(lab.provider.launch(claim) for _ in range(5)))

        assert len({each.provider_id for each in found}) == len(await lab.provider.list()) == 1

    @promise
    async def test_a_lost_answer_is_found_again(self, lab: Laboratory) -> None:
        """A machine whose launch was never answered is found by launching again, also after a restart."""
        claim = await ordinary_claim(lab, "one")
        await lab.lose_next_answer()
        with pytest.raises(LaunchFailed):
            await lab.provider.launch(claim)
        (lost,) = await lab.provider.list()
        found = await (await lab.restarted()).launch(claim)

        assert found.provider_id == lost.provider_id
        assert len(await lab.provider.list()) == 1

    @promise
    async def test_a_machine_can_be_looked_up(self, lab: Laboratory) -> None:
        """Get and list tell the same as the launch did, also after a restart."""
        machine = await lab.provider.launch(await ordinary_claim(lab, "one"))
        again = await lab.restarted()
        (listed,) = await again.list()

        for seen in (
            await lab.provider.get(machine.provider_id),
            await again.get(machine.provider_id),
            listed,
        ):
            assert seen.provider_id == machine.provider_id
            assert {key: seen.labels.get(key) for key in EVERY_MACHINE} == {
                key: machine.labels[key] for key in EVERY_MACHINE
            }
            assert seen.created is not None

    @promise
    async def test_what_is_not_there_is_not_found(self, lab: Laboratory) -> None:
        """Get, terminate and drift of a machine that is gone say so."""
        machine = await lab.provider.launch(await ordinary_claim(lab, "one"))
        await ended(lab, machine)

        with pytest.raises(MachineNotFound):
            await lab.provider.get(machine.provider_id)
        with pytest.raises(MachineNotFound):
            await lab.provider.terminate(machine.provider_id)
        with pytest.raises(MachineNotFound):
            await lab.provider.drift(make_claim(lab, "one", provider_id=machine.provider_id))

    @promise
    async def test_terminate_twice(self, lab: Laboratory) -> None:
        """Terminating a machine again is harmless, and its end is reported sooner or later."""
        machine = await lab.provider.launch(await ordinary_claim(lab, "one"))
        await lab.provider.terminate(machine.provider_id)
        await ended(lab, machine)

        assert await lab.provider.list() == ()

    @promise
    async def test_the_leaving_are_marked(self, lab: Laboratory) -> None:
        """A machine on its way out is gone from the list, or marked in it; others are not touched."""
        gone, stays = [await lab.provider.launch(await ordinary_claim(lab, name)) for name in ("a", "b")]
        await lab.provider.terminate(gone.provider_id)
        listed = {each.provider_id: each.deleting for each in await lab.provider.list()}

        assert listed.pop(gone.provider_id, True)
        assert listed == {stays.provider_id: False}

    @promise
    async def test_other_clusters_are_none_of_our_business(self, lab: Laboratory) -> None:
        """Machines of another cluster are not listed, not found and not ended, even for the same uid."""
        claim = await ordinary_claim(lab, "one")
        other = await lab.other_cluster()
        theirs, ours = await other.launch(claim), await lab.provider.launch(claim)

        assert theirs.provider_id != ours.provider_id
        assert [each.provider_id for each in await lab.provider.list()] == [ours.provider_id]
        with pytest.raises(MachineNotFound):
            await lab.provider.get(theirs.provider_id)
        with pytest.raises(MachineNotFound):
            await lab.provider.terminate(theirs.provider_id)
        assert not (await other.get(theirs.provider_id)).deleting

    @promise
    async def test_sold_out_is_told_by_name(self, lab: Laboratory) -> None:
        """When nothing is left, the error names the offerings that were tried, and no machine is made."""
        kind, offering = some_offering(await lab.provider.catalog(lab.pool))
        name = OfferingName.of(kind, offering)
        await lab.sell_out([name])
        with pytest.raises(InsufficientCapacity) as caught:
            await lab.provider.launch(make_claim(lab, "one", *exactly(kind, offering)))

        assert set(caught.value.offerings) == {name}
        assert await lab.provider.list() == ()

    @promise
    async def test_sold_out_is_marked_in_the_catalogue(self, lab: Laboratory) -> None:
        """After a launch failed, its offering is still in the catalogue, marked as not available."""
        before = await lab.provider.catalog(lab.pool)
        kind, offering = some_offering(before)
        name = OfferingName.of(kind, offering)
        await lab.sell_out([name])
        with pytest.raises(InsufficientCapacity):
            await lab.provider.launch(make_claim(lab, "one", *exactly(kind, offering)))
        after = await lab.provider.catalog(lab.pool)

        assert after.by_name.keys() == before.by_name.keys()
        assert availability(after) == {**availability(before), name: False}

    @promise
    async def test_something_else_is_bought(self, lab: Laboratory) -> None:
        """When all zones but one are sold out, a claim that allows them all gets a machine there."""
        catalog = await lab.provider.catalog(lab.pool)
        kind, offering = some_offering(catalog, zones=2)
        empty = [OfferingName.of(kind, each) for each in kind.available if each.zone != offering.zone]
        await lab.sell_out(empty)
        claim = make_claim(lab, "one", requirement(labels.INSTANCE_TYPE, "In", kind.name))
        machine = await lab.provider.launch(claim)

        assert machine.labels[labels.ZONE] == offering.zone

    @promise
    async def test_nothing_would_do(self, lab: Laboratory) -> None:
        """A claim that nothing in the catalogue satisfies, by label or by size, is not launched."""
        for claim in (
            make_claim(lab, "nowhere", requirement(labels.ZONE, "In", "no-such-zone")),
            make_claim(lab, "huge", requests={"cpu": "1000000"}),
        ):
            with pytest.raises(InsufficientCapacity):
                await lab.provider.launch(claim)

        assert await lab.provider.list() == ()

    @promise
    async def test_the_catalogue_is_in_order(self, lab: Laboratory) -> None:
        """Types and offerings are there once each, and have a price, a zone and a capacity type."""
        catalog = await lab.provider.catalog(lab.pool)
        names = [OfferingName.of(kind, each) for kind in catalog.types for each in kind.offerings]

        assert len(catalog.by_name) == len(catalog.types) > 0
        assert len(set(names)) == len(names)
        assert all(name.zone and name.capacity_type in labels.CAPACITY_TYPES for name in names)
        assert all(each.price >= 0 for kind in catalog.types for each in kind.offerings)
        assert all(fits(kind.allocatable, kind.capacity) for kind in catalog.types)

    @promise
    async def test_the_same_catalogue_until_it_changes(self, lab: Laboratory) -> None:
        """Asked twice, a provider answers with the same value, so that nothing is computed twice."""
        assert await lab.provider.catalog(lab.pool) is await lab.provider.catalog(lab.pool)

    @promise
    async def test_drift_is_told(self, lab: Laboratory) -> None:
        """A fresh machine has not drifted; one that is not what its class asks for says why in one word."""
        machine = await lab.provider.launch(await ordinary_claim(lab, "one"))
        claim = make_claim(lab, "one", provider_id=machine.provider_id)
        assert await lab.provider.drift(claim) == ""
        reason = await lab.drift(machine)

        assert await lab.provider.drift(claim) == reason
        assert reason.isidentifier()

    @promise
    async def test_a_class_that_is_not_ready(self, lab: Laboratory) -> None:
        """Nothing is launched for a class that is not ready, but what was launched before is still found."""
        claim = await ordinary_claim(lab, "before")
        machine = await lab.provider.launch(claim)
        late = await ordinary_claim(lab, "after")
        await lab.spoil_class()
        with pytest.raises(NodeClassNotReady):
            await lab.provider.launch(late)

        assert (await lab.provider.launch(claim)).provider_id == machine.provider_id
        assert len(await lab.provider.list()) == 1

    @promise
    async def test_a_class_that_is_missing(self, lab: Laboratory) -> None:
        """A claim of a class that does not exist is given up, with an error that says so."""
        claim = make_claim(lab, "one", node_class="no-such-class")
        with pytest.raises((NodeClassNotReady, InsufficientCapacity), match="no-such-class"):
            await lab.provider.launch(claim)

    @promise
    async def test_many_at_once(self, lab: Laboratory) -> None:
        """Fifty launches at once make fifty machines, each for its own claim."""
        claims = [await ordinary_claim(lab, f"claim-{number}") for number in range(CONCURRENT_LAUNCHES)]
        machines = await asyncio.gather(*(lab.provider.launch(claim) for claim in claims))

        assert len({machine.provider_id for machine in machines}) == CONCURRENT_LAUNCHES
        assert {each.provider_id for each in await lab.provider.list()} == {
            machine.provider_id for machine in machines
        }
        assert all(
            machine.claim_uid in {"", claim.metadata.uid}
            for machine, claim in zip(machines, claims, strict=True)
        )


class InterruptibleContract(ProviderContract):
    """Further promises of a provider that is told of interruptions."""

    @promise
    async def test_interruptions_are_told(self, lab: Laboratory) -> None:
        """News of a machine arrive while someone waits for them, and name the machine."""
        provider = _interruptible(lab.provider)
        machine = await lab.provider.launch(await ordinary_claim(lab, "one"))
        waiting = asyncio.ensure_future(provider.interruptions())
        await asyncio.sleep(0)
        await lab.interrupt(machine)
        (news,) = await asyncio.wait_for(waiting, TERMINATION_SECONDS)

        assert news.provider_id == machine.provider_id
        assert news.kind.islower()
        assert news.drains

    @promise
    async def test_interruptions_are_told_until_acknowledged(self, lab: Laboratory) -> None:
        """A message that was not acknowledged is delivered again, after a restart too; others are not."""
        machine = await lab.provider.launch(await ordinary_claim(lab, "one"))
        await lab.interrupt(machine)
        (first,) = await asyncio.wait_for(_interruptible(lab.provider).interruptions(), TERMINATION_SECONDS)
        again = _interruptible(await lab.restarted())
        (second,) = await asyncio.wait_for(again.interruptions(), TERMINATION_SECONDS)
        assert second.id == first.id
        await again.acknowledge(second)

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(again.interruptions(), 60.0)


def _interruptible(provider: CloudProvider) -> Interruptible:
    assert isinstance(provider, Interruptible)
    return provider
