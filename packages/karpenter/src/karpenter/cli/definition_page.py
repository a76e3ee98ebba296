"""What a check of a cluster definition found, as text for a terminal and as Markdown for a pull request."""

from __future__ import annotations

import textwrap
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.cli.output import table
from karpenter.cli.planning.data import counted, money
from karpenter.core.model.pricing import HOURS_A_MONTH
from karpenter.definition.check import (
    ADDED,
    CHANGED,
    REMOVED,
    UNCHANGED,
    DefinitionCheck,
    FieldChange,
    MachineCheck,
    PoolCheck,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


_COLUMNS: Final = 80
_SHOWN: Final = 50
_SIGNS: Final = {ADDED: "+", REMOVED: "-", CHANGED: "~", UNCHANGED: "="}
_LONGEST: Final = 60


def text(found: DefinitionCheck) -> str:
    """Return what was found, for a terminal of 80 columns."""
    lines = [table([("", "POOL", "TYPES", "CHEAPEST", "$/HOUR"), *map(_pool_row, found.pools)])]
    for pool in found.pools:
        for each in pool.fields:
            short = each.field.removeprefix("spec.template.").removeprefix("spec.")
            lines.append(f"  {each.object} {pool.name}: {short}")
            lines.append(f"    {_value(each.before)} -> {_value(each.after)}")
    if found.machines:
        lines.append("")
        lines.append(
            table([("STEP", "NODE", "WHY", "INSTEAD", "$/MONTH"), *map(_machine_row, _few(found.machines))])
        )
    lines += ["", *(f"{name} stays: {message}" for name, message in _held(found))]
    lines += [f"no place for pod {each}" for each in found.unscheduled]
    lines += [
        textwrap.fill(str(each), _COLUMNS, subsequent_indent="  ", break_on_hyphens=False)
        for each in found.findings
    ]
    return "\n".join([*lines, *_summary(found)])


def markdown(found: DefinitionCheck) -> str:
    """Return what was found, as a comment for a pull request."""
    lines = ["### Karpenter: what this change does", "", *_summary(found), ""]
    rows = [(f"`{n}`", c, t, p, h) for c, n, t, p, h in map(_pool_row, found.pools)]
    changes = {"+": "added", "-": "removed", "~": "changed", "=": "as before" if found.compared else ""}
    lines += _markdown(
        ("pool", "change", "instance types", "cheapest", "$/hour"),
        [(n, changes[c], t, p, h) for n, c, t, p, h in rows],
    )
    fields = [(pool.name, each) for pool in found.pools for each in pool.fields]
    if fields:
        lines += ["", "<details><summary>Fields that change</summary>", ""]
        lines += _markdown(
            ("object", "field", "before", "after"), [_field_row(name, each) for name, each in fields]
        )
        lines += ["", "</details>"]
    if found.machines:
        lines += ["", "#### Machines", ""]
        lines += _markdown(
            ("step", "node", "pool", "why", "instead", "$/month"),
            [
                (step, f"`{node}`", each.pool, why, instead, cost)
                for each, (step, node, why, instead, cost) in (
                    (each, _machine_row(each)) for each in _few(found.machines)
                )
            ],
        )
    held = list(_held(found))
    if held:
        lines += ["", "#### What is in the way", "", *(f"- `{name}`: {message}" for name, message in held)]
    if found.unscheduled:
        lines += ["", "#### Pods without a place", "", *(f"- {each}" for each in found.unscheduled)]
    if found.findings:
        lines += ["", "#### What the doctor says", ""]
        lines += _markdown(
            ("", "object", "field", "what", "what helps"),
            [
                (each.severity, f"`{each.object}`", f"`{each.field}`", each.message, each.fix)
                for each in found.findings
            ],
        )
    return "\n".join(lines)


def _pool_row(pool: PoolCheck) -> tuple[str, str, str, str, str]:
    sign = _SIGNS[pool.change]
    if pool.change == REMOVED:
        return sign, pool.name, "", counted(pool.machines, "machine"), ""
    if not pool.types:
        return sign, pool.name, "0", "nothing on sale fits", ""
    return sign, pool.name, str(pool.types), pool.cheapest, money(pool.hourly)


def _machine_row(machine: MachineCheck) -> tuple[str, str, str, str, str]:
    if machine.held_by:
        return "-", machine.node, machine.reason, f"held: {machine.held_by}", ""
    bought = Counter(machine.replacement)
    instead = (
        ", ".join(f"{count} x {name}" if count > 1 else name for name, count in bought.items()) or "nothing"
    )
    change = (machine.hourly_after - machine.hourly_before) * HOURS_A_MONTH
    return str(machine.step), machine.node, machine.reason, instead, f"{change:+,.2f}"


def _few(machines: Sequence[MachineCheck]) -> Sequence[MachineCheck]:
    return machines[:_SHOWN]


def _held(found: DefinitionCheck) -> Iterator[tuple[str, str]]:
    for each in found.machines:
        if each.held_by:
            yield each.node, each.message


def _field_row(pool: str, change: FieldChange) -> tuple[str, ...]:
    return (
        f"{change.object} `{pool}`",
        f"`{change.field}`",
        f"`{_value(change.before)}`",
        f"`{_value(change.after)}`",
    )


def _value(value: Any) -> str:
    if value is None:
        return "(none)"
    found = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return found if len(found) <= _LONGEST else f"{found[: _LONGEST - 3]}..."


def _summary(found: DefinitionCheck) -> list[str]:
    changes = Counter(each.change for each in found.pools)
    lines = []
    if found.compared:
        told = [f"{changes[each]} {each}" for each in (ADDED, CHANGED, REMOVED, UNCHANGED) if changes[each]]
        lines.append(f"NodePools: {', '.join(told)}.")
    else:
        lines.append(f"{counted(len(found.pools), 'NodePool')} can be used.")
    if not found.has_cluster:
        return lines
    going = [each for each in found.machines if each.step is not None]
    held = [each for each in found.machines if each.held_by]
    steps = max((each.step or 0 for each in going), default=0)
    lines.append(
        f"{counted(len(going), 'machine')} would go in {counted(steps, 'step')}, {len(held)} cannot go now."
        if found.machines
        else "No machine would go."
    )
    if found.unordered or len(found.machines) > _SHOWN:
        others = found.unordered + max(0, len(found.machines) - _SHOWN)
        lines.append(f"{counted(others, 'machine')} more drift.")
    difference = found.monthly_after - found.monthly_before
    lines.append(f"${found.monthly_before:,.2f} -> ${found.monthly_after:,.2f} a month ({difference:+,.2f}).")
    return lines


def _markdown(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [
        f"| {' | '.join(heading)} |",
        f"|{'---|' * len(heading)}",
        *(f"| {' | '.join(_escaped(cell) for cell in row)} |" for row in rows),
    ]


def _escaped(cell: str) -> str:
    return cell.replace("|", r"\|")
