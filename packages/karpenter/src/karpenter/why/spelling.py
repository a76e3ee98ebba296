"""Labels and values that pods select and that no node can have, and which were probably meant."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final, NamedTuple

from karpenter.api.labels import CAPACITY_TYPE, NODEPOOL, NORMALIZED_LABELS, ZONE
from karpenter.why.options import required_labels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.api.pod import Pod
    from karpenter.core.model.catalog import Catalog
    from karpenter.core.state.cluster import ClusterView

_CLOSE_KEY: Final = 0.85
_CLOSE_VALUE: Final = 0.6
_SAME: Final = {
    "x86_64": "amd64",
    "x86-64": "amd64",
    "aarch64": "arm64",
    "ondemand": "on-demand",
}
"""What others call the same."""


class Misspelling(NamedTuple):
    """A label, or one of its values, that pods select in vain, and what was probably meant."""

    key: str
    meant_key: str
    value: str = ""
    meant_value: str = ""

    def __str__(self) -> str:
        if self.value:
            return f'{self.key} is never "{self.value}"; did you mean "{self.meant_value}"?'
        return f'no node has the label {self.key}; did you mean "{self.meant_key}"?'

    @property
    def change(self) -> str:
        if self.value:
            return f"write {self.key}={self.meant_value} instead of {self.value} in the pod"
        return f"write {self.meant_key} instead of {self.key} in the pod"


def misspellings(pod: Pod, view: ClusterView, catalog: Catalog) -> Iterator[Misspelling]:
    """Yield what a pod requires of labels that was probably meant otherwise."""
    known = _known_labels(view, catalog)
    for each in {one.key: one for wanted in required_labels(pod) for one in wanted}.values():
        if each.key not in known:
            close = closest(each.key, known, _CLOSE_KEY) or _same_name(each.key, catalog)
            if close:
                yield Misspelling(each.key, close)
        elif not each.complement:
            values = _known_values(each.key, view, catalog)
            for value in sorted(each.values - values) if values else ():
                meant = _SAME.get(value.lower(), value.lower())
                close = meant if meant in values else closest(value, values, _CLOSE_VALUE)
                if close:
                    yield Misspelling(each.key, each.key, value, close)


def closest(text: str, known: frozenset[str], cutoff: float) -> str:
    """Return the known text that is most like another; empty where none is."""
    return next(iter(difflib.get_close_matches(text, sorted(known), n=1, cutoff=cutoff)), "")


def _same_name(key: str, catalog: Catalog) -> str:
    """Return the well-known label of the same name in another domain; empty where there is none."""
    name = key.rpartition("/")[2]
    return next((each for each in sorted(catalog.label_rules.well_known) if each.endswith(f"/{name}")), "")


def _known_labels(view: ClusterView, catalog: Catalog) -> frozenset[str]:
    found = {*catalog.label_rules.well_known, *NORMALIZED_LABELS, NODEPOOL}
    for pool in view.pools.values():
        template = pool.spec.template
        found |= {*template.metadata.labels, *(each.key for each in template.spec.requirements)}
    for node in view.nodes.values():
        found |= node.metadata.labels.keys()
    return frozenset(found)


def _known_values(key: str, view: ClusterView, catalog: Catalog) -> frozenset[str]:
    """Return the values that a label can have; none where anything may be its value."""
    if key == NODEPOOL:
        return frozenset(view.pools)
    # Zones differ by a letter, and each may be meant.
    if key == ZONE or key not in catalog.label_rules.well_known:
        return frozenset()
    if key == CAPACITY_TYPE:
        sold = {
            value
            for kind in catalog.types
            for each in kind.offerings
            for value in each.requirements[key].values
        }
    else:
        sold = {value for kind in catalog.types for value in kind.requirements[key].values}
    there = {node.metadata.labels[key] for node in view.nodes.values() if key in node.metadata.labels}
    return frozenset(sold | there) if sold else frozenset()
