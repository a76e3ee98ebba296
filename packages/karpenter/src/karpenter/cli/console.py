"""``karpenter console``: the cluster in the browser, live, from a flight record, or as a plan."""

from __future__ import annotations

import asyncio
import json
import webbrowser
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from random import Random
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from karpenter.api.labels import INSTANCE_TYPE, ZONE
from karpenter.api.meta import ObjectMeta
from karpenter.api.node import Node
from karpenter.base.clock import SystemClock
from karpenter.base.files import LARGEST_TEXT, bounded_lines, read_bounded
from karpenter.cli.cluster import run_quietly, told_in_one_sentence
from karpenter.cli.errors import CommandError, note, notes, progress
from karpenter.cli.files import files_option, named_values
from karpenter.cli.group import how_to_install_local
from karpenter.cli.options import catalog_option, cluster_options
from karpenter.cli.output import Output, output_option_with, render
from karpenter.cli.planning.data import disruption_data, plan_data
from karpenter.cli.planning.decision import PlanDecision, decide
from karpenter.cli.planning.input import read_input
from karpenter.cli.planning.remarks import remarks
from karpenter.cli.session import (
    catalog_for,
    catalog_name_for,
    catalog_named,
    moment_of,
    settings_of,
    told_settings,
)
from karpenter.cli.why import explained, inquiry_of, recorded_inquiry, target_of
from karpenter.cloud.catalogs.current import CurrentCatalog
from karpenter.console.live import ClusterFollower
from karpenter.console.page import render_page, with_answers
from karpenter.console.plan import plan_document
from karpenter.console.record import fitting_interval, plan_at, read_record, sampled_moments
from karpenter.console.server import ConsoleServer, ConsoleSource, FixedSource, Unanswerable
from karpenter.console.state import ConsoleDocument, Snapshot, SnapshotBuilder
from karpenter.core.model.catalog import EMPTY
from karpenter.core.state.cluster import view_of
from karpenter.operator.kinds import watched_kinds
from karpenter.replay.record import Unreadable
from karpenter.session.catalog import suited_catalog
from karpenter.session.live import connected, running_operator
from karpenter.why.costs import DEFAULT_TEAM_LABEL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from karpenter.core.model.catalog import Catalog
    from karpenter.core.state.cluster import ClusterView
    from karpenter.kube.client import Client
    from karpenter.operator.options import Settings
    from karpenter.why.answer import Explanation, Inquiry

SANDBOXES: Final = "karpenter.console"
"""The entry-point group in which ``karpenter-local`` names the cluster of ``--demo``."""

_SAMPLES: Final = 12
_ANSWER_SECONDS: Final = 20.0
_PLAN_SECONDS: Final = 20.0
_MOMENTS: Final = 8
_SAME: Final = timedelta(milliseconds=1)
"""The page has times in milliseconds, and a record in microseconds."""


@click.command(
    epilog="Examples:\n\n"
    "  karpenter console --context production\n\n"
    "  karpenter console --record flight.jsonl\n\n"
    "  karpenter plan -f cluster/ -o json > plan.json; karpenter console --plan plan.json\n\n"
    "  karpenter console --demo"
)
@cluster_options
@click.option(
    "--record",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Show a flight record, with a slider through time.",
)
@click.option(
    "--plan",
    "saved",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Show what `karpenter plan -o json` has printed.",
)
@click.option("--demo", is_flag=True, help="Show a cluster on this machine alone, with workloads.")
@files_option(required=False, text="Show a plan for these manifests")
@catalog_option
@click.option(
    "--live-prices",
    is_flag=True,
    help="Of a live cluster: ask AWS for the prices of this moment, with your credentials.",
)
@click.option(
    "--team-label",
    default=DEFAULT_TEAM_LABEL,
    show_default=True,
    metavar="LABEL",
    help="The label of pods, or of their namespaces, by which costs are summed.",
)
@click.option("--set", "given", multiple=True, metavar="NAME=VALUE", help="A setting of the operator.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="NUMBER",
    help="The port on 127.0.0.1.  [default: any free one]",
)
@click.option("--browser/--no-browser", default=True, help="Whether to open the browser.")
@output_option_with("text", "json")
def console(  # noqa: PLR0917  click hands over options by name
    context: str,
    kubeconfig: str,
    record: Path | None,
    saved: Path | None,
    demo: bool,
    paths: tuple[str, ...],
    catalog: str,
    live_prices: bool,
    team_label: str,
    given: tuple[str, ...],
    port: int,
    browser: bool,
    output: Output,
) -> None:
    """
    See the cluster in the browser: its machines and pods, every decision, what-if, and the money.

    Serves a page on loopback, and prints its URL, which nothing else on this machine can
    guess. The cluster is that of the current context, another live one, a flight record, a saved plan,
    manifests, or a demo. Nothing is written to the cluster. Ctrl-C ends it.
    """
    chosen = [bool(context or kubeconfig), record is not None, saved is not None, demo, bool(paths)]
    if sum(chosen) > 1:
        raise CommandError(
            "more than one thing to show",
            hint="give one of --context, --kubeconfig, --record, --plan, --demo or -f",
        )
    settings = settings_of(given)
    serving = _Serving(
        settings,
        catalog,
        given=given,
        live_prices=live_prices,
        team_label=team_label,
        port=port,
        browser=browser,
        output=output,
    )
    with suppress(KeyboardInterrupt):
        if record is not None:
            run_quietly(serving.recorded(record, settings if given else None))
        elif saved is not None:
            run_quietly(serving.fixed(FixedSource(saved_plan(saved, catalog))))
        elif paths:
            run_quietly(serving.fixed(_manifests(paths, catalog, settings, team_label)))
        elif demo:
            run_quietly(serving.demo())
        else:
            with told_in_one_sentence():
                run_quietly(serving.live(kubeconfig, context))


