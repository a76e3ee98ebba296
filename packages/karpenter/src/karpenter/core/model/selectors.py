"""
Label selectors: which pods a pod affinity, a topology spread constraint or a PodDisruptionBudget selects.

A selector is compiled once into a value that can be compared, hashed and evaluated many times. No selector
at all selects nothing; one without conditions selects everything. Selectors with the same conditions are
equal, however they were written.

Namespaces are for the caller to check.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.base.pretty import excerpt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karpenter.api.meta import LabelSelector, LabelSelectorRequirement


class SelectorError(ValueError):
    """A selector that is not valid; the message is one sentence that names the label and what is allowed."""


class SelectorCondition(msgspec.Struct, frozen=True):
    """One condition on one label: it has one of some values, or any value; or the negation of that."""

    key: str
    values: frozenset[str] | None = None
    """None stands for any value."""

    negated: bool = False

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Say whether `labels` meet the condition; a missing label has no value."""
        # NotIn holds for an object without the label as well:
        # https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#set-based-requirement
        found = labels.get(self.key)
        has = found is not None if self.values is None else found in self.values
        return has is not self.negated

    def __str__(self) -> str:
        if self.values is None:
            return f"!{self.key}" if self.negated else self.key
        values = ",".join(sorted(self.values))
        if len(self.values) == 1:
            return f"{self.key}{'!=' if self.negated else '='}{values}"
        return f"{self.key} {'notin' if self.negated else 'in'} ({values})"


class Selector(msgspec.Struct, frozen=True):
    """Conditions that must all hold, sorted, each once; None matches nothing."""

    conditions: tuple[SelectorCondition, ...] | None

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Say whether the selector selects an object with these labels."""
        if self.conditions is None:
            return False
        for condition in self.conditions:  # noqa: SIM110  a plain loop is twice as fast as all()
            if not condition.holds(labels):
                return False
        return True

    def __str__(self) -> str:
        if self.conditions is None:
            return "<none>"
        return ",".join(map(str, self.conditions)) or "<all>"


NOTHING: Final = Selector(None)
EVERYTHING: Final = Selector(())


def parse_selector(wire: LabelSelector | None) -> Selector:
    """
    Return the compiled form of a selector.

    Raises:
        SelectorError: naming the label and what is allowed.
    """
    if wire is None:
        return NOTHING
    conditions = {SelectorCondition(key, frozenset({value})) for key, value in wire.match_labels.items()}
    conditions.update(map(_parse_condition, wire.match_expressions))
    return Selector(tuple(sorted(conditions, key=_order)))


def _order(condition: SelectorCondition) -> tuple[str, bool, list[str]]:
    return condition.key, condition.negated, sorted(condition.values or ())


def _parse_condition(wire: LabelSelectorRequirement) -> SelectorCondition:
    match wire.operator, bool(wire.values):
        case (("In" | "NotIn"), True):
            return SelectorCondition(wire.key, frozenset(wire.values), negated=wire.operator == "NotIn")
        case (("Exists" | "DoesNotExist"), False):
            return SelectorCondition(wire.key, negated=wire.operator == "DoesNotExist")
        case (("In" | "NotIn"), _):
            problem = f"{wire.operator} has no values: expected at least one"
        case (("Exists" | "DoesNotExist"), _):
            problem = f"{wire.operator} has values: expected none"
        case _:
            problem = f"{excerpt(wire.operator)} is no operator: expected In, NotIn, Exists or DoesNotExist"
    raise SelectorError(f"label {excerpt(wire.key)}: {problem}")
