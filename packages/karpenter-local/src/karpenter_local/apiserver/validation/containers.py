"""The rules for containers: names, images, ports, variables, mounts, probes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from karpenter_local.apiserver.field_errors import (
    FieldError,
    duplicate,
    invalid,
    not_found,
    not_supported,
    required,
)
from karpenter_local.apiserver.validation import names, quantities

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROTOCOLS = ("SCTP", "TCP", "UDP")
_PULL = ("Always", "IfNotPresent", "Never")
_RESTARTS = ("Always", "Never", "OnFailure")
_MAX_PORT = 65535
# RFC 6335, as https://kubernetes.io/docs/concepts/services-networking/service/ requires.
_MAX_PORT_NAME = 15
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")


def containers(spec: dict[str, Any], path: str, volumes: set[str]) -> Iterator[FieldError]:
    seen: set[str] = set()
    given = spec.get("containers")
    if not given:
        yield required(f"{path}.containers")
    for key in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(key) or ()):
            place = f"{path}.{key}[{index}]"
            yield from _container(container, place, volumes, init=key == "initContainers")
            name = container.get("name", "")
            if name and name in seen:
                yield duplicate(f"{place}.name", name)
            seen.add(name)
    if spec.get("ephemeralContainers"):
        yield from _ephemeral(spec, path, seen)


def _ephemeral(spec: dict[str, Any], path: str, seen: set[str]) -> Iterator[FieldError]:
    for index, container in enumerate(spec["ephemeralContainers"]):
        if container.get("name") in seen:
            yield duplicate(f"{path}.ephemeralContainers[{index}].name", container["name"])


def _container(
    container: dict[str, Any], path: str, volumes: set[str], *, init: bool
) -> Iterator[FieldError]:
    yield from _identity(container, path)
    if container.get("ports"):
        yield from _ports(container["ports"], f"{path}.ports")
    for index, variable in enumerate(container.get("env") or ()):
        yield from _variable(variable, f"{path}.env[{index}]")
    if container.get("volumeMounts"):
        yield from _mounts(container["volumeMounts"], f"{path}.volumeMounts", volumes)
    resources = container.get("resources")
    if resources:
        yield from quantities.requirements(resources, f"{path}.resources")
    policy = container.get("restartPolicy")
    if policy is not None and init and policy not in _RESTARTS:
        yield not_supported(f"{path}.restartPolicy", policy, _RESTARTS)
    for key in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(key) is not None:
            yield from _probe(container[key], f"{path}.{key}", ready=key == "readinessProbe")


def _identity(container: dict[str, Any], path: str) -> Iterator[FieldError]:
    name, image = container.get("name", ""), container.get("image", "")
    if not name:
        yield required(f"{path}.name")
    else:
        for sentence in names.label(name):
            yield invalid(f"{path}.name", name, sentence)
    if not image:
        yield required(f"{path}.image")
    elif image != image.strip():
        yield invalid(f"{path}.image", image, "must not have leading or trailing whitespace")
    if container.get("imagePullPolicy") not in _PULL:
        yield not_supported(f"{path}.imagePullPolicy", container.get("imagePullPolicy"), _PULL)


def _ports(given: list[dict[str, Any]], path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, port in enumerate(given):
        place = f"{path}[{index}]"
        name = port.get("name")
        if name:
            trouble = list(_port_name_trouble(name))
            for sentence in trouble:
                yield invalid(f"{place}.name", name, sentence)
            if not trouble and name in seen:
                yield duplicate(f"{place}.name", name)
            seen.add(name)
        number = port.get("containerPort", 0)
        if not number:
            yield required(f"{place}.containerPort")
        elif not 0 < number <= _MAX_PORT:
            yield invalid(f"{place}.containerPort", number, f"must be between 1 and {_MAX_PORT}, inclusive")
        host = port.get("hostPort")
        if host and not 0 < host <= _MAX_PORT:
            yield invalid(f"{place}.hostPort", host, f"must be between 1 and {_MAX_PORT}, inclusive")
        if port.get("protocol") not in _PROTOCOLS:
            yield not_supported(f"{place}.protocol", port.get("protocol"), _PROTOCOLS)


def _port_name_trouble(name: str) -> Iterator[str]:
    if len(name) > _MAX_PORT_NAME:
        yield f"must be no more than {_MAX_PORT_NAME} characters"
    if not re.fullmatch(r"[-a-z0-9]+", name):
        yield "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
    if not re.search(r"[a-z]", name):
        yield "must contain at least one letter (a-z)"
    if "--" in name:
        yield "must not contain consecutive hyphens"
    if name.startswith("-") or name.endswith("-"):
        yield "must not begin or end with a hyphen"


def _variable(variable: dict[str, Any], path: str) -> Iterator[FieldError]:
    if not variable.get("name"):
        yield required(f"{path}.name")
    source = variable.get("valueFrom")
    if source is None:
        return
    if variable.get("value"):
        yield invalid(f"{path}.valueFrom", "", "may not be specified when `value` is not empty")
    chosen = [key for key, part in source.items() if part is not None]
    if len(chosen) > 1:
        yield invalid(f"{path}.valueFrom", "", "may not have more than one field specified at a time")
    elif not chosen:
        known = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        yield invalid(f"{path}.valueFrom", "", f"must specify one of: {known}")


def _mounts(given: list[dict[str, Any]], path: str, volumes: set[str]) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, mount in enumerate(given):
        place = f"{path}[{index}]"
        name = mount.get("name", "")
        if not name:
            yield required(f"{place}.name")
        elif name not in volumes:
            yield not_found(f"{place}.name", name)
        target = mount.get("mountPath", "")
        if not target:
            yield required(f"{place}.mountPath")
        elif target in seen:
            yield invalid(f"{place}.mountPath", target, "must be unique")
        seen.add(target)


def _probe(probe: dict[str, Any], path: str, *, ready: bool) -> Iterator[FieldError]:
    chosen = [key for key in _HANDLERS if probe.get(key) is not None]
    if not chosen:
        yield required(path, "must specify a handler type")
    for extra in chosen[1:]:
        why = "Forbidden: may not specify more than 1 handler type"
        yield FieldError(f"{path}.{extra}", "FieldValueForbidden", why)
    for key in (
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ):
        if probe.get(key, 0) < 0:
            yield invalid(f"{path}.{key}", probe[key], "must be greater than or equal to 0")
    if not ready and probe.get("successThreshold", 1) != 1:
        yield invalid(f"{path}.successThreshold", probe["successThreshold"], "must be 1")
