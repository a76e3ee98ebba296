"""``karpenter top``: the nodes of any cluster as bars, what they cost, and what would become of them."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from karpenter import __version__
from karpenter.base.files import read_bounded
from karpenter.cli.cluster import cluster_refusal, run_quietly
from karpenter.cli.errors import CommandError, note, notes, progress
from karpenter.cli.files import files_option, named_values
from karpenter.cli.options import catalog_option
from karpenter.cli.output import Output, output_option_with, render
from karpenter.cli.session import catalog_named, moment_of, settings_of, told_settings
from karpenter.kube.errors import KubeError
from karpenter.session.access import ClusterUnreadable
from karpenter.session.catalog import CatalogUnclear
from karpenter.why.costs import DEFAULT_TEAM_LABEL

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from datetime import datetime

    from karpenter.core.model.catalog import Catalog
    from karpenter.core.state.cluster import ClusterView
    from karpenter.operator.options import Settings
    from karpenter.top.advice import Advice
    from karpenter.top.feed import Adviser, TopFeed, TopMonitor
    from karpenter.top.snapshot import TopOptions, TopSnapshot

_FLAGS: Final = frozenset(
    {
        "attribution",
        "context",
        "disable-pricing",
        "extra-labels",
        "kubeconfig",
        "node-selector",
        "node-sort",
        "once",
        "resources",
        "style",
        "version",
    }
)
"""The flags that may have one dash: those of eks-node-viewer, and ``once``, which ``-o nce`` is not."""

_PIPE: Final = 120
_MISSING: Final = "textual"


class _OneDashCommand(click.Command):
    """A command whose flags may begin with one dash, as those of programs in Go."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [each for arg in args for each in _two_dashes(arg)])


def _two_dashes(argument: str) -> list[str]:
    name, equals, value = argument.lstrip("-").partition("=")
    if not argument.startswith("-") or name not in _FLAGS:
        return [argument]
    if name in {"attribution", "disable-pricing", "version"} and equals:
        return [f"--{name}"] if value.lower() in {"1", "t", "true"} else []
    return [f"--{name}{equals}{value}"]


@click.command(
    cls=_OneDashCommand,
    epilog="Examples:\n\n"
    "  karpenter top --once -f examples/top\n\n"
    "  karpenter top --context production --resources cpu,memory\n\n"
    "  karpenter top --node-sort price=dsc --node-selector team=web\n\n"
    "  karpenter top --extra-labels team,eks-node-viewer/node-age",
)
@files_option(required=False, text="Show the cluster of these manifests instead of a live one")
@click.option("--context", metavar="NAME", help="The context of the kubeconfig.")
@click.option("--kubeconfig", metavar="FILE", help="The kubeconfig; several may be joined with colons.")
@click.option("--node-selector", metavar="LABELS", help="Only nodes and NodeClaims with these labels.")
@click.option(
    "--node-sort",
    metavar="NAME=asc|dsc",
    help="By creation, name, price, cpu, memory, pods, pool, zone, type or a label.  [default: creation=dsc]",
)
@click.option("--resources", metavar="NAMES", help="A bar for each of these resources.  [default: cpu]")
@click.option(
    "--extra-labels",
    metavar="LABELS",
    help="A column for each of these labels; some are computed, see the guide.",
)
@click.option("--style", metavar="COLOURS", help="Good, ok and bad.  [default: #04B575,#FFFF00,#FF0000]")
@click.option("--disable-pricing", is_flag=True, default=None, help="Show no prices.")
@catalog_option
@click.option(
    "--live-prices",
    is_flag=True,
    help="Ask AWS for the prices of this moment, with your credentials, and again twice a day.",
)
@click.option(
    "--team-label",
    default=DEFAULT_TEAM_LABEL,
    show_default=True,
    metavar="LABEL",
    help="The label of pods, or of their namespaces, by which costs are summed.",
)
@click.option("--no-plan", is_flag=True, help="Do not ask what would become of nodes and pods.")
@click.option("--set", "given", multiple=True, metavar="NAME=VALUE", help="A setting of the operator.")
@click.option("--now", metavar="RFC3339", help="The moment, with -f.  [default: this moment]")
@click.option("--once", is_flag=True, help="Print what the screen shows, once.")
@output_option_with("text", "json", "yaml")
@click.option("--attribution", is_flag=True, help="Print which libraries the screen is made with.")
@click.option("-v", "--version", "show_version", is_flag=True, help="Print the version.")
def top(  # noqa: PLR0917  click hands over options by name
    paths: tuple[str, ...],
    catalog: str,
    live_prices: bool,
    team_label: str,
    no_plan: bool,
    given: tuple[str, ...],
    now: str | None,
    once: bool,
    output: Output,
    attribution: bool,
    show_version: bool,
    **flags: Any,
) -> None:
    """
    Show the nodes of any cluster: how full they are, what they cost, what would go and why it stays.

    Reads and watches, and changes nothing. Needs neither Karpenter in the cluster nor an account of
    AWS: prices are those of the built-in catalogue. With -o json or --once it prints once; otherwise
    it shows a screen until q is pressed.

    Settings that are not given are taken from ~/.eks-node-viewer, if that file is there.
    """
    if attribution or show_version:
        click.echo(_attribution() if attribution else _version())
        return
    values, options = _options(flags)
    options = msgspec.structs.replace(options, team_label=team_label)
    settings = settings_of(given)
    if catalog:
        catalog_named(catalog)
    moment = moment_of(now)  # refused before anything is read
    clock = partial(moment_of, None) if now is None else lambda: moment
    feed = _from_files(paths) if paths else None

    async def find() -> TopMonitor:
        from karpenter.top.feed import TopMonitor  # noqa: PLC0415  help must answer at once

        cluster, in_force = (feed, settings) if feed is not None else await _live(values, given, no_plan)
        adviser = None if no_plan else _adviser(in_force)
        return TopMonitor(cluster, adviser, catalog=catalog, live_prices=live_prices, clock=clock)

    if not once and output.form == "text":
        _check_screen()
        with _refused():
            run_quietly(_screen(find, options))
        return
    with progress("looking at the cluster"), _refused():
        snapshot = run_quietly(_once(find, options))
    notes(f"note: {each}" for each in snapshot.notes)
    if output.form == "text":
        _print(snapshot, options)
    else:
        from karpenter.top.snapshot import snapshot_data  # noqa: PLC0415  as above

        click.echo(render(snapshot_data(snapshot, options), output.form), nl=False)


