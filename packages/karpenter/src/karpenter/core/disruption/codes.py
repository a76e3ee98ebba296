"""
Why a node is kept: one code for every obstacle, with what follows from it.

The text of a code is the public contract of ``karpenter plan`` (``kept[].code``), so a code is renamed
nowhere else than here. The traits say whether looking again can help while nothing changes, whether the
going of the node was simulated, and which Event tells of it.
"""

from __future__ import annotations

from enum import StrEnum


class DisruptionCode(StrEnum):
    """What keeps a node."""

    BUDGET = "Budget"
    CANNOT_MOVE = "CannotMove"
    CAPACITY_BUFFER = "CapacityBuffer"
    CONSOLIDATE_AFTER = "ConsolidateAfter"
    DELETING = "Deleting"
    NO_INSTANCE_TYPES = "NoInstanceTypes"
    NO_NODE = "NoNode"
    NO_PAYBACK = "NoPayback"
    NO_SAVING = "NoSaving"
    NODE_DO_NOT_DISRUPT = "NodeDoNotDisrupt"
    NODE_LIMIT = "NodeLimit"
    NODE_POOL_LABEL_MISSING = "NodePoolLabelMissing"
    NODE_POOL_NOT_FOUND = "NodePoolNotFound"
    NOMINATED = "Nominated"
    NOT_BALANCED = "NotBalanced"
    NOT_INITIALIZED = "NotInitialized"
    ON_DEMAND_FLOOR = "OnDemandFloor"
    OUT_OF_TIME = "OutOfTime"
    POD_DISRUPTION_BUDGET = "PodDisruptionBudget"
    POD_DO_NOT_DISRUPT = "PodDoNotDisrupt"
    RESTING = "Resting"
    SPOT_TO_SPOT_DISABLED = "SpotToSpotDisabled"
    STATIC_CAPACITY = "StaticCapacity"
    UNKNOWN = "Unknown"
    UNPRICED = "Unpriced"
    WAITING = "Waiting"
    WHEN_EMPTY = "WhenEmpty"
    WOULD_UNDO = "WouldUndo"

    @property
    def is_lasting(self) -> bool:
        """Whether it holds a node until the cluster changes or a moment comes that is known beforehand."""
        return self not in _PASSING

    @property
    def is_simulated(self) -> bool:
        """Whether the going of the node was simulated, and was not worth it or not possible."""
        return self in _SIMULATED

    @property
    def is_about_savings(self) -> bool:
        """Whether it holds a node against consolidation alone, which has an Event of its own."""
        return self in _ABOUT_SAVINGS

    @property
    def is_announced(self) -> bool:
        """Whether users are told of it by an Event."""
        return self not in _NOT_ANNOUNCED


_PASSING = frozenset(
    {
        DisruptionCode.NO_INSTANCE_TYPES,
        DisruptionCode.OUT_OF_TIME,
        DisruptionCode.UNKNOWN,
        DisruptionCode.WAITING,
    }
)
_SIMULATED = frozenset(
    {
        DisruptionCode.CANNOT_MOVE,
        DisruptionCode.NO_PAYBACK,
        DisruptionCode.NO_SAVING,
        DisruptionCode.NOT_BALANCED,
        DisruptionCode.ON_DEMAND_FLOOR,
        DisruptionCode.SPOT_TO_SPOT_DISABLED,
        DisruptionCode.WOULD_UNDO,
    }
)
_ABOUT_SAVINGS = frozenset(
    {
        *(_SIMULATED - {DisruptionCode.CANNOT_MOVE}),
        DisruptionCode.CONSOLIDATE_AFTER,
        DisruptionCode.RESTING,
        DisruptionCode.UNPRICED,
        DisruptionCode.WHEN_EMPTY,
    }
)
_NOT_ANNOUNCED = frozenset(
    {
        DisruptionCode.CAPACITY_BUFFER,
        DisruptionCode.OUT_OF_TIME,
        DisruptionCode.STATIC_CAPACITY,
        DisruptionCode.UNKNOWN,
        DisruptionCode.WAITING,
    }
)
