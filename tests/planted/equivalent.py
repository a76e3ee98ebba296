"""
Mutants that make no difference, each with its reason: what ``make mutants`` does not take.

Each is a module of the core, the function, the text, and what stands there instead.
"""

from __future__ import annotations

from typing import Final

_OF_CLAIM: Final = "the conditions are those of the claim: there are both, or neither"

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
}