class _Serving:
    """One run of the server."""

    def __init__(
        self,
        settings: Settings,
        catalog: str,
        *,
        given: tuple[str, ...],
        live_prices: bool,
        team_label: str,
        port: int,
        browser: bool,
        output: Output,
    ) -> None:
        self._settings, self._given = settings, given
        self._catalog = catalog
        self._live_prices = live_prices
        self._team_label = team_label
        self._port = port
        self._browser = browser
        self._output = output

    async def fixed(self, source: FixedSource) -> None:
        await self._serve(source)

    async def recorded(self, record: Path, settings: Settings | None) -> None:
        """Serve a flight record; plans are worked out meanwhile."""
        source = record_source(record, settings, self._team_label)
        await self._serve(source, self._sample(source, record, settings))

    async def live(self, kubeconfig: str, context: str) -> None:
        async with connected(kubeconfig=kubeconfig, context=context) as connection:
            note(f"reading {connection.name}")
            client = connection.client
            operator = await running_operator(client, named_values(self._given))
            notes(told_settings(operator))
            self._settings = operator.in_force.settings
            catalog = live_catalog(self._catalog, live=self._live_prices, host=client.host)
            await self._follow(client, cluster_title(connection.cluster, connection.context), catalog)

    async def demo(self) -> None:
        """Serve the sandbox of ``karpenter-local``."""
        note("Starting the demo's cluster.")
        async with AsyncExitStack() as stack:
            sandbox = demo_cluster()
            client, catalog = await stack.enter_async_context(sandbox())
            await self._follow(client, "demo", lambda _: catalog)

    async def _follow(self, client: Client, title: str, catalog: Callable[[ClusterView], Catalog]) -> None:
        follower = ClusterFollower(
            client,
            title=title,
            catalog=catalog,
            ask=lambda view, types, now: inquiry_of(view, types, self._settings, now),
            clock=SystemClock(),
            chance=Random(),  # noqa: S311  retries
            team_label=self._team_label,
            needed=watched_kinds(self._settings),
        )
        async with follower:
            await self._serve(follower)

    async def _serve(self, source: ConsoleSource, *work: Any) -> None:
        try:
            async with (
                ConsoleServer(source, explain=explain, port=self._port) as server,
                asyncio.TaskGroup() as group,
            ):
                for each in work:
                    group.create_task(each)
                self._tell(server.url)
                await asyncio.Event().wait()
        except OSError as error:
            raise CommandError(
                f"--port: {self._port} cannot be used: {error.strerror or error}", hint="leave --port out"
            ) from error

    def _tell(self, url: str) -> None:
        click.echo(render({"url": url}, "json") if self._output.form == "json" else f"{url}\n", nl=False)
        note("Ctrl-C ends it.")
        if self._browser:
            webbrowser.open(url)

    async def _sample(self, source: FixedSource, record: Path, settings: Settings | None) -> None:
        """Work out what the operator would have done at moments of a record, one after the other."""
        for moment in sampled_moments(source.document(), _SAMPLES):
            with suppress(CommandError):
                inquiry = await asyncio.to_thread(recorded_inquiry, record, moment, settings)
                source.add_plan(await asyncio.to_thread(plan_at, inquiry))


def cluster_title(name: str, context: str) -> str:
    """Return what people call a cluster: its name in the kubeconfig, of an ARN only the last part."""
    name = name or context or "this cluster"
    return name.rpartition("/")[2] if name.startswith("arn:") else name


def explain(inquiry: Inquiry, target: str) -> Explanation:
    """Return the answer of ``karpenter why``; raises Unanswerable where there is no such object."""
    try:
        kind, name = target_of(target)
        return explained(inquiry, kind, name, "")
    except CommandError as error:
        raise Unanswerable("; ".join(error.problems)) from error


def live_catalog(name: str, *, live: bool, host: str = "") -> Callable[[ClusterView], Catalog]:
    """
    Return what returns the catalogue that was named, or the one that suits a cluster, as it is now.

    While nothing in the cluster says which one does, nothing has a price.
    """
    source: CurrentCatalog | None = None

    def current(view: ClusterView) -> Catalog:
        nonlocal source
        if source is None:
            if not name and not suited_catalog(view, host=host):
                return EMPTY
            chosen = catalog_name_for(view, name, live=True, host=host)
            source = CurrentCatalog(chosen, live=live)
            source.catalog = catalog_named(chosen)
        source.update()
        assert source.catalog is not None
        return source.catalog

    return current


