"""
Completion of values: what may follow an option, and the names of objects.

While a shell asks for completions, each parameter of a command gets a type that knows what it may be, by
the name of the option, or by the metavariable of an argument. Names of objects come from the files of ``-f``,
else from the cluster that the command would look at, which has two seconds to answer. What cannot be found
out completes to nothing, without a word.
"""

from __future__ import annotations

import asyncio
import configparser
import logging
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from karpenter.api.meta import Resource

_WITHIN: Final = 2.0
_MOST: Final = 500

Completer: TypeAlias = Callable[[click.Context, str], Iterable[str]]


def complete_values(command: click.Command) -> None:
    """Let the parameters of a command, and of those below it, complete their values."""
    if isinstance(command, click.Group):
        for below in command.commands.values():
            complete_values(below)
    for parameter in command.params:
        completer = _completer_of(command, parameter)
        if completer is not None:
            parameter.type = _CompletedType(parameter.type, completer)


def _completer_of(command: click.Command, parameter: click.Parameter) -> Completer | None:
    if isinstance(parameter, click.Argument):
        return _BY_METAVAR.get(parameter.metavar or "")
    if "--set" in parameter.opts and command.name in _WITH_CHART:
        return _chart_values
    return next((_BY_OPTION[each] for each in parameter.opts if each in _BY_OPTION), None)


