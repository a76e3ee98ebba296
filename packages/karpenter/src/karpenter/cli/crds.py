"""``karpenter crds``: prints or writes the definitions of Karpenter's kinds, for clusters and for editors."""

from pathlib import Path

import click

from karpenter.api.crd.definitions import DEFINITIONS, CustomResourceDefinition, render
from karpenter.api.crd.jsonschema import file_schema, kind_schema, schema_path
from karpenter.api.crd.reference import render_page
from karpenter.api.manifests import render_documents
from karpenter.base.pretty import nearest
from karpenter.cli.errors import CommandError, notes
from karpenter.cli.files import write_files
from karpenter.cli.output import Output, output_option_with
from karpenter.cli.output import render as render_data

ALL = "karpenter.schema.json"
"""The file of the schema that knows all kinds, beside those of one kind each."""


@click.command(
    epilog="Example:\n\n"
    "  karpenter crds | kubectl apply --server-side -f -\n\n"
    "  karpenter crds nodepools --output json\n\n"
    "  karpenter crds --json-schema > karpenter.schema.json",
)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--write",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write one file per definition into this folder instead of printing them.",
)
@click.option(
    "--json-schema",
    "for_editors",
    is_flag=True,
    help="Print a JSON Schema for editors instead: of NAME, or of files with any of the kinds.",
)
@output_option_with("yaml", "json", "markdown")
def crds(names: tuple[str, ...], folder: Path | None, for_editors: bool, output: Output) -> None:
    """
    Print the CustomResourceDefinitions of NodePool, NodeClaim and their like.

    They are generated from the types that this version uses, with every rule that a cluster can
    enforce. NAME is a plural (nodepools) or a kind (NodePool); without one, all are printed.
    As markdown, they are the pages of the reference.
    """
    chosen = [_find(name) for name in names] if names else list(DEFINITIONS)
    if folder is None:
        click.echo(_schema(chosen) if for_editors else _text(chosen, output), nl=False)
        return
    if for_editors:
        files = {schema_path(each): _schema([each]) for each in chosen}
        if not names:
            files[ALL] = _schema(chosen)
    else:
        files = {_file_name(each, output): _text([each], output) for each in chosen}
    write_files({folder / name: text for name, text in files.items()}, option="--write")
    notes(f"wrote {folder / name}" for name in files)


def _schema(definitions: list[CustomResourceDefinition]) -> str:
    alone = len(definitions) == 1
    return render_data(kind_schema(definitions[0]) if alone else file_schema(definitions), "json")


def _file_name(definition: CustomResourceDefinition, output: Output) -> str:
    if output.form == "markdown":
        return f"{definition.kind.name.lower()}.md"
    return str(Path(definition.file_name).with_suffix(f".{output.form}"))


def _find(name: str) -> CustomResourceDefinition:
    for each in DEFINITIONS:
        if name.lower() in {each.kind.plural, each.kind.name.lower(), each.name, *each.short_names}:
            return each
    known = ", ".join(each.kind.plural for each in DEFINITIONS)
    near = nearest(name, [each.kind.plural for each in DEFINITIONS])
    hint = f"did you mean {near}?" if near else ""
    raise CommandError(f"{name!r} is none of our kinds: {known}", hint=hint)


def _text(definitions: list[CustomResourceDefinition], output: Output) -> str:
    if output.form == "markdown":
        return "\n".join(render_page(each) for each in definitions)
    plain = [render(each) for each in definitions]
    if output.form == "yaml":
        return render_documents(plain)
    alone = len(plain) == 1
    return render_data(plain[0] if alone else {"apiVersion": "v1", "kind": "List", "items": plain}, "json")
