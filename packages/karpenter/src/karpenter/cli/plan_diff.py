"""``karpenter plan diff``: two settings, two NodePools or two folders side by side."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path

import click
import msgspec

from karpenter.cli.errors import CommandError, notes, progress
from karpenter.cli.files import SourceText, files_option, read_texts
from karpenter.cli.options import catalog_option, now_option, settings_option
from karpenter.cli.output import Output, output_option_with, render
from karpenter.cli.plan import hpa_option, live_cluster, storage_option, without_effect
from karpenter.cli.planning.autoscaling import Bound
from karpenter.cli.planning.comparison import PlanComparison, PlanOutcome, outcome
from karpenter.cli.planning.data import comparison_data
from karpenter.cli.planning.decision import decide, decision_settings
from karpenter.cli.planning.input import LiveCluster, read_input
from karpenter.cli.planning.volumes import (
    missing_storage_classes,
    storage_class_hint,
    with_storage_classes,
)
from karpenter.cli.session import catalog_for, catalog_named, moment_of, settings_of


class _Common(msgspec.Struct, frozen=True, kw_only=True):
    """What both sides share."""

    texts: tuple[SourceText, ...]
    live: LiveCluster | None
    catalog: str
    given: tuple[str, ...]
    now: datetime
    hpa: Bound
    assume: bool
    """Whether StorageClasses that are not there are assumed."""


@click.command(
    epilog="Examples:\n\n"
    "  karpenter plan diff --context production changed-nodepool.yaml\n\n"
    "  karpenter plan diff before/ after/ --catalog aws -o markdown\n\n"
    "  karpenter plan diff -f cluster/ spot-pool.yaml on-demand-pool.yaml\n\n"
    "  karpenter plan diff -f cluster/ feature-gates=SpotToSpotConsolidation=true"
)
@click.argument("sides", nargs=-1, required=True, metavar="A [B]")
@files_option(required=False, text="What both sides have")
@click.option(
    "--context", default="", metavar="NAME", help="Read the live cluster of this context of the kubeconfig."
)
@click.option("--kubeconfig", default="", metavar="FILE", help="Read the live cluster of this kubeconfig.")
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
    it is compared with what is there with it.

    Each side is what the cluster comes to in the end: pods that wait have machines, and nodes that have
    drifted, expired or are empty are gone. Nothing is changed.

    Exits 0 when both plans were made, 1 with --strict if a pod has a place on the first side only, and
    2 when the input cannot be used.
    """
    if len(sides) > 2:  # noqa: PLR2004  A and B
        raise CommandError(
            f"plan diff compares two sides, not {len(sides)}", hint="give what both have with -f"
        )
    if len(sides) == 1 and not (paths or context or kubeconfig):
        raise CommandError(
            f"there is nothing to compare {sides[0]} with",
            hint="give B, or with -f, --context or --kubeconfig what is there without A",
        )
    if catalog:
        catalog_named(catalog)  # refused before anything is read
    with progress("reading the cluster") as doing:
        common = _Common(
            texts=tuple(read_texts(paths)),
            live=live_cluster((*paths, *sides), kubeconfig, context),
            catalog=catalog,
            given=given,
            now=moment_of(now),
            hpa=hpa,
            assume=assume,
        )
        first, second = sides if len(sides) == 2 else ("", sides[0])  # noqa: PLR2004  A and B
        doing(f"planning {first or f'without {second}'}")
        before = _side(first, common, name=first or f"without {second}")
        doing(f"planning {second}")
        after = _side(second, common, name=second if first else f"with {second}")
    comparison = PlanComparison(before=before, after=after)
    _write(comparison, output)
    sys.exit(1 if strict and comparison.stranded else 0)


def _side(side: str, common: _Common, *, name: str) -> PlanOutcome:
    is_setting = "=" in side and not Path(side).exists()
    settings = settings_of((*common.given, side) if is_setting else common.given)
    over = tuple(read_texts((side,) if side and not is_setting else ()))
    found = read_input((), common.live, hpa=common.hpa, texts=common.texts, over=over)
    if found.problems:
        raise CommandError(*found.problems)
    view, missing = found.view, missing_storage_classes(found.view)
    hints = []
    if common.assume:
        view = with_storage_classes(view, missing)
    elif missing and common.live is None:
        hints.append(storage_class_hint(missing))
    catalog = catalog_for(view, common.catalog, live=common.live is not None)
    told = (*found.skipped, *without_effect(settings, view, catalog), *hints)
    notes(f"{name}: {each}" for each in told)
    decided = decision_settings(settings)
    decision = decide(view, catalog, decided, common.now, disruption=True)
    return outcome(decision, view, catalog, decided, common.now, name=name)


def _write(comparison: PlanComparison, output: Output) -> None:
    if output.form == "text":
        from karpenter.cli.planning.page import show_comparison  # noqa: PLC0415  only text needs rich

        show_comparison(comparison)
    elif output.form == "markdown":
        from karpenter.cli.planning.markdown import comparison_markdown  # noqa: PLC0415  only for Markdown

        click.echo(comparison_markdown(comparison), nl=False)
    else:
        click.echo(render(comparison_data(comparison), output.form), nl=False)
