"""
Mutants that make no difference, each with its reason: what ``make mutants`` does not take.

Each is a module of the core, the function, the text, and what stands there instead.
"""

from __future__ import annotations

from typing import Final

_OF_CLAIM: Final = "the conditions are those of the claim: there are both, or neither"

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
        _PRICE + "bound.py",
        "dual_values",
        "equal.bound > best.bound",
        "(equal.bound >= best.bound)",
    ): "two proofs of one bound",
    (_PRICE + "columns.py", "ColumnProgram.generate", "upper > need", "(upper >= need)"): _REAL,
    (_PRICE + "columns.py", "ColumnProgram.generate", "best >= near", "(best > near)"): _REAL,
    (_PRICE + "columns.py", "ColumnProgram._found", "worth > need[number]", "(worth >= need[number])"): _REAL,
    (_PRICE + "columns.py", "PatternSearch.best", "upper > need", "(upper >= need)"): _REAL,
    (
        _PRICE + "columns.py",
        "PatternSearch.every",
        "growth.total * _ABOVE > need",
        "(growth.total * _ABOVE >= need)",
    ): _REAL,
    (
        _PRICE + "columns.py",
        "PatternSearch._grown",
        "bound > need[state.bin]",
        "(bound >= need[state.bin])",
    ): _REAL,
    (
        _PRICE + "columns.py",
        "_replaceable",
        "price[some][:, None] + price[some] >= price[larger] * _BELOW",
        "(price[some][:, None] + price[some] > price[larger] * _BELOW)",
    ): _MARGIN,
    (
        _PRICE + "columns.py",
        "PatternSearch._next",
        "pays > 0",
        "(pays >= 0)",
    ): "where something lacks and nothing is paid there is no number of pods, from whatever it begins",
    (
        _PRICE + "divided.py",
        "_needing_more",
        "lack[most] > _WORTH_IT * found.values.bound",
        "(lack[most] >= _WORTH_IT * found.values.bound)",
    ): _REAL,
    (
        _PRICE + "exact.py",
        "cheapest_schedule",
        "least < hourly * _CHEAPER",
        "(least <= hourly * _CHEAPER)",
    ): _REAL,
    (
        _PRICE + "exact.py",
        "cheapest_schedule",
        "hourly_of(again) < cost * _CHEAPER",
        "(hourly_of(again) <= cost * _CHEAPER)",
    ): _MARGIN,
    (
        _PRICE + "exact.py",
        "cheapest_schedule",
        "least >= cost * _CHEAPER",
        "(least > cost * _CHEAPER)",
    ): _REAL,
    (
        _PRICE + "exact.py",
        "MachineSearch._dive",
        "share.max(initial=0.0) <= _WHOLE",
        "(share.max(initial=0.0) < _WHOLE)",
    ): _REAL,
    (_PRICE + "exact.py", "MachineSearch._dive", "share > _WHOLE", "(share >= _WHOLE)"): _REAL,
    (
        _PRICE + "exact.py",
        "MachineSearch._divided",
        "np.abs(part.machines - near) > _WHOLE",
        "(np.abs(part.machines - near) >= _WHOLE)",
    ): _REAL,
    (
        _PRICE + "exact.py",
        "MachineSearch._limit",
        "0",
        "(1)",
    ): "a search that has begun has looked at more than one partial pattern",
    (
        _PRICE + "linear.py",
        "_extended",
        "lost[order] > _ENOUGH * whole / len(market.price)",
        "(lost[order] >= _ENOUGH * whole / len(market.price))",
    ): _REAL,
    (_PRICE + "linear.py", "_extended", "paid > worth", "(paid >= worth)"): "two value vectors of one worth",
    (_PRICE + "linear.py", "_FlowProgram.shares", "flow > 0", "(flow >= 0)"): _NOTHING,
    (
        _PRICE + "patterns.py",
        "_Packer._consider",
        "len(active) > _ITEMS",
        "(len(active) >= _ITEMS)",
    ): "so many are all of them, in the same order",
    (
        _PRICE + "patterns.py",
        "_Packer._trial",
        "rng.random() < _BUY_SHARE",
        "(rng.random() <= _BUY_SHARE)",
    ): "a random number is not exactly that",
    (
        _PRICE + "patterns.py",
        "_Packer.improve",
        "again.cost < float(found.price[some].sum()) - 1e-9",
        "(again.cost <= float(found.price[some].sum()) - 1e-09)",
    ): _MARGIN,
    (
        _PRICE + "planner.py",
        "ClaimOpener._fill_up",
        "unplaced.count > 0",
        "(unplaced.count >= 0)",
    ): "an item of which no pod is left is put aside at once",
    (
        _PRICE + "planner.py",
        "cheaper",
        "hourly(candidate) < lowest * _CHEAPER",
        "(hourly(candidate) <= lowest * _CHEAPER)",
    ): _MARGIN,
    (
        _PRICE + "planner.py",
        "cheaper_with_devices",
        "hourly(second) < hourly(first) * _CHEAPER",
        "(hourly(second) <= hourly(first) * _CHEAPER)",
    ): _MARGIN,
    (
        _PRICE + "planner.py",
        "DevicePriceScheduler._pays",
        "more <= 0",
        "(more < 0)",
    ): "what raises no price raises it by no more than a node costs",
    (
        "scheduling/purchases.py",
        "_SpotPlaces._from",
        "table.price < price - _ROUNDING",
        "(table.price <= price - _ROUNDING)",
    ): (_MARGIN),
    (_PRICE + "columns.py", "PatternSearch._relaxed", "last >= 0", "(last > 0)"): (
        "an item that fills a machine by itself fills it to the last unit, and is worth as much either way"
    ),
    (_PRICE + "patterns.py", "_filled", "want > 0", "(want >= 0)"): "unlimited is unlimited",
    (
        "scheduling/purchases.py",
        "spread_over_spot",
        "not strength or all(counts[key] + many <= UNNOTICED for key, many in planned.items())",
        "(not strength and all((counts[key] + many <= UNNOTICED for key, many in planned.items())))",
    ): "then every machine is where it is cheapest, and stays there",
    (_PRICE + "exact.py", "_opened", "each.bin < machines", "(each.bin <= machines)"): (
        "the pods of a node are on it by then, and a machine without pods is not opened"
    ),
    (_PRICE + "patterns.py", "_Packer._levelled", "rest[order] > 0", "(rest[order] >= 0)"): _NOTHING,
    (
        _PRICE + "linear.py",
        "_efficient",
        "times * market.price <= market.price[:, None] * (1 + _EQUAL)",
        "(times * market.price < market.price[:, None] * (1 + _EQUAL))",
    ): _MARGIN,
}