class _CompletedType(click.ParamType[Any]):
    """The type of a parameter, with what it may be; files where that is one of them."""

    def __init__(self, inner: click.ParamType[Any], completer: Completer) -> None:
        self.name = inner.name
        self._inner = inner
        self._completer = completer

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return self._inner.convert(value, param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        found = []
        with suppress(Exception):  # a shell has no place for errors
            listed = incomplete.rpartition(",")[0] + "," if "," in incomplete and _is_listed(param) else ""
            begun = incomplete.removeprefix(listed)
            found = [listed + each for each in self._completer(ctx, begun) if each.startswith(begun)]
        items = [CompletionItem(each) for each in found[:_MOST]]
        if items or "FILE" not in str(param.metavar or ""):
            return items
        return [CompletionItem(incomplete, type="file")]


def _is_listed(param: click.Parameter) -> bool:
    return bool({"--resources", "--instance-types"} & set(param.opts))


def _catalogs(ctx: click.Context, incomplete: str) -> Iterable[str]:
    from karpenter.cloud.catalogs.load import built_in_names  # noqa: PLC0415  every completer loads its own

    del ctx, incomplete
    return built_in_names()


def _regions(ctx: click.Context, incomplete: str) -> Iterable[str]:
    from karpenter.cloud.catalogs.ec2.data import load_data  # noqa: PLC0415  likewise

    del ctx, incomplete
    return sorted(load_data().regions)


def _instance_types(ctx: click.Context, incomplete: str) -> Iterable[str]:
    from karpenter.cloud.catalogs.load import load_catalog  # noqa: PLC0415  likewise

    del incomplete
    named = ctx.params.get("catalog")
    return sorted(
        name for each in ([named] if named else ["kwok", "aws"]) for name in load_catalog(each).by_name
    )


def _contexts(ctx: click.Context, incomplete: str) -> Iterable[str]:
    from karpenter.api.manifests import read_documents  # noqa: PLC0415  likewise
    from karpenter.base.files import read_bounded  # noqa: PLC0415  likewise

    del incomplete
    default = str(Path.home() / ".kube" / "config")
    named = ctx.params.get("kubeconfig") or os.environ.get("KUBECONFIG") or default
    for path in str(named).split(os.pathsep):
        with suppress(OSError):
            for content in read_documents(read_bounded(Path(path)).decode(), source=path, repeated=[]):
                yield from (str(each["name"]) for each in content.get("contexts") or ())


def _profiles(ctx: click.Context, incomplete: str) -> Iterable[str]:
    del ctx, incomplete
    home = Path.home() / ".aws"
    read = configparser.ConfigParser(interpolation=None, strict=False)
    read.read([os.environ.get("AWS_CONFIG_FILE", home / "config"), home / "credentials"])
    return sorted({each.removeprefix("profile ") for each in read.sections() if not each.startswith("sso-")})


def _settings(ctx: click.Context, incomplete: str) -> Iterable[str]:
    from karpenter.operator.options import GATES, SETTINGS  # noqa: PLC0415  likewise

    del ctx
    if incomplete.startswith("feature-gates="):
        return [f"feature-gates={name}={value}" for name in GATES for value in ("true", "false")]
    return [f"{each.name}=" for each in SETTINGS]


def _chart_values(ctx: click.Context, incomplete: str) -> Iterable[str]:
    from karpenter.chart.known_values import VALUES  # noqa: PLC0415  likewise

    del ctx
    chosen = next((each for each in VALUES if incomplete.startswith(f"{each.path}=")), None)
    if chosen is None:
        return [f"{each.path}=" for each in VALUES]
    values = chosen.choices or (("true", "false") if isinstance(chosen.default, bool) else ())
    return [f"{chosen.path}={each}" for each in values]


def _sorts(ctx: click.Context, incomplete: str) -> Iterable[str]:
    from karpenter.top.model import SORTS  # noqa: PLC0415  likewise

    del ctx, incomplete
    return [f"{each}={way}" for each in SORTS for way in ("asc", "dsc")]


def _resources(ctx: click.Context, incomplete: str) -> Iterable[str]:
    del ctx, incomplete
    return ("cpu", "memory", "pods", "ephemeral-storage", "gpu")


def _rules(ctx: click.Context, incomplete: str) -> Iterable[str]:
    from karpenter.doctor.rules import RULES  # noqa: PLC0415  likewise

    del ctx, incomplete
    return [rule.id for rule in RULES]


def _aliases(ctx: click.Context, incomplete: str) -> Iterable[str]:
    from karpenter.api.ec2nodeclass import FAMILY_OF_ALIAS  # noqa: PLC0415  likewise

    del ctx, incomplete
    return [f"{each}@latest" for each in FAMILY_OF_ALIAS]


def _definitions(ctx: click.Context, incomplete: str) -> Iterable[str]:
    from karpenter.api.crd.definitions import DEFINITIONS  # noqa: PLC0415  likewise

    del ctx, incomplete
    return [each.kind.plural for each in DEFINITIONS]


def _namespaces(ctx: click.Context, incomplete: str) -> Iterable[str]:
    from karpenter.api.cluster import Namespace  # noqa: PLC0415  likewise

    del incomplete
    return sorted(each.name for each in _live(ctx, Namespace))


def _objects(ctx: click.Context, incomplete: str) -> Iterable[str]:
    """Return kinds with a slash, and after one the names of its objects."""
    from karpenter.api.kinds import ALL_KINDS  # noqa: PLC0415  likewise

    kinds = {kind.name.lower(): kind for kind in ALL_KINDS if _explained(kind.name.lower())}
    asked, slash, _ = incomplete.partition("/")
    if not slash or asked not in kinds:
        return [f"{each}/" for each in sorted(kinds)]
    found = _in_files(ctx, kinds[asked].name) or [
        (each.metadata.namespace, each.name) for each in _live(ctx, kinds[asked].struct)
    ]
    names = {name for _, name in found}
    qualified = {f"{namespace}/{name}" for namespace, name in found if namespace}
    named = ctx.params.get("namespace")
    of_namespace = {name for namespace, name in found if namespace == named} if named else names
    return [f"{asked}/{each}" for each in (*sorted(of_namespace), *sorted(qualified))]


def _explained(kind: str) -> bool:
    from karpenter.cli.why import target_of  # noqa: PLC0415  likewise

    try:
        target_of(f"{kind}/x")
    except click.ClickException:
        return False
    return True


def _in_files(ctx: click.Context, kind: str) -> list[tuple[str, str]]:
    from karpenter.api.manifests import Document, documents_or_refusals  # noqa: PLC0415  likewise
    from karpenter.cli.files import read_texts  # noqa: PLC0415  likewise

    found = [
        document.names
        for text in read_texts(each for each in ctx.params.get("paths") or () if each != "-")
        for document in documents_or_refusals(text.content, text.source)
        if isinstance(document, Document) and document.identity[1] == kind
    ]
    return [(str(namespace or ""), str(name)) for namespace, name in found if name]


def _live(ctx: click.Context, kind: type[Resource]) -> list[Any]:
    import structlog  # noqa: PLC0415  likewise

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    return asyncio.run(_listed(kind, ctx.params.get("kubeconfig") or "", ctx.params.get("context") or ""))


async def _listed(kind: type[Resource], kubeconfig: str, context: str) -> list[Any]:
    from random import Random  # noqa: PLC0415  likewise

    from karpenter.base.clock import SystemClock  # noqa: PLC0415  likewise
    from karpenter.kube.client import Client  # noqa: PLC0415  likewise
    from karpenter.kube.http import HttpTransport  # noqa: PLC0415  likewise
    from karpenter.kube.kubeconfig import find_cluster  # noqa: PLC0415  likewise

    async with asyncio.timeout(_WITHIN):
        found = await find_cluster(
            environ=os.environ, clock=SystemClock(), kubeconfig=kubeconfig, context=context
        )
        client = Client(HttpTransport(found.endpoint, found.credentials), chance=Random())  # noqa: S311  retries
        try:
            async for page in client.pages(kind, limit=_MOST):
                return list(page.items)
        finally:
            await client.close()
    return []


_WITH_CHART: Final = frozenset({"install", "manifests", "render"})
"""Commands whose ``--set`` is about values of the chart."""

_BY_OPTION: Final[dict[str, Completer]] = {
    "--ami-alias": _aliases,
    "--catalog": _catalogs,
    "--context": _contexts,
    "--ignore": _rules,
    "--instance-types": _instance_types,
    "--karpenter-namespace": _namespaces,
    "--namespace": _namespaces,
    "--node-sort": _sorts,
    "--profile": _profiles,
    "--region": _regions,
    "--resources": _resources,
    "--set": _settings,
}
_BY_METAVAR: Final[dict[str, Completer]] = {
    "CATALOG": _catalogs,
    "KIND/NAME": _objects,
    "TYPE": _instance_types,
    "[CATALOG]": _catalogs,
    "[NAME]...": _definitions,
}
