"""
The states of an instance, and how it gets from one to the next.

Without an operator of instances (:mod:`.room`), an instance runs as soon as it is launched and is
terminated as soon as its termination begins. With one, it is pending and shutting down in between. See
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-instance-lifecycle.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from karpenter.api.labels import ON_DEMAND, RESERVED, SPOT

if TYPE_CHECKING:
    from karpenter_local.aws.account import Account

PENDING: Final = "pending"
RUNNING: Final = "running"
SHUTTING_DOWN: Final = "shutting-down"
TERMINATED: Final = "terminated"

_CODES: Final = {PENDING: 0, RUNNING: 16, SHUTTING_DOWN: 32, TERMINATED: 48}


def switch_on(account: Account, instance: Any) -> None:
    instance.launch_time = account.now().replace(tzinfo=None)
    if account.operated:
        become(instance, PENDING)


def switch_off(account: Account, instance: Any) -> None:
    if account.operated:
        become(instance, SHUTTING_DOWN)


def become(instance: Any, state: str) -> None:
    instance.instance_state.name = state
    instance.instance_state.code = _CODES[state]


def is_leaving(instance: Any) -> bool:
    return instance.state in {SHUTTING_DOWN, TERMINATED}


def is_alive(instance: Any) -> bool:
    """Say whether an instance takes the place of another one."""
    return not is_leaving(instance)


def capacity_type_of(instance: Any) -> str:
    if getattr(instance, "capacity_reservation_id", None):
        return RESERVED
    return SPOT if instance.lifecycle == SPOT else ON_DEMAND
