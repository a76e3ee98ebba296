"""
The manifests of a release, and the files of the two charts.

    python -m tools.charts charts/karpenter charts/karpenter-crd
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from karpenter import __version__
from karpenter.api.crd.definitions import DEFINITIONS, render
from karpenter.api.manifests import render_documents
from karpenter.chart.helm import HELPERS, notes, template
from karpenter.chart.known_values import SHARED
from karpenter.chart.objects import (
    budget,
    dashboards,
    deployment,
    metadata,
    network_policy,
    prometheus_rule,
    roles,
    service,
    service_account,
    service_monitor,
)
from karpenter.chart.permissions import admission_policies
from karpenter.chart.tree import CHART, Release, Tree, fill
from karpenter.chart.values import render_values, schema, with_notes
from karpenter.dashboards.boards import DASHBOARDS
from karpenter.dashboards.objects import dashboard_text

_NOTE: Final = "# Written by `make chart`: change packages/karpenter/src/karpenter/chart instead.\n"

ABOUT: Final = {
    "apiVersion": "v2",
    "name": CHART,
    "description": "A node autoscaler for Kubernetes, compatible with Karpenter 1.14.",
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
        # Before the rights that they narrow.
        "admission": admission_policies(
            {
                each: metadata(f"-{each.replace('/', '-')}", namespaced=False)
                for each in ("pods/status", "pods", "deployments")
            }
        ),
        "access": roles(),
        "poddisruptionbudget": [budget()],
        "service": [service()],
        "networkpolicy": [network_policy()],
        "servicemonitor": [service_monitor()],
        "prometheusrule": [prometheus_rule()],
        "dashboards": dashboards(),
        "deployment": [deployment()],
    }


def manifests(release: Release, *, definitions: bool = True, namespace: bool = False) -> list[dict[str, Any]]:
    """
    Return the objects of a release, in the order in which to create them.

    Raises:
        MissingValue: naming a value that is required.
        BadValue: naming a value that cannot be used.
        TemplateError: naming a value that is a template which cannot be rendered.
    """
    found: list[dict[str, Any]] = []
    if namespace:
        found.append({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": release.namespace}})
    found += [render(each) for each in DEFINITIONS] if definitions else []
    for trees in _objects().values():
        found += [filled for tree in trees if (filled := fill(tree, release)) is not None]
    return found


def files() -> dict[str, str]:
    """Return the chart of the operator, file by file."""
    return {
        "Chart.yaml": _NOTE + render_documents([ABOUT]),
        "values.yaml": _NOTE + render_values(),
        "values.schema.json": _json(schema()),
        "templates/_helpers.tpl": HELPERS,
        "templates/NOTES.txt": notes(),
        **{f"templates/{name}.yaml": template(trees) for name, trees in _objects().items()},
        **{f"crds/{each.file_name}": render_documents([render(each)]) for each in DEFINITIONS},
        **{f"dashboards/{each.name}.json": dashboard_text(each) for each in DASHBOARDS},
    }


def definition_files() -> dict[str, str]:
    """
    Return the chart of the CustomResourceDefinitions, file by file.

    Helm installs what is in a chart's ``crds`` folder once and never touches it again
    (https://helm.sh/docs/chart_best_practices/custom_resource_definitions/); as templates of a chart of their
    own, definitions are upgraded.
    """
    about = {
        **ABOUT,
        "name": f"{CHART}-crd",
        "description": "The CustomResourceDefinitions of the operator.",
    }
    annotations = {
        "type": ["object", "null"],
        "description": "Annotations for every CustomResourceDefinition.",
    }
    keep = {"type": ["boolean", "null"], "description": "Whether definitions outlive the release."}
    properties = {"additionalAnnotations": annotations, "keep": keep}
    properties |= {
        path: {"description": text, "type": [sort, "null"]} for path, (sort, text) in SHARED.items()
    }
    return {
        "Chart.yaml": _NOTE + render_documents([about]),
        "values.yaml": _NOTE
        + with_notes(
            {"additionalAnnotations": {}, "keep": True},
            {
                "additionalAnnotations": "Annotations for every CustomResourceDefinition.",
                "keep": "Whether definitions, and with them every NodePool, outlive the release. Ours.",
            },
        ),
        "values.schema.json": _json(
            {
                "$schema": "http://json-schema.org/draft-07/schema#",
                "title": "Values of the chart",
                "type": "object",
                "additionalProperties": False,
                "properties": properties,
            }
        ),
        **{f"templates/{each.file_name}": _definition(render(each)) for each in DEFINITIONS},
    }


def _definition(definition: dict[str, Any]) -> str:
    metadata, rest = definition["metadata"], {**definition}
    del rest["metadata"]
    text = render_documents([rest])
    assert "{{" not in text, "a definition that looks like a template"
    return (
        "metadata:\n"
        f"  name: {metadata['name']}\n"
        "  {{- if or .Values.keep .Values.additionalAnnotations }}\n"
        "  annotations:\n"
        "    {{- if .Values.keep }}\n"
        "    helm.sh/resource-policy: keep\n"
        "    {{- end }}\n"
        "    {{- with .Values.additionalAnnotations }}\n"
        "    {{- toYaml . | nindent 4 }}\n"
        "    {{- end }}\n"
        "  {{- end }}\n"
    ) + text


def _json(document: dict[str, Any]) -> str:
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


CHARTS: Final = {CHART: files, f"{CHART}-crd": definition_files}
"""The charts, by the names of their folders."""
