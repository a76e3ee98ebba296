"""
The kubelet settings that change what fits on a node, and CEL expressions in them.

``maxPods`` may be an expression, and so may amounts of kubeReserved and systemReserved (feature gate
NodeClassCEL). An expression sees the instance type: ``vcpus``, ``memory_mib``, ``default_enis``,
``ips_per_eni``, ``max_pods`` and ``instance_type``; beside the functions of CEL there are ``min`` and ``max``
of two numbers. Its value must be a number. CEL is described at https://cel.dev

Every other kubelet setting of a node class is passed on as it is.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog

from karpenter.api.ec2nodeclass_kubelet import VARIABLES
from karpenter.api.meta import explain
from karpenter.api.schema.cel import engine
from karpenter.base.quantity import QuantityError, parse_quantity
from karpenter.cloud.errors import NodeClassNotReady

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karpenter.api.ec2nodeclass import EC2NodeClass


log = structlog.stdlib.get_logger(__name__)

# maxPods is an int32: https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/
_MOST_PODS: Final = 2**31 - 1
_UNITS: Final = {"cpu": ("m", 10), "memory": ("Mi", 16), "ephemeral-storage": ("Gi", 1)}
"""By resource: the unit of a value, and the multiple that it is rounded up to."""

# Macros and comprehensions are left out, because their cost is not bounded by the length of the text:
# https://github.com/google/cel-spec/blob/master/doc/langdef.md
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
    """An expression that cannot be compiled, or has no number as its value for an instance type."""


class InstanceTypeVariables(msgspec.Struct, frozen=True, kw_only=True):
    """The variables of an expression: an instance type."""

    instance_type: str
    vcpus: int
    memory_mib: int
    default_enis: int
    ips_per_eni: int
    max_pods: int

    def by_name(self) -> dict[str, Any]:
        return msgspec.structs.asdict(self)


def is_expression(written: object) -> bool:
    """Return whether a reserved amount is an expression: text that is not a quantity."""
    if not isinstance(written, str):
        return False
    try:
        parse_quantity(written)
    except QuantityError:
        return True
    return False


def expressions_of(kubelet: Mapping[str, Any]) -> dict[str, str]:
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


def evaluate(source: str, variables: InstanceTypeVariables) -> int:
    """
    Return the value of an expression for an instance type, without its fraction.

    Raises:
        BadExpression: the value is not a number.
    """
    context = engine().Context(
        variables=variables.by_name(),
        functions={"min": _smaller, "max": _larger},
    )
    try:
        result = _compiled(source).execute(context)
    except BadExpression:
        raise
    except Exception as error:  # the library raises errors of many types
        reason = " ".join(str(error).split()).partition(". Check ")[0]
        raise BadExpression(
            f"{source!r} cannot be worked out for {variables.instance_type}: {reason}"
        ) from error
    if isinstance(result, bool) or not isinstance(result, int | float):
        raise BadExpression(f"{source!r} is not a number for {variables.instance_type}")
    if not math.isfinite(result):
        raise BadExpression(f"{source!r} is not finite for {variables.instance_type}")
    return int(result)


def evaluate_pods(source: str, variables: InstanceTypeVariables) -> int:
    """
    Return the number of pods that an expression gives.

    Raises:
        BadExpression: the value is not a number, or not one that a kubelet takes.
    """
    result = evaluate(source, variables)
    if not 0 <= result <= _MOST_PODS:
        raise BadExpression(f"{source!r} is {result} pods for {variables.instance_type}")
    return result


def evaluate_amount(resource: str, source: str, variables: InstanceTypeVariables) -> str:
    """
    Return the amount of a resource that an expression gives, rounded up and with its unit.

    Raises:
        BadExpression: the value is not a number, or is negative.
    """
    result = evaluate(source, variables)
    if result < 0:
        raise BadExpression(f"{source!r} is negative for {variables.instance_type}")
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


class KubeletSubset(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The settings that every AMI family takes."""

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

    def pods(self, variables: InstanceTypeVariables, *, expressions: bool) -> int | None:
        """
        Return maxPods; None when it is not set, or is an expression while expressions are disabled.

        Raises:
            BadExpression: an expression has no value for this instance type.
        """
        if isinstance(self.max_pods, str):
            return evaluate_pods(self.max_pods, variables) if expressions else None
        return self.max_pods

    def reserved(self, variables: InstanceTypeVariables, *, expressions: bool) -> Reserved:
        """Return the reserved resources of an instance type whose number of pods is resolved."""
        return Reserved(
            kube=_evaluated(self.kube_reserved, variables, expressions=expressions),
            system=_evaluated(self.system_reserved, variables, expressions=expressions),
        )


class Reserved(msgspec.Struct, frozen=True):
    """Resources that are reserved for the kubelet and for the system, as quantities."""

    kube: tuple[tuple[str, str], ...] = ()
    system: tuple[tuple[str, str], ...] = ()


def read_kubelet(node_class: EC2NodeClass) -> KubeletSubset:
    """
    Return the kubelet settings of a node class that every AMI family takes.

    Raises:
        NodeClassNotReady: they cannot be read.
    """
    try:
        return msgspec.convert(node_class.spec.kubelet, KubeletSubset)
    except msgspec.ValidationError as error:
        place, problem = explain(str(error))
        where = f"spec.kubelet.{place}" if place else "spec.kubelet"
        raise NodeClassNotReady(node_class=node_class.name, because=f"{where}: {problem}") from error


def _evaluated(
    entries: Mapping[str, str], variables: InstanceTypeVariables, *, expressions: bool
) -> tuple[tuple[str, str], ...]:
    """Return amounts with their expressions evaluated; those without a value are left out and logged."""
    found: dict[str, str] = {}
    for key, value in entries.items():
        if not is_expression(value):
            found[key] = value
        elif expressions:
            try:
                found[key] = evaluate_amount(key, value, variables)
            except BadExpression as error:
                log.error("kubelet.expression_dropped", resource=key, error=str(error))  # noqa: TRY400  the message suffices
    return tuple(sorted(found.items()))
