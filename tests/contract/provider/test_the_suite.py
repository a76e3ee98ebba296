"""The suite fails a provider that breaks a rule: each test is shown to be able to fail."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from itertools import count
from typing import Any

import msgspec
import pytest

from karpenter.api import labels
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.cloud.cloudprovider import Interruption, Machine, RepairPolicy
from karpenter.cloud.errors import (
    CloudError,
    InsufficientCapacity,
    LaunchFailed,
    MachineNotFound,
    NodeClassNotReady,
)
from karpenter.cloud.kwok import Behaviour, KwokProvider
from karpenter.core.model.catalog import Catalog
from karpenter_local.testing.provider_contract import InterruptibleContract, Laboratory
from karpenter_local.virtual import run_virtual
from tests.contract.provider.kwok import KwokLaboratory

NUMBERS = count()


def replaced(claim: NodeClaim, **changes: Any) -> NodeClaim:
    """Return a claim whose metadata says something else."""
    return msgspec.structs.replace(claim, metadata=msgspec.structs.replace(claim.metadata, **changes))


def relabelled(machine: Machine, **changes: str) -> Machine:
    return msgspec.structs.replace(machine, labels={**machine.labels, **changes})


class Nameless(KwokProvider):
    """Has no name that metrics could carry."""

    name = "not a word"


class Impatient(KwokProvider):
    """Repairs before anything is broken."""

    repair_policies = (
        RepairPolicy(condition_type="Ready", condition_status="False", toleration=timedelta(seconds=-1)),
    )


class Unlabelled(KwokProvider):
    """Does not say where its machines are."""

    async def launch(self, claim: NodeClaim) -> Machine:
        return relabelled(await super().launch(claim), **{labels.ZONE: ""})


class Careless(KwokProvider):
    """Launches something else than the claim asks for."""

    async def launch(self, claim: NodeClaim) -> Machine:
        return relabelled(await super().launch(claim), **{labels.ZONE: "elsewhere"})


class Stingy(KwokProvider):
    """Gives less room than was asked for."""

    async def launch(self, claim: NodeClaim) -> Machine:
        return msgspec.structs.replace(await super().launch(claim), allocatable={"cpu": 1})


class Forgetful(KwokProvider):
    """Does not look whether a claim has a machine."""

    async def launch(self, claim: NodeClaim) -> Machine:
        """Take every claim for a new one."""
        return await super().launch(replaced(claim, uid=f"uid-{next(NUMBERS)}"))


class Hurried(KwokProvider):
    """Looks whether a claim has a machine, but too early."""

    async def launch(self, claim: NodeClaim) -> Machine:
        known = self.cloud.of_claim("ours", claim.metadata.uid)
        await asyncio.sleep(0)
        fresh = claim if known else replaced(claim, uid=f"uid-{next(NUMBERS)}")
        machine = await super().launch(fresh)
        instance = self.cloud.find(machine.provider_id)
        self.cloud._by_claim["ours", claim.metadata.uid] = instance.machine.provider_id
        return machine


class Undying(KwokProvider):
    """Finds machines that are gone."""

    async def terminate(self, provider_id: str) -> None:
        """Say nothing when it is gone, and something else when it is not."""
        found = any(each.provider_id == provider_id for each in await self.list())
        await super().terminate(provider_id)
        if found:
            raise MachineNotFound(provider_id)

    async def get(self, provider_id: str) -> Machine:
        return Machine(provider_id=provider_id)


class Endless(KwokProvider):
    """Never ends a machine."""

    async def terminate(self, provider_id: str) -> None: ...


class Silent(KwokProvider):
    """Does not mark machines on their way out."""

    async def list(self) -> tuple[Machine, ...]:
        return tuple(msgspec.structs.replace(each, deleting=False) for each in await super().list())


class Nosy(KwokProvider):
    """Lists machines of other clusters."""

    async def list(self) -> tuple[Machine, ...]:
        return self.cloud.control.machines()


class Vague(KwokProvider):
    """Does not say what was sold out."""

    async def launch(self, claim: NodeClaim) -> Machine:
        try:
            return await super().launch(claim)
        except InsufficientCapacity:
            raise InsufficientCapacity from None


class Hopeful(KwokProvider):
    """Reports capacity of every offering."""

    async def catalog(self, pool: NodePool) -> Catalog:
        del pool
        return self.cloud.inventory.catalog()


class Shrinking(KwokProvider):
    """Leaves out what is sold out."""

    async def catalog(self, pool: NodePool) -> Catalog:
        """Keep only types of which everything is left."""
        found = await super().catalog(pool)
        left = tuple(kind for kind in found.types if kind.available == kind.offerings)
        return found if left == found.types else msgspec.structs.replace(found, types=left)


class Stubborn(KwokProvider):
    """Tries one offering only."""

    async def launch(self, claim: NodeClaim) -> Machine:
        """Give up when anything is sold out."""
        machine = await super().launch(claim)
        if self._unavailable.now():
            raise InsufficientCapacity
        return machine


class Reckless(KwokProvider):
    """Launches something, whatever was asked for."""

    async def launch(self, claim: NodeClaim) -> Machine:
        """Forget the requirements when they cannot be met."""
        try:
            return await super().launch(claim)
        except InsufficientCapacity:
            spec = msgspec.structs.replace(claim.spec, requirements=())
            return await super().launch(msgspec.structs.replace(claim, spec=spec))


class Doubling(KwokProvider):
    """Sells everything twice."""

    async def catalog(self, pool: NodePool) -> Catalog:
        found = await super().catalog(pool)
        return msgspec.structs.replace(found, types=found.types * 2)


class Copying(KwokProvider):
    """Makes a new catalogue at every call."""

    async def catalog(self, pool: NodePool) -> Catalog:
        return msgspec.structs.replace(await super().catalog(pool))


class Blind(KwokProvider):
    """Sees no drift."""

    async def drift(self, claim: NodeClaim) -> str:
        del claim
        return ""


class Trusting(KwokProvider):
    """Does not look at node classes."""

    async def _class_of(self, claim: NodeClaim) -> timedelta:
        del claim
        return timedelta(0)


class Pedantic(KwokProvider):
    """Looks at node classes first, and then at what there is."""

    async def launch(self, claim: NodeClaim) -> Machine:
        ready = await self._class_of(claim)
        if isinstance(ready, NodeClassNotReady):
            raise ready
        return await super().launch(claim)


class Clumsy(KwokProvider):
    """Cannot launch many machines at once."""

    busy = 0

    async def launch(self, claim: NodeClaim) -> Machine:
        self.busy += 1
        try:
            await asyncio.sleep(0)
            if self.busy > 10:
                raise LaunchFailed
            return await super().launch(claim)
        finally:
            self.busy -= 1


class Deaf(KwokProvider):
    """Hears of the wrong machines."""

    async def interruptions(self) -> tuple[Interruption, ...]:
        return tuple(
            msgspec.structs.replace(each, provider_id="kwok://other")
            for each in await super().interruptions()
        )


class Nagging(KwokProvider):
    """Tells news for ever."""

    async def acknowledge(self, interruption: Interruption) -> None: ...


class Case(msgspec.Struct, frozen=True):
    """A broken provider, and the tests that must notice."""

    made: Callable[..., KwokProvider]
    noticed_by: str
    behaviour: Behaviour = Behaviour()


CASES = [
    Case(Nameless, "test_says_who_it_is"),
    Case(Impatient, "test_says_who_it_is"),
    Case(Unlabelled, "test_a_machine_is_labelled"),
    Case(Careless, "test_a_machine_satisfies_its_claim"),
    Case(Stingy, "test_a_machine_holds_its_requests"),
    Case(Forgetful, "test_one_claim_one_machine"),
    Case(Forgetful, "test_a_lost_answer_is_found_again"),
    Case(Hurried, "test_at_once_for_one_claim"),
    Case(Unlabelled, "test_a_machine_can_be_looked_up"),
    Case(Undying, "test_what_is_not_there_is_not_found"),
    Case(Endless, "test_terminate_twice"),
    Case(Silent, "test_the_leaving_are_marked", Behaviour(shutdown=60.0)),
    Case(Nosy, "test_other_clusters_are_none_of_our_business"),
    Case(Vague, "test_sold_out_is_told_by_name"),
    Case(Hopeful, "test_sold_out_is_marked_in_the_catalogue"),
    Case(Shrinking, "test_sold_out_is_marked_in_the_catalogue"),
    Case(Stubborn, "test_something_else_is_bought"),
    Case(Reckless, "test_nothing_would_do"),
    Case(Doubling, "test_the_catalogue_is_in_order"),
    Case(Copying, "test_the_same_catalogue_until_it_changes"),
    Case(Blind, "test_drift_is_told"),
    Case(Trusting, "test_a_class_that_is_not_ready"),
    Case(Trusting, "test_a_class_that_is_missing"),
    Case(Pedantic, "test_a_class_that_is_not_ready"),
    Case(Clumsy, "test_many_at_once"),
    Case(Deaf, "test_interruptions_are_told"),
    Case(Nagging, "test_interruptions_are_told_until_acknowledged"),
]


class Suite(InterruptibleContract):
    """The suite on a broken provider."""

    __test__ = False

    def __init__(self, case: Case) -> None:
        self._case = case

    def laboratory(self) -> AbstractAsyncContextManager[Laboratory]:
        """Return a cloud with the broken provider."""
        return self._start()

    @asynccontextmanager
    async def _start(self) -> AsyncIterator[Laboratory]:
        laboratory = KwokLaboratory(self._case.behaviour, made=self._case.made)
        try:
            yield laboratory
        finally:
            await laboratory.cloud.close()

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        run_virtual(work)


@pytest.mark.parametrize("case", [pytest.param(c, id=f"{c.made.__name__} - {c.noticed_by}") for c in CASES])
def test_a_broken_promise_is_noticed(case: Case) -> None:
    """A test of the suite passes on the cloud in memory, and fails on one that breaks its rule."""
    getattr(Suite(msgspec.structs.replace(case, made=KwokProvider)), case.noticed_by)()

    with pytest.raises((AssertionError, pytest.fail.Exception, CloudError)):
        getattr(Suite(case), case.noticed_by)()


def test_every_test_can_fail() -> None:
    """There is a broken provider for every test of the suite."""
    tests = {name for name in dir(InterruptibleContract) if name.startswith("test_")}

    assert tests == {case.noticed_by for case in CASES}
