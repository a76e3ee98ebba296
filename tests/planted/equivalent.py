"""
Mutants that make no difference, each with its reason: what ``make mutants`` does not take.

Each is a module of the core, the function, the text, and what stands there instead.
"""

from __future__ import annotations

from typing import Final

_OF_CLAIM: Final = "the conditions are those of the claim: there are both, or neither"

_ROUNDING: Final = "it only keeps rounding errors apart"
_EQUAL: Final = "of two that are equal either is the same"
_CHANGES: Final = "only whether it changes is read"
_QUICKER: Final = "it is a shorter way to the same answer"

EQUIVALENT: Final[dict[tuple[str, str, str, str], str]] = {
    (
        "lifecycle/termination.py",
        "_terminate_machine",
        "claim and condition_set",
        "(claim or condition_set)",
    ): _OF_CLAIM,
    (
        "lifecycle/termination.py",
        "_terminate_machine",
        "claim is not None and condition_set is not None",
        "(claim is not None or condition_set is not None)",
    ): _OF_CLAIM,
    (
        "lifecycle/termination.py",
        "_detach",
        "claim is not None and condition_set is not None",
        "(claim is not None or condition_set is not None)",
    ): _OF_CLAIM,
    (
        "scheduling/pack/topologygroup.py",
        "HostCounts.add",
        "2 * len(self._dense)",
        "(2 // len(self._dense))",
    ): "how fast an array grows is not seen",
    ("scheduling/dynamicresources/build.py", "_node_terms", "False", "(True)"): (
        "whether a device is everywhere is not asked where there is a selector"
    ),
    ("model/resources.py", "human_amount", "amount < _KIBI", "(amount <= _KIBI)"): (
        "1024 bytes are 1Ki either way"
    ),
    ("scheduling/dynamicresources/allocationtracker.py", "_counter", "1", "(2)"): (
        "any number that is no bin says that a pool is in none"
    ),
    ("lifecycle/capacitybuffer.py", "_BufferConditions.__init__", "0", "(1)"): (
        "times are written in whole seconds"
    ),
    (
        "model/pricing.py",
        "_first_with",
        "amount + _ROUNDING >= commitment.need(list_price)",
        "(amount + _ROUNDING > commitment.need(list_price))",
    ): _ROUNDING,
    (
        "model/pricing.py",
        "_rated",
        "rate <= offering.interruption_rate",
        "(rate < offering.interruption_rate)",
    ): _EQUAL,
    ("model/resources.py", "_raise_to", "amount > result[name]", "(amount >= result[name])"): _EQUAL,
    ("state/cluster.py", "ClusterState._set_marked", "1", "(2)"): "only whether it rises is read",
    (
        "state/cluster.py",
        "_node_inputs",
        "meta.deletion_timestamp is not None",
        "(meta.deletion_timestamp is None)",
    ): _CHANGES,
    (
        "state/cluster.py",
        "_claim_inputs",
        "claim.metadata.deletion_timestamp is not None",
        "(claim.metadata.deletion_timestamp is None)",
    ): _CHANGES,
    ("provisioning/provisioner.py", "_holds", "False", "(True)"): (
        "a claim that is gone, or goes, has no node on which pods are kept"
    ),
    ("scheduling/build/pods.py", "_Zones._required", "False", "(True)"): (
        "what must hold does not depend on preferences"
    ),
    ("scheduling/problem.py", "Cost.optimal", "self.gap <= 1e-6", "(self.gap < 1e-06)"): _ROUNDING,
    (
        "scheduling/solve.py",
        "_proved",
        "bound < cost * (1 - TOLERANCE)",
        "(bound <= cost * (1 - TOLERANCE))",
    ): _ROUNDING,
    ("scheduling/solve.py", "_room", "1", "(2)"): "no pod requests less than nothing",
    (
        "disruption/simulate.py",
        "Simulator._least_on",
        "pod.key in self._cluster.moving",
        "(pod.key not in self._cluster.moving)",
    ): "nodes without room for any pod are only left out to be quicker",
    ("scheduling/encode/nodeclaimtemplate.py", "to_flags", "7", "(8)"): "a byte too many is cut off again",
    (
        "scheduling/encode/nodeclaimtemplate.py",
        "_bits_by_number",
        "count <= _FEW",
        "not count <= _FEW",
    ): _QUICKER,
    (
        "scheduling/encode/nodeclaimtemplate.py",
        "_bits_by_number",
        "count <= _FEW",
        "(count < _FEW)",
    ): _QUICKER,
    (
        "scheduling/encode/nodeclaimtemplate.py",
        "_LabelValues.__init__",
        "not each.values",
        "(each.values)",
    ): _QUICKER,
    (
        "scheduling/encode/nodeclaimtemplate.py",
        "_LabelValues.matching",
        "not requirement.values",
        "(requirement.values)",
    ): _QUICKER,
    ("scheduling/dynamicresources/search.py", "DeviceSearch.__init__", "1", "(2)"): (
        "every search gets further than that"
    ),
    ("scheduling/dynamicresources/search.py", "DeviceSearch.__init__", "0", "(1)"): (
        "every search gets further than that"
    ),
    (
        "scheduling/pack/reservationmanager.py",
        "cheapest_types",
        "len(seen[key]) >= least[key]",
        "(len(seen[key]) > least[key])",
    ): _QUICKER,
    (
        "scheduling/encode/encode.py",
        "_ProblemExtras.identity",
        "key in self._moved",
        "(key not in self._moved)",
    ): "only whether two pods differ is read",
    ("scheduling/encode/encode.py", "_ProblemExtras.identity", "0", "(1)"): "no object has such an id",
    ("scheduling/encode/encode.py", "classify", "len(group.pods) > 1", "(len(group.pods) >= 1)"): _QUICKER,
    (
        "scheduling/pack/scheduler.py",
        "Scheduler.lacks_devices",
        "not pod_data.pod_class.devices",
        "(pod_data.pod_class.devices)",
    ): _QUICKER,
}
