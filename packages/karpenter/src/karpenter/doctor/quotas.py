"""
Rules about quotas: how many vCPUs of a group of families an account may run, and how many run.

EC2 counts vCPUs of running instances per region, for spot and on demand apart. The groups and the codes of
their quotas: https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html
"""

from __future__ import annotations

import math
import re
from functools import cache
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, SPOT
from karpenter.cloud.catalogs.ec2.data import load_data
from karpenter.doctor.facts import DoctorFacts, list_at, texts_at
from karpenter.doctor.labels import matching_labels
from karpenter.doctor.rule import ERROR, WARNING, DoctorRule, Symptom, listed, on

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from karpenter.api.manifests import Document
    from karpenter.doctor.facts import QuotaFacts

NEAR: Final = 0.8
"""The share of a quota from which on it is nearly used up."""

_CPU: Final = "karpenter.k8s.aws/instance-cpu"
_PREFIX: Final = re.compile(r"[a-z]+")


class VcpuQuota(msgspec.Struct, frozen=True, kw_only=True):
    """A quota of vCPUs of some families, bought in one way."""

    code: str
    group: str
    """How AWS calls the families together."""

    families: tuple[str, ...]
    """Letters that the names of the families begin with."""

    capacity_type: str


_CODES: Final = (
    ("Standard (A, C, D, H, I, M, R, T, Z)", "a c d h i im is m r t z", "L-1216C47A", "L-34B43A08"),
    ("F", "f", "L-74FC7D96", "L-88CF9481"),
    ("G and VT", "g gr vt", "L-DB2E81BA", "L-3819A6DF"),
    ("HPC", "hpc", "L-F7808C92", ""),
    ("High Memory", "u", "L-43DA4232", ""),
    ("Inf", "inf", "L-1945791B", "L-B5D1601B"),
    ("P", "p", "L-417A185B", "L-7212CCBC"),
    ("Trn", "trn", "L-2C3B7624", "L-6B0D517C"),
    ("X", "x", "L-7295265B", "L-E3A00192"),
    ("DL", "dl", "L-6E869C2A", "L-85EED4F7"),
)
QUOTAS: Final = tuple(
    VcpuQuota(code=code, group=group, families=tuple(families.split()), capacity_type=capacity_type)
    for group, families, on_demand, spot in _CODES
    for code, capacity_type in ((on_demand, ON_DEMAND), (spot, SPOT))
    if code
)


def quota_code(instance_type: str, capacity_type: str) -> str:
    """Return the code of the quota that an instance counts against; empty where none is known."""
    found = _PREFIX.match(instance_type)
    prefix = found[0] if found is not None else ""
    return next(
        (each.code for each in QUOTAS if prefix in each.families and each.capacity_type == capacity_type), ""
    )


@cache
def _all_vcpus() -> dict[str, int]:
    return {each.name: each.cpus for each in load_data().types}


def vcpus_of(instance_type: str) -> int:
    """Return how many vCPUs a type has; one, where it is not known."""
    return _all_vcpus().get(instance_type, 1)


def _nearly_used(facts: DoctorFacts) -> Iterator[Symptom]:
    for quota in facts.aws.quotas or ():
        if quota.used and quota.used >= NEAR * quota.limit:
            full = quota.used >= quota.limit
            said = "is used up" if full else "is nearly used up"
            yield Symptom(
                subject=f"quota/{quota.code}",
                message=f"{quota.name} {said} in {facts.region}: {quota.used} of {quota.limit:g} vCPUs run",
                fix=_increase(facts, quota, wanted=2 * max(quota.limit, quota.used)),
                severity=ERROR if full else "",
            )


def _too_small(facts: DoctorFacts) -> Iterator[Symptom]:
    by_code = {each.code: each for each in facts.aws.quotas or ()}
    for pool in facts.pools():
        wanted = dict(_smallest_types(pool))
        known = {code: by_code[code] for code in wanted if code in by_code}
        if not wanted or known.keys() != wanted.keys():
            continue  # of something that it may buy no quota is known
        if all(quota.limit < wanted[code] for code, quota in known.items()):
            told = listed(f"{each.name}: {each.limit:g} vCPUs" for each in known.values())
            [first, *_] = known.values()
            yield on(
                pool,
                f"the account may run no instance type that it allows ({told})",
                field="spec.template.spec.requirements",
                fix=_increase(facts, first, wanted=wanted[first.code]),
            )


def _smallest_types(pool: Document) -> Iterator[tuple[str, int]]:
    """Yield the quotas that the machines of a pool count against, each with the fewest vCPUs of one."""
    requirements = list_at(pool.plain, "spec.template.spec.requirements")
    found: dict[str, int] = {}
    bought = tuple(_capacity_types(requirements))
    for labels in matching_labels(requirements):
        [name], [cpu] = labels[INSTANCE_TYPE], labels[_CPU]
        for capacity_type in bought:
            code = quota_code(name, capacity_type)
            found[code] = min(found.get(code, int(cpu)), int(cpu))
    yield from found.items()


def _capacity_types(requirements: Iterable[dict[str, object]]) -> Iterator[str]:
    stated = [each for each in requirements if each.get("key") == CAPACITY_TYPE]
    for capacity_type in (ON_DEMAND, SPOT):
        if all(_allows(each, capacity_type) for each in stated):
            yield capacity_type


def _allows(requirement: dict[str, object], value: str) -> bool:
    values = texts_at(requirement, "values")
    match requirement.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
    return True


def _increase(facts: DoctorFacts, quota: QuotaFacts, *, wanted: float) -> str:
    return (
        "aws service-quotas request-service-quota-increase --service-code ec2"
        f" --quota-code {quota.code} --desired-value {math.ceil(wanted)} --region {facts.region}"
    )


_LINK: Final = "https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html"
RULES: Final = (
    DoctorRule(
        id="quota-used",
        severity=WARNING,
        title="A quota of vCPUs is nearly used up.",
        fix="ask for more in the console of Service Quotas",
        why="Beyond it EC2 refuses launches with VcpuLimitExceeded or MaxSpotInstanceCountExceeded, and the"
        " operator tries other families and the other capacity type, which cost more, or nothing is left.",
        check=_nearly_used,
        needs=("aws.quotas",),
        link=_LINK,
    ),
    DoctorRule(
        id="quota-too-small",
        severity=ERROR,
        title="A NodePool allows only instance types that the account may not run.",
        fix="ask for more in the console of Service Quotas, or allow other families",
        why="New accounts may run no GPU instances at all: each launch is refused.",
        check=_too_small,
        needs=("objects", "aws.quotas"),
        link=_LINK,
    ),
)
