"""
Kubelet settings that depend on the instance type: CEL expressions.

``maxPods`` may be a text, and so may amounts of kubeReserved and systemReserved. An expression sees the
instance type: ``vcpus``, ``memory_mib``, ``default_enis``, ``ips_per_eni``, ``max_pods`` and
``instance_type``; beside the usual functions there are ``min`` and ``max`` of two numbers. It must come to a
number.

The kubelet settings that decide what fits on a node, worked out for an instance type.

Everything else that a class says about the kubelet is passed on as it is.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog

from karpenter.api.ec2.kubelet import VARIABLES
from karpenter.api.schema.cel import engine
from karpenter.base.quantity import QuantityError, parse_quantity
from karpenter.cloud.errors import NodeClassNotReady

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karpenter.api.ec2nodeclass import EC2NodeClass


_MOST_PODS: Final = 2**31 - 1
_UNITS: Final = {"cpu": ("m", 10), "memory": ("Mi", 16), "ephemeral-storage": ("Gi", 1)}
"""By resource: the unit of a result, and what it is rounded up to a multiple of."""

_OPERATORS: Final = frozenset(
    {
        "_+_", "_-_", "_*_", "_/_", "_%_", "-_", "!_", "_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "_&&_",
        "_||_", "_?_:_", "@in", "_[_]",
    }
)  # fmt: skip
_FUNCTIONS: Final = frozenset(
    {"min", "max", "int", "double", "string", "size", "contains", "startsWith", "endsWith", "matches"}
)


class BadExpression(ValueError):  # noqa: N818  says what is wrong
    """An expression that cannot be compiled, or has no number to offer for an instance type."""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What an expression sees of an instance type."""

    instance_type: str
    vcpus: int
    memory_mib: int
    default_enis: int
    ips_per_eni: int
    max_pods: int

    def variables(self) -> dict[str, Any]:
        """Return what an expression calls what."""
        return msgspec.structs.asdict(self)


def is_expression(written: object) -> bool:
    """Say whether an amount of a reservation is an expression: a text that is no quantity."""
    if not isinstance(written, str):
        return False
    try:
        parse_quantity(written)
    except QuantityError:
        return True
    return False


def expressions_of(kubelet: Mapping[str, Any]) -> dict[str, str]:
    """Return the expressions among kubelet settings, by where they stand."""
    found = {}
    if isinstance(kubelet.get("maxPods"), str):
        found["maxPods"] = kubelet["maxPods"]
    for name in ("kubeReserved", "systemReserved"):
        for key, value in (kubelet.get(name) or {}).items():
            if is_expression(value):
                found[f"{name}.{key}"] = value
    return found


def check_expression(source: str) -> None:
    """
    Refuse an expression that can never be evaluated.

    Raises:
        BadExpression: saying why.
    """
    _compiled(source)


def evaluate(source: str, machine: Machine) -> int:
    """
    Return the whole number that an expression comes to for a machine; fractions are cut off.

    Raises:
        BadExpression: it comes to no number.
    """
    context = engine().Context(
        variables=machine.variables(),
        functions={"min": _smaller, "max": _larger},
    )
    try:
        result = _compiled(source).execute(context)
    except BadExpression:
        raise
    except Exception as error:  # the library raises whatever suits it
        reason = " ".join(str(error).split()).partition(". Check ")[0]
        raise BadExpression(
            f"{source!r} cannot be worked out for {machine.instance_type}: {reason}"
        ) from error
    if isinstance(result, bool) or not isinstance(result, int | float):
        raise BadExpression(f"{source!r} is not a number for {machine.instance_type}")
    if not math.isfinite(result):
        raise BadExpression(f"{source!r} is not finite for {machine.instance_type}")
    return int(result)


def evaluate_pods(source: str, machine: Machine) -> int:
    """
    Return the number of pods that an expression comes to.

    Raises:
        BadExpression: it comes to no number, or to one that no kubelet takes.
    """
    result = evaluate(source, machine)
    if not 0 <= result <= _MOST_PODS:
        raise BadExpression(f"{source!r} is {result} pods for {machine.instance_type}")
    return result


