"""``karpenter definition``: a cluster definition as objects, and what a change of it would do."""

from __future__ import annotations

import json
import sys
from typing import Any

import click
import msgspec

from karpenter.api.kinds import KINDS
from karpenter.api.manifests import read_documents, render_documents
from karpenter.api.meta import InvalidObject, name_of
from karpenter.api.validation.documents import unknown_kind
from karpenter.api.validation.objects import check_object
from karpenter.cli.errors import CommandError, note, notes, telling
from karpenter.cli.files import SourceText, files_option, objects_in, one_path, read_texts
from karpenter.cli.options import catalog_option, now_option
from karpenter.cli.output import Output, echo, output_option_with, render
from karpenter.definition.model import read_definition
from karpenter.definition.model import schema as definition_schema
from karpenter.definition.objects import DefinitionError, import_definition, render_definition

_cluster_option = click.option(
    "--cluster-name",
    default="",
    metavar="NAME",
    help="The EKS cluster, where the definition does not name it.",
)
_definition_option = files_option(text="The cluster definition", metavar="FILE|-")


@click.group(epilog="Example:\n\n  karpenter definition check cluster.yaml --cluster-name prod")
def definition() -> None:
    """
    Keep NodePools and EC2NodeClasses in one short file, the cluster definition.

    The file has karpenter.node_pools with a pool by name: labels, limits, requirements, taints, node_class.
    """


def objects_of(text: SourceText, cluster_name: str) -> list[dict[str, Any]]:
    """
    Return the objects that a definition renders to, each of which a cluster would accept.

    Raises:
        CommandError: naming every key that cannot be used.
    """
    found = list(read_documents(text.content, source=text.source))
    if len(found) != 1:
        raise CommandError(f"{text.source}: holds {len(found)} documents, and a cluster definition is one")
    read = read_definition(found[0])
    notes(f"warning: {text.source}: {each}" for each in read.warnings)
    if read.definition is None:
        raise CommandError(*(f"{text.source}: {each}" for each in read.problems))
    try:
        rendered = render_definition(read.definition, cluster_name=cluster_name)
    except DefinitionError as error:
        raise CommandError(
            f"{text.source}: {error}", hint="give the name with --cluster-name, or in the file"
        ) from error
    problems = [
        f"{text.source}: {name_of(each)}: {problem}"
        for each in rendered
        for problem in check_object(KINDS[each["apiVersion"], each["kind"]], each)
    ]
    if problems:
        raise CommandError(*problems)
    return rendered


def _text_of(path: str) -> SourceText:
    """Return the text of one file; of a folder with one, that."""
    texts = list(read_texts((path,)))
    if len(texts) != 1:
        raise CommandError(f"{path}: holds {len(texts)} files, and a cluster definition is one")
    return texts[0]


def _definition_among(texts: list[SourceText]) -> tuple[SourceText, list[SourceText]]:
    """Return the text that is a definition, and the others; raises CommandError unless there is one."""
    found = [each for each in texts if _is_definition(each)] if len(texts) > 1 else texts
    if len(found) != 1:
        names = ", ".join(each.source for each in found) or "none of the files is one"
        raise CommandError(f"one cluster definition is checked at a time: {names}")
    return found[0], [each for each in texts if each is not found[0]]


def _is_definition(text: SourceText) -> bool:
    """Return whether a text is no manifest: a mapping that says no kind."""
    try:
        first = next(read_documents(text.content, source=text.source), None)
    except InvalidObject:
        return False  # it is refused with the manifests
    return isinstance(first, dict) and "kind" not in first


@definition.command(
    name="render",
    epilog="Example:\n\n  karpenter definition render cluster.yaml --cluster-name prod | kubectl apply -f -",
)
@_definition_option
@_cluster_option
@output_option_with("yaml", "json")
@telling("rendering the definition")
def render_command(paths: tuple[str, ...], cluster_name: str, output: Output) -> None:
    """Print the NodePool and EC2NodeClass of every pool of a cluster definition."""
    rendered = objects_of(_text_of(one_path(paths, "a cluster definition")), cluster_name)
    if output.form == "yaml":
        click.echo(render_documents(rendered), nl=False)
    else:
        click.echo(json.dumps({"apiVersion": "v1", "kind": "List", "items": rendered}, indent=2))


