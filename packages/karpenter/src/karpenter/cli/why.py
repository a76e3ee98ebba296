"""``karpenter why``: why a pod, node, NodePool or NodeClaim is as it is, and what one change would help."""

from __future__ import annotations

import difflib
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from karpenter.base.text import printable
from karpenter.cli.errors import CommandError, progress
from karpenter.cli.files import files_option
from karpenter.cli.options import catalog_option, cluster_options, now_option, settings_option
from karpenter.cli.output import Output, output_option_with, render
from karpenter.cli.planning.decision import DecisionSettings, decide, decision_settings
from karpenter.cli.session import moment_of, open_session, settings_of
from karpenter.core.disruption.settings import DisruptionContext
from karpenter.core.provisioning.provisioner import ProvisioningDecision, ProvisioningSettings
from karpenter.core.scheduling.build.build import overlaid_catalog
from karpenter.replay.record import Done, Unreadable, moment_at
from karpenter.replay.replay import recorded_settings
from karpenter.why.answer import Explanation, Inquiry
from karpenter.why.nodes import explain_claim, explain_node, explain_pool
from karpenter.why.pods import explain_pod

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from karpenter.core.disruption.disrupt import DisruptionDecision
    from karpenter.core.model.catalog import Catalog
    from karpenter.core.state.cluster import ClusterView
    from karpenter.operator.options import Settings

_KINDS: Final = {
    "pod": "pod",
    "pods": "pod",
    "po": "pod",
    "node": "node",
    "nodes": "node",
    "no": "node",
    "nodepool": "nodepool",
    "nodepools": "nodepool",
    "nodeclaim": "nodeclaim",
    "nodeclaims": "nodeclaim",
}
_WIDTH: Final = 80


@click.command(
    epilog="Examples:\n\n"
    "  karpenter why pod/inflate-1 -f examples/inflate --catalog aws\n\n"
    "  karpenter why node/ip-10-0-1-7 --context production\n\n"
    "  karpenter why pod/web-1 --record flight.jsonl --at 2026-01-31T09:00:00Z"
)
@click.argument("words", nargs=-1, required=True, metavar="KIND/NAME")
@files_option(required=False, text="The cluster, or what would be applied to a live one", alone=True)
@click.option("-n", "--namespace", default="", metavar="NAME", help="The namespace of the pod.")
@cluster_options
@click.option(
    "--record",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Read the cluster from this flight record.",
)
@click.option("--at", metavar="RFC3339", help="The moment of the record.  [default: its last decision]")
@catalog_option
@now_option
@settings_option
@output_option_with("text", "json")
def why(  # noqa: PLR0917  click hands over options by name
    words: tuple[str, ...],
    paths: tuple[str, ...],
    namespace: str,
    context: str,
    kubeconfig: str,
    record: Path | None,
    at: str | None,
    catalog: str,
    now: str | None,
    given: tuple[str, ...],
    output: Output,
) -> None:
    """
    Say why a pod, node, NodePool or NodeClaim is as it is.

    KIND/NAME is pod/NAME, node/NAME, nodepool/NAME or nodeclaim/NAME, also in two words;
    pod/NAMESPACE/NAME names the namespace too. The cluster is read from manifests, a live cluster,
    both, or a flight record, and nothing is changed. Of a pod without a place it says what keeps each
    NodePool from serving it, the nearest miss, and every single change that was tried and lets it in.

    Exits 0 when the pod has a place (the NodePool is used, the NodeClaim is initialized, the node is
    there), 1 when not, and 2 when the input cannot be used.
    """
    kind, name = target_of("/".join(words))
    if record is not None and (paths or context or kubeconfig):
        raise CommandError("--record: cannot be combined with -f, --context or --kubeconfig")
    if at is not None and record is None:
        raise CommandError("--at: needs --record", hint="for manifests or a live cluster use --now")
    if record is not None:
        settings = settings_of(given) if given else None
        moment = moment_of(at, "--at") if at is not None else None
        with progress("reading the record"):
            inquiry = recorded_inquiry(record, moment, settings)
    else:
        moment = moment_of(now)
        with progress("reading the cluster") as doing:
            session = open_session(
                paths, kubeconfig=kubeconfig, context=context, catalog=catalog, given=given, tell=doing
            )
        inquiry = inquiry_of(session.view, session.catalog, session.settings, moment)
    with progress("deciding, once for each change that could help"):
        answer = explained(inquiry, kind, name, namespace)
    click.echo(_text(answer) if output.form == "text" else render(answer, output.form), nl=False)
    sys.exit(0 if answer.placed else 1)


def target_of(text: str) -> tuple[str, str]:
    """Return the kind and the name of ``kind/name``; raises CommandError where it names none."""
    kind, slash, name = text.partition("/")
    if not slash or not name or kind.lower() not in _KINDS:
        raise CommandError(
            f"{text!r} does not name an object: expected pod/NAME, node/NAME, nodepool/NAME or nodeclaim/NAME"
        )
    return _KINDS[kind.lower()], name


