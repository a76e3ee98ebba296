"""``karpenter plan diff``: two settings, two NodePools or two folders side by side."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from karpenter.cli.errors import CommandError, notes, progress
from karpenter.cli.files import files_option, read_texts
from karpenter.cli.options import catalog_option, cluster_options, now_option, settings_option
from karpenter.cli.output import Output, output_option_with, render
from karpenter.cli.plan import hpa_option, storage_option, without_effect
from karpenter.cli.planning.comparison import PlanComparison, PlanOutcome, outcome
from karpenter.cli.planning.data import comparison_data
from karpenter.cli.planning.decision import decide, decision_settings
from karpenter.cli.planning.input import read_input
from karpenter.cli.planning.volumes import (
    missing_storage_classes,
    storage_class_hint,
    with_storage_classes,
)
from karpenter.cli.session import catalog_for, catalog_named, moment_of, read_cluster, settings_of

if TYPE_CHECKING:
    from datetime import datetime

    from karpenter.cli.files import SourceText
    from karpenter.cli.planning.autoscaling import Bound
    from karpenter.operator.options import Settings
    from karpenter.session.live import LiveCluster


class _Common:
    """What both sides share; a live cluster is read once."""

    def __init__(
        self, texts: tuple[SourceText, ...], given: tuple[str, ...], cluster: tuple[str, str] | None
    ) -> None:
        """`cluster` is the kubeconfig and the context of a live cluster."""
        self.texts = texts
        self._given = given
        self._cluster = cluster
        self._read: dict[tuple[str, ...], tuple[str, LiveCluster, Settings]] = {}

    @property
    def live(self) -> LiveCluster | None:
        return next((live for _, live, _ in self._read.values()), None)

    def settings(self, *more: str) -> Settings:
        """Return the settings of the operator that runs there, or the defaults, with those given."""
        given = (*self._given, *more)
        settings = settings_of(given)
        if self._cluster is None:
            return settings
        if given not in self._read:
            self._read[given] = read_cluster(*self._cluster, given)
        return self._read[given][2]


@click.command(
    epilog="Examples:\n\n"
    "  karpenter plan diff --context production changed-nodepool.yaml\n\n"
    "  karpenter plan diff before/ after/ --catalog aws -o markdown\n\n"
    "  karpenter plan diff -f cluster/ spot-pool.yaml on-demand-pool.yaml\n\n"
    "  karpenter plan diff -f cluster/ feature-gates=SpotToSpotConsolidation=true"
)
@click.argument("sides", nargs=-1, required=True, metavar="A [B]")
@files_option(required=False, text="What both sides have", alone=True)
@cluster_options
@catalog_option
@now_option
@settings_option
@hpa_option
@storage_option
@click.option("--strict", is_flag=True, help="Exit with 1 if a pod has a place on the first side only.")
@output_option_with("text", "json", "yaml", "markdown")
def diff(  # noqa: PLR0917  click hands over options by name
    sides: tuple[str, ...],
    paths: tuple[str, ...],
    context: str,
    kubeconfig: str,
    catalog: str,
    now: str | None,
    given: tuple[str, ...],
    hpa: Bound,
    assume: bool,
    strict: bool,
    output: Output,
) -> None:
    """
    Compare two plans: machines, the bill, evictions, and pods without a place.

    A and B are each a file or folder, whose objects are added to those of -f and of the live cluster
    and replace what is there already, or a setting as NAME=VALUE. With A alone, what is there without
    it is compared with what is there with it; without -f that is the cluster of the current context.

    Each side is what the cluster comes to in the end: pods that wait have machines, and nodes that have
    drifted, expired or are empty are gone. Nothing is changed.

    Exits 0 when both plans were made, 1 with --strict if a pod has a place on the first side only, and
    2 when the input cannot be used.
    """
    if len(sides) > 2:  # noqa: PLR2004  A and B
        raise CommandError(
            f"plan diff compares two sides, not {len(sides)}", hint="give what both have with -f"
        )
    if catalog:
        catalog_named(catalog)  # refused before anything is read
    files = [*paths, *(each for each in sides if not _is_setting(each))]
    is_live = bool(kubeconfig or context or not files or (len(sides) == 1 and not paths))
    with progress("reading the cluster") as doing:
        common = _Common(tuple(read_texts(paths)), given, (kubeconfig, context) if is_live else None)
        planned = partial(_side, common=common, catalog=catalog, now=moment_of(now), hpa=hpa, assume=assume)
        first, second = sides if len(sides) == 2 else ("", sides[0])  # noqa: PLR2004  A and B
        doing(f"planning {first or f'without {second}'}")
        before = planned(first, name=first or f"without {second}")
        doing(f"planning {second}")
        after = planned(second, name=second if first else f"with {second}")
    comparison = PlanComparison(before=before, after=after)
    _write(comparison, output)
    sys.exit(1 if strict and comparison.stranded else 0)


def _is_setting(side: str) -> bool:
    return "=" in side and not Path(side).exists()


def _side(
    side: str, common: _Common, *, catalog: str, now: datetime, hpa: Bound, assume: bool, name: str
) -> PlanOutcome:
    settings = common.settings(side) if _is_setting(side) else common.settings()
    over = tuple(read_texts((side,) if side and not _is_setting(side) else ()))
    found = read_input((), common.live, hpa=hpa, texts=common.texts, over=over)
    if found.problems:
        raise CommandError(*found.problems)
    view, missing = found.view, missing_storage_classes(found.view)
    hints = []
    if assume:
        view = with_storage_classes(view, missing)
    elif missing and common.live is None:
        hints.append(storage_class_hint(missing))
    host = common.live.host if common.live is not None else ""
    types = catalog_for(view, catalog, live=common.live is not None, host=host)
    notes(f"{name}: {each}" for each in (*found.skipped, *without_effect(settings, view, types), *hints))
    decided = decision_settings(settings)
    decision = decide(view, types, decided, now, disruption=True)
    return outcome(decision, view, types, decided, now, name=name)


def _write(comparison: PlanComparison, output: Output) -> None:
    if output.form == "text":
        from karpenter.cli.planning.page import show_comparison  # noqa: PLC0415  only text needs rich

        show_comparison(comparison)
    elif output.form == "markdown":
        from karpenter.cli.planning.markdown import comparison_markdown  # noqa: PLC0415  only for Markdown

        click.echo(comparison_markdown(comparison), nl=False)
    else:
        click.echo(render(comparison_data(comparison), output.form), nl=False)
