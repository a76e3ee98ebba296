"""What the settings mean to the core: options of the solver, policy of the intake, rules of disruption."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.core.disruption.payback import Payback
from karpenter.core.disruption.propose import Rules
from karpenter.core.scheduling.intake.intake import Policy
from karpenter.core.scheduling.problem import Options

if TYPE_CHECKING:
    from karpenter.operator.settings import Settings


def rules_of(settings: Settings) -> Rules:
    """Return what settings mean for disruption."""
    return Rules(
        strategy=settings.consolidation_strategy,
        spot_to_spot=settings.gate("SpotToSpotConsolidation"),
        static_capacity=settings.gate("StaticCapacity"),
        surge=settings.surge_before_evict,
        payback=Payback(
            within=settings.consolidation_payback,
            eviction_price=settings.eviction_price,
            steered=settings.steer_scale_down,
        ),
    )


def options_of(settings: Settings) -> Options:
    """Return the solver's options that settings stand for."""
    return Options(
        preferences=settings.preference_policy,
        min_values=settings.min_values_policy,
        packing=settings.packing_policy,
    )


def policy_of(settings: Settings) -> Policy:
    """Return what settings mean for the questions that are asked."""
    return Policy(
        overlays=settings.gate("NodeOverlay"),
        buffers=settings.gate("CapacityBuffer"),
        reserved_capacity=settings.gate("ReservedCapacity"),
        ignore_device_claims=settings.ignore_dra_requests,
        spread_defaults=settings.scheduler_config,
    )
