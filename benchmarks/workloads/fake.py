"""The catalogue of the reference benchmark: 400 made-up types, each one core larger than the last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.api.labels import (
    AMD64,
    ARCH,
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    LINUX,
    NODEPOOL,
    ON_DEMAND,
    OS,
    SPOT,
    WELL_KNOWN_LABELS,
    WINDOWS,
    ZONE,
    LabelRules,
)
from karpenter.core.model.catalog import InstanceType, Offering
from karpenter.core.model.requirement import requirement
from karpenter.core.model.requirements import Requirements
from karpenter.core.scheduling.problem import Options, Pool, Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karpenter.api.pod import Pod

SIZE: Final = "size"
SPECIAL: Final = "special"
INTEGER: Final = "integer"
RESERVATION: Final = "karpenter.test.sh/reservation-id"
RULES: Final = LabelRules(well_known=WELL_KNOWN_LABELS | {SIZE, SPECIAL, INTEGER, RESERVATION})
_SOLD: Final = (
    (SPOT, "test-zone-1"),
    (SPOT, "test-zone-2"),
    (ON_DEMAND, "test-zone-1"),
    (ON_DEMAND, "test-zone-2"),
    (ON_DEMAND, "test-zone-3"),
)
_GIB: Final = 2**30
_BILLION: Final = 10**9
_LARGE_CORES: Final = 4
_LARGE_GIB: Final = 8


def fake_types(count: int = 400) -> tuple[InstanceType, ...]:
    """Return types of 1 up to `count` cores, with 2 GiB and 10 pods per core."""
    return tuple(_type(number) for number in range(count))


def fake_problem(pods: Sequence[Pod], options: Options, types: int = 400) -> Problem:
    """Return the problem of placing `pods` on new machines of so many types."""
    pool = Pool(
        name="default",
        requirements=Requirements.from_labels({NODEPOOL: "default"}),
        labels={NODEPOOL: "default"},
        types=fake_types(types),
        limits={"cpu": 10_000_000 * 1000, "memory": 10_000_000 * _GIB},
    )
    return Problem(
        pods=tuple(pods),
        pools=(pool,),
        namespaces={"default": {}},
        rules=RULES,
        options=options,
    )


def _type(number: int) -> InstanceType:
    cores, memory = number + 1, 2 * (number + 1) * _GIB
    price = 0.1 * cores + 0.1 * memory / _BILLION
    is_large = cores > _LARGE_CORES and memory > _LARGE_GIB * _GIB
    labels = {
        INSTANCE_TYPE: (f"fake-it-{number}",),
        ARCH: (AMD64,),
        OS: (LINUX, WINDOWS, "darwin"),
        ZONE: ("test-zone-1", "test-zone-2", "test-zone-3"),
        CAPACITY_TYPE: (SPOT, ON_DEMAND),
        SIZE: ("large" if is_large else "small",),
        SPECIAL: ("optional",) if is_large else (),
        INTEGER: (str(cores),),
        RESERVATION: (),
    }
    return InstanceType(
        name=f"fake-it-{number}",
        requirements=Requirements.of(requirement(key, "In", values) for key, values in labels.items()),
        offerings=tuple(
            Offering(
                requirements=Requirements.of(
                    [
                        requirement(CAPACITY_TYPE, "In", [kind]),
                        requirement(ZONE, "In", [zone]),
                        requirement(RESERVATION, "DoesNotExist"),
                    ]
                ),
                price=price,
            )
            for kind, zone in _SOLD
        ),
        capacity={"cpu": cores * 1000, "memory": memory, "pods": 10 * cores},
        overhead={"cpu": 100, "memory": 10 * 2**20},
    )
