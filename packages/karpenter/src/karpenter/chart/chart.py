"""
The installation as a whole: the manifests for a release, and the files of the chart.

    python -m karpenter.chart charts/karpenter
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from karpenter import __version__
from karpenter.api.crd.definitions import DEFINITIONS, render
from karpenter.api.manifests import render_documents
from karpenter.chart.helm import HELPERS, template
from karpenter.chart.objects import budget, deployment, roles, service, service_account, service_monitor
from karpenter.chart.tree import CHART, fill
from karpenter.chart.values import render_values

if TYPE_CHECKING:
    from karpenter.chart.tree import Release, Tree

_NOTE: Final = "# Written by `make chart`: change packages/karpenter/src/karpenter/chart instead.\n"

ABOUT: Final = {
    "apiVersion": "v2",
    "name": CHART,
    "description": "A node autoscaler for Kubernetes: the right machines for the pods that wait.",
    "type": "application",
    "version": __version__,
    "appVersion": __version__,
    "keywords": ["cluster", "node", "autoscaler", "autoscaling", "lifecycle"],
    "kubeVersion": ">=1.25.0-0",
}


def _objects() -> dict[str, list[Tree]]:
    """Return the objects, by the file of the chart that they are in, in the order in which to create them."""
    return {
        "serviceaccount": [service_account()],
        "access": roles(),
        "poddisruptionbudget": [budget()],
        "service": [service()],
        "servicemonitor": [service_monitor()],
        "deployment": [deployment()],
    }


def manifests(release: Release, *, definitions: bool = True) -> list[dict[str, Any]]:
    """
    Return the objects of a release, in the order in which to create them.

    Raises:
        MissingValue: naming a value that nobody can do without.
    """
    found: list[dict[str, Any]] = [render(each) for each in DEFINITIONS] if definitions else []
    for trees in _objects().values():
        found += [filled for tree in trees if (filled := fill(tree, release)) is not None]
    return found


def files() -> dict[str, str]:
    """Return the chart, file by file."""
    return {
        "Chart.yaml": _NOTE + render_documents([ABOUT]),
        "values.yaml": _NOTE + render_values(),
        "templates/_helpers.tpl": HELPERS,
        **{f"templates/{name}.yaml": template(trees) for name, trees in _objects().items()},
        **{f"crds/{each.file_name}": render_documents([render(each)]) for each in DEFINITIONS},
    }
