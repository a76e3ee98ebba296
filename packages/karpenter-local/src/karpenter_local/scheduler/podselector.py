"""
Which pods a rule selects: namespaces and a label selector, compiled into values that can be dictionary
keys.

Spread constraints and pod affinity terms both use a :class:`PodSelector`. Two rules with the same selector
share one count, whichever pods have them. Where the pods are is counted in :mod:`.podcounts`.
"""

from collections.abc import Mapping

import msgspec

from karpenter.api.meta import LabelSelector, LabelSelectorRequirement
from karpenter.core.model.selectors import Selector, parse_selector

Labels = tuple[tuple[str, str], ...]


class PodLabels(msgspec.Struct, frozen=True):
    """Namespace and labels of a pod, all that a selector can see. Pods of one template share it."""

    namespace: str
    pairs: Labels
    """The labels, sorted by key."""

    @classmethod
    def of(cls, namespace: str, labels: Mapping[str, str]) -> "PodLabels":
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


class PodSelectorTerm(msgspec.Struct, frozen=True):
    """Pods of some namespaces that match a selector."""

    namespaces: frozenset[str]
    selector: Selector
    namespace_selector: Selector | None = None
    """Namespaces that count besides the named ones."""

    def includes(self, pod_labels: PodLabels, namespaces: Mapping[str, Mapping[str, str]]) -> bool:
        """Say whether the clause speaks of pods with this identity; `namespaces` holds the known labels."""
        if pod_labels.namespace not in self.namespaces:
            if self.namespace_selector is None:
                return False
            if not self.namespace_selector.matches(namespaces.get(pod_labels.namespace, {})):
                return False
        return self.selector.matches(dict(pod_labels.pairs))


class PodSelector(msgspec.Struct, frozen=True):
    """The pods that every term selects."""

    clauses: tuple[PodSelectorTerm, ...]
    living: bool = False
    """Leave out pods that are being deleted, as spread constraints do."""

    @property
    def namespaces(self) -> frozenset[str] | None:
        """The only namespaces whose pods can match; None where those of any may."""
        if any(clause.namespace_selector is not None for clause in self.clauses):
            return None
        return frozenset.intersection(*(clause.namespaces for clause in self.clauses))

    def includes(self, pod_labels: PodLabels, namespaces: Mapping[str, Mapping[str, str]]) -> bool:
        return all(clause.includes(pod_labels, namespaces) for clause in self.clauses)
