"""Defaults of deployments, replica sets, stateful sets, daemon sets, jobs and cron jobs."""

from __future__ import annotations

from typing import Any

from karpenter_local.apiserver.defaults import pods, storage

Object = dict[str, Any]


def deployment(value: Object) -> None:
    """Roll a quarter at a time, keep ten revisions, give up after ten minutes."""
    spec = value.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    pods.template(spec.setdefault("template", {}))
    strategy = spec.setdefault("strategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.get("rollingUpdate")
        if rolling is None:
            rolling = strategy["rollingUpdate"] = {}
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)


def replica_set(value: Object) -> None:
    spec = value.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    if spec.get("template"):
        pods.template(spec["template"])


def replication_controller(value: Object) -> None:
    """One replica, and the template's labels for selector and labels."""
    replica_set(value)
    labels = ((value["spec"].get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        value["spec"].setdefault("selector", dict(labels))
        value["metadata"].setdefault("labels", dict(labels))


def stateful_set(value: Object) -> None:
    """One replica at a time, in order; claims outlive their set."""
    spec = value.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    spec.setdefault("podManagementPolicy", "OrderedReady")
    update = spec.setdefault("updateStrategy", {})
    if not update.get("type"):
        update["type"] = "RollingUpdate"
    if update["type"] == "RollingUpdate":
        rolling = update.get("rollingUpdate")
        if rolling is None:
            rolling = update["rollingUpdate"] = {}
        rolling.setdefault("partition", 0)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    retention.setdefault("whenDeleted", "Retain")
    retention.setdefault("whenScaled", "Retain")
    spec.setdefault("revisionHistoryLimit", 10)
    pods.template(spec.setdefault("template", {}))
    for claim in spec.get("volumeClaimTemplates") or ():
        claim.setdefault("kind", "PersistentVolumeClaim")
        claim.setdefault("apiVersion", "v1")
        storage.claim(claim)
        claim["status"] = {"phase": "Pending"} | (claim.get("status") or {})


def daemon_set(value: Object) -> None:
    """Replace one node's pod at a time."""
    spec = value.setdefault("spec", {})
    update = spec.setdefault("updateStrategy", {})
    if not update.get("type"):
        update["type"] = "RollingUpdate"
    if update["type"] == "RollingUpdate":
        rolling = update.get("rollingUpdate")
        if rolling is None:
            rolling = update["rollingUpdate"] = {}
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", 10)
    pods.template(spec.setdefault("template", {}))


def job(value: Object) -> None:
    """Run once, one pod at a time, and try six times more."""
    spec = value.setdefault("spec", {})
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    if spec.get("backoffLimit") is None:
        spec["backoffLimit"] = 6 if spec.get("backoffLimitPerIndex") is None else 2**31 - 1
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    if spec.get("podReplacementPolicy") is None:
        spec["podReplacementPolicy"] = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            pattern.setdefault("status", "True")
    pods.template(spec.setdefault("template", {}))
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels and not value["metadata"].get("labels"):
        value["metadata"]["labels"] = dict(labels)


def cron_job(value: Object) -> None:
    """Overlap is allowed; three successes and one failure are kept."""
    spec = value.setdefault("spec", {})
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    inner = spec.setdefault("jobTemplate", {}).setdefault("spec", {})
    template = inner.get("template")
    if template is not None:
        pods.template(template)


def pod_template(value: Object) -> None:
    if value.get("template"):
        pods.template(value["template"])
