from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any

from karpenter.cloud.kwok import Behaviour
from karpenter_local.testing.provider_contract import InterruptibleContract, Laboratory
from karpenter_local.virtual import run_virtual
from tests.contract.provider.kwok import kwok_laboratory


class TestKwok(InterruptibleContract):
    """The cloud in memory passes the contract of a provider."""

    behaviour = Behaviour()

    def laboratory(self) -> AbstractAsyncContextManager[Laboratory]:
        return kwok_laboratory(self.behaviour)

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        run_virtual(work)


class TestSlowKwok(TestKwok):
    """It keeps them when everything takes its time, too."""

    behaviour = Behaviour(launch=30.0, call=2.0, shutdown=90.0, jitter=0.5)
