"""``karpenter why``: why an object is as it is, and which one change would help."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from karpenter.base.files import bounded_lines
from karpenter.cli.errors import CommandError, progress
from karpenter.cli.files import files_option
from karpenter.cli.options import catalog_option, cluster_options, now_option, settings_option
from karpenter.cli.output import Output, output_option_with, render
from karpenter.cli.planning.decision import DecisionSettings, decide, decision_settings
from karpenter.cli.planning.objects import by_object
from karpenter.cli.session import moment_of, open_session, settings_of
from karpenter.core.disruption.settings import DisruptionContext
from karpenter.core.provisioning.provisioner import ProvisioningDecision, ProvisioningSettings
from karpenter.core.scheduling.build.offered import overlaid_catalog
from karpenter.replay.record import Done, Unreadable, moment_at
from karpenter.replay.replay import recorded_settings
from karpenter.why.answer import CapacityFailure, Explanation, Inquiry
from karpenter.why.failures import capacity_failures, without_sold_out
from karpenter.why.targets import KINDS, UnknownObjectError, explain
from karpenter.why.text import why_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from karpenter.core.disruption.disrupt import DisruptionDecision
    from karpenter.core.model.catalog import Catalog
    from karpenter.core.state.cluster import ClusterView
    from karpenter.operator.options import Settings


@click.command(
    epilog="Examples:\n\n"
    "  karpenter why pod/inflate-1 -f examples/inflate --catalog aws\n\n"
    "  karpenter why node/ip-10-0-1-7 --context production\n\n"
    "  karpenter why pod/web-1 --record flight.jsonl --at 2026-01-31T09:00:00Z"
)
@click.argument("words", nargs=-1, required=True, metavar="KIND/NAME")
@files_option(required=False, text="The cluster, or what would be applied to a live one", alone=True)
@click.option("-n", "--namespace", default="", metavar="NAME", help="The namespace of the pod or workload.")
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
@output_option_with("text", "json", "yaml")
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
    Say why a pod, workload, node, NodePool, NodeClaim or node class is as it is.

    KIND/NAME is pod/NAME, deployment/NAME or another workload, node/NAME, nodepool/NAME, nodeclaim/NAME
    or ec2nodeclass/NAME, also in two words; pod/NAMESPACE/NAME names the namespace too. The cluster is
    read from manifests, a live cluster, both, or a flight record, and nothing is changed. Of pods without
    a place it says what keeps each NodePool from serving them, the nearest miss first, and every single
    change, of the NodePool or of the pods, that was tried and lets them in; of a node, what would let
    it go.

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
        failures = capacity_failures(session.events, moment)
        inquiry = inquiry_of(session.view, session.catalog, session.settings, moment, failures=failures)
        inquiry = msgspec.structs.replace(inquiry, remarks=by_object(session.findings))
    with progress("deciding, once for each change that could help"):
        answer = explained(inquiry, kind, name, namespace)
    click.echo(why_text(answer) if output.form == "text" else render(answer, output.form), nl=False)
    sys.exit(0 if answer.placed else 1)


def target_of(text: str) -> tuple[str, str]:
    """Return the kind and the name of ``kind/name``; raises CommandError where it names none."""
    kind, slash, name = text.partition("/")
    if not slash or not name or kind.lower() not in KINDS:
        raise CommandError(
            f"{text!r} does not name an object: expected pod/NAME, deployment/NAME, node/NAME, "
            "nodepool/NAME, nodeclaim/NAME or ec2nodeclass/NAME"
        )
    return KINDS[kind.lower()], name


def inquiry_of(
    view: ClusterView,
    catalog: Catalog,
    settings: Settings | DecisionSettings,
    now: datetime,
    done: tuple[Done, ...] = (),
    *,
    failures: tuple[CapacityFailure, ...] = (),
) -> Inquiry:
    """
    Return a cluster at one moment, and how to ask what the operator would do with one like it.

    What `failures` name is sold out, whatever the catalogue says.
    """
    catalog = without_sold_out(catalog, failures)

    def provisioned(changed: ClusterView, *, prove: bool) -> ProvisioningDecision:
        return decide(changed, catalog, settings, now, prove=prove).provisioning

    def disrupted(changed: ClusterView, *, prove: bool) -> DisruptionDecision:
        decision = decide(changed, catalog, settings, now, disruption=True, prove=prove).disruption
        assert decision is not None
        return decision

    known = settings if isinstance(settings, DecisionSettings) else decision_settings(settings)
    return Inquiry(
        view=view,
        catalog=catalog,
        priced=overlaid_catalog(view, catalog, known.disruption.policy.at(now)),
        now=now,
        provision=partial(provisioned, prove=True),
        disrupt=partial(disrupted, prove=True),
        ask=partial(provisioned, prove=False),
        ask_disrupt=partial(disrupted, prove=False),
        done=done,
        failures=failures,
    )


def recorded_inquiry(file: Path, at: datetime | None, settings: Settings | None) -> Inquiry:
    """
    Return the cluster at a moment of a flight record; raises CommandError where there is none.

    Without `settings`, those of the operator that wrote the record hold.
    """
    try:
        with file.open("rb") as lines:
            found = moment_at(bounded_lines(lines, name=str(file)), at)
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
            f"{file}: the settings in it cannot be read", hint="give settings with --set"
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
    try:
        return explain(inquiry, kind, name, namespace)
    except UnknownObjectError as error:
        raise CommandError(str(error), hint=error.hint) from None
