"""
Reading a cluster definition: every problem at once, with the key that was probably meant.

Keys may be written in snake_case or camelCase; values of labels that are always lower case, and operators,
may be written in any case. What is not in the usual spelling is a warning, what cannot be meant is a
problem.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.labels import ARCH, CAPACITY_TYPE, INSTANCE_TYPE, OS, REGION, ZONE
from karpenter.api.meta import explain
from karpenter.api.nodeclaim import OPERATORS
from karpenter.base.quantity import QuantityError, parse_quantity
from karpenter.definition.model import (
    BudgetDefinition,
    ClassDefinition,
    ClusterDefinition,
    DefinitionDefaults,
    DisruptionDefinition,
    KarpenterDefinition,
    PoolDefinition,
    RequirementDefinition,
    TaintDefinition,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOWER_CASE: Final = frozenset(
    {
        ARCH,
        CAPACITY_TYPE,
        INSTANCE_TYPE,
        OS,
        REGION,
        ZONE,
        *(
            f"karpenter.k8s.aws/instance-{name}"
            for name in (
                "category",
                "family",
                "size",
                "hypervisor",
                "cpu-manufacturer",
                "gpu-manufacturer",
                "gpu-name",
            )
        ),
    }
)
"""Labels whose values are always lower case."""

_LEAST_MEMORY: Final = 1024**2
_BOTH_WAYS: Final = frozenset({"volume_size"})
"""Keys whose other spelling is as usual as theirs."""


class ReadDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A definition, what is wrong with it, and what is only unusual."""

    definition: ClusterDefinition | None = None
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def read_definition(plain: Any) -> ReadDefinition:
    """Return what a document says; without a definition where something is wrong."""
    reader = _DefinitionReader()
    root = plain.get("spec") if isinstance(plain, dict) and "karpenter" not in plain else plain
    if not isinstance(root, dict) or not isinstance(root.get("karpenter"), dict):
        problem = "karpenter: is missing: a cluster definition has karpenter.node_pools with a pool by name"
        return ReadDefinition(problems=(problem,))
    section = reader.keys(root["karpenter"], KarpenterDefinition, "karpenter")
    reader.pools(section)
    if reader.problems:
        return ReadDefinition(problems=tuple(reader.problems), warnings=tuple(reader.warnings))
    try:
        definition = msgspec.convert({"karpenter": section}, ClusterDefinition)
    except msgspec.ValidationError as error:
        place, problem = explain(str(error))
        return ReadDefinition(problems=(f"{place}: {problem}",), warnings=tuple(reader.warnings))
    return ReadDefinition(definition=definition, warnings=tuple(reader.warnings))


_INSIDE: Final[dict[tuple[type, str], type]] = {
    (KarpenterDefinition, "defaults"): DefinitionDefaults,
    (DefinitionDefaults, "disruption"): DisruptionDefinition,
    (PoolDefinition, "disruption"): DisruptionDefinition,
    (PoolDefinition, "node_class"): ClassDefinition,
    (PoolDefinition, "requirements"): RequirementDefinition,
    (PoolDefinition, "taints"): TaintDefinition,
    (PoolDefinition, "startup_taints"): TaintDefinition,
    (DisruptionDefinition, "budgets"): BudgetDefinition,
}


