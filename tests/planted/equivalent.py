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
_LIBRARY: Final = "the library takes what is beyond a row by a millionth for equal to it"
_MARGIN: Final = "prices are compared with a margin for rounding"
_NOTHING: Final = "what is added then is nothing"
_ARRAY: Final = "an array and a dictionary have the same counts"
_PRICE: Final = "scheduling/price/"
_PROOF: Final = "scheduling/proof/"
_ONE_BY_ONE: Final = "scheduling/pack/one_by_one.py"
_AT_ONCE: Final = "pods that are not placed at once are placed one by one, on the same claims"
_ASKED_AGAIN: Final = "what is not known to be full is asked again, and refuses again"
_SEARCHES: Final = "asked one after the other or with arrays of all, the same claim is found"

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
        "len(self._sparse) > _SPARSE",
        "(len(self._sparse) >= _SPARSE)",
    ): (_ARRAY),
    (
        "scheduling/pack/topologygroup.py",
        "HostCounts.add",
        "len(self._sparse) > _SPARSE",
        "not len(self._sparse) > _SPARSE",
    ): (_ARRAY),
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
        "amount + _ROUNDING >= commitment.need(instance_type, list_price)",
        "(amount + _ROUNDING > commitment.need(instance_type, list_price))",
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
    ("provisioning/nomination.py", "_holds", "False", "(True)"): (
        "a claim that is gone, or goes, has no node on which pods are kept"
    ),
    ("scheduling/build/zones.py", "_Zones._required", "False", "(True)"): (
        "what must hold does not depend on preferences"
    ),
    ("scheduling/problem.py", "Cost.optimal", "self.gap <= 1e-6", "(self.gap < 1e-06)"): (_ROUNDING),
    ("scheduling/solve.py", "_room", "1", "(2)"): ("no pod requests less than nothing"),
    ("disruption/deprovisioning.py", "scale_down", "len(active) <= wanted", "(len(active) < wanted)"): (
        _QUICKER
    ),
    (
        "disruption/simulate.py",
        "Simulator._least_on",
        "pod.key in self._cluster.moving",
        "(pod.key not in self._cluster.moving)",
    ): ("nodes without room for any pod are only left out to be quicker"),
    ("scheduling/encode/offerings.py", "to_flags", "7", "(8)"): ("a byte too many is cut off again"),
    (
        "scheduling/encode/offerings.py",
        "_bits_by_number",
        "count <= _FEW",
        "not count <= _FEW",
    ): (_QUICKER),
    (
        "scheduling/encode/offerings.py",
        "_bits_by_number",
        "count <= _FEW",
        "(count < _FEW)",
    ): (_QUICKER),
    (
        "scheduling/encode/offerings.py",
        "_LabelValues.__init__",
        "not each.values",
        "(each.values)",
    ): (_QUICKER),
    (
        "scheduling/encode/offerings.py",
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
    (_ONE_BY_ONE, "OneByOne.place", "1", "(2)"): (_AT_ONCE),
    (_ONE_BY_ONE, "OneByOne.place", "2 * longest", "(2 // longest)"): (_AT_ONCE),
    (_ONE_BY_ONE, "OneByOne.place", "0", "(1)"): (_AT_ONCE),
    (_ONE_BY_ONE, "OneByOne.place", "2", "(3)"): (_AT_ONCE),
    (_ONE_BY_ONE, "OneByOne.place", "count > _FEW", "(count >= _FEW)"): (_AT_ONCE),
    (_ONE_BY_ONE, "OneByOne.place", "len(taken) > _FEW", "(len(taken) >= _FEW)"): (_AT_ONCE),
    (
        _ONE_BY_ONE,
        "ClaimSearch.find",
        "self._final or is_closed(scheduler, pod_data, claim)",
        "(self._final and is_closed(scheduler, pod_data, claim))",
    ): (_ASKED_AGAIN),
    (
        "scheduling/pack/scheduler.py",
        "Scheduler.lacks_devices",
        "self.devices is None",
        "(self.devices is not None)",
    ): (_ASKED_AGAIN),
    (_ONE_BY_ONE, "ClaimSearch._emptiest", "queue[0] < best", "(queue[0] <= best)"): (
        "no two entries are equal: each has the number of its claim"
    ),
    (
        _ONE_BY_ONE,
        "is_closed",
        "pod_data.is_closed(number) or scheduler.lacks_devices(pod_data, number)",
        "(pod_data.is_closed(number) and scheduler.lacks_devices(pod_data, number))",
    ): (_ASKED_AGAIN),
    (_ONE_BY_ONE, "is_closed", "True", "(False)"): (_ASKED_AGAIN),
    (
        _ONE_BY_ONE,
        "_Candidates._onto_node",
        "scheduler.lacks_devices(pod_data, node) or not scheduler.nodes.fits(node, want)",
        "(scheduler.lacks_devices(pod_data, node) and (not scheduler.nodes.fits(node, want)))",
    ): (_ASKED_AGAIN),
    (_ONE_BY_ONE, "_Candidates._onto_node", "full", "not full"): (_ASKED_AGAIN),
    (
        _ONE_BY_ONE,
        "ClaimSearch.__init__",
        "len(scheduler.claims.queues) > _MOST_QUEUES",
        "(len(scheduler.claims.queues) >= _MOST_QUEUES)",
    ): (_SEARCHES),
    (
        _ONE_BY_ONE,
        "_Candidates._onto_claim_by_arrays",
        "self._seen < scheduler.claims.count",
        "(self._seen <= scheduler.claims.count)",
    ): (_NOTHING),
    (_ONE_BY_ONE, "_Candidates._onto_claim_by_arrays", "1", "(2)"): (
        "the number of the claim is read only where one was found"
    ),
    (_ONE_BY_ONE, "distribute_evenly", "int(most.sum()) <= count", "(int(most.sum()) < count)"): (_QUICKER),
    (
        _ONE_BY_ONE,
        "_level",
        "int(np.clip(middle - held, 0, most).sum()) <= count",
        "(int(np.clip(middle - held, 0, most).sum()) < count)",
    ): ("one level less leaves one pod for each, which it gets after that"),
    (_ONE_BY_ONE, "_level", "2", "(3)"): ("wherever the range is divided, the same level is found"),
    (_ONE_BY_ONE, "ClaimFill.place", "caps[candidates] > 0", "(caps[candidates] >= 0)"): (_NOTHING),
    (_ONE_BY_ONE, "ClaimFill._room", "1", "(2)"): ("any number below zero is no domain"),
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
        "scheduling/pack/greedy.py",
        "place_together",
        "count and scheduler.claims.count",
        "(count or scheduler.claims.count)",
    ): (_NOTHING),
    ("scheduling/pack/greedy.py", "_onto_claims", "count <= _FEW", "(count < _FEW)"): (_SEARCHES),
    ("scheduling/pack/greedy.py", "_onto_claims", "True", "(False)"): (_ASKED_AGAIN),
    (
        "scheduling/pack/greedy.py",
        "_onto_claims_by_arrays",
        "caps[candidates] > 0",
        "(caps[candidates] >= 0)",
    ): (_ASKED_AGAIN),
    ("scheduling/pack/greedy.py", "_onto_claims_by_arrays", "count <= _FEW", "(count < _FEW)"): (_AT_ONCE),
    ("scheduling/pack/scheduler.py", "Claims.with_room", "amount > 0", "(amount >= 0)"): (
        "no claim uses more than it can have"
    ),
    ("scheduling/pack/scheduler.py", "Claims.with_room", "0", "(1)"): (
        "claims that may have room are asked before they take a pod"
    ),
    ("scheduling/pack/scheduler.py", "Claims.room_for", "wanted > 0", "(wanted >= 0)"): (
        "no times any number of pods is no more than is left"
    ),
    ("scheduling/pack/scheduler.py", "Claims.room_for", "count <= best", "(count < best)"): (_QUICKER),
    ("scheduling/pack/scheduler.py", "Claims._update", "self.count > length", "(self.count >= length)"): (
        "how fast an array grows is not seen"
    ),
    ("scheduling/pack/scheduler.py", "Claims._update", "length < self.count", "(length <= self.count)"): (
        "how fast an array grows is not seen"
    ),
    (
        "scheduling/pack/scheduler.py",
        "Claims._update",
        "len(self._changed) <= _FEW",
        "(len(self._changed) < _FEW)",
    ): (_QUICKER),
    (
        "scheduling/pack/scheduler.py",
        "Claims._update",
        "len(self._changed) <= _FEW",
        "not len(self._changed) <= _FEW",
    ): (_QUICKER),
    ("scheduling/pack/scheduler.py", "Scheduler.__init__", "False", "(True)"): (
        "it is set before it is read"
    ),
    ("scheduling/pack/scheduler.py", "Scheduler.needs_exact_check", "1", "(2)"): (
        "what is checked exactly before it has to be is checked with the same answer"
    ),
    ("scheduling/pack/poddata.py", "CompiledRelaxation.counts_version", "0", "(1)"): (_CHANGES),
    ("scheduling/pack/existingnode.py", "ResourceRatio.__init__", "1", "(2)"): (
        "it only keeps nothing from being divided by nothing"
    ),
    ("scheduling/pack/allocator.py", "Allocator.fits_node", "1", "(2)"): (_ASKED_AGAIN),
    ("scheduling/pack/allocator.py", "Allocator.fits_node", "0", "(1)"): (_ASKED_AGAIN),
    ("scheduling/pack/allocator.py", "Allocator.narrowed", "0", "(1)"): (_ASKED_AGAIN),
    ("scheduling/dynamicresources/search.py", "AllocationPath._count", "sign > 0", "(sign >= 0)"): (
        "it is one more or one less"
    ),
    ("scheduling/dynamicresources/search.py", "DeviceSearch.__init__", "False", "(True)"): (
        "another search of what was within reach finds as little"
    ),
    (
        "scheduling/dynamicresources/search.py",
        "DeviceSearch._equivalence_key",
        "device in self._candidates.matching_set(each)",
        "(device not in self._candidates.matching_set(each))",
    ): ("only whether two devices differ is read"),
    ("scheduling/dynamicresources/selectors.py", "_parts", "0", "(1)"): ("any number, if all words have it"),
    ("scheduling/solve.py", "_hint", "0", "(1)"): ("neither is absurd"),
    ("scheduling/pack/nodeclaim.py", "ClaimStates._step", "bits == state.bits", "(bits != state.bits)"): (
        _QUICKER
    ),
    (
        "scheduling/solve.py",
        "packed_by_price",
        "not scheduler.claims.count or scheduler.stop()",
        "(not scheduler.claims.count and scheduler.stop())",
    ): ("the search for savings stops by itself, and finds none where nothing is bought"),
    (
        "scheduling/purchases.py",
        "spread_over_spot",
        "counts[key] + many <= UNNOTICED",
        "(counts[key] + many < UNNOTICED)",
    ): ("then every machine is where it is cheapest, and stays there"),
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
    (_PROOF + "columns.py", "ColumnProgram.generate", "upper > need", "(upper >= need)"): (_REAL),
    (_PROOF + "columns.py", "ColumnProgram.generate", "best >= near", "(best > near)"): (_REAL),
    (_PROOF + "columns.py", "PatternSearch.best", "upper > need", "(upper >= need)"): (_REAL),
    (
        _PROOF + "columns.py",
        "PatternSearch._grown",
        "bound > need[state.bin]",
        "(bound >= need[state.bin])",
    ): (_REAL),
    (
        _PROOF + "columns.py",
        "replaceable_pairs",
        "price[some][:, None] + price[some] >= price[larger] * _BELOW",
        "(price[some][:, None] + price[some] > price[larger] * _BELOW)",
    ): (_MARGIN),
    (
        _PROOF + "columns.py",
        "PatternSearch._next",
        "pays > 0",
        "(pays >= 0)",
    ): ("where something lacks and nothing is paid there is no number of pods, from whatever it begins"),
    (_PROOF + "columns.py", "PatternSearch._relaxed", "1", "(2)"): (
        "any number below zero says that nothing fills the machine"
    ),
    (
        _PRICE + "planner.py",
        "cheaper_with_devices",
        "placement.pod_data.pod_class.devices and placement.bin >= first.nodes.count",
        "(placement.pod_data.pod_class.devices or placement.bin >= first.nodes.count)",
    ): ("without devices on new nodes the second schedule is the first, and costs as much"),
    (
        _PROOF + "bound.py",
        "_needing_more",
        "lack[most] > _WORTH_IT * found.values.bound",
        "(lack[most] >= _WORTH_IT * found.values.bound)",
    ): (_REAL),
    (
        _PROOF + "exact.py",
        "_searched",
        "least >= search.best * CHEAPER",
        "(least > search.best * CHEAPER)",
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
    (_PROOF + "columns.py", "PatternSearch._relaxed", "last >= 0", "(last > 0)"): (
        "an item that fills a machine by itself fills it to the last unit, and is worth as much either way"
    ),
    (_PRICE + "patterns.py", "_filled", "want > 0", "(want >= 0)"): ("unlimited is unlimited"),
    (
        "scheduling/purchases.py",
        "spread_over_spot",
        "not strength or all(counts[key] + many <= UNNOTICED for key, many in planned.items())",
        "(not strength and all((counts[key] + many <= UNNOTICED for key, many in planned.items())))",
    ): ("then every machine is where it is cheapest, and stays there"),
    (_PRICE + "patterns.py", "_Packer._levelled", "rest[order] > 0", "(rest[order] >= 0)"): (_NOTHING),
    ("scheduling/price/repack.py", "_sums", "2 * times", "(2 // times)"): (_QUICKER),
    ("disruption/memory.py", "_after_changes", "more > 0", "(more >= 0)"): (
        "NodePools that have as many nodes as before are left out"
    ),
    (
        _PROOF + "exchange.py",
        "Exchange.run",
        "total[best] <= _FITS",
        "(total[best] < _FITS)",
    ): (_ROUNDING),
    (_PROOF + "exchange.py", "Exchange.__init__", "self._cap < count", "(self._cap <= count)"): (_QUICKER),
    (_PROOF + "fitting.py", "packed_at_random", "after >= -_EQUAL", "(after > -_EQUAL)"): (_ROUNDING),
    (_PROOF + "fitting.py", "packed_at_random", "3", "(4)"): (
        "of four rules two are the same, and the others are as many orders"
    ),
    (_PROOF + "fitting.py", "shortfall", "len(alike) > 1", "(len(alike) >= 1)"): (
        "what is one bin is that bin as a whole"
    ),
    (
        _PROOF + "fitting.py",
        "shortfall",
        "lacking <= _SHORT * float(worth @ np.array(given.count))",
        "(lacking < _SHORT * float(worth @ np.array(given.count)))",
    ): (_REAL),
    (_PROOF + "fitting.py", "_Assignment._choice", "0", "(1)"): (
        "one bin is chosen, and each costs the same"
    ),
    (
        _PROOF + "exchange.py",
        "Exchange.__init__",
        "self._cap[:, item] > 0",
        "(self._cap[:, item] >= 0)",
    ): ("a machine that may hold none holds as many as it may"),
    (_PROOF + "fitting.py", "_Assignment._choice", "1.0 + _EQUAL", "(1.0 - _EQUAL)"): (_LIBRARY),
    (
        _PROOF + "fitting.py",
        "_Assignment.fill",
        "least / room[resource] - _EQUAL",
        "(least / room[resource] + _EQUAL)",
    ): (_LIBRARY),
    (
        _PROOF + "machines.py",
        "MachineSearch._dive",
        "share.max() <= _WHOLE",
        "(share.max() < _WHOLE)",
    ): (_REAL),
    (_PROOF + "machines.py", "MachineSearch._dive", "share > _WHOLE", "(share >= _WHOLE)"): (_REAL),
    (_PRICE + "linear.py", "_extended", "spent > 0", "(spent >= 0)"): (
        "no pod that fits a machine asks for a resource that the machine has nothing of"
    ),
}