@definition.command(
    name="import",
    epilog="Example:\n\n  kubectl get nodepools,ec2nodeclasses -o yaml | karpenter definition import -f -",
)
@files_option(text="NodePools and EC2NodeClasses")
@_cluster_option
@output_option_with("yaml", "json")
@telling("importing the definition")
def import_command(paths: tuple[str, ...], cluster_name: str, output: Output) -> None:
    """
    Print the cluster definition that renders to these NodePools and EC2NodeClasses.

    What a definition has no word for is in node_class.spec. Rendering the result gives the same objects.
    """
    found = list(objects_in(paths))
    unknown = [(each, sentence) for each in found if (sentence := unknown_kind(*each.identity))]
    if unknown:
        raise CommandError(*(f"{each.source}: {each.subject}: {sentence}" for each, sentence in unknown))
    pools = [each for each in found if each.plain["kind"] == "NodePool"]
    if not pools:
        raise CommandError("no NodePool to import", hint="karpenter convert makes NodePools of older kinds")
    problems = [
        f"{each.source}: {each.subject}: {problem}"
        for each in found
        if each.plain["kind"] in {"NodePool", "EC2NodeClass"}
        for problem in _problems(each.identity, each.plain)
    ]
    if problems:
        raise CommandError(*problems)
    try:
        imported = import_definition([each.plain for each in found], cluster_name=cluster_name)
    except DefinitionError as error:
        raise CommandError(str(error)) from error
    for name, pool in imported.karpenter.node_pools.items():
        if not pool.limits:
            note(f"warning: NodePool {name} has no limits, which a definition needs: add them")
    plain = msgspec.to_builtins(imported)
    for pool in plain["karpenter"]["node_pools"].values():
        if not pool.get("node_class"):
            pool.pop("node_class", None)
    click.echo(render(plain, output.form), nl=False)


def _problems(identity: tuple[str, str], plain: dict[str, Any]) -> list[str]:
    kind = KINDS.get(identity)
    if kind is None:
        return [f"{identity[0]} is not read here; karpenter convert makes v1 of older kinds"]
    return [str(each) for each in check_object(kind, plain)]


@definition.command(
    name="schema", epilog="Example:\n\n  karpenter definition schema > .vscode/cluster-definition.schema.json"
)
def schema_command() -> None:
    """Print the JSON schema of a cluster definition, for editors that complete and check keys."""
    click.echo(json.dumps(definition_schema(), indent=2))


@definition.command(
    name="check",
    epilog="Examples:\n\n"
    "  karpenter definition check cluster.yaml --cluster-name prod\n\n"
    "  kubectl get nodes,nodeclaims,pods,pdb -A -o yaml > live.yaml\n\n"
    "  karpenter definition check cluster.yaml --from old.yaml -f live.yaml -o markdown",
)
@files_option(text="The definition, and the cluster as it is: nodes, claims, pods and budgets")
@_cluster_option
@click.option(
    "--from", "old_path", metavar="OLD", type=click.Path(), help="The definition before the change."
)
@catalog_option
@now_option
@click.option(
    "--strict", is_flag=True, help="Exit with 1 if a pod has no place or a machine cannot be replaced."
)
@output_option_with("text", "json", "markdown")
@telling("checking the definition")
def check_command(  # noqa: PLR0917  click hands over options by name
    paths: tuple[str, ...],
    cluster_name: str,
    old_path: str | None,
    catalog: str,
    now: str | None,
    strict: bool,
    output: Output,
) -> None:
    """
    Check a cluster definition, and show what a change of it would do.

    Every pool is held against its schema and rules, those of `karpenter doctor` among them, and against
    what is on sale. With --from it is shown what changes; with the objects of the cluster which machines
    would be replaced for it, in which order, what holds the others, and what that costs a month. Runs the
    operator's own decisions and changes nothing.

    Exits 0 when the definition can be used, 1 with --strict if something is in the way, 2 when it cannot.
    """
    # Rendering a definition does not pay for loading the solver.
    from karpenter.cli.definition_page import markdown, text  # noqa: PLC0415
    from karpenter.cli.planning.decision import decide  # noqa: PLC0415
    from karpenter.cli.planning.input import read_input  # noqa: PLC0415
    from karpenter.cli.session import catalog_name_for, catalog_named, moment_of  # noqa: PLC0415
    from karpenter.definition.check import defined_view, examine  # noqa: PLC0415
    from karpenter.operator.options import parse_settings  # noqa: PLC0415

    defined, others = _definition_among(list(read_texts(paths)))
    new = objects_of(defined, cluster_name)
    moment, settings = moment_of(now), parse_settings({})
    there = read_input((), texts=others) if others else None
    if there is not None and there.problems:
        raise CommandError(*there.problems)
    notes(there.skipped if there is not None else ())
    view = there.view if there is not None else None
    found = examine(
        new,
        old=objects_of(_text_of(old_path), cluster_name) if old_path else None,
        view=view,
        catalog=catalog_named(catalog_name_for(defined_view(new, view), catalog, live=False)),
        planner=lambda view, types: decide(view, types, settings, moment).plan,
        now=moment,
    )
    if output.form == "json":
        click.echo(render(found, "json"), nl=False)
    else:
        echo(text(found) if output.form == "text" else markdown(found))
    sys.exit(1 if strict and found.is_hindered else 0)
