"""
What a scenario expects of a plan, held against the plan's public JSON.

A scenario is a black box: nothing in it names a class or a function of ours. The words it may
use are listed in README.md beside this file.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
KEYS = {
    "zone": "topology.kubernetes.io/zone",
    "capacityType": "karpenter.sh/capacity-type",
    "instanceType": "node.kubernetes.io/instance-type",
    "arch": "kubernetes.io/arch",
}
Plain = dict[str, Any]


@lru_cache
def catalogue(name: str) -> dict[str, Plain]:
    """Return the instance types of a catalogue by name."""
    types: list[Plain] = json.loads((HERE / "catalogs" / f"{name}.json").read_text())
    return {each["name"]: each for each in types}


def labels_of(thing: Plain) -> dict[str, str]:
    found: dict[str, str] = thing.get("metadata", {}).get("labels") or {}
    return found


def allows(requirement: Plain, value: str) -> bool:
    """Whether a requirement leaves a value possible; a bound admits integers only."""
    operator, values = requirement["operator"], requirement.get("values") or []
    match operator:
        case "In" | "NotIn":
            return bool((value in values) == (operator == "In"))
        case "Exists" | "DoesNotExist":
            return bool(operator == "Exists")
        case _ if not re.fullmatch(r"-?\d+", value):
            return False
    number, bound = int(value), int(values[0])
    answers = {"Gt": number > bound, "Gte": number >= bound, "Lt": number < bound, "Lte": number <= bound}
    return answers[str(operator)]


def pinned(node: Plain, key: str) -> set[str] | None:
    """Return the values that a label or an In requirement of a node names; None if neither does."""
    if key in node.get("labels", {}):
        return {node["labels"][key]}
    for each in node.get("requirements", []):
        if each["key"] == key and each["operator"] == "In":
            return set(each["values"])
    return None


def possible(node: Plain, what: str, types: dict[str, Plain]) -> set[str]:
    """Return every instance type, architecture, zone or capacity type that a new node may still get."""
    if what == "instanceType":
        return set(node["instanceTypes"])
    if what == "arch":
        return {types[name]["architecture"] for name in node["instanceTypes"]}
    return {value for left in _launchable(node, types) for value in left[KEYS[what]]}


def _launchable(node: Plain, types: dict[str, Plain]) -> Iterator[dict[str, set[str]]]:
    wanted = [*node.get("requirements", [])]
    wanted += [{"key": k, "operator": "In", "values": [v]} for k, v in node.get("labels", {}).items()]
    for name in node["instanceTypes"]:
        for offering in types[name]["offerings"]:
            left = {
                r["key"]: {
                    v for v in r["values"] if all(allows(w, v) for w in wanted if w["key"] == r["key"])
                }
                for r in offering["Requirements"]
            }
            if offering.get("Available", True) and all(left.values()):
                yield left


class Expectations:
    """One scenario and the plan that was made for it."""

    def __init__(self, scenario: Plain, plan: Plain) -> None:
        self.given: list[Plain] = scenario["given"]
        self.plan = plan
        self.expect: Plain = scenario.get("expect") or {}
        self.types = catalogue(scenario.get("catalog", "default"))
        self.nodes = {o["metadata"]["name"]: o for o in self.given if o["kind"] == "Node"}
        self.home: dict[str, tuple[str, Plain]] = {}
        for node in plan["newNodes"]:
            self.home.update(dict.fromkeys(node["pods"], ("new", node)))
        for node in plan["existingNodes"]:
            known = {"name": node["name"], "labels": labels_of(self.nodes.get(node["name"], {}))}
            self.home.update(dict.fromkeys(node["pods"], ("old", known)))

    def problems(self) -> Iterator[str]:
        yield from self._unscheduled()
        yield from _range(len(self.plan["newNodes"]), self.expect.get("newNodes"), "new nodes")
        for name, facts in (self.expect.get("pods") or {}).items():
            yield from self._pod(name, facts)
        for group in self.expect.get("together", []):
            if len({self._where(pod)[1]["name"] for pod in group}) != 1:
                yield f"not on one node: {group}"
        for group in self.expect.get("apart", []):
            if len({self._where(pod)[1]["name"] for pod in group}) != len(group):
                yield f"not apart: {group}"
        for spread in self.expect.get("spread", []):
            yield from self._spread(spread)
        if "price" in self.expect:
            cost = sum(node["offering"]["price"] for node in self.plan["newNodes"])
            if cost > self.expect["price"]["max"] + 1e-9:
                yield f"price {cost:.4f} over {self.expect['price']['max']}"
        yield from self._messages()
        yield from self._disruption()

    def _short(self, pod: str) -> str:
        return (
            pod if any("/" in each for each in self.expect.get("unscheduled", [])) else pod.split("/", 1)[1]
        )

    def _unscheduled(self) -> Iterator[str]:
        wanted = sorted(self.expect.get("unscheduled", []))
        found = sorted(self._short(each["pod"]) for each in self.plan["unscheduled"])
        if found != wanted:
            yield f"unscheduled: {found}, expected {wanted}"

    def _where(self, name: str) -> tuple[str, Plain]:
        return next(at for pod, at in self.home.items() if name in {pod, pod.split("/", 1)[1]})

    def _pod(self, name: str, facts: Plain) -> Iterator[str]:
        kind, node = self._where(name)
        if "newNode" in facts and (kind == "new") != facts["newNode"]:
            yield f"{name}: on {kind} node {node['name']}"
        if "node" in facts and (kind != "old" or node["name"] != facts["node"]):
            yield f"{name}: on {node['name']}, expected {facts['node']}"
        pool = node.get("nodePool") or node["labels"].get("karpenter.sh/nodepool")
        if pool != facts.get("nodePool", pool):
            yield f"{name}: pool {pool}, expected {facts['nodePool']}"
        yield from self._choice(name, facts, kind, node)
        for bad in facts.get("notInstanceType", []):
            if kind == "new" and bad in node["instanceTypes"]:
                yield f"{name}: {bad} is still possible"
        for key, value in (facts.get("label") or {}).items():
            if pinned(node, key) != {value}:
                yield f"{name}: label {key} is {pinned(node, key)}, expected {value}"
        have = {f"{t['key']}={t.get('value') or ''}:{t['effect']}" for t in node.get("taints", [])}
        for taint in facts.get("taint", []):
            if taint not in have:
                yield f"{name}: taint {taint} is missing"

    def _choice(self, name: str, facts: Plain, kind: str, node: Plain) -> Iterator[str]:
        for what, key in KEYS.items():
            if what in facts:
                values = possible(node, what, self.types) if kind == "new" else {node["labels"].get(key)}
                if not values or not values <= set(facts[what]):
                    yield f"{name}: {what} may be {sorted(map(str, values))[:6]}, not all in {facts[what]}"

    def _spread(self, spread: Plain) -> Iterator[str]:
        count = Counter(self._domains(spread["key"], spread["selector"]))
        if "counts" in spread and sorted(count.values()) != sorted(spread["counts"]):
            yield f"spread over {spread['key']}: {dict(count)}, expected {spread['counts']}"
        if "maxSkew" in spread and (
            not count or max(count.values()) - min(count.values()) > spread["maxSkew"]
        ):
            yield f"skew of {spread['key']}: {dict(count)}"

    def _domains(self, key: str, selector: dict[str, str]) -> Iterator[str]:
        by_host = key.endswith("hostname")
        for name, thing in self._pods().items():
            if not selector.items() <= labels_of(thing).items():
                continue
            if name in self.home:
                node = self.home[name][1]
                values = {node["name"]} if by_host else pinned(node, key)
                assert values is not None, f"{name}: {key} is not settled"
                assert len(values) == 1, f"{name}: {key} is not settled: {values}"
                yield from values
            elif bound := thing.get("spec", {}).get("nodeName"):
                domain = bound if by_host else labels_of(self.nodes.get(bound, {})).get(key)
                if domain is not None:
                    yield domain

    def _pods(self) -> dict[str, Plain]:
        found = {
            f"{o['metadata'].get('namespace', 'default')}/{o['metadata']['name']}": o
            for o in self.given
            if o["kind"] == "Pod"
        }
        for owner in self.given:
            if owner["kind"] in {"Deployment", "ReplicaSet", "StatefulSet", "Job"}:
                start = f"{owner['metadata'].get('namespace', 'default')}/{owner['metadata']['name']}-"
                template = {"metadata": owner["spec"]["template"].get("metadata", {})}
                made = [p for p in self.home if p not in found and re.fullmatch(rf"{re.escape(start)}\d+", p)]
                found.update(dict.fromkeys(made, template))
        return found

    def _messages(self) -> Iterator[str]:
        for name, pattern in (self.expect.get("message") or {}).items():
            hits = [u for u in self.plan["unscheduled"] if name in {u["pod"], u["pod"].split("/", 1)[1]}]
            text = " ".join(str(part) for u in hits for part in (u["message"], *map(str, u["reasons"])))
            if not re.search(pattern, text, re.IGNORECASE):
                yield f"message of {name} does not match {pattern!r}: {text[:200]}"
        kept = {each["node"]: each for each in self.plan.get("kept", [])}
        for node, pattern in (self.expect.get("kept") or {}).items():
            text = f"{kept[node]['code']} {kept[node]['message']}" if node in kept else "not kept"
            if not re.search(pattern, text, re.IGNORECASE):
                yield f"kept {node}: {text[:200]!r} does not match {pattern!r}"

    def _disruption(self) -> Iterator[str]:
        if "commands" not in self.plan:
            return
        yield from self._invariants()
        wanted = self.expect.get("disruption")
        commands = self.plan["commands"]
        if wanted == "none":
            if commands:
                yield f"expected no command, got {[(c['reason'], c['candidates']) for c in commands]}"
        elif wanted:
            yield from self._commands(wanted, commands)

    def _commands(self, wanted: Plain, commands: list[Plain]) -> Iterator[str]:
        gone = sorted(name for command in commands for name in command["candidates"])
        if not commands:
            yield "expected a command, got none"
        if "reason" in wanted and not {c["reason"] for c in commands} <= set(wanted["reason"]):
            yield f"reasons {[c['reason'] for c in commands]}, expected {wanted['reason']}"
        if "remove" in wanted and gone != sorted(wanted["remove"]):
            yield f"removes {gone}, expected {wanted['remove']}"
        if "removeAny" in wanted:
            if not set(gone) <= set(wanted["removeAny"]["from"]):
                yield f"removes {gone}, expected among {wanted['removeAny']['from']}"
            yield from _range(len(gone), wanted["removeAny"]["count"], "removed nodes")
        for node in set(wanted.get("keep", [])) & set(gone):
            yield f"{node} must be kept"
        new = [node for command in commands for node in command["replacements"]]
        yield from _range(len(new), wanted.get("replacements"), "replacements")
        for node in new:
            yield from self._replacement(node, wanted.get("replacement") or {})
        moved = sum(command["podsMoved"] for command in commands)
        if moved > wanted.get("maxPodsMoved", moved):
            yield f"moves {moved} pods"
        if wanted.get("saves") and any(c["hourlyAfter"] >= c["hourlyBefore"] for c in commands):
            yield "a command does not save money"

    def _replacement(self, node: Plain, wanted: Plain) -> Iterator[str]:
        for what in ("instanceType", "capacityType", "zone"):
            values = possible(node, what, self.types)
            if what in wanted and (not values or not values <= set(wanted[what])):
                yield f"replacement {what} {sorted(values)[:6]}, expected within {wanted[what]}"
        if node["offering"]["price"] > wanted.get("maxPrice", float("inf")) + 1e-9:
            yield f"replacement costs {node['offering']['price']}"

    def _invariants(self) -> Iterator[str]:
        """What holds for every set of commands, whatever the scenario asks."""
        claims = {(o.get("status") or {}).get("providerID") for o in self.given if o["kind"] == "NodeClaim"}
        managed = {
            name
            for name, node in self.nodes.items()
            if (node.get("spec") or {}).get("providerID") in claims - {None}
            and "karpenter.sh/nodepool" in labels_of(node)
        }
        gone = [name for command in self.plan["commands"] for name in command["candidates"]]
        if len(gone) != len(set(gone)) or not set(gone) <= managed:
            yield f"candidates are named twice or not managed: {sorted(gone)}"
        if unsaid := managed - set(gone) - {each["node"] for each in self.plan["kept"]}:
            yield f"neither removed nor kept: {sorted(unsaid)}"
        if {node["name"] for node in self.plan["existingNodes"]} & set(gone):
            yield "a pending pod is placed on a node that is removed"
        for command in self.plan["commands"]:
            if (command["decision"] == "replace") != bool(command["replacements"]):
                yield f"decision {command['decision']} with {len(command['replacements'])} replacements"
            if set(command["moves"].values()) & set(gone):
                yield "a pod is moved to a node that is leaving"


def _range(actual: int, wanted: Any, what: str) -> Iterator[str]:
    if wanted is None:
        return
    low, high = (
        (wanted, wanted) if isinstance(wanted, int) else (wanted.get("min", 0), wanted.get("max", 10**9))
    )
    if not low <= actual <= high:
        yield f"{what}: {actual}, expected {wanted}"
