"""
Sums up the record of a shadow: what was paid and what would have been, and where both sides differ.

A case is a decision that only one side has made, or that both have made differently: machines of one
NodePool that were launched or removed for one reason within a short time. Cases are matched by time, NodePool
and action; why a side decides as it does is told in words that follow from the reason alone. Pure.
"""

from __future__ import annotations

import html
from collections import Counter
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.meta import explain
from karpenter.shadow.account import (
    RecordLine,
    ShadowAction,
    ShadowSample,
    ShadowStarted,
    Side,
    SideTotals,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

_ONE_DECISION: Final = timedelta(seconds=90)
"""Machines that one side launches or removes within this time belong to one decision."""

_SAME_DECISION: Final = timedelta(minutes=5)
"""How far apart two decisions may be that are the same."""

_MAX_SHOWN_CASES: Final = 20
_WIDTH, _HEIGHT = 760, 220
_NAMES: Final = {"real": "Karpenter", "shadow": "this operator"}
_WHY: Final = {
    ("launch", "provisioned"): "its pods had no room on the nodes of that side",
    ("remove", "Underutilized"): "its pods fit elsewhere for less",
    ("remove", "Empty"): "no pod was left on it",
    ("remove", "Drifted"): "it no longer matched its NodePool or class",
    ("remove", "not disrupted"): "it expired, was interrupted or deleted",
}


class BadRecord(ValueError):  # noqa: N818  says what is wrong
    """A file that is no record of a shadow."""


class ShadowCase(msgspec.Struct, frozen=True, kw_only=True):
    """A decision in which the two sides differ."""

    at: datetime
    pool: str
    action: str
    real: tuple[str, ...] = ()
    """Offerings of the machines that Karpenter has launched or removed."""

    shadow: tuple[str, ...] = ()
    why: str = ""


class ShadowReport(msgspec.Struct, frozen=True, kw_only=True):
    """Summary of a record."""

    begin: datetime
    end: datetime
    hours: float
    """Hours that the shadow ran; less than the time from begin to end where it was restarted."""

    starts: int
    real: SideTotals
    shadow: SideTotals
    saved: float
    """Dollars that would have been paid less."""

    saved_percent: float
    evicted_fewer: int
    sooner: float
    """Seconds by which pods would have been placed sooner, on average."""

    cases: tuple[ShadowCase, ...] = ()
    samples: tuple[tuple[datetime, float, float], ...] = ()
    """Dollars an hour of both sides over time, for a picture."""


class _Decision(msgspec.Struct, kw_only=True):
    """Machines that one side launches or removes together."""

    side: Side
    at: datetime
    last: datetime
    pool: str
    action: str
    reason: str
    offerings: list[str]


def read_record(lines: Iterable[bytes]) -> list[RecordLine]:
    """
    Return the lines of a record; an unfinished last line, as after a crash, is left out.

    Raises:
        BadRecord: naming the line that is none.
    """
    decoder = msgspec.json.Decoder(RecordLine)
    found: list[RecordLine] = []
    broken: tuple[int, str] | None = None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        if broken is not None:
            raise BadRecord(f"line {broken[0]}: {broken[1]}")
        try:
            found.append(decoder.decode(line))
        except msgspec.ValidationError as error:
            place, problem = explain(str(error))
            broken = (number, f"{place or 'this is no line of a record'}: {problem}")
        except (msgspec.DecodeError, UnicodeDecodeError):
            broken = (number, "this is not JSON")
    if broken is not None and not found:
        raise BadRecord(f"line {broken[0]}: {broken[1]}")
    return found


def sum_up(lines: Sequence[RecordLine]) -> ShadowReport:
    """
    Return what a record comes to.

    Raises:
        BadRecord: it has no sums yet.
    """
    last: list[ShadowSample] = []
    starts = [each for each in lines if isinstance(each, ShadowStarted)]
    hours, begun = 0.0, None
    for each in lines:
        if isinstance(each, ShadowStarted):
            begun = each.at
        elif isinstance(each, ShadowSample) and begun is not None:
            # Sums begin anew with every start, so the last sample of each counts.
            if last and last[-1].at >= begun:
                last.pop()
            last.append(each)
    if not last:
        raise BadRecord("the record has no sums yet; the first come after a minute")
    for sample in last:
        began = max(each.at for each in starts if each.at <= sample.at)
        hours += (sample.at - began).total_seconds() / 3600
    real, shadow = _sum(each.real for each in last), _sum(each.shadow for each in last)
    saved = real.cost - shadow.cost
    return ShadowReport(
        begin=starts[0].at,
        end=last[-1].at,
        hours=hours,
        starts=len(starts),
        real=real,
        shadow=shadow,
        saved=saved,
        saved_percent=100 * saved / real.cost if real.cost else 0.0,
        evicted_fewer=real.evicted - shadow.evicted,
        sooner=_mean(real) - _mean(shadow),
        cases=tuple(_cases([each for each in lines if isinstance(each, ShadowAction)])),
        samples=tuple(
            (each.at, each.real.hourly, each.shadow.hourly)
            for each in lines
            if isinstance(each, ShadowSample)
        ),
    )


def _sum(totals: Iterable[SideTotals]) -> SideTotals:
    found = SideTotals()
    for each in totals:
        found.hourly, found.machines = each.hourly, each.machines
        found.cost += each.cost
        found.launched += each.launched
        found.removed += each.removed
        found.evicted += each.evicted
        found.placed += each.placed
        found.waited += each.waited
    return found


def _mean(totals: SideTotals) -> float:
    return totals.waited / totals.placed if totals.placed else 0.0


def _decisions(actions: Iterable[ShadowAction]) -> list[_Decision]:
    found: list[_Decision] = []
    for each in actions:
        offering = each.offering or each.machine
        for known in reversed(found[-8:]):
            same = (known.side, known.action, known.pool, known.reason) == (
                each.side,
                each.action,
                each.pool,
                each.reason,
            )
            if same and each.at - known.last <= _ONE_DECISION:
                known.offerings.append(offering)
                known.last = each.at
                break
        else:
            found.append(
                _Decision(
                    side=each.side,
                    at=each.at,
                    last=each.at,
                    pool=each.pool,
                    action=each.action,
                    reason=each.reason,
                    offerings=[offering],
                )
            )
    return found


def _cases(actions: Sequence[ShadowAction]) -> Iterator[ShadowCase]:
    """Yield the decisions in which the sides differ, in the order of time."""
    decisions = _decisions(actions)
    theirs = [each for each in decisions if each.side == "real"]
    found = []
    for ours in (each for each in decisions if each.side == "shadow"):
        match = next(
            (
                each
                for each in theirs
                if (each.pool, each.action) == (ours.pool, ours.action)
                and abs(each.at - ours.at) <= _SAME_DECISION
            ),
            None,
        )
        if match is not None:
            theirs.remove(match)
        if match is None or _kinds(match) != _kinds(ours):
            found.append(_case(match, ours))
    found += [_case(each, None) for each in theirs]
    yield from sorted(found, key=lambda case: case.at)


def _kinds(decision: _Decision) -> Counter[str]:
    """Return how many machines of each instance type and capacity type; the zone is chance."""
    return Counter(" ".join(word for i, word in enumerate(e.split()) if i != 1) for e in decision.offerings)


def _case(real: _Decision | None, shadow: _Decision | None) -> ShadowCase:
    one = shadow or real
    assert one is not None
    if real is not None and shadow is not None:
        why = f"{_NAMES['shadow']} packs the same pods in another way"
    else:
        other = "real" if shadow is not None else "shadow"
        side = "shadow" if shadow is not None else "real"
        because = _WHY.get((one.action, one.reason), one.reason)
        minutes = _SAME_DECISION.seconds // 60
        why = f"{_NAMES[side]}: {because}; {_NAMES[other]} did not within {minutes} minutes"
    return ShadowCase(
        at=one.at,
        pool=one.pool,
        action=one.action,
        real=tuple(real.offerings) if real is not None else (),
        shadow=tuple(shadow.offerings) if shadow is not None else (),
        why=why,
    )


def sentence(report: ShadowReport) -> str:
    money = f"${abs(report.saved):,.2f} {'less' if report.saved >= 0 else 'more'}"
    share = f"({-report.saved_percent:+.1f} %)"
    pods = f"{abs(report.evicted_fewer):,} pods {'fewer' if report.evicted_fewer >= 0 else 'more'}"
    time = f"{abs(report.sooner):.1f} s {'sooner' if report.sooner >= 0 else 'later'}"
    cases = f"in {len(report.cases)} cases we differ" if report.cases else "we differ in no case"
    return (
        f"In {report.hours:.1f} hours we would have paid {money} {share}, evicted {pods}, "
        f"and placed pods {time}; {cases}."
    )


def rows(report: ShadowReport) -> list[tuple[str, str, str]]:
    """Return the figures of both sides: what, Karpenter, this operator."""
    figures: tuple[tuple[str, Callable[[SideTotals], str]], ...] = (
        ("paid", lambda each: f"${each.cost:,.2f}"),
        ("an hour, at the end", lambda each: f"${each.hourly:,.4f}"),
        ("machines, at the end", lambda each: f"{each.machines:,}"),
        ("launched", lambda each: f"{each.launched:,}"),
        ("removed", lambda each: f"{each.removed:,}"),
        ("pods evicted", lambda each: f"{each.evicted:,}"),
        ("pods placed", lambda each: f"{each.placed:,}"),
        ("seconds to a node", lambda each: f"{_mean(each):.1f}"),
    )
    found = [("", _NAMES["real"], _NAMES["shadow"])]
    return [*found, *((name, show(report.real), show(report.shadow)) for name, show in figures)]


def case_lines(report: ShadowReport, most: int = _MAX_SHOWN_CASES) -> Iterator[str]:
    """Yield a sentence for each case, and how many are left out."""
    for each in report.cases[:most]:
        yield (
            f"{each.at:%Y-%m-%d %H:%M:%S} {each.pool} {each.action}: {_NAMES['real']} {_listed(each.real)}, "
            f"{_NAMES['shadow']} {_listed(each.shadow)}: {each.why}"
        )
    if len(report.cases) > most:
        yield f"and {len(report.cases) - most} more; -o json has all"


def _listed(offerings: Iterable[str]) -> str:
    return ", ".join(f"{count} x {name}" for name, count in Counter(offerings).items()) or "nothing"


def render_html(report: ShadowReport) -> str:
    """Return the report as one page without scripts, with a picture of both bills over time."""
    escape = html.escape
    heading, *body = rows(report)
    table = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(real)}</td><td>{escape(shadow)}</td></tr>"
        for name, real, shadow in body
    )
    cases = "".join(f"<li>{escape(line)}</li>" for line in case_lines(report, most=200))
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>Shadow report</title>"
        "<style>body{font:15px sans-serif;max-width:52em;margin:2em auto;padding:0 1em}"
        "td,th{padding:.2em 1em;text-align:right}th{text-align:left}svg{max-width:100%}</style>"
        f"<h1>Shadow report</h1><p>{escape(sentence(report))}</p>"
        f"<p>{report.begin:%Y-%m-%d %H:%M} to {report.end:%Y-%m-%d %H:%M} UTC, {report.starts} start(s).</p>"
        f"{_picture(report)}"
        f"<table><tr><th></th><th>{escape(heading[1])}</th><th>{escape(heading[2])}</th></tr>{table}</table>"
        f"<h2>Where we differ</h2><ul>{cases or '<li>nowhere</li>'}</ul></html>\n"
    )


def _picture(report: ShadowReport) -> str:
    """Return dollars an hour over time as an SVG; nothing where there are too few samples."""
    if len(report.samples) < 2:  # noqa: PLR2004  a line has two ends
        return ""
    first, last = report.samples[0][0], report.samples[-1][0]
    span = (last - first).total_seconds() or 1.0
    top = max(max(real, shadow) for _, real, shadow in report.samples) or 1.0

    def line(prices: Iterable[float], colour: str) -> str:
        points = " ".join(
            f"{_WIDTH * (at - first).total_seconds() / span:.1f},{_HEIGHT * (1 - price / top):.1f}"
            for (at, *_), price in zip(report.samples, prices, strict=True)
        )
        return f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{points}"/>'

    real, shadow = [each[1] for each in report.samples], [each[2] for each in report.samples]
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="dollars an hour">'
        f"{line(real, '#888')}{line(shadow, '#06c')}"
        f'<text x="4" y="12" font-size="11">${top:,.2f} an hour; grey: Karpenter, blue: this operator</text>'
        "</svg>"
    )
