"""Defaults of pods and of the pod templates inside workloads."""

from __future__ import annotations

import re
from typing import Any

from karpenter_local.apiserver.qos import total

Spec = dict[str, Any]

# https://kubernetes.io/docs/concepts/storage/volumes/
_FILE_MODE = 0o644
# https://kubernetes.io/docs/concepts/storage/projected-volumes/
_TOKEN_SECONDS = 3600
# Without a tag, or with latest, the pull policy is Always:
# https://kubernetes.io/docs/concepts/containers/images/#imagepullpolicy-defaulting
_DIGEST_OR_TAG = re.compile(r"(@[a-z0-9]+:[a-f0-9]+|:[\w][\w.-]{0,127})$", re.IGNORECASE)
_SHARED = ("cpu", "memory")
"""Resources that a pod may have as a whole, and that may be overcommitted."""
_SOURCES_WITH_MODE = ("secret", "configMap", "downwardAPI", "projected")


def pod(value: dict[str, Any]) -> None:
    """Fill in a pod: what a template gets, and what only a pod itself gets."""
    spec = value.setdefault("spec", {})
    template_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    for key in ("initContainers", "containers"):
        for container in spec.get(key) or ():
            limits = (container.get("resources") or {}).get("limits")
            if limits:
                requests = container["resources"].setdefault("requests", {})
                for name, quantity in limits.items():
                    requests.setdefault(name, quantity)
    if spec.get("resources"):
        _pod_level_requests(spec)


def template(value: dict[str, Any]) -> None:
    template_spec(value.setdefault("spec", {}))


def template_spec(spec: Spec) -> None:
    setdefault = spec.setdefault
    setdefault("restartPolicy", "Always")
    setdefault("terminationGracePeriodSeconds", 30)
    setdefault("dnsPolicy", "ClusterFirst")
    setdefault("securityContext", {})
    setdefault("schedulerName", "default-scheduler")
    if spec.get("serviceAccountName"):
        spec["serviceAccount"] = spec["serviceAccountName"]
    elif spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"]
    on_host = bool(spec.get("hostNetwork"))
    for key in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(key) or ():
            _container(container, on_host=on_host)
    for volume in spec.get("volumes") or ():
        _volume(volume)


def image_pull_policy(image: str) -> str:
    """Return the policy for an image without one: what may move is pulled always."""
    found = _DIGEST_OR_TAG.search(image)
    if found is None or found.group() == ":latest":
        return "Always"
    return "IfNotPresent"


def _container(container: Spec, *, on_host: bool) -> None:
    setdefault = container.setdefault
    setdefault("resources", {})
    setdefault("terminationMessagePath", "/dev/termination-log")
    setdefault("terminationMessagePolicy", "File")
    if "imagePullPolicy" not in container:
        container["imagePullPolicy"] = image_pull_policy(container.get("image", ""))
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if on_host and port.get("containerPort"):
            port.setdefault("hostPort", port["containerPort"])
    for key in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(key) is not None:
            _probe(container[key])
    for hook in (container.get("lifecycle") or {}).values():
        if isinstance(hook, dict):
            _http(hook)
    for variable in container.get("env") or ():
        field = (variable.get("valueFrom") or {}).get("fieldRef")
        if field is not None:
            field.setdefault("apiVersion", "v1")


def _probe(probe: Spec) -> None:
    for key, given in (
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ):
        probe.setdefault(key, given)
    _http(probe)
    if probe.get("grpc") is not None:
        probe["grpc"].setdefault("service", "")


def _http(handler: Spec) -> None:
    if handler.get("httpGet") is not None:
        handler["httpGet"].setdefault("path", "/")
        handler["httpGet"].setdefault("scheme", "HTTP")


def _volume(volume: Spec) -> None:
    if len(volume) == 1:
        volume["emptyDir"] = {}
    for key in _SOURCES_WITH_MODE:
        source = volume.get(key)
        if source is not None:
            source.setdefault("defaultMode", _FILE_MODE)
            _items(source)
    for source in (volume.get("projected") or {}).get("sources") or ():
        token = source.get("serviceAccountToken")
        if token is not None:
            token.setdefault("expirationSeconds", _TOKEN_SECONDS)
        if source.get("downwardAPI") is not None:
            _items(source["downwardAPI"])
    if volume.get("hostPath") is not None:
        volume["hostPath"].setdefault("type", "")
    claim = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if claim is not None:
        claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")


def _items(source: Spec) -> None:
    for item in source.get("items") or ():
        if item.get("fieldRef") is not None:
            item["fieldRef"].setdefault("apiVersion", "v1")


def _pod_level_requests(spec: Spec) -> None:
    """A pod with limits requests what its containers request together, or else its limits."""
    limits = spec["resources"].get("limits") or {}
    if limits:
        requests = spec["resources"].setdefault("requests", {})
        asked = {name: str(amount) for name, amount in total(spec, "requests").items() if name in _SHARED}
        for name, quantity in (limits | asked).items():
            requests.setdefault(name, quantity)
