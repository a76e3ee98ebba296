"""
The page as one file: document, styles and scripts inside it, to attach to a pull request or an incident.

There is no server behind such a file, so questions that people may ask are answered beforehand, as many as
there is time for; for the others the page names the command that answers. The content security policy names
the hashes of the style and of the script, so nothing else in the file can run.
"""

from __future__ import annotations

import base64
import hashlib
import re
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.console.server import Unanswerable, asset
from karpenter.console.state import ConsoleDocument, console_costs, encode, snapshot_at
from karpenter.console.whatif import pool_details

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from karpenter.core.disruption.disrupt import DisruptionDecision
    from karpenter.core.provisioning.provisioner import ProvisioningDecision
    from karpenter.core.state.cluster import ClusterView
    from karpenter.why.answer import Explanation, Inquiry
    from karpenter.why.costs import CostAllocation

SCRIPTS: Final = ("model.js", "layout.js", "map.js", "views.js", "money.js", "app.js")
"""In the order in which they need each other; no name is declared twice in them."""

_COSTED: Final = 24
"""Moments of a flight record of which the costs are in the file."""

_IMPORT: Final = re.compile(r"^import .*? from .*?;\n", re.MULTILINE)
_EXPORT: Final = re.compile(r"^export ", re.MULTILINE)


def render_page(document: ConsoleDocument) -> str:
    html, style = _text("index.html"), _text("console.css")
    script = "\n".join(_EXPORT.sub("", _IMPORT.sub("", _text(name))) for name in SCRIPTS)
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    # A data block is not run; without "<" nothing in it can end the block: https://html.spec.whatwg.org/#data-block
    data = encode(document).decode().replace("<", "\\u003c")
    changes = {
        '<meta charset="utf-8">': f'<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<link rel="stylesheet" href="assets/console.css">': f"<style>{style}</style>",
        '<script type="module" src="assets/app.js"></script>': (
            f'<script type="application/json" id="document">{data}</script>\n'
            f'<script type="module">{script}</script>'
        ),
    }
    for old, new in changes.items():
        assert html.count(old) == 1, old
        html = html.replace(old, new)
    return html


def _text(name: str) -> str:
    found = asset(name)
    assert found is not None, name
    return found


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def with_answers(
    document: ConsoleDocument,
    inquiry: Inquiry,
    explain: Callable[[Inquiry, str], Explanation],
    *,
    go_on: Callable[[], bool],
) -> ConsoleDocument:
    """Return a document with answers to what people may click on, for as long as `go_on` says."""
    asked = remembering(inquiry)
    details = {}
    for name, pool in asked.view.pools.items():
        if go_on():
            details[name] = pool_details(asked, pool)
    answers = {}
    for target in _targets(document, asked):
        if not go_on():
            break
        try:
            answers[target] = explain(asked, target)
        except Unanswerable:
            continue
    costs = document.costs or dict(_costs(document, go_on))
    return msgspec.structs.replace(document, answers=answers, pool_details=details, costs=costs)


def _costs(document: ConsoleDocument, go_on: Callable[[], bool]) -> Iterator[tuple[int, CostAllocation]]:
    """Yield what workloads cost at moments that are spread over the frames, the last one first."""
    count = len(document.frames)
    places = sorted({round(count * share / _COSTED) for share in range(_COSTED + 1)}, reverse=True)
    for number, place in enumerate(places):
        if number and not go_on():
            return
        shown = msgspec.structs.replace(document, frames=document.frames[:place])
        yield place, console_costs(snapshot_at(shown, None), document.team_label)


def remembering(inquiry: Inquiry) -> Inquiry:
    """Return an inquiry that decides about its own view only once."""
    provisioned: dict[int, ProvisioningDecision] = {}
    disrupted: dict[int, DisruptionDecision] = {}

    def provision(view: ClusterView) -> ProvisioningDecision:
        if view is not inquiry.view:
            return inquiry.provision(view)
        if not provisioned:
            provisioned[0] = inquiry.provision(view)
        return provisioned[0]

    def disrupt(view: ClusterView) -> DisruptionDecision:
        if view is not inquiry.view:
            return inquiry.disrupt(view)
        if not disrupted:
            disrupted[0] = inquiry.disrupt(view)
        return disrupted[0]

    # One decision answers both, and it is the one that the page shows.
    return msgspec.structs.replace(
        inquiry,
        provision=provision,
        disrupt=disrupt,
        ask=lambda view: provision(view) if view is inquiry.view else inquiry.ask(view),
        ask_disrupt=lambda view: disrupt(view) if view is inquiry.view else inquiry.ask_disrupt(view),
    )


def _targets(document: ConsoleDocument, inquiry: Inquiry) -> Iterator[str]:
    """Yield what people may click on, what is most asked about and cheapest to answer first."""
    yield from (f"nodepool/{name}" for name in inquiry.view.pools)
    yield from (f"node/{name}" for name in inquiry.view.nodes)
    yield from (f"nodeclaim/{name}" for name in inquiry.view.claims)
    pods = document.snapshot.pods
    yield from (f"pod/{key}" for key, pod in pods.items() if not pod.machine)
    yield from (f"pod/{key}" for key, pod in pods.items() if pod.machine and not pod.daemon)
