"""
Whether a node satisfies node selector terms, as the scheduler of Kubernetes reads them.

Terms are alternatives, the conditions of a term must all hold, and a term without conditions holds nowhere.
This is about labels that a node has; what labels a node that does not exist yet could have is the core's
algebra.
"""

from collections.abc import Iterable, Mapping

from karpenter.api.pod import NodeSelectorRequirement, NodeSelectorTerm
from karpenter.core.model.requirement import integer


def any_holds(terms: Iterable[NodeSelectorTerm], labels: Mapping[str, str], name: str) -> bool:
    return any(holds(term, labels, name) for term in terms)


def holds(term: NodeSelectorTerm, labels: Mapping[str, str], name: str) -> bool:
    """Say whether every condition of the term holds for the node called `name`."""
    if not term.match_expressions and not term.match_fields:
        return False
    return all(_meets(each, labels) for each in term.match_expressions) and all(
        _meets(each, {"metadata.name": name}) for each in term.match_fields
    )


def _meets(condition: NodeSelectorRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(condition.key)
    match condition.operator:
        case "In":
            return value in condition.values
        case "NotIn":
            return value not in condition.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" if value is not None and len(condition.values) == 1:
            number, limit = integer(value), integer(condition.values[0])
            if number is None or limit is None:
                return False
            return number > limit if condition.operator == "Gt" else number < limit
        case _:
            return False
