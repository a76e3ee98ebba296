"""
Which pods a rule speaks of: a namespace rule and a label selector, compiled into values that can be
dictionary keys.

Spread constraints and pod affinity terms all come down to a :class:`Crowd`. Two rules with the same crowd
share one count, whichever pods carry them. Says nothing about where those pods are; that is :mod:`.census`.
"""

from collections.abc import Mapping

import msgspec

from karpenter.api.meta import LabelSelector, LabelSelectorRequirement
from karpenter.core.model.selectors import Selector, parse_selector

Labels = tuple[tuple[str, str], ...]


class Identity(msgspec.Struct, frozen=True):
    """What a selector can see of a pod. Pods of one template share it."""

    namespace: str
    pairs: Labels
    """The labels, sorted by key."""

    @classmethod
    def of(cls, namespace: str, labels: Mapping[str, str]) -> "Identity":
        """Return the identity of a pod with these labels."""
        return cls(namespace, tuple(sorted(labels.items())))


def select(selector: LabelSelector | None, *extra: LabelSelectorRequirement) -> Selector:
    """
    Return the selector compiled, with `extra` conditions; an absent one selects nothing whatever they say.

    Raises:
        SelectorError: naming the label and what is allowed.
    """
    if selector is None or not extra:
        return parse_selector(selector)
    widened = msgspec.structs.replace(selector, match_expressions=(*selector.match_expressions, *extra))
    return parse_selector(widened)


class Clause(msgspec.Struct, frozen=True):
    """Pods of some namespaces that match a selector."""

    namespaces: frozenset[str]
    selector: Selector
    namespace_selector: Selector | None = None
    """Namespaces that count besides the named ones."""

    def includes(self, identity: Identity, namespaces: Mapping[str, Mapping[str, str]]) -> bool:
        """Say whether the clause speaks of pods with this identity; `namespaces` holds the known labels."""
        if identity.namespace not in self.namespaces:
            if self.namespace_selector is None:
                return False
            if not self.namespace_selector.matches(namespaces.get(identity.namespace, {})):
                return False
        return self.selector.matches(dict(identity.pairs))


class Crowd(msgspec.Struct, frozen=True):
    """The pods that every clause includes."""

    clauses: tuple[Clause, ...]
    living: bool = False
    """Leave out pods that are being deleted, as spread constraints do."""

    @property
    def namespaces(self) -> frozenset[str] | None:
        """The namespaces outside which there is nobody to count; None where any may have some."""
        if any(clause.namespace_selector is not None for clause in self.clauses):
            return None
        return frozenset.intersection(*(clause.namespaces for clause in self.clauses))

    def includes(self, identity: Identity, namespaces: Mapping[str, Mapping[str, str]]) -> bool:
        """Say whether every clause includes pods with this identity."""
        return all(clause.includes(identity, namespaces) for clause in self.clauses)
