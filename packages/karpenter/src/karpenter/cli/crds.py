"""``karpenter crds``: prints or writes the CustomResourceDefinitions of Karpenter's kinds."""

from pathlib import Path

import click

from karpenter.api.crd.definitions import DEFINITIONS, CustomResourceDefinition, render
from karpenter.api.crd.reference import render_page
from karpenter.api.manifests import render_documents
from karpenter.base.pretty import nearest
from karpenter.cli.errors import CommandError, notes
from karpenter.cli.files import write_files
from karpenter.cli.output import Output, output_option_with
from karpenter.cli.output import render as render_data


@click.command(
    epilog="Example:\n\n"
    "  karpenter crds | kubectl apply --server-side -f -\n\n"
    "  karpenter crds nodepools --output json",
)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--write",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write one file per definition into this folder instead of printing them.",
)
@output_option_with("yaml", "json", "markdown")
def crds(names: tuple[str, ...], folder: Path | None, output: Output) -> None:
    """
    Print the CustomResourceDefinitions of NodePool, NodeClaim and their like.

    They are generated from the types that this version uses, with every rule that a cluster can
    enforce. NAME is a plural (nodepools) or a kind (NodePool); without one, all are printed.
    As markdown, they are the pages of the reference.
    """
    chosen = [_find(name) for name in names] if names else list(DEFINITIONS)
    if folder is None:
        click.echo(_text(chosen, output), nl=False)
        return
    texts = {folder / _file_name(each, output): _text([each], output) for each in chosen}
    write_files(texts, option="--write")
    notes(f"wrote {path}" for path in texts)


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
