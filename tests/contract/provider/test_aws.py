"""The provider for AWS, held to the contract of every provider, on the embedded AWS."""

from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any

from karpenter_local.testing.provider_contract import InterruptibleContract, Laboratory
from karpenter_local.virtual import run_virtual
from tests.contract.provider.aws import aws_laboratory


class TestAws(InterruptibleContract):
    """EC2 passes the contract of a provider."""

    def laboratory(self) -> AbstractAsyncContextManager[Laboratory]:
        return aws_laboratory()

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a test in virtual time; the SDK's own is real."""
        run_virtual(work)
