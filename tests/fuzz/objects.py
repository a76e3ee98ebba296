"""
What is fuzzed beyond files: settings, and texts in objects that the API server lets through.

A text in an annotation or in an overlay must never keep the operator from deciding: whatever stands there,
the provisioner, disruption and the lifecycle of a claim go on without it.
"""

from __future__ import annotations

import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api import labels
from karpenter.api.meta import ObjectMeta, Resource
from karpenter.api.nodeoverlay import NodeOverlay, NodeOverlaySpec, OverlayRequirement
from karpenter.api.pod import PodCondition
from karpenter.console.whatif import what_if
from karpenter.core.lifecycle.liveness import reconcile_nodeclaim
from karpenter.core.lifecycle.nodeoverlay import validate_overlays
from karpenter.core.lifecycle.termination import InvalidTerminationTime, TerminatingNode, terminate_node
from karpenter.core.provisioning.provisioner import ProvisioningMemory, ProvisioningSettings, provision
from karpenter.core.scheduling.build.policy import SchedulingPolicy
from karpenter.kube.execplugin import ExecPlugin, PluginFailed
from karpenter.operator.options import (
    SETTINGS,
    SettingError,
    disruption_context,
    parse_settings,
    provisioning_settings,
)
from tests.unit.console.clusters import inquiry, small_cluster
from tests.unit.core.disruption.clusters import MARKET, NOW, cluster, decided, machine, pod, pool

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karpenter.api.node import Node
    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.why.answer import Inquiry

ANNOTATIONS: Final = sorted(
    value
    for value in vars(labels).values()
    if isinstance(value, str) and value.startswith(("karpenter.sh/", "controller.kubernetes.io/"))
)
VALUES: Final = (
    *("true", "false", "0", "1", "-1", "5", "20%", "100%", "101%", "0.1", "1e9", "1e-9", "1e999", "NaN"),
    *("Inf", "5m", "1h30m", "-5m", "0s", "Never", "9" * 30, "2026-03-02T12:00:00Z", "0001-01-01T00:00:00Z"),
    *("+14:00", "9999-12-31T23:59:59-14:00", "-2147483648", "2147483648", ".", ",", "%", "=", "+", " "),
    *("\n", "\u0663", "\u00e9", "\x00"),
)
SETTING_VALUES: Final = (*VALUES, *(each.default for each in SETTINGS), *"{}[]:;", "spot", "NodeRepair=true")
OVERLAYS: Final = (*VALUES, "+", "-", "-100%", "+10%", "m", "Ki", "E", "1e", "cpu", "small", "zone-1")
CREDENTIALS: Final = (
    *('{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", ', '"status": {', "}"),
    *('"token": ', '"t"', '"expirationTimestamp": ', '"2026-03-02T12:00:00Z"', '"0001-01-01T00:00:00+14:00"'),
    *('"clientCertificateData": ', '"clientKeyData": ', ", ", "null", "1", "[", "]", "{", '"\\ud800"'),
)


def settings(text: str) -> None:
    """Start with one value for every setting in turn, as a flag and as an environment variable."""
    for setting in SETTINGS:
        for given, environment in (({setting.name: text}, {}), ({}, {setting.variable: text})):
            with suppress(SettingError):
                found = parse_settings(given, environment)
                provisioning_settings(found)
                disruption_context(found)


def annotated(text: str) -> None:
    """Decide about a cluster whose NodePool, machine and pods have a text in every annotation there is."""
    notes = dict.fromkeys(ANNOTATIONS, text)
    view = cluster(
        *(_noted(each, notes) for each in (pool(), *machine("a", notes=notes), *machine("b"))),
        _noted(pod("web-a", "a"), notes),
        _noted(_pending("web-b"), notes),
    )
    decided(view, surge=True)
    provision(view, MARKET, ProvisioningMemory(), now=NOW, settings=ProvisioningSettings())
    claim, node = view.claims["a"], view.nodes["a"]
    reconcile_nodeclaim(claim, [node], NOW)
    _terminate(node, claim)


def overlays(text: str) -> None:
    """Decide about a cluster with overlays that have a text in every field."""
    requirement = OverlayRequirement(key=labels.INSTANCE_TYPE, operator="In", values=(text,))
    specs = (
        NodeOverlaySpec(price=text),
        NodeOverlaySpec(price_adjustment=text),
        NodeOverlaySpec(capacity={"example.com/gpu": text}),
        NodeOverlaySpec(requirements=(requirement,), price="1"),
        NodeOverlaySpec(requirements=(msgspec.structs.replace(requirement, operator="Gt"),), price="1"),
    )
    found = [
        NodeOverlay(metadata=ObjectMeta(name=f"overlay-{number}"), spec=spec)
        for number, spec in enumerate(specs)
    ]
    view = cluster(pool(), *machine("a"), pod("web-a", "a"), _pending("web-b"), *found)
    validate_overlays(view, MARKET, NOW)
    policy = SchedulingPolicy(overlays=True)
    decided(view, policy=policy)
    provision(view, MARKET, ProvisioningMemory(), now=NOW, settings=ProvisioningSettings(policy=policy))


def credentials(text: str) -> None:
    plugin = ExecPlugin(command="plugin", api_version="client.authentication.k8s.io/v1")
    with suppress(PluginFailed):
        plugin._read(0, text.encode(errors="surrogatepass"), b"")


def questions(text: str) -> None:
    """Ask the console what would be if a manifest were applied."""
    what_if(_inquiry(), text)


@cache
def _inquiry() -> Inquiry:
    with tempfile.TemporaryDirectory() as folder:
        return inquiry(small_cluster(), Path(folder))


def _noted(item: Resource, notes: Mapping[str, str]) -> Resource:
    meta = msgspec.structs.replace(item.metadata, annotations={**item.metadata.annotations, **notes})
    return msgspec.structs.replace(item, metadata=meta)


def _pending(name: str) -> Resource:
    item = pod(name)
    waits = PodCondition(type="PodScheduled", status="False", reason="Unschedulable")
    return msgspec.structs.replace(item, status=msgspec.structs.replace(item.status, conditions=(waits,)))


def _terminate(node: Node, claim: NodeClaim) -> None:
    leaving = {"deletion_timestamp": NOW, "finalizers": (labels.TERMINATION_FINALIZER,)}
    going = TerminatingNode(
        node=msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, **leaving)),
        claim=msgspec.structs.replace(claim, metadata=msgspec.structs.replace(claim.metadata, **leaving)),
    )
    with suppress(InvalidTerminationTime):
        terminate_node(going, NOW)