def _options(flags: dict[str, Any]) -> tuple[dict[str, str], TopOptions]:
    """Return the value of every flag, wherever it comes from, and what they say about the screen."""
    from karpenter.top.config import FILE, TopConfigError, options_of, resolve  # noqa: PLC0415  as above

    named = {name.replace("_", "-"): value for name, value in flags.items()}
    named["disable-pricing"] = "true" if named["disable-pricing"] else None
    try:
        text = read_bounded(Path.home() / FILE).decode("utf-8", errors="replace")
    except (OSError, RuntimeError):
        text = ""
    try:
        values = resolve(named, os.environ, text)
        return values, options_of(values)
    except TopConfigError as error:
        raise CommandError(str(error)) from None


def _adviser(settings: Settings) -> Adviser:
    """Return what asks ``karpenter plan --disruption`` about a view."""
    from karpenter.cli.planning.decision import decide  # noqa: PLC0415  as above
    from karpenter.top.advice import advise  # noqa: PLC0415  as above

    def ask(view: ClusterView, catalog: Catalog, now: datetime) -> Advice:
        found = decide(view, catalog, settings, now, disruption=True)
        return advise(view, found.provisioning, found.disruption)

    return ask


def _from_files(paths: tuple[str, ...]) -> TopFeed:
    from karpenter.cli.planning.input import read_input  # noqa: PLC0415  as above
    from karpenter.top.feed import StaticFeed  # noqa: PLC0415  as above

    with progress("reading manifests") as doing:
        found = read_input(paths, tell=doing)
    if found.problems:
        raise CommandError(*found.problems)
    return StaticFeed(found.view, found.skipped)


async def _live(values: dict[str, str], given: tuple[str, ...], no_plan: bool) -> tuple[TopFeed, Settings]:
    """Return the live cluster, and the settings of its operator."""
    from karpenter.session.live import connect, running_operator  # noqa: PLC0415  as above
    from karpenter.top.feed import LiveFeed  # noqa: PLC0415  as above

    connection = await connect(kubeconfig=values["kubeconfig"], context=values["context"])
    note(f"reading {connection.name}")
    try:
        operator = await running_operator(connection.client, named_values(given))
    except BaseException:
        await connection.client.close()
        raise
    settings = operator.in_force.settings
    if not no_plan and operator.installation.deployment:
        notes(told_settings(operator))
    return LiveFeed(connection.client, None if no_plan else settings), settings


async def _once(find: Callable[[], Awaitable[TopMonitor]], options: TopOptions) -> TopSnapshot:
    monitor = None
    try:
        monitor = await find()
        await monitor.start()
        await monitor.refresh(now=True)
        await monitor.advise()
        return monitor.take(options)
    finally:
        if monitor is not None:
            await monitor.stop()


async def _screen(find: Callable[[], Awaitable[TopMonitor]], options: TopOptions) -> None:
    from karpenter.top.screen import show  # noqa: PLC0415  needs the extra

    await show(await find(), options)


@contextmanager
def _refused() -> Iterator[None]:
    """Turn what a cluster refuses into the error of a command."""
    try:
        yield
    except CatalogUnclear as error:
        raise CommandError(str(error), hint=error.hint) from error
    except KubeError as error:
        refused = cluster_refusal(error)
        more = f"{refused.hint}; or --no-plan, which needs nodes and pods alone"
        hint = more if isinstance(error, ClusterUnreadable) else refused.hint
        raise CommandError(*refused.problems, hint=hint) from error


def _check_screen() -> None:
    """Refuse a screen where there is no terminal, or no library for it."""
    try:
        import textual  # noqa: F401, PLC0415  an extra
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != _MISSING:
            raise
        raise CommandError(
            "the screen needs textual, which is not installed here",
            hint="pip install textual, or print once with --once",
        ) from None
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise CommandError(
            "the screen needs a terminal, and this is none", hint="print once with --once or -o json"
        )


def _print(snapshot: TopSnapshot, options: TopOptions) -> None:
    from karpenter.top.table import TextConsole  # noqa: PLC0415  as above
    from karpenter.top.text import whole_page  # noqa: PLC0415  as above

    console = TextConsole()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _PIPE
    console.print(whole_page(snapshot, options, console.width))


def _version() -> str:
    return f"karpenter top version {__version__}\ncommit: \nbuilt at: \nbuilt by: "


def _attribution() -> str:
    lines = []
    for name in ("aiohttp", "click", "msgspec", "numpy", "rich", "textual"):
        try:
            about: Any = metadata.metadata(name)
        except metadata.PackageNotFoundError:
            continue
        licence = about.get("License-Expression") or (about.get("License") or "").partition("\n")[0]
        lines.append(f"{name} {about['Version']}: {licence or 'see its package'}")
    return "\n".join(lines)
