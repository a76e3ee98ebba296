"""Which conditions of nodes on EC2 are unhealthy, and for how long each is tolerated."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from karpenter.cloud.cloudprovider import RepairPolicy


def _policy(condition: str, status: str, minutes: int) -> RepairPolicy:
    return RepairPolicy(
        condition_type=condition, condition_status=status, toleration=timedelta(minutes=minutes)
    )


# The conditions of the EKS node monitoring agent, with the tolerations that Karpenter gives them:
# https://karpenter.sh/docs/concepts/disruption/ and https://docs.aws.amazon.com/eks/latest/userguide/node-health.html
REPAIRS: Final[tuple[RepairPolicy, ...]] = (
    _policy("Ready", "False", 30),
    _policy("Ready", "Unknown", 30),
    _policy("AcceleratedHardwareReady", "False", 10),
    _policy("StorageReady", "False", 30),
    _policy("NetworkingReady", "False", 30),
    _policy("KernelReady", "False", 30),
    _policy("ContainerRuntimeReady", "False", 30),
)
