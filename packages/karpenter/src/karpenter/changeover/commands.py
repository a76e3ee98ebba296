"""
The commands of the switch and of the way back, as they are typed.

Karpenter's replicas end before ours start, so that no two operators decide at once; both use the same Lease,
so that a replica which is left behind waits. Claims, nodes and pods run on meanwhile. Nothing here is
executed.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.changeover.facts import Installation

_BACKUP: Final = "karpenter-before.yaml"
_VALUES: Final = "karpenter-values.yaml"
_KINDS: Final = "nodepools,nodeclaims,nodeoverlays"
_REPOSITORY: Final = "REGISTRY/karpenter"


class SwitchCommand(msgspec.Struct, frozen=True):
    """A line to type, and what it is for."""

    command: str
    about: str


def switch_commands(found: Installation, *, kubectl: str = "", on_aws: bool = True) -> list[SwitchCommand]:
    """Return the switch; `kubectl` are options that choose the cluster, such as ``--context blue``."""
    return [SwitchCommand(command, about) for command, about in _switch(found, kubectl, on_aws=on_aws)]


def back_commands(found: Installation, *, kubectl: str = "") -> list[SwitchCommand]:
    """Return the way back."""
    return [SwitchCommand(command, about) for command, about in _back(found, kubectl)]


def _switch(found: Installation, options: str, *, on_aws: bool) -> Iterator[tuple[str, str]]:
    kubectl, helm, namespace = _program("kubectl", options), _helm(options), shlex.quote(found.namespace)
    kinds = f"{_KINDS},ec2nodeclasses" if on_aws else _KINDS
    yield f"{kubectl} get {kinds} -o yaml --ignore-not-found > {_BACKUP}", "keep what is there"
    if found.release:
        release = shlex.quote(found.release)
        yield f"{helm} get values {release} -n {namespace} -o yaml > {_VALUES}", "keep what was set"
    yield (
        f"{_program('karpenter crds |', '')} {kubectl} apply --server-side --force-conflicts -f -",
        ("bring the definitions up to date; no object is changed"),
    )
    if found.deployment:
        name = shlex.quote(found.deployment)
        yield f"{kubectl} -n {namespace} scale deployment/{name} --replicas=0", "end Karpenter; nodes run on"
        yield (
            (
                f"{kubectl} -n {namespace} wait --for=delete pod"
                f" -l app.kubernetes.io/name=karpenter,app.kubernetes.io/instance={found.instance}"
                " --timeout=2m"
            ),
            "until its last replica has released the lease",
        )
    image = f"controller.image.repository={_REPOSITORY},controller.image.tag=,controller.image.digest="
    if found.release:
        yield (
            (
                f"{helm} upgrade {shlex.quote(found.release)} charts/karpenter -n {namespace} --skip-crds"
                f" --reset-then-reuse-values --set {image}"
            ),
            "start ours with the same values",
        )
    else:
        yield from _install_without_release(found, kubectl)
    name = shlex.quote(found.deployment or "karpenter")
    yield f"{kubectl} -n {namespace} rollout status deployment/{name}", "until it runs"
    yield f"{kubectl} get nodeclaims -o wide", "every claim is still there"


def _install_without_release(found: Installation, kubectl: str) -> Iterator[tuple[str, str]]:
    cluster = found.environment.get("CLUSTER_NAME", "CLUSTER")
    more = f" --set settings.interruptionQueue={queue}" if (queue := _queue(found)) else ""
    yield (
        (
            f"karpenter manifests --namespace {shlex.quote(found.namespace)}"
            f" --set settings.clusterName={cluster}"
            f"{more} --set controller.image.repository={_REPOSITORY}"
            f" | {kubectl} apply --server-side --force-conflicts -f -"
        ),
        "start ours; state every other setting of theirs with --set",
    )


def _queue(found: Installation) -> str:
    return found.environment.get("INTERRUPTION_QUEUE", "")


def _back(found: Installation, options: str) -> Iterator[tuple[str, str]]:
    kubectl, helm, namespace = _program("kubectl", options), _helm(options), shlex.quote(found.namespace)
    name = shlex.quote(found.deployment or "karpenter")
    yield f"{kubectl} -n {namespace} scale deployment/{name} --replicas=0", "end ours; nodes run on"
    if found.release:
        yield (
            (f"{helm} rollback {shlex.quote(found.release)} {found.revision} -n {namespace}"),
            f"revision {found.revision} is Karpenter's",
        )
    else:
        yield (
            (f"{kubectl} apply --server-side --force-conflicts -f KARPENTER-MANIFESTS"),
            "what Karpenter was installed from",
        )
    yield (
        f"{kubectl} -n {namespace} rollout status deployment/{name}",
        ("until it runs; the definitions may stay, they admit what Karpenter's admit"),
    )
    yield f"{kubectl} get nodeclaims -o wide", "every claim is still there"


def _program(name: str, options: str) -> str:
    return f"{name} {options}".strip()


def _helm(options: str) -> str:
    return _program("helm", options.replace("--context", "--kube-context"))