class _DefinitionReader:
    def __init__(self) -> None:
        self.problems: list[str] = []
        self.warnings: list[str] = []

    def keys(self, plain: Any, part: type, place: str) -> Any:
        """Return a mapping with the keys of a part of the definition in their usual spelling."""
        if not isinstance(plain, dict):
            self.problems.append(f"{place}: is {_type(plain)}, and a mapping is needed")
            return {}
        fields = {each.name: each.encode_name for each in msgspec.structs.fields(part)}
        folded = {_fold(name): name for name in fields}
        found: dict[str, Any] = {}
        for key, value in plain.items():
            if value is None:
                continue  # as in Kubernetes, null is as good as absent
            name = folded.get(_fold(key))
            if name is None:
                begun = [each for each in fields if each.startswith(key)]
                close = begun or difflib.get_close_matches(key, fields, n=1)
                hint = (
                    f"did you mean {fields[close[0]]}?"
                    if close
                    else f"allowed are {', '.join(fields.values())}"
                )
                self.problems.append(f"{place}.{key}: unknown key; {hint}")
                continue
            encoded = fields[name]
            if key != encoded and name not in _BOTH_WAYS:
                self.warnings.append(f"{place}.{key}: is {encoded} as others write it")
            if encoded in found:
                self.problems.append(f"{place}.{key}: is there twice, as {encoded}")
            inner = _INSIDE.get((part, name))
            found[encoded] = (
                value if inner is None else self._inside(value, inner, f"{place}.{encoded}", part)
            )
        return found

    def _inside(self, value: Any, inner: type, place: str, part: type) -> Any:
        if isinstance(value, list):
            return [self.keys(each, inner, f"{place}[{number}]") for number, each in enumerate(value)]
        if inner is RequirementDefinition and isinstance(value, dict) and part is PoolDefinition:
            return {name: self.keys(each, inner, f"{place}.{name}") for name, each in value.items()}
        return self.keys(value, inner, place)

    def pools(self, section: dict[str, Any]) -> None:
        """Look at every pool."""
        pools = section.get("node_pools")
        if not isinstance(pools, dict) or not pools:
            self.problems.append("karpenter.node_pools: needs at least one pool, by its name")
            return
        section["node_pools"] = read = dict(pools)
        for name, plain in pools.items():
            place = f"karpenter.node_pools.{name}"
            pool = self.keys(plain, PoolDefinition, place)
            read[name] = pool
            self._limits(pool, place)
            for where, requirement in _requirements_of(pool):
                self._requirement(requirement, f"{place}.{where}")

    def _limits(self, pool: dict[str, Any], place: str) -> None:
        limits = pool.get("limits")
        if not isinstance(limits, dict) or not limits:
            self.problems.append(
                f"{place}.limits: is required, since without limits a pool may cost any amount; such as "
                "{cpu: 100, memory: 400Gi}"
            )
            return
        for name, value in limits.items():
            try:
                amount = parse_quantity(value)
            except QuantityError as error:
                self.problems.append(f"{place}.limits.{name}: {error}")
                continue
            if name == "memory" and amount.milli < _LEAST_MEMORY * 1000:
                self.problems.append(
                    f"{place}.limits.memory: {value} is in bytes; write a unit, such as {value}Gi"
                )

    def _requirement(self, requirement: dict[str, Any], place: str) -> None:
        operator, values = requirement.get("operator"), requirement.get("values")
        if isinstance(operator, str) and operator not in OPERATORS:
            meant = {each.lower(): each for each in OPERATORS}.get(operator.lower())
            if meant is not None:
                self.warnings.append(f"{place}.operator: {operator} is {meant}")
                requirement["operator"] = meant
        if isinstance(values, list):
            requirement["values"] = [self._value(each, requirement.get("key"), place) for each in values]

    def _value(self, value: Any, key: Any, place: str) -> Any:
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if isinstance(value, str) and str(key) in _LOWER_CASE and value != value.lower():
            self.warnings.append(
                f"{place}.values: {value} is {value.lower()}: values of {key} are lower case"
            )
            return value.lower()
        return value


def _requirements_of(pool: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    found = pool.get("requirements")
    pairs = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
    for name, each in pairs:
        if isinstance(each, dict):
            yield (f"requirements.{name}" if isinstance(found, dict) else f"requirements[{name}]"), each


def _fold(key: str) -> str:
    return re.sub(r"[_-]", "", str(key)).lower()


def _type(value: Any) -> str:
    return {str: "text", list: "a list", bool: "true or false"}.get(type(value), "a number")
