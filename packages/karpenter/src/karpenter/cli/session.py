"""What commands share that decide about a cluster: their options, and the cluster that these name."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.cluster import Event
from karpenter.cli.cluster import run_quietly, told_in_one_sentence
from karpenter.cli.errors import CommandError, note, notes
from karpenter.cli.files import named_values
from karpenter.cli.planning.input import read_input
from karpenter.cloud.catalogs.ec2.instancetypes import DEFAULT_REGION
from karpenter.cloud.catalogs.kwok_format import InvalidCatalog
from karpenter.cloud.catalogs.load import AWS, load_catalog
from karpenter.core.model.catalog import Catalog
from karpenter.core.state.cluster import ClusterView
from karpenter.doctor.objects import ObjectFinding
from karpenter.kube.errors import NotConfigured
from karpenter.operator.options import SettingError, Settings, parse_settings
from karpenter.session.catalog import CatalogUnclear, chosen_catalog, suited_catalog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from karpenter.cli.planning.autoscaling import Bound
    from karpenter.session.live import LiveCluster, RunningOperator


_NO_CLUSTER: Final = "give manifests with -f, or a live cluster with --context"


_TYPES: Final = "INSTANCE_TYPES_FILE_PATH"
"""The variable that gives an operator of the cloud in memory another catalogue."""


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster that is asked about, what is on sale to it, and the settings of its operator."""

    view: ClusterView
    catalog: Catalog
    settings: Settings
    title: str
    """The context, or the files."""

    live: bool
    """Whether it is a live cluster, with or without manifests that would be applied to it."""

    events: tuple[Event, ...] = ()
    """Events of launches that failed; of files, all that they hold."""

    findings: tuple[ObjectFinding, ...] = ()
    """What is wrong with NodePools and node classes and changes which machines are launched."""


def open_session(
    paths: tuple[str, ...],
    *,
    kubeconfig: str = "",
    context: str = "",
    catalog: str = "",
    given: tuple[str, ...] = (),
    hpa: Bound = "min",
    tell: Callable[[str], None],
) -> Session:
    """
    Return the cluster of manifests, the live one, or the live one as it would be with the manifests applied.

    Without manifests it is the cluster of the current context.

    Raises:
        CommandError: it cannot be read, or the catalogue or a setting cannot be used.
    """
    settings = settings_of(given)
    if catalog:
        catalog_named(catalog)  # refused before anything is read
    title, live = ", ".join(paths), None
    if kubeconfig or context or not paths:
        tell("reading the cluster")
        title, live, settings = read_cluster(kubeconfig, context, given)
    found = read_input(paths, live, hpa=hpa, tell=tell)
    if found.problems:
        raise CommandError(*found.problems)
    notes(found.skipped)
    host = live.host if live is not None else ""
    types = catalog_for(found.view, catalog, live=live is not None, host=host)
    return Session(
        view=found.view,
        catalog=types,
        settings=settings,
        title=title,
        live=live is not None,
        events=found.events,
        findings=found.findings,
    )


def read_cluster(kubeconfig: str, context: str, given: tuple[str, ...]) -> tuple[str, LiveCluster, Settings]:
    """Return the context, what its cluster holds, and the settings in force; raises CommandError."""
    # Manifests alone do not pay for loading a client.
    from karpenter.session.live import connected, read_live, running_operator  # noqa: PLC0415

    async def read() -> tuple[str, LiveCluster, RunningOperator]:
        async with connected(kubeconfig=kubeconfig, context=context) as connection:
            note(f"reading {connection.name}")
            operator = await running_operator(connection.client, named_values(given))
            return connection.context, await read_live(connection.client, operator.in_force), operator

    try:
        with told_in_one_sentence():
            title, live, operator = run_quietly(read())
    except CommandError as error:
        if isinstance(error.__cause__, NotConfigured) and not (kubeconfig or context):
            raise CommandError(*error.problems, hint=_NO_CLUSTER) from error
        raise
    notes(told_settings(operator))
    return title, live, operator.in_force.settings


def told_settings(operator: RunningOperator) -> Iterator[str]:
    """Say with which settings decisions are made, and which of the operator's cannot be had."""
    where, in_force = operator.installation, operator.in_force
    if operator.problem:
        yield f"settings are the defaults, for the operator's may not be read: {operator.problem}"
    elif not where.deployment:
        yield "settings are the defaults, for no Deployment of the operator was found"
    else:
        told = ", ".join(in_force.changed) or "the defaults"
        yield f"settings of deployment {where.namespace}/{where.deployment}: {told}"
    if types := where.environment.get(_TYPES):
        yield f"warning: the operator has the instance types of {types}; name a copy with --catalog"
    for each in in_force.unusable:
        yield f"warning: the operator has another one, which cannot be read here: {each}"


def catalog_for(view: ClusterView, asked: str, *, live: bool, host: str = "") -> Catalog:
    """Return the catalogue that is asked for, or the one that suits a cluster; else raises CommandError."""
    name = catalog_name_for(view, asked, live=live, host=host)
    suited = suited_catalog(view, host=host)
    if name == AWS and not asked:
        note(f"note: no zone says in which region this is; prices are those of {DEFAULT_REGION}")
    elif name.startswith(AWS) and suited.startswith(f"{AWS}:") and _region(name) != _region(suited):
        note(f"note: the cluster is in {_region(suited)}, and catalogue {name} is that of {_region(name)}")
    return catalog_named(name)


def _region(catalog: str) -> str:
    return catalog.partition(":")[2] or DEFAULT_REGION


def catalog_name_for(view: ClusterView, asked: str, *, live: bool, host: str = "") -> str:
    try:
        return chosen_catalog(view, asked, live=live, host=host)
    except CatalogUnclear as error:
        raise CommandError(str(error), hint=error.hint) from error


def catalog_named(name: str) -> Catalog:
    """Return the catalogue of ``--catalog``; raises CommandError where there is none."""
    try:
        return load_catalog(name)
    except InvalidCatalog as error:
        raise CommandError(*str(error).splitlines()) from None


def moment_of(text: str | None, option: str = "--now") -> datetime:
    """Return the moment that an option names, or this one; raises CommandError where it is no time."""
    if text is None:
        return datetime.now(UTC)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise CommandError(f"{option}: {text!r} is not a time such as 2026-01-31T09:00:00Z") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def settings_of(given: tuple[str, ...]) -> Settings:
    """Return the settings of ``--set``; raises CommandError where one is none."""
    try:
        return parse_settings(named_values(given))
    except SettingError as error:
        raise CommandError(f"--set: {error}") from None
