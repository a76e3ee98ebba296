"""What every test shares: property tests judge laws, not the speed of the machine they run on."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "laws", deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("laws")
