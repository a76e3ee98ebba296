"""Invariant of leadership: a replica that does not hold the Lease changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter_local.sandbox.operators import LEASE, LEASE_NAMESPACE, LEASE_TERMS, REPLICA
from karpenter_local.simulation.invariants.invariant import Invariant
from karpenter_local.simulation.network import LEASES

if TYPE_CHECKING:
    from typing import Any

    from karpenter.kube.transport import Request, Response
    from karpenter_local.simulation.invariants.invariant import CloudCall

_SLACK: Final = 0.1
"""Seconds that a request is under way."""


class LeaseInvariant(Invariant):
    """Nothing is written, launched or terminated by a replica without the Lease."""

    name = "lease"

    def on_call(self, request: Request, response: Response) -> None:
        """Look at a write to the API server; those of the Lease itself decide who holds it."""
        del response
        if LEASES not in request.path:
            self._check(REPLICA.get(), f"{request.method} {request.path}")

    def on_cloud(self, call: CloudCall) -> None:
        """Look at a change in the cloud."""
        self._check(call.by, f"{call.method} {call.subject}")

    def _check(self, replica: str, what: str) -> None:
        if not self.simulated.sandbox.elects:
            return
        lease: dict[str, Any] = self.mirror.leases.get(f"{LEASE_NAMESPACE}/{LEASE}", {})
        holder = lease.get("holderIdentity", "")
        if holder != replica:
            self.violated(f"{replica} asks for {what} while {holder or 'no replica'} holds the lease")
        elif self.now - self.mirror.renewed_at > LEASE_TERMS.duration + _SLACK:
            late = self.now - self.mirror.renewed_at
            self.violated(f"{replica} asks for {what} {late:.0f} s after it renewed the lease")
