"""What every object of an installation carries: its name, its labels, and whatever the user adds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from karpenter.delivery.tree import Entries, Fact, Given, When, Words

if TYPE_CHECKING:
    from karpenter.delivery.tree import Tree

SELECTOR: Final[dict[str, Tree]] = {
    "app.kubernetes.io/name": Fact("name"),
    "app.kubernetes.io/instance": Fact("release"),
}
"""The labels by which the operator's pods are found."""

_LABELS: Final[dict[str, Tree]] = {**SELECTOR, "app.kubernetes.io/version": Fact("version")}


def metadata(
    suffix: str = "",
    *,
    name: Tree = None,
    namespaced: bool = True,
    labels: tuple[str, ...] = (),
    annotations: tuple[str, ...] = (),
    fixed: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Return metadata; `labels` and `annotations` are paths of values with more of them."""
    more = ("additionalAnnotations", *annotations)
    return {
        "name": name or (Words((Fact("fullname"), suffix)) if suffix else Fact("fullname")),
        **({"namespace": Fact("namespace")} if namespaced else {}),
        "labels": Entries({**_LABELS, **(fixed or {})}, ("additionalLabels", *labels)),
        "annotations": When(Given(more), Entries({}, more)),
    }
