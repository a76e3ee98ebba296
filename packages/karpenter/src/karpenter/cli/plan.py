"""``karpenter plan``: see every decision before it happens, offline or for a live cluster."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from karpenter.api.labels import CAPACITY_TYPE, ON_DEMAND, RESERVED, SPOT
from karpenter.api.price_annotations import annotated_floor
from karpenter.cli.errors import notes, progress
from karpenter.cli.files import files_option
from karpenter.cli.options import catalog_option, cluster_options, now_option, settings_option
from karpenter.cli.output import Output, echo, output_option_with, render
from karpenter.cli.planning.data import disruption_data, plan_data, rollout_data, why_data
from karpenter.cli.planning.decision import PlanDecision, decide, decision_settings
from karpenter.cli.planning.remarks import remarks
from karpenter.cli.planning.rollout import DriftRollout, rollout
from karpenter.cli.planning.rows import rollout_sentences
from karpenter.cli.planning.volumes import (
    missing_storage_classes,
    storage_class_hint,
    with_storage_classes,
)
from karpenter.cli.session import moment_of, open_session
from karpenter.core.model.pricing import EVERY_PRICE, family_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from karpenter.cli.planning.autoscaling import Bound
    from karpenter.core.model.catalog import Catalog
    from karpenter.core.state.cluster import ClusterView
    from karpenter.operator.options import Settings


hpa_option: Final = click.option(
    "--hpa",
    type=click.Choice(("min", "max")),
    default="min",
    show_default=True,
    help="Replicas of workloads with a HorizontalPodAutoscaler or ScaledObject: those of the manifest"
    " within its bounds, or the most it may ask for.",
)


storage_option: Final = click.option(
    "--assume-storage-classes",
    "assume",
    is_flag=True,
    help="Make volumes of StorageClasses that are not there where their pods go.",
)


class PlanGroup(click.Group):
    """A command that plans, with commands below it; these come first among the arguments, or not at all."""

    allow_extra_args = False
    allow_interspersed_args = True

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return ["diff"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        from karpenter.cli.plan_diff import diff  # noqa: PLC0415  it shares options with this module

        del ctx
        return diff if cmd_name == "diff" else None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args[:1] != ["diff"]:
            return click.Command.parse_args(self, ctx, args)
        ctx.args = args
        return args

    def invoke(self, ctx: click.Context) -> Any:
        if ctx.args[:1] != ["diff"]:
            return click.Command.invoke(self, ctx)
        name, command, args = self.resolve_command(ctx, list(ctx.args))
        assert command is not None
        with command.make_context(name, args, parent=ctx) as below:
            return command.invoke(below)


@click.group(
    cls=PlanGroup,
    invoke_without_command=True,
    subcommand_metavar="",
    epilog="Examples:\n\n"
    "  karpenter plan -f cluster/ -f new-deployment.yaml --catalog aws\n\n"
    "  karpenter plan --context production --disruption\n\n"
    "  karpenter plan --context production -f changed-nodepool.yaml\n\n"
    "  karpenter plan --context production --disruption -o html > plan.html\n\n"
    "  kubectl get nodes,nodeclaims,nodepools,pods -A -o yaml | karpenter plan -f - --disruption\n\n"
    "  karpenter plan diff before/ after/ -o markdown",
)
@files_option(required=False, text="The cluster, or what would be applied to a live one")
@cluster_options
@catalog_option
@now_option
@settings_option
@click.option(
    "--disruption", is_flag=True, help="Also show which machines would go, and what keeps the rest."
)
@hpa_option
@storage_option
@click.option("--why", is_flag=True, help="Also say of every placed pod why it goes there.")
@click.option("--strict", is_flag=True, help="Exit with 1 if a pod stays without a place.")
@output_option_with("text", "json", "yaml", "markdown", "html")
def plan(  # noqa: PLR0917  click hands over options by name
    paths: tuple[str, ...],
    context: str,
    kubeconfig: str,
    catalog: str,
    now: str | None,
    given: tuple[str, ...],
    disruption: bool,
    hpa: Bound,
    assume: bool,
    why: bool,
    strict: bool,
    output: Output,
) -> None:
    """
    Show which machines would be launched for these pods, and with --disruption which would go.

    Reads manifests, a live cluster or both, runs the solver that the operator runs, changes
    nothing, and prints the decision: new machines with their price, where every pod would
    land, which pods have no place and why, and how far the bill is from the cheapest possible.
    Manifests may be shortened; what an API server would refuse in the rest of them is refused.

    Exits 0 when the plan was made, 1 with --strict if a pod stays without a place, and 2
    when the input cannot be used.
    """
    moment = moment_of(now)
    with progress("reading the cluster") as doing:
        # What is read stays until the end and has no cycles: looking for some takes a third of the time.
        gc.disable()
        try:
            session = open_session(
                paths,
                kubeconfig=kubeconfig,
                context=context,
                catalog=catalog,
                given=given,
                hpa=hpa,
                tell=doing,
            )
            gc.freeze()
        finally:
            gc.enable()
        view, types, settings = session.view, session.catalog, session.settings
        missing = missing_storage_classes(view)
        if assume:
            view = with_storage_classes(view, missing)
        notes(map(str, session.findings))
        notes(without_effect(settings, view, types))
        doing(f"deciding about {len(view.pods):,} pods and {len(view.nodes):,} nodes")
        decision = decide(view, types, settings, moment, disruption=disruption)
        notes(decision.provisioning.left_out)
        change = None
        if disruption:
            doing("deciding about everything that has drifted")
            change = rollout(decision, view, types, decision_settings(settings), moment)
        doing("writing the plan")
        told = [*remarks(decision, view, types)]
        if missing and not assume and not session.live:
            told.append(storage_class_hint(missing))
        if output.form == "html":
            from karpenter.cli.console import plan_page, planned_document  # noqa: PLC0415  only html needs it
            from karpenter.cli.why import inquiry_of  # noqa: PLC0415  as above

            if change is not None:
                told += rollout_sentences(change)
            document = planned_document(decision, view, types, moment, title=session.title, notes=told)
            click.echo(plan_page(document, inquiry_of(view, types, settings, moment)), nl=False)
        else:
            _write(decision, told, change, output, why=why)
    sys.exit(1 if strict and decision.plan.refusals else 0)


def _write(
    decision: PlanDecision, told: list[str], change: DriftRollout | None, output: Output, *, why: bool
) -> None:
    if output.form == "text":
        from karpenter.cli.planning.page import show  # noqa: PLC0415  only text needs rich

        show(decision, why=why, remarks=told, change=change)
    elif output.form == "markdown":
        from karpenter.cli.planning.markdown import plan_markdown  # noqa: PLC0415  only for Markdown

        echo(plan_markdown(decision, told, change), nl=False)
    else:
        click.echo(render(_data(decision, told, change, why=why), output.form), nl=False)


def _data(
    decision: PlanDecision, told: Iterable[str], change: DriftRollout | None, *, why: bool
) -> dict[str, Any]:
    data = plan_data(decision, told)
    if why:
        data |= why_data(decision.plan, decision.names)
    if decision.disruption is not None:
        data |= disruption_data(decision.disruption, decision.names)
    if change is not None:
        data |= rollout_data(change)
    return data


def without_effect(settings: Settings, view: ClusterView, types: Catalog) -> Iterator[str]:
    """Say which prices and floors that were given change nothing: typing errors, mostly."""
    if view.overlays and not settings.feature_gates["NodeOverlay"]:
        names = ", ".join(sorted(each.name for each in view.overlays.values()))
        yield f"NodeOverlay {names} is not applied: --set feature-gates=NodeOverlay=true enables it"
    static = [each for each in view.pools.values() if each.spec.replicas is not None]
    if static and not settings.feature_gates["StaticCapacity"]:
        names = ", ".join(sorted(each.name for each in static))
        yield f"NodePool {names} launches nothing: --set feature-gates=StaticCapacity=true enables replicas"
    for pool in view.pools.values():
        entries = pool.spec.template.spec.requirements
        ways = [set(each.values) for each in entries if each.key == CAPACITY_TYPE and each.operator == "In"]
        if annotated_floor(pool.metadata.annotations)[0] and ways and not ways[0] & {ON_DEMAND, RESERVED}:
            yield f"NodePool {pool.name} keeps nothing on demand: its requirements allow no on-demand nodes"
    sold = {(kind.name, offering.zone) for kind in types.types for offering in kind.offerings}
    for each in settings.commitments:
        if not any(each.matches(*place) for place in sold):
            what = each.instance_type or f"instance type{f' of family {each.family}' if each.family else ''}"
            where = f" in {each.zone or each.region}" if each.zone or each.region else ""
            name = each.name or each.kind
            yield f"commitment {name} pays for nothing: the catalogue sells no {what}{where}"
        elif each.instance_type and each.instance_type not in {kind for kind, _ in sold}:
            name, family = each.name or each.kind, family_of(each.instance_type)
            missing = f"the catalogue sells {family}, but no {each.instance_type}"
            yield f"commitment {name} is used by other sizes: {missing}"
    families = {family_of(kind) for kind, _ in sold} | {SPOT, ON_DEMAND, RESERVED, EVERY_PRICE}
    for name in settings.price_factors:
        if name not in families:
            yield (
                f"price-factors: {name} changes no price: expected a family of the catalogue, spot,"
                f" on-demand, reserved or {EVERY_PRICE}"
            )
