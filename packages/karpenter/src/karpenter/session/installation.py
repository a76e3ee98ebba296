"""
The Karpenter that runs in a cluster: its Deployment, its release, and the settings that it runs with.

Objects are plain, as the API server holds them. Upstream's Deployment is found as ours is, and settings have
the same names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.install.release import ReleaseRecord, latest, read_release
from karpenter.operator.options import (
    SETTINGS,
    SettingError,
    Settings,
    disruption_context,
    parse_settings,
    provisioning_settings,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CHART: Final = "karpenter"
_NAME: Final = "app.kubernetes.io/name"
_INSTANCE: Final = "app.kubernetes.io/instance"
_SIDECARS: Final = frozenset({"istio-proxy", "linkerd-proxy"})
_GATES: Final = "feature-gates"
SELECTOR: Final = f"{_NAME}={CHART}"
"""The label by which the Deployment of the chart is found, upstream's and ours."""


class Installation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The Karpenter that runs in the cluster."""

    namespace: str = "kube-system"
    deployment: str = ""
    """Empty where no Deployment of Karpenter was found."""

    replicas: int = 0
    image: str = ""
    instance: str = CHART
    """The label ``app.kubernetes.io/instance`` of its pods."""

    environment: dict[str, str] = {}
    """Variables of the container that are stated as text."""

    arguments: tuple[str, ...] = ()
    release: str = ""
    """The release of Helm that it belongs to; empty where it was installed otherwise."""

    revision: int = 0
    chart_version: str = ""
    values: dict[str, Any] = {}
    """What was set in the release."""


class SettingsInForce(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that decisions are made with, and what of them is the operator's."""

    settings: Settings
    changed: tuple[str, ...] = ()
    """Those of the operator that change decisions, as ``name=value``."""

    unusable: tuple[str, ...] = ()
    """Those of the operator that cannot be read here, a sentence each."""


def settings_in_force(installation: Installation, given: Mapping[str, str]) -> SettingsInForce:
    """
    Return the settings of the operator that runs, but for those that are `given`; the defaults without one.

    Feature gates are given one by one; the others stay as the operator has them.

    Raises:
        SettingError: one that is given cannot be read.
    """
    parse_settings(given)
    stated = {each: installation.environment.get(each.variable, "") for each in SETTINGS}
    usable, changed, unusable = {}, [], []
    for setting, text in stated.items():
        if not text:
            continue
        try:
            alone = parse_settings({}, {setting.variable: text})
        except SettingError as error:  # such as a file that only the operator's pod has
            unusable.append(str(error))
            continue
        usable[setting.variable] = text
        if setting.name not in given and _decides_otherwise(alone):
            changed.append(f"{setting.name}={text}")
    if _GATES in given:
        given = {**given, _GATES: f"{usable.get('FEATURE_GATES', '')},{given[_GATES]}"}
    return SettingsInForce(
        settings=parse_settings(given, usable), changed=tuple(changed), unusable=tuple(unusable)
    )


def _decides_otherwise(settings: Settings) -> bool:
    """Return whether decisions differ from those with the defaults."""
    default = parse_settings({})
    return (provisioning_settings(settings), disruption_context(settings)) != (
        provisioning_settings(default),
        disruption_context(default),
    )


def of_kind(objects: Iterable[Mapping[str, Any]], *kinds: str) -> list[Mapping[str, Any]]:
    return [each for each in objects if each.get("kind") in kinds]


def find_installation(objects: Iterable[Mapping[str, Any]]) -> Installation:
    """Return the Karpenter that runs; one without a name of a Deployment where there is none."""
    everything = list(objects)
    records = latest(read_release(each) for each in of_kind(everything, "Secret"))
    release = next((each for each in records if each.chart == CHART), None)
    deployments = [each for each in of_kind(everything, "Deployment") if _is_operator(each)]
    # A release and a Deployment of it are in one namespace; another Deployment may be a copy for tests.
    deployments.sort(
        key=lambda each: (_is_aside(each), release is None or _namespace(each) != release.namespace)
    )
    return _installation(deployments[0] if deployments else None, release)


def _installation(deployment: Mapping[str, Any] | None, release: ReleaseRecord | None) -> Installation:
    facts: dict[str, Any] = {}
    if release is not None:
        facts = {
            "namespace": release.namespace,
            "release": release.name,
            "revision": release.revision,
            "chart_version": release.chart_version,
            "values": release.config,
            "instance": release.name,
        }
    if deployment is not None:
        container, pod = _container(deployment), deployment["spec"].get("template") or {}
        labels = (pod.get("metadata") or {}).get("labels") or {}
        facts |= {
            "namespace": _namespace(deployment),
            "deployment": str(deployment["metadata"]["name"]),
            "replicas": int(deployment["spec"].get("replicas", 1)),
            "image": str(container.get("image", "")),
            "instance": str(labels.get(_INSTANCE, CHART)),
            "environment": {
                str(each["name"]): str(each["value"])
                for each in container.get("env") or ()
                if "value" in each
            },
            "arguments": tuple(map(str, container.get("args") or ())),
        }
    return Installation(**facts)


def _namespace(item: Mapping[str, Any]) -> str:
    return str((item.get("metadata") or {}).get("namespace") or "default")


def _is_operator(deployment: Mapping[str, Any]) -> bool:
    labels = (deployment.get("metadata") or {}).get("labels") or {}
    container = _container(deployment)
    names = {str(each.get("name", "")) for each in container.get("env") or ()}
    return bool(container) and (labels.get(_NAME) == CHART or {"CLUSTER_NAME", "FEATURE_GATES"} <= names)


def _is_aside(deployment: Mapping[str, Any]) -> bool:
    """Return whether it decides nothing: a shadow, or one that is scaled to nothing."""
    shadow = {"name": "SHADOW", "value": "true"} in (_container(deployment).get("env") or ())
    return shadow or (deployment.get("spec") or {}).get("replicas") == 0


def _container(deployment: Mapping[str, Any]) -> Mapping[str, Any]:
    pod = ((deployment.get("spec") or {}).get("template") or {}).get("spec") or {}
    containers = [each for each in pod.get("containers") or () if each.get("name") not in _SIDECARS]
    named = [each for each in containers if each.get("name") == "controller"]
    found: Mapping[str, Any] = (named or containers or [{}])[0]
    return found