def demo_cluster() -> Any:
    """Return what starts the cluster of ``--demo``; raises CommandError where it is not installed."""
    for point in metadata.entry_points(group=SANDBOXES, name="demo"):
        return point.load()
    raise CommandError(
        "--demo is part of the distribution karpenter-local, which is not installed here",
        hint=how_to_install_local(),
    )


def record_document(file: Path, team_label: str = DEFAULT_TEAM_LABEL) -> ConsoleDocument:
    """Return a flight record as the page shows it; raises CommandError where it cannot be read."""
    try:
        with progress("reading the record"):
            with file.open("rb") as lines:
                interval = fitting_interval(bounded_lines(lines))
            with file.open("rb") as lines:
                return read_record(
                    bounded_lines(lines), title=file.name, interval=interval, team_label=team_label
                )
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror or error}") from error
    except Unreadable as error:
        raise CommandError(f"{file}: {error}") from error


def record_source(file: Path, settings: Settings | None, team_label: str = DEFAULT_TEAM_LABEL) -> FixedSource:
    """Return a flight record as a source; the cluster of a moment is read from the file when it is asked."""

    @lru_cache(_MOMENTS)
    def inquire(at: datetime | None) -> Inquiry:
        try:
            return recorded_inquiry(file, at + _SAME if at is not None else None, settings)
        except CommandError as error:
            raise Unanswerable("; ".join(error.problems)) from error

    return FixedSource(record_document(file, team_label), inquire)


def saved_plan(file: Path, catalog: str = "") -> ConsoleDocument:
    """Return the JSON of ``karpenter plan`` as the page shows it; raises CommandError where it is none."""
    try:
        data = json.loads(read_bounded(file, LARGEST_TEXT))
        if not isinstance(data, dict) or data.get("kind") != "Plan":
            raise CommandError(f"{file}: this is not what karpenter plan -o json prints")
        types = catalog_for(_bought(data), catalog, live=False)
        return plan_document(data, Snapshot(), types, datetime.now(UTC), title=file.name)
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CommandError(f"{file}: this is not what karpenter plan -o json prints") from error


def _bought(plan: dict[str, Any]) -> ClusterView:
    """Return a cluster of what a plan buys, as far as it says where that is sold."""
    names = (INSTANCE_TYPE, ZONE)
    sold = [(each["offering"]["instanceType"], each["offering"]["zone"]) for each in plan["newNodes"]]
    labels = [dict(zip(names, each, strict=True)) for each in sold]
    return view_of(Node(metadata=ObjectMeta(name=str(n), labels=each)) for n, each in enumerate(labels))


def _manifests(paths: tuple[str, ...], catalog: str, settings: Settings, team_label: str) -> FixedSource:
    with progress("reading manifests") as doing:
        found = read_input(paths, tell=doing)
    if found.problems:
        raise CommandError(*found.problems)
    notes(found.skipped)
    types, now = catalog_for(found.view, catalog, live=False), moment_of(None)
    with progress(f"deciding about {len(found.view.pods):,} pods and {len(found.view.nodes):,} nodes"):
        decision = decide(found.view, types, settings, now, disruption=True)
    document = planned_document(
        decision, found.view, types, now, title=", ".join(paths), team_label=team_label
    )
    return FixedSource(document, lambda _: inquiry_of(found.view, types, settings, now))


def planned_document(
    decision: PlanDecision,
    view: ClusterView,
    catalog: Catalog,
    now: datetime,
    *,
    title: str,
    team_label: str = DEFAULT_TEAM_LABEL,
    notes: Iterable[str] | None = None,
) -> ConsoleDocument:
    """Return a plan and its cluster as the page shows them, with its remarks or with these `notes`."""
    data = plan_data(decision, remarks(decision, view, catalog) if notes is None else notes)
    if decision.disruption is not None:
        data |= disruption_data(decision.disruption, decision.names)
    snapshot = SnapshotBuilder(team_label=team_label).build(view, catalog)
    return plan_document(
        data, snapshot, catalog, now, title=title, disruption=decision.disruption, team_label=team_label
    )


def plan_page(document: ConsoleDocument, inquiry: Inquiry) -> str:
    """Return a plan as one file, with answers to what people may click on."""
    ends = monotonic() + _ANSWER_SECONDS
    return render_page(with_answers(document, inquiry, explain, go_on=lambda: monotonic() < ends))


def record_page(file: Path, settings: Settings | None) -> str:
    """Return a flight record as one file, with answers about its last moment."""
    document = record_document(file)
    ends, plans = monotonic() + _PLAN_SECONDS, []
    note("Working out plans and answers, which takes up to 40 s.")
    for moment in reversed(sampled_moments(document, _SAMPLES)):
        if monotonic() < ends:
            with suppress(CommandError):
                plans.append(plan_at(recorded_inquiry(file, moment, settings)))
    document = msgspec.structs.replace(document, plans=tuple(reversed(plans)))
    return plan_page(document, recorded_inquiry(file, None, settings))
