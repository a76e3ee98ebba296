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
_REAL: Final = "real numbers that a linear program found, with a margin for rounding: they are never equal"
_MARGIN: Final = "prices are compared with a margin for rounding"
_NOTHING: Final = "what is added then is nothing"
_PRICE: Final = "scheduling/price/"

EQUIVALENT: Final[dict[tuple[str, str, str, str], str]] = {
    (
        "lifecycle/termination.py",
        "_terminate_machine",
        "claim and condition_set",
        "(claim or condition_set)",
    ): (_OF_CLAIM),
    (
        "lifecycle/termination.py",
        "_terminate_machine",
        "claim is not None and condition_set is not None",
        "(claim is not None or condition_set is not None)",
    ): (_OF_CLAIM),
    (
        "lifecycle/termination.py",
        "_detach",
        "claim is not None and condition_set is not None",
        "(claim is not None or condition_set is not None)",
    ): (_OF_CLAIM),
    (
        "scheduling/pack/topologygroup.py",
        "HostCounts.add",
        "2 * len(self._dense)",
        "(2 // len(self._dense))",
    ): ("how fast an array grows is not seen"),
    ("scheduling/pack/topologygroup.py", "HostCounts.add", "2", "(3)"): (
        "how fast an array grows is not seen"
    ),
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
    ): (_ROUNDING),
    (
        "model/pricing.py",
        "_rated",
        "rate <= offering.interruption_rate",
        "(rate < offering.interruption_rate)",
    ): (_EQUAL),
    ("model/resources.py", "_raise_to", "amount > result[name]", "(amount >= result[name])"): (_EQUAL),
    ("state/cluster.py", "ClusterState._set_marked", "1", "(2)"): ("only whether it rises is read"),
    (
        "state/cluster.py",
        "_node_inputs",
        "meta.deletion_timestamp is not None",
        "(meta.deletion_timestamp is None)",
    ): (_CHANGES),
    (
        "state/cluster.py",
        "_claim_inputs",
        "claim.metadata.deletion_timestamp is not None",
        "(claim.metadata.deletion_timestamp is None)",
    ): (_CHANGES),
    ("provisioning/provisioner.py", "_holds", "False", "(True)"): (
        "a claim that is gone, or goes, has no node on which pods are kept"
    ),
    ("scheduling/build/pods.py", "_Zones._required", "False", "(True)"): (
        "what must hold does not depend on preferences"
    ),
    ("scheduling/problem.py", "Cost.optimal", "self.gap <= 1e-6", "(self.gap < 1e-06)"): (_ROUNDING),
    (
        "scheduling/solve.py",
        "_proved",
        "bound < cost * (1 - TOLERANCE)",
        "(bound <= cost * (1 - TOLERANCE))",
    ): (_ROUNDING),
    ("scheduling/solve.py", "_room", "1", "(2)"): ("no pod requests less than nothing"),
    ("disruption/deprovisioning.py", "scale_down", "len(active) <= wanted", "(len(active) < wanted)"): (
        _QUICKER
    ),
    ("disruption/staticdrift.py", "cheapest_node", "False", "(True)"): ("a proof of the price is not read"),
    (
        "disruption/simulate.py",
        "Simulator._least_on",
        "pod.key in self._cluster.moving",
        "(pod.key not in self._cluster.moving)",
    ): ("nodes without room for any pod are only left out to be quicker"),
    ("scheduling/encode/nodeclaimtemplate.py", "to_flags", "7", "(8)"): ("a byte too many is cut off again"),
    (
        "scheduling/encode/nodeclaimtemplate.py",
        "_bits_by_number",
        "count <= _FEW",
        "not count <= _FEW",
    ): (_QUICKER),
    (
        "scheduling/encode/nodeclaimtemplate.py",
        "_bits_by_number",
        "count <= _FEW",
        "(count < _FEW)",
    ): (_QUICKER),
    (
        "scheduling/encode/nodeclaimtemplate.py",
        "_LabelValues.__init__",
        "not each.values",
        "(each.values)",
    ): (_QUICKER),
    (
        "scheduling/encode/nodeclaimtemplate.py",
        "_LabelValues.matching",
        "not requirement.values",
        "(requirement.values)",
    ): (_QUICKER),
    ("scheduling/dynamicresources/search.py", "DeviceSearch.__init__", "1", "(2)"): (
        "every search gets further than that"
    ),
    ("scheduling/dynamicresources/search.py", "DeviceSearch.__init__", "0", "(1)"): (
        "every search gets further than that"
    ),
    ("scheduling/pack/scheduler.py", "Claims._update", "2", "(3)"): ("how fast an array grows is not seen"),
    (
        "scheduling/solve.py",
        "_pack",
        "left and scheduler.reservations.left and scheduler.reservations.strict",
        "(left or scheduler.reservations.left or scheduler.reservations.strict)",
    ): ("what is left once is left again, unless it may use other capacity now"),
    (
        "scheduling/pack/scheduler.py",
        "Scheduler.beside_daemon_ports",
        "not pod_data.pod_class.ports or not template.has_daemon_ports",
        "(not pod_data.pod_class.ports and (not template.has_daemon_ports))",
    ): (_QUICKER),
    ("scheduling/pack/nodeclaim.py", "Narrowings.__init__", "1", "(2)"): (
        "any number below zero says that nothing is known yet"
    ),
    ("scheduling/pack/one_by_one.py", "OneByOne.place", "1", "(2)"): (
        "how often many are tried at once only takes time"
    ),
    ("scheduling/pack/one_by_one.py", "OneByOne.place", "2 * longest", "(2 // longest)"): (
        "how often many are tried at once only takes time"
    ),
    (
        "scheduling/pack/scheduler.py",
        "Claims.room_for",
        "left < wanted * count",
        "(left <= wanted * count)",
    ): (_EQUAL),
    (
        "scheduling/pack/reservationmanager.py",
        "cheapest_types",
        "len(seen[key]) >= least[key]",
        "(len(seen[key]) > least[key])",
    ): (_QUICKER),
    (
        "scheduling/encode/encode.py",
        "_ProblemExtras.identity",
        "key in self._moved",
        "(key not in self._moved)",
    ): ("only whether two pods differ is read"),
    ("scheduling/encode/encode.py", "_ProblemExtras.identity", "0", "(1)"): ("no object has such an id"),
    ("scheduling/encode/encode.py", "classify", "len(group.pods) > 1", "(len(group.pods) >= 1)"): (_QUICKER),
    (
        "scheduling/pack/scheduler.py",
        "Scheduler.lacks_devices",
        "not pod_data.pod_class.devices",
        "(pod_data.pod_class.devices)",
    ): (_QUICKER),
    (
        _PRICE + "bound.py",
        "dual_values",
        "equal.bound > best.bound",
        "(equal.bound >= best.bound)",
    ): ("two proofs of one bound"),
    (_PRICE + "columns.py", "ColumnProgram.generate", "upper > need", "(upper >= need)"): (_REAL),
    (_PRICE + "columns.py", "ColumnProgram.generate", "best >= near", "(best > near)"): (_REAL),
    (_PRICE + "columns.py", "PatternSearch.best", "upper > need", "(upper >= need)"): (_REAL),
    (
        _PRICE + "columns.py",
        "PatternSearch._grown",
        "bound > need[state.bin]",
        "(bound >= need[state.bin])",
    ): (_REAL),
    (
        _PRICE + "columns.py",
        "replaceable_pairs",
        "price[some][:, None] + price[some] >= price[larger] * _BELOW",
        "(price[some][:, None] + price[some] > price[larger] * _BELOW)",
    ): (_MARGIN),
    (
        _PRICE + "columns.py",
        "PatternSearch._next",
        "pays > 0",
        "(pays >= 0)",
    ): ("where something lacks and nothing is paid there is no number of pods, from whatever it begins"),
    (_PRICE + "divided.py", "_divisions", "1", "(2)"): (
        "so many in the emptiest of all domains are more pods than there are"
    ),
    (_PRICE + "columns.py", "PatternSearch._relaxed", "1", "(2)"): (
        "any number below zero says that nothing fills the machine"
    ),
    (
        _PRICE + "planner.py",
        "cheaper_with_devices",
        "placement.pod_data.pod_class.devices and placement.bin >= first.nodes.count",
        "(placement.pod_data.pod_class.devices or placement.bin >= first.nodes.count)",
    ): ("without devices on new nodes the second schedule is the first, and costs as much"),
    (
        _PRICE + "divided.py",
        "_needing_more",
        "lack[most] > _WORTH_IT * found.values.bound",
        "(lack[most] >= _WORTH_IT * found.values.bound)",
    ): (_REAL),
    (
        _PRICE + "exact.py",
        "_searched",
        "least >= search.best * CHEAPER",
        "(least > search.best * CHEAPER)",
    ): (_REAL),
    (
        _PRICE + "exact.py",
        "cheapest_schedule",
        "hourly_of(again) < cost * CHEAPER",
        "(hourly_of(again) <= cost * CHEAPER)",
    ): (_MARGIN),
    (
        _PRICE + "exact.py",
        "cheapest_schedule",
        "least >= cost * CHEAPER",
        "(least > cost * CHEAPER)",
    ): (_REAL),
    (
        _PRICE + "linear.py",
        "_extended",
        "lost[order] > _ENOUGH * whole / len(market.price)",
        "(lost[order] >= _ENOUGH * whole / len(market.price))",
    ): (_REAL),
    (_PRICE + "linear.py", "_extended", "paid > worth", "(paid >= worth)"): (
        "two value vectors of one worth"
    ),
    (_PRICE + "linear.py", "_FlowProgram.shares", "flow > 0", "(flow >= 0)"): (_NOTHING),
    (
        _PRICE + "patterns.py",
        "_Packer._consider",
        "len(active) > _ITEMS",
        "(len(active) >= _ITEMS)",
    ): ("so many are all of them, in the same order"),
    (
        _PRICE + "patterns.py",
        "_Packer._trial",
        "rng.random() < _WASTEFUL_SHARE",
        "(rng.random() <= _WASTEFUL_SHARE)",
    ): ("a random number is not exactly that"),
    (
        _PRICE + "patterns.py",
        "_Packer.improve",
        "again.cost < float(price[some].sum()) - 1e-9",
        "(again.cost <= float(price[some].sum()) - 1e-09)",
    ): (_MARGIN),
    (
        _PRICE + "planner.py",
        "ClaimOpener._fill_up",
        "unplaced.count > 0",
        "(unplaced.count >= 0)",
    ): ("an item of which no pod is left is put aside at once"),
    (
        _PRICE + "planner.py",
        "cheaper",
        "hourly(candidate) < lowest * _CHEAPER",
        "(hourly(candidate) <= lowest * _CHEAPER)",
    ): (_MARGIN),
    (
        _PRICE + "planner.py",
        "cheaper_with_devices",
        "hourly(second) < hourly(first) * _CHEAPER",
        "(hourly(second) <= hourly(first) * _CHEAPER)",
    ): (_MARGIN),
    (
        _PRICE + "planner.py",
        "DevicePriceScheduler._pays",
        "more <= 0",
        "(more < 0)",
    ): ("what raises no price raises it by no more than a node costs"),
    (
        "scheduling/purchases.py",
        "_SpotPlaces._from",
        "table.price < price - _ROUNDING",
        "(table.price <= price - _ROUNDING)",
    ): (_MARGIN),
    (_PRICE + "columns.py", "PatternSearch._relaxed", "last >= 0", "(last > 0)"): (
        "an item that fills a machine by itself fills it to the last unit, and is worth as much either way"
    ),
    (_PRICE + "patterns.py", "_filled", "want > 0", "(want >= 0)"): ("unlimited is unlimited"),
    (
        "scheduling/purchases.py",
        "spread_over_spot",
        "not strength or all(counts[key] + many <= UNNOTICED for key, many in planned.items())",
        "(not strength and all((counts[key] + many <= UNNOTICED for key, many in planned.items())))",
    ): ("then every machine is where it is cheapest, and stays there"),
    (_PRICE + "exact.py", "_opened", "each.bin < machines", "(each.bin <= machines)"): (
        "the pods of a node are on it by then, and a machine without pods is not opened"
    ),
    (_PRICE + "patterns.py", "_Packer._levelled", "rest[order] > 0", "(rest[order] >= 0)"): (_NOTHING),
}
