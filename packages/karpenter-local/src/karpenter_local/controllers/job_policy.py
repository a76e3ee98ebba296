"""
What a job's ``podFailurePolicy`` says about a pod that has failed.

Rules are asked in their order and the first that matches decides: the job fails at once, the failure is
ignored, or it counts as it would without a policy. Failing a single index is not offered: such a rule counts.

Pure.
"""

from collections.abc import Iterator

import msgspec

from karpenter.api.pod import Pod
from karpenter.kube.targets import Plain
from karpenter_local.controllers import plain, pods


class Match(msgspec.Struct, frozen=True):
    """The rule that decides about a failed pod."""

    action: str
    """FailJob, FailIndex, Ignore or Count."""
    message: str


def match(job: Plain, pod: Pod) -> Match | None:
    """Return the first rule of the job's policy that a failed pod matches; None if there is none."""
    rules = (plain.spec_of(job).get("podFailurePolicy") or {}).get("rules") or ()
    for index, rule in enumerate(rules):
        what = _by_codes(rule.get("onExitCodes"), pod) or _by_conditions(rule.get("onPodConditions"), pod)
        if what:
            action = str(rule["action"])
            return Match(action, f"{what} matching {action} rule at index {index}")
    return None


def _by_codes(wanted: Plain | None, pod: Pod) -> str:
    if wanted is None:
        return ""
    for name, code in _codes(pod):
        named = wanted.get("containerName") in {None, name}
        if named and (code in wanted["values"]) is (wanted["operator"] == "In"):
            return f"Container {name} for pod {pod.key} failed with exit code {code}"
    return ""


def _codes(pod: Pod) -> Iterator[tuple[str, int]]:
    for each in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        if each.state.terminated is not None and each.state.terminated.exit_code:
            yield each.name, each.state.terminated.exit_code


def _by_conditions(wanted: list[Plain] | None, pod: Pod) -> str:
    for each in wanted or ():
        held = pods.condition(pod, each["type"])
        if held is not None and held.status == each.get("status", "True"):
            return f"Pod {pod.key} has condition {held.type}"
    return ""
