"""
What the server serves, for clients that ask before they act: groups, versions, resources.

Two dialects: the old one, a document per group and version, and the aggregated one, everything at once,
which clients ask for in their ``accept`` header.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karpenter.kube.transport import Request, Response
from karpenter_local.apiserver.entry import encode
from karpenter_local.apiserver.negotiation import clauses
from karpenter_local.apiserver.presenting import reply

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter_local.apiserver.resources import APIResource, Registry

# https://kubernetes.io/docs/concepts/overview/kubernetes-api/#aggregated-discovery
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"


def answer(registry: Registry, request: Request) -> Response | None:
    """Answer a discovery request, or return None when the path is not one."""
    match [part for part in request.path.split("/") if part]:
        case ["api"]:
            return _aggregated(registry, request, core=True) or reply(
                {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
            )
        case ["apis"]:
            return _aggregated(registry, request, core=False) or reply(
                {
                    "kind": "APIGroupList",
                    "apiVersion": "v1",
                    "groups": [_group(registry, g) for g in groups(registry)],
                }
            )
        case ["api", version]:
            return _resource_list(registry, "", version)
        case ["apis", group] if group in groups(registry):
            return reply({"kind": "APIGroup", "apiVersion": "v1", **_group(registry, group)})
        case ["apis", group, version]:
            return _resource_list(registry, group, version)
        case _:
            return None


def groups(registry: Registry) -> list[str]:
    """Return the named groups: the built-in ones first, then those of CRDs, in order of name."""
    found: dict[str, bool] = {}
    for resource in registry:
        if resource.group:
            found[resource.group] = found.get(resource.group, True) and resource.custom
    return sorted(found, key=lambda group: (found[group], group))


def versions(registry: Registry, group: str) -> list[str]:
    """Return the versions of a group, most stable and newest first."""
    return sorted({item.version for item in registry if item.group == group}, key=version_rank)


def version_rank(version: str) -> tuple[int, int, int, str]:
    """Return a key that sorts ``v2`` before ``v1``, ``v1beta1``, ``v1alpha1``, and anything odd last."""
    digits = version.removeprefix("v")
    for rank, stage in enumerate(("beta", "alpha"), start=1):
        major, found, minor = digits.partition(stage)
        if found and major.isdigit() and minor.isdigit():
            return rank, -int(major), -int(minor), version
    if version.startswith("v") and digits.isdigit():
        return 0, -int(digits), 0, version
    return 9, 0, 0, version


def _group(registry: Registry, group: str) -> dict[str, Any]:
    found = [
        {"groupVersion": f"{group}/{version}", "version": version} for version in versions(registry, group)
    ]
    return {"name": group, "versions": found, "preferredVersion": found[0]}


def _of(registry: Registry, group: str, version: str) -> list[APIResource]:
    return [item for item in registry if item.group == group and item.version == version]


def _resource_list(registry: Registry, group: str, version: str) -> Response | None:
    found = _of(registry, group, version)
    if not found:
        return None
    body = {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": [entry for resource in found for entry in _entries(resource)],
    }
    return reply(body)


def _entries(resource: APIResource) -> Iterable[dict[str, Any]]:
    main: dict[str, Any] = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        main["shortNames"] = list(resource.short_names)
    if resource.categories:
        main["categories"] = list(resource.categories)
    yield main
    for sub in resource.subresources:
        entry: dict[str, Any] = {
            "name": f"{resource.plural}/{sub.name}",
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": sub.kind or resource.kind,
            "verbs": list(sub.verbs),
        }
        if sub.version:
            entry |= {"group": sub.group, "version": sub.version}
        yield entry


def _aggregated(registry: Registry, request: Request, *, core: bool) -> Response | None:
    for clause in clauses(request.header("accept")):
        if clause.as_ == "APIGroupDiscoveryList" and clause.version in {"v2", "v2beta1"}:
            names = [""] if core else groups(registry)
            body = {
                "kind": "APIGroupDiscoveryList",
                "apiVersion": f"apidiscovery.k8s.io/{clause.version}",
                "metadata": {},
                "items": [_group_discovery(registry, name) for name in names],
            }
            headers = (("content-type", _AGGREGATED.format(clause.version)),)
            return Response(status=200, headers=headers, body=encode(body))
        if not clause.as_:
            return None
    return None


def _group_discovery(registry: Registry, group: str) -> dict[str, Any]:
    found = [
        {
            "version": version,
            "resources": [_resource_discovery(item) for item in _of(registry, group, version)],
            "freshness": "Current",
        }
        for version in versions(registry, group)
    ]
    return {"metadata": {"name": group} if group else {}, "versions": found}


def _resource_discovery(resource: APIResource) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "resource": resource.plural,
        "responseKind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    if resource.subresources:
        entry["subresources"] = [
            {
                "subresource": sub.name,
                "responseKind": {
                    "group": sub.group if sub.kind else resource.group,
                    "version": sub.version or resource.version,
                    "kind": sub.kind or resource.kind,
                },
                "verbs": list(sub.verbs),
            }
            for sub in resource.subresources
        ]
    return entry