def inquiry_of(
    view: ClusterView,
    catalog: Catalog,
    settings: Settings | DecisionSettings,
    now: datetime,
    done: tuple[Done, ...] = (),
) -> Inquiry:
    """Return a cluster at one moment, and how to ask what the operator would do with one like it."""

    def asked(changed: ClusterView) -> ProvisioningDecision:
        return decide(changed, catalog, settings, now).provisioning

    def disrupted(changed: ClusterView) -> DisruptionDecision:
        decision = decide(changed, catalog, settings, now, disruption=True).disruption
        assert decision is not None
        return decision

    known = settings if isinstance(settings, DecisionSettings) else decision_settings(settings)
    return Inquiry(
        view=view,
        catalog=catalog,
        priced=overlaid_catalog(view, catalog, known.disruption.policy.at(now)),
        now=now,
        provision=asked,
        disrupt=disrupted,
        done=done,
    )


def recorded_inquiry(file: Path, at: datetime | None, settings: Settings | None) -> Inquiry:
    """
    Return the cluster at a moment of a flight record; raises CommandError where there is none.

    Without `settings`, those of the operator that wrote the record hold.
    """
    try:
        with file.open("rb") as lines:
            found = moment_at(lines, at)
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror or error}") from error
    except Unreadable as error:
        raise CommandError(f"{file}: {error}") from error
    if found is None:
        raise CommandError(
            f"{file}: no decision was made by {at.isoformat() if at is not None else 'its end'}",
            hint="karpenter replay FILE lists the decisions and their times",
        )
    try:
        held = settings or _recorded(found.given)
    except (KeyError, TypeError, ValueError) as error:
        raise CommandError(
            f"{file}: the settings in it cannot be read ({error})", hint="give settings with --set"
        ) from error
    return inquiry_of(found.view, found.catalog, held, found.now, found.done)


def _recorded(given: Mapping[str, Any]) -> DecisionSettings:
    """Return the settings of the operator that wrote a record; the defaults where it was asked nothing."""
    provisioning, context = recorded_settings(given)
    if provisioning is None:
        provisioning = ProvisioningSettings()
    if context is None:
        context = DisruptionContext(options=provisioning.options, policy=provisioning.policy)
    fresh = DisruptionContext(settings=context.settings, options=context.options, policy=context.policy)
    return DecisionSettings(provisioning=provisioning, disruption=fresh)


def explained(inquiry: Inquiry, kind: str, name: str, namespace: str) -> Explanation:
    """Return the answer about one object; raises CommandError where there is no such object."""
    view = inquiry.view
    if kind == "pod":
        return explain_pod(inquiry, view.pods[_pod_key(view, name, namespace)])
    if kind == "node":
        node = inquiry.node(name)
        if node is None:
            raise _unknown("node", name, view.nodes)
        return explain_node(inquiry, node)
    if kind == "nodepool":
        if name not in view.pools:
            raise _unknown("NodePool", name, view.pools)
        return explain_pool(inquiry, view.pools[name])
    if name not in view.claims:
        raise _unknown("NodeClaim", name, view.claims)
    return explain_claim(inquiry, view.claims[name])


def _pod_key(view: ClusterView, name: str, namespace: str) -> str:
    """Return the key of the pod that is meant; raises CommandError where there is none or more than one."""
    if "/" in name or namespace:
        wanted = name if "/" in name else f"{namespace}/{name}"
        found = [wanted] if wanted in view.pods else []
    else:
        found = [key for key, pod in view.pods.items() if pod.name == name]
        found = [f"default/{name}"] if f"default/{name}" in found else found
    if not found:
        raise _unknown("pod", name, view.pods)
    if len(found) > 1:
        raise CommandError(
            f"pod {name} is in {len(found)} namespaces: {', '.join(sorted(found))}", hint="name one with -n"
        )
    return found[0]


def _unknown(kind: str, name: str, names: Iterable[str]) -> CommandError:
    known = {each.rpartition("/")[2]: each for each in names}
    close = difflib.get_close_matches(name.rpartition("/")[2], known, n=3, cutoff=0.5)
    hint = f"did you mean {', '.join(known[each] for each in close)}?" if close else ""
    return CommandError(f"there is no {kind} {name}", hint=hint)


def _text(answer: Explanation) -> str:
    lines = [f"{answer.object}: {answer.answer}"]
    lines += [f"  - {each}" for each in answer.because]
    for miss in answer.node_pools:
        near = f" ({miss.nearest})" if miss.nearest else ""
        lines.append(f"  - NodePool {miss.node_pool}: {miss.message}{near}")
    if answer.changes:
        lines.append("One of these changes would let it in:")
        lines += [f"  - {each.change}: it would go to {each.result}" for each in answer.changes]
    elif not answer.placed and answer.object.startswith("pod/"):
        lines.append("No single change that was tried would let it in.")
    return "".join(f"{_wrapped(line)}\n" for line in lines)


def _wrapped(line: str) -> str:
    indent = "    " if line.startswith("  - ") else ""
    return textwrap.fill(
        printable(line), _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
