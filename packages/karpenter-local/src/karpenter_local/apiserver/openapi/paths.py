"""The paths of a kind in an OpenAPI document: which verbs and which options there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter_local.apiserver.resources import APIResource

_WRITE_OPTIONS = ("dryRun", "fieldManager", "fieldValidation")
_STRATEGIC = "application/strategic-merge-patch+json"  # custom kinds have no merge keys, and do not take it
_BODIES = {
    "patch": (
        "application/apply-patch+yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
        _STRATEGIC,
    ),
    "post": ("application/json", "application/yaml"),
    "put": ("application/json", "application/yaml"),
}
_ACTIONS = {"get": "get", "put": "put", "patch": "patch", "delete": "delete", "post": "post"}


def paths_of(resource: APIResource, name: str, prefix: str) -> Iterator[tuple[str, dict[str, Any]]]:
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    space = "/namespaces/{namespace}" if resource.namespaced else ""
    collection = f"{root}{space}/{resource.plural}"
    if resource.namespaced and "list" in resource.verbs:
        yield f"{root}/{resource.plural}", {"get": _operation(resource, "get", name, prefix, action="list")}
    many = {}
    if "list" in resource.verbs:
        many["get"] = _operation(resource, "get", name, prefix, action="list")
    if "create" in resource.verbs:
        many["post"] = _operation(resource, "post", name, prefix)
    yield collection, many
    if "get" in resource.verbs:
        yield (
            f"{collection}/{{name}}",
            {
                method: _operation(resource, method, name, prefix)
                for method in ("get", "put", "patch", "delete")
            },
        )


def _operation(
    resource: APIResource, method: str, name: str, prefix: str, action: str = ""
) -> dict[str, Any]:
    group = resource.group.title().replace(".", "")
    operation: dict[str, Any] = {
        "operationId": f"{action or method}{group}{resource.version}{resource.kind}",
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": action or _ACTIONS[method],
        "x-kubernetes-group-version-kind": {
            "group": resource.group,
            "version": resource.version,
            "kind": resource.kind,
        },
    }
    old = prefix == "#/definitions/"
    bodies = [kind for kind in _BODIES.get(method, ()) if not (resource.custom and kind == _STRATEGIC)]
    if bodies:
        operation["parameters"] = [_parameter(option, old=old) for option in _WRITE_OPTIONS]
        schema = {"$ref": f"{prefix}{name}"} if method != "patch" else {"type": "object"}
        if old:
            operation["consumes"] = bodies
            operation["parameters"].append({"name": "body", "in": "body", "required": True, "schema": schema})
        else:
            operation["requestBody"] = {"content": {kind: {"schema": schema} for kind in bodies}}
    return operation


def _parameter(name: str, *, old: bool) -> dict[str, Any]:
    parameter: dict[str, Any] = {"name": name, "in": "query"}
    return {**parameter, "type": "string"} if old else {**parameter, "schema": {"type": "string"}}