def evaluate_amount(resource: str, source: str, machine: Machine) -> str:
    """
    Return the amount of a resource that an expression comes to, with its unit and rounded up.

    Raises:
        BadExpression: it comes to no number, or to a negative one.
    """
    result = evaluate(source, machine)
    if result < 0:
        raise BadExpression(f"{source!r} is negative for {machine.instance_type}")
    unit, step = _UNITS.get(resource, ("", 1))
    return f"{-(-result // step) * step}{unit}"


@lru_cache(maxsize=1024)
def _compiled(source: str) -> Any:
    try:
        compiled = engine().compile(source)
    except (ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise BadExpression(f"{source!r} is no expression: {reason}") from error
    unknown = set(compiled.variables()).difference(VARIABLES)
    if unknown:
        names = ", ".join(sorted(unknown))
        raise BadExpression(
            f"{source!r} speaks of {names}; an expression knows {', '.join(sorted(VARIABLES))}"
        )
    unknown = set(compiled.functions()) - _OPERATORS - _FUNCTIONS
    if unknown:
        raise BadExpression(f"{source!r} calls {', '.join(sorted(unknown))}, which is not known here")
    return compiled


def _smaller(a: float, b: float) -> float:
    return _typed(min(a, b), a, b)


def _larger(a: float, b: float) -> float:
    return _typed(max(a, b), a, b)


def _typed(result: float, *operands: float) -> float:
    """Return a number as a double if any operand was one, as CEL has it."""
    return float(result) if any(isinstance(each, float) for each in operands) else result


log = structlog.stdlib.get_logger(__name__)


class KubeletSubset(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The settings that we understand."""

    cluster_dns: tuple[str, ...] = msgspec.field(name="clusterDNS", default=())
    max_pods: int | str | None = None
    pods_per_core: int | None = None
    system_reserved: dict[str, str] = {}
    kube_reserved: dict[str, str] = {}
    eviction_hard: dict[str, str] = {}
    eviction_soft: dict[str, str] = {}
    eviction_soft_grace_period: dict[str, str] = {}
    eviction_max_pod_grace_period: int | None = None
    image_gc_high: int | None = msgspec.field(name="imageGCHighThresholdPercent", default=None)
    image_gc_low: int | None = msgspec.field(name="imageGCLowThresholdPercent", default=None)
    cpu_cfs_quota: bool | None = msgspec.field(name="cpuCFSQuota", default=None)

    def pods(self, machine: Machine, *, expressions: bool) -> int | None:
        """
        Return the number of pods that is asked for; None when nothing is, or only where expressions are off.

        Raises:
            BadExpression: an expression comes to nothing for this machine.
        """
        if isinstance(self.max_pods, str):
            return evaluate_pods(self.max_pods, machine) if expressions else None
        return self.max_pods

    def reserved(self, machine: Machine, *, expressions: bool) -> Reserved:
        """Return what is set aside, worked out for a machine whose number of pods is settled."""
        return Reserved(
            kube=_worked_out(self.kube_reserved, machine, expressions=expressions),
            system=_worked_out(self.system_reserved, machine, expressions=expressions),
        )


class Reserved(msgspec.Struct, frozen=True):
    """Amounts that are set aside for the kubelet and for the system, as quantities."""

    kube: tuple[tuple[str, str], ...] = ()
    system: tuple[tuple[str, str], ...] = ()


def read_kubelet(node_class: EC2NodeClass) -> KubeletSubset:
    """
    Return the kubelet settings of a class that we understand.

    Raises:
        NodeClassNotReady: they cannot be read.
    """
    try:
        return msgspec.convert(node_class.spec.kubelet, KubeletSubset)
    except msgspec.ValidationError as error:
        raise NodeClassNotReady(node_class=node_class.name, because=f"spec.kubelet: {error}") from error


def _worked_out(
    entries: Mapping[str, str], machine: Machine, *, expressions: bool
) -> tuple[tuple[str, str], ...]:
    """Return amounts with their expressions worked out; those that cannot be are left out and logged."""
    found: dict[str, str] = {}
    for key, value in entries.items():
        if not is_expression(value):
            found[key] = value
        elif expressions:
            try:
                found[key] = evaluate_amount(key, value, machine)
            except BadExpression as error:
                log.error("kubelet.expression_dropped", resource=key, error=str(error))  # noqa: TRY400  its words suffice
    return tuple(sorted(found.items()))
