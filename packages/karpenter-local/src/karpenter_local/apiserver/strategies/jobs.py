"""Jobs: each gets a selector and labels of its own, so that no two jobs ever share a pod."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter_local.apiserver.strategy import Strategy

if TYPE_CHECKING:
    from karpenter_local.apiserver.entry import Object
    from karpenter_local.apiserver.resources import APIResource

# Both spellings are set: https://kubernetes.io/docs/reference/labels-annotations-taints/
UID_LABELS = ("batch.kubernetes.io/controller-uid", "controller-uid")
# https://kubernetes.io/docs/reference/labels-annotations-taints/#batch-kubernetes-io-job-name
NAME_LABELS = ("batch.kubernetes.io/job-name", "job-name")


class JobStrategy(Strategy):
    """Rules for writing jobs."""

    def prepare_create(self, resource: APIResource, value: Object) -> None:
        """Name the job's pods after its uid, unless the user manages the selector."""
        super().prepare_create(resource, value)
        spec, meta = value["spec"], value["metadata"]
        if spec.get("manualSelector"):
            return
        labels = spec["template"].setdefault("metadata", {}).setdefault("labels", {})
        for key in UID_LABELS:
            labels.setdefault(key, meta["uid"])
        for key in NAME_LABELS:
            labels.setdefault(key, meta.get("name", ""))
        if not meta.get("labels"):
            meta["labels"] = dict(labels)
        spec.setdefault("manualSelector", False)
        matched = spec.setdefault("selector", {}).setdefault("matchLabels", {})
        matched.setdefault(UID_LABELS[0], meta["uid"])
